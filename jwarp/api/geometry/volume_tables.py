"""Grids and hash tables of the tiles of volumes, as `lib/geometry/volumes.py` looks them up, and tiles of points."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.lib.geometry.volumes import NOTHING

# The coordinates of tiles with 8, 128 and 4096 voxels along an edge are those of their voxels without so many low bits.
SHIFTS = (3, 7, 12)


# A grid of more cells than this, for each tile, is a hash table instead, which takes 32 to 64 bytes for a tile.
_MOST_CELLS = 8


def grid_of(coordinates: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The numbers of tiles in the cells of a box, its first cell and extents; None where most cells had no tile.

    The coordinates, (n, 3), are those of tiles, all different.
    """
    if not len(coordinates):
        return None
    low = coordinates.min(0).astype(np.int64)
    extents = coordinates.max(0) - low + 1
    if extents.astype(float).prod() > _MOST_CELLS * len(coordinates):
        return None
    cells = np.full(extents, NOTHING, np.int32)
    cells[tuple((coordinates - low).T)] = numbers
    return cells.reshape(-1), low.astype(np.int32), extents.astype(np.int32)


def table_of(levels: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """The tables of tiles of each level, one after the other, and their sizes.

    A level is an array (n, 3) of int32, the coordinates of tiles, all different, and an array (n,) of their numbers.
    """
    made = [_table(coordinates, numbers) for coordinates, numbers in levels]
    return np.concatenate(made), tuple(len(table) for table in made)


def _table(coordinates: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """An open-addressed table with at least as many empty entries as tiles."""
    count = len(coordinates)
    if not count:
        return np.zeros((0, 4), np.int32)
    size = 1 << (2 * count - 1).bit_length()
    table = np.full((size, 4), NOTHING, np.int32)
    x, y, z = coordinates.astype(np.int32).view(np.uint32).T
    mixed = (x * np.uint32(73856093)) ^ (y * np.uint32(19349663)) ^ (z * np.uint32(83492791))
    slots = ((mixed ^ (mixed >> np.uint32(15))) & np.uint32(size - 1)).astype(np.int64)
    left = np.arange(count)
    while len(left):
        free = np.flatnonzero(table[slots[left], 3] == NOTHING)
        _, first = np.unique(slots[left[free]], return_index=True)
        placed = left[free[first]]
        table[slots[placed], :3], table[slots[placed], 3] = coordinates[placed], numbers[placed]
        left = np.setdiff1d(left, placed, assume_unique=True)
        slots[left] = (slots[left] + 1) & (size - 1)
    return table


def in_order(coordinates: np.ndarray) -> np.ndarray:
    """Different coordinates, in the order of nodes of a tree: by 4096, then by 128, then by 8, then by 1."""
    if not len(coordinates):
        return np.zeros((0, 3), np.int32)
    keys = [coordinates[:, axis] >> shift for shift in (*reversed(SHIFTS), 0) for axis in range(3)]
    ordered = coordinates[np.lexsort(keys[::-1])]
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(1)
    return ordered[is_first].astype(np.int32)


def masks_of(voxels: np.ndarray, tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each tile, 16 words with the bits of its voxels, and how many voxels come before each word.

    Both are in order: `voxels` are those of `tiles`, which have coordinates of voxels here.
    """
    first = np.ones(len(voxels), bool)
    first[1:] = (voxels[1:] >> 3 != voxels[:-1] >> 3).any(1)
    owner = np.cumsum(first) - 1
    i, j, k = (voxels & 7).T
    bits = np.zeros((len(tiles), 512), np.uint8)
    bits[owner, (i << 6) | (j << 3) | k] = 1
    return words_of(bits), starts_of(bits)


def words_of(bits: np.ndarray) -> np.ndarray:
    """The bits of tiles, (n, 512), as words, (16 n,)."""
    return np.packbits(bits, axis=1, bitorder="little").reshape(-1).view(np.uint32)


def starts_of(bits: np.ndarray) -> np.ndarray:
    """How many bits of all tiles, (n, 512), come before each word, (16 n,)."""
    counts = bits.reshape(-1, 32).sum(1, dtype=np.int64)
    return (np.cumsum(counts) - counts).astype(np.int32)


def offsets() -> np.ndarray:
    """The coordinates of the 512 voxels of a tile, in their order."""
    return np.stack(np.unravel_index(np.arange(512), (8, 8, 8)), -1).astype(np.int32)
