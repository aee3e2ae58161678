"""Writes a grid of NanoVDB: the tree over tiles of voxels, as bytes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from jwarp.api.geometry.nanovdb import BREADTH_FIRST, GRID_SIZE, LAYOUTS, MAGICS, TREE_SIZE, Layout

VERSION = 32 << 21 | 3 << 10 | 3


def node_counts(tiles: np.ndarray) -> tuple[int, int, int]:
    """The numbers of leaves, lower and upper nodes over tiles, which are all different."""
    return len(tiles), *(len(np.unique(tiles >> shift, axis=0)) for shift in (7, 12))  # type: ignore[return-value]


def size_of(kind: int, counts: Any) -> int:
    """The bytes of a grid with so many leaves, lower and upper nodes."""
    layout = LAYOUTS[kind]
    leaves, lowers, uppers = counts
    root = layout.root + uppers * layout.tile
    return GRID_SIZE + TREE_SIZE + root + uppers * layout.upper + lowers * layout.lower + leaves * layout.leaf


def written(
    kind: int, tiles: np.ndarray, values: np.ndarray | None, background: np.ndarray | None, bits: np.ndarray,
    starts: np.ndarray, matrices: tuple[np.ndarray, np.ndarray, np.ndarray], voxels: int,
) -> np.ndarray:  # fmt: skip
    """A grid of so many voxels.

    Args:
        tiles: The coordinates of the first voxels of leaves, in the order of a tree.
        values: Those of the voxels of the leaves, bytes (n, k).
        background: Its bytes.
        bits: The active voxels of leaves, (n, 512).
        starts: The index of the first active voxel of each leaf.
        matrices: The transform, its inverse and the translation.
    """
    layout, counts = LAYOUTS[kind], node_counts(tiles)
    leaves, lowers, uppers = counts
    data = np.zeros(size_of(kind, counts), np.uint8)
    root = GRID_SIZE + TREE_SIZE
    upper = root + layout.root + uppers * layout.tile
    lower = upper + uppers * layout.upper
    leaf = lower + lowers * layout.lower
    _header(data, kind, tiles, matrices)
    ends = (place - GRID_SIZE for place in (leaf, lower, upper, root))
    struct.pack_into("<QQQQIIIIIIQ", data.data, GRID_SIZE, *ends, *counts, 0, 0, 0, voxels)
    struct.pack_into("<I", data.data, root + 24, uppers)
    back = np.zeros(0, np.uint8) if background is None else background
    data[root + layout.background :][: len(back)] = back

    lower_of = _ranks(tiles >> 7)
    above = _firsts(tiles, lower_of, lowers)
    upper_of = _ranks(above >> 12)
    top = _firsts(above, upper_of, uppers)
    rows = data[root + layout.root : upper].reshape(uppers, layout.tile)
    keys = [(top[:, axis].view(np.uint32) >> np.uint32(12)).astype(np.uint64) << np.uint64(s)
            for axis, s in enumerate((42, 21, 0))] if uppers else []  # fmt: skip
    if uppers:
        rows[:, :8] = _bytes(keys[0] | keys[1] | keys[2], "<u8")
        rows[:, 8:16] = _bytes(upper + np.arange(uppers) * layout.upper - root, "<i8")
    down = lower + np.arange(lowers) * layout.lower - upper - upper_of * layout.upper
    rows = data[upper:lower].reshape(uppers, layout.upper)
    _inner(rows, layout, layout.table, 5, back, upper_of, _within(above, 7, 5), down, top >> 12 << 12, 12)
    down = leaf + np.arange(leaves) * layout.leaf - lower - lower_of * layout.lower
    rows = data[lower:leaf].reshape(lowers, layout.lower)
    _inner(rows, layout, layout.lower_table, 4, back, lower_of, _within(tiles, 3, 4), down, above >> 7 << 7, 7)
    nodes = data[leaf:].reshape(leaves, layout.leaf)
    if leaves:
        nodes[:, :12] = _bytes(tiles, "<i4").reshape(leaves, 12)
        nodes[:, 12:16] = np.array([7, 7, 7, 2], np.uint8)
        nodes[:, 16:80] = np.packbits(bits, axis=1, bitorder="little")
        if values is None:
            nodes[:, 80:88] = _bytes(starts.astype(np.int64) + 1, "<i8")
            nodes[:, 88:96] = _bytes(_prefixes(bits), "<u8")
        else:
            nodes[:, layout.values : layout.values + 512 * values.shape[1]] = values.reshape(leaves, -1)
    return data


def _header(data: np.ndarray, kind: int, tiles: np.ndarray, matrices: Any) -> None:
    transform, inverse, translation = (np.asarray(x, np.float64) for x in matrices)
    struct.pack_into("<QQIIIIQ", data.data, 0, MAGICS[0], 0xFFFFFFFFFFFFFFFF, VERSION, BREADTH_FIRST, 0, 1, len(data))
    at = 296
    for dtype in ("<f4", "<f8"):
        numbers = np.concatenate([transform.ravel(), inverse.ravel(), translation]).astype(dtype)
        content = np.concatenate([numbers, np.ones(1, dtype)]).view(np.uint8)
        data[at : at + len(content)] = content
        at += len(content)
    sides = np.linalg.norm(transform, axis=0)
    corners = np.zeros((1, 3))
    if len(tiles):
        low, high = tiles.min(0), tiles.max(0) + 8
        corners = np.array([[(low, high)[n >> axis & 1][axis] for axis in range(3)] for n in range(8)])
        corners = corners @ transform.T + translation
    struct.pack_into(
        "<6d3dIIqIIQQ", data.data, 560, *corners.min(0), *corners.max(0), *sides, 0, kind, len(data), 0, 0, 0, 0
    )


def _inner(
    rows: np.ndarray, layout: Layout, table: int, bits: int, background: np.ndarray, owner: np.ndarray,
    within: np.ndarray, children: np.ndarray, origins: np.ndarray, shift: int,
) -> None:  # fmt: skip
    """Write the upper or the lower nodes."""
    count, length = len(rows), 1 << 3 * bits
    if not count:
        return
    rows[:, :12] = _bytes(origins, "<i4").reshape(count, 12)
    rows[:, 12:24] = _bytes(origins + (1 << shift) - 1, "<i4").reshape(count, 12)
    is_child = np.zeros((count, length), np.uint8)
    is_child[owner, within] = 1
    rows[:, 32 + length // 8 : 32 + length // 4] = np.packbits(is_child, axis=1, bitorder="little")
    entries = np.zeros((count, length, layout.stride), np.uint8)
    entries[:, :, : len(background)] = background
    entries[owner, within] = 0
    entries[owner, within, :8] = _bytes(children, "<i8")
    rows[:, table : table + length * layout.stride] = entries.reshape(count, -1)


def _ranks(keys: np.ndarray) -> np.ndarray:
    """The number of each row's run of equal rows."""
    changes = np.zeros(len(keys), np.int64)
    changes[1:] = (keys[1:] != keys[:-1]).any(1)
    return np.cumsum(changes)


def _firsts(rows: np.ndarray, owner: np.ndarray, count: int) -> np.ndarray:
    """The first row of each run."""
    return rows[np.searchsorted(owner, np.arange(count))]


def _within(coordinates: np.ndarray, shift: int, bits: int) -> np.ndarray:
    """The entry of a node's table that coordinates are in."""
    i, j, k = (coordinates >> shift & ((1 << bits) - 1)).T.astype(np.int64)
    return (i << 2 * bits) | (j << bits) | k


def _prefixes(bits: np.ndarray) -> np.ndarray:
    """For each leaf, how many bits come before each of its last seven words of 64, in 9 bits each."""
    counts = np.cumsum(bits.reshape(-1, 8, 64).sum(2, dtype=np.uint64), axis=1)[:, :7]
    return (counts << (np.arange(7, dtype=np.uint64) * np.uint64(9))).sum(1, dtype=np.uint64)


def _bytes(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """The bytes of numbers, along a last axis."""
    made = np.ascontiguousarray(numbers).astype(dtype)
    return made[..., None].view(np.uint8)
