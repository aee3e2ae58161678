"""Reads one grid of NanoVDB from its bytes, with every offset checked: the format of OpenVDB for one buffer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.errors import LaunchError

MAGICS = (0x304244566F6E614E, 0x314244566F6E614E)  # "NanoVDB0", and "NanoVDB1" of a grid
GRID_SIZE, TREE_SIZE, META_SIZE, NAME_SIZE = 672, 64, 288, 256
BREADTH_FIRST = 1 << 5
INVALID = "Invalid NanoVDB grid structure"


@dataclass(frozen=True)
class Layout:
    """The sizes and places of the parts of nodes, in bytes, for one type of grids.

    Attributes:
        name: The type.
        dtype: Of the values of the leaves, and how many there are for a voxel; None where leaves have no plain values.
        stride: Of the elements of the tables of inner nodes.
        root, tile: The sizes of the root and its tiles; `background`, `tile_value`: where their values are.
        table, upper, lower: Where the table of an upper node is, and the sizes of inner nodes.
        values, leaf: Where the values of a leaf are, and its size.
    """

    name: str
    dtype: str | None
    count: int
    stride: int
    root: int
    tile: int
    background: int
    tile_value: int
    table: int
    upper: int
    lower_table: int
    lower: int
    values: int
    leaf: int


def _small(name: str, leaf: int, dtype: str | None = None, values: int = 96) -> Layout:
    """A type with values of at most 4 bytes."""
    return Layout(name, dtype, 1, 8, 64, 32, 28, 20, 8256, 270400, 1088, 33856, values, leaf)


def _wide(name: str, leaf: int, dtype: str | None = None, values: int = 80) -> Layout:
    """A type with values of 8 bytes."""
    return Layout(name, dtype, 1, 8, 96, 32, 32, 24, 8256, 270400, 1088, 33856, values, leaf)


# By their numbers in the format.
LAYOUTS = {
    1: _small("float", 2144, "<f4"),
    2: _wide("double", 4224, "<f8", 128),
    3: _small("int16", 1120),
    4: _small("int32", 2144, "<i4"),
    5: _wide("int64", 4224, "<i8", 128),
    6: Layout("Vec3f", "<f4", 3, 16, 96, 32, 28, 20, 8256, 532544, 1088, 66624, 128, 6272),
    7: Layout("Vec3d", "<f8", 3, 24, 128, 64, 32, 24, 8288, 794720, 1120, 99424, 160, 12448),
    8: _small("Mask", 96),
    9: _small("Half", 1120),
    10: _small("uint32", 2144, "<i4"),
    11: _small("bool", 160),
    12: _small("RGBA8", 2144),
    13: _small("Float4", 352),
    14: _small("Float8", 608),
    15: _small("Float16", 1120),
    16: _small("FloatN", 96),
    17: Layout("Vec4f", "<f4", 4, 16, 96, 64, 28, 20, 8288, 532576, 1120, 66656, 128, 8320),
    18: Layout("Vec4d", "<f8", 4, 32, 160, 64, 32, 24, 8320, 1056896, 1152, 132224, 160, 16544),
    19: _wide("Index", 96),
    20: _wide("OnIndex", 96),
    21: _wide("IndexMask", 160),
    22: _wide("OnIndexMask", 160),
    23: _wide("PointIndex", 1120, None, 96),
    24: _small("Vec3u8", 1632),
    25: _small("Vec3u16", 3200, None, 128),
    26: _small("uint8", 608),
}
VARIABLE = 16  # leaves have sizes of their own
DENSE_INDEX, ON_INDEX = (19, 21), (20, 22)
INDEX_NAMES = tuple(LAYOUTS[kind].name for kind in (*DENSE_INDEX, *ON_INDEX))


@dataclass(frozen=True)
class Feature:
    """A further array of a grid: its name, its start in the buffer, and the number, size and type of values."""

    name: str
    start: int
    count: int
    size: int
    type: str


@dataclass(frozen=True)
class Grid:
    """A grid of NanoVDB.

    Attributes:
        kind: The number of its type.
        tiles: The coordinates of the first voxel of each leaf, (n, 3).
        values: Those of the voxels of all leaves, then of the tiles with one value, then the background; None if there
            are no plain values.
        places: Where the values of each leaf are in the buffer.
        single: For each level, the coordinates of tiles with one value.
        masks, firsts: The active voxels of each leaf, (n, 512), and the index of each leaf's first one, of index grids.
        transform, inverse, translation: Of float64.
        voxels: The number of active voxels, as the tree has it.
        nodes: The number of leaves, lower and upper nodes.
    """

    kind: int
    name: str
    size: int
    index: int
    grids: int
    tiles: np.ndarray
    values: np.ndarray | None
    places: np.ndarray
    single: tuple[np.ndarray, ...]
    masks: np.ndarray
    firsts: np.ndarray
    transform: np.ndarray
    inverse: np.ndarray
    translation: np.ndarray
    voxel_size: tuple[float, ...]
    voxels: int
    nodes: tuple[int, int, int]
    features: tuple[Feature, ...]

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.kind]


def refuse(message: str, hint: str = "") -> LaunchError:
    """The error for a buffer that is no volume."""
    return LaunchError(f"wp.Volume: {message}", hint=hint, also=RuntimeError)


class Unsupported(LaunchError):
    """The error for a grid whose nodes are in an order that is not read; `size` are its bytes."""

    size = 0


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise refuse(f"{INVALID}: {what}")


def read_grid(data: np.ndarray, *, strict: bool) -> Grid:
    """The grid at the start of a buffer of bytes; `strict` asks for aligned sizes as well, as files have them.

    Raises:
        LaunchError: it is none, damaged, or has its nodes in another order.
    """
    _require(len(data) >= GRID_SIZE + TREE_SIZE, f"{len(data)} bytes are fewer than those of a header")
    magic, _, _, flags, index, grids, size = struct.unpack_from("<QQIIIIQ", data.data)
    if magic not in MAGICS:
        raise refuse("NanoVDB signature not found on grid!")
    _require(GRID_SIZE + TREE_SIZE <= size <= len(data), f"a size of {size} in {len(data)} bytes")
    _require(not strict or size % 32 == 0, f"a size of {size}, no multiple of 32")
    data = data[:size]
    kind, meta, metas = struct.unpack_from("<IqI", data.data, 636)
    _require(kind in LAYOUTS, f"type {kind}")
    name = _name(data, 40)
    features = _features(data, meta, metas)
    if not flags & BREADTH_FIRST:
        error = Unsupported(
            "wp.Volume: Unsupported NanoVDB tree layout: nodes are not in the order of their levels", also=RuntimeError
        )
        error.size = size
        raise error
    end = meta if 0 < meta <= size else size
    tree = _Tree(data, kind, end)
    tiles, values, places, single = tree.content()
    masks, firsts = tree.indices()
    matrices = np.frombuffer(data[296 + 88 : 296 + 256].tobytes(), "<f8")
    return Grid(
        kind, name, size, index, grids, tiles, values, places, single, masks, firsts, matrices[:9].reshape(3, 3),
        matrices[9:18].reshape(3, 3), matrices[18:21], struct.unpack_from("<ddd", data.data, 608), tree.voxels,
        tree.counts, features,
    )  # fmt: skip


def _name(data: np.ndarray, at: int) -> str:
    text = data[at : at + NAME_SIZE].tobytes()
    _require(b"\0" in text, "a name without an end")
    return text.partition(b"\0")[0].decode("ascii", "replace")


def _features(data: np.ndarray, start: int, count: int) -> tuple[Feature, ...]:
    size = len(data)
    if not count:
        return ()
    _require(start >= GRID_SIZE and start + count * META_SIZE <= size, "metadata outside of the grid")
    found = []
    for k in range(count):
        at = start + k * META_SIZE
        offset, values, each, _, _, kind = struct.unpack_from("<qQIIII", data.data, at)
        first = at + offset
        _require(0 <= first <= size and values * each <= size - first, "a feature array outside of the grid")
        name = LAYOUTS[kind].name if kind in LAYOUTS else "unknown"
        found.append(Feature(_name(data, at + 32), first, values, each, name))
    return tuple(found)


class _Tree:
    """The nodes of a grid, from the root down, each of which has one parent."""

    def __init__(self, data: np.ndarray, kind: int, end: int):
        self.data, self.kind, self.layout = data, kind, LAYOUTS[kind]
        layout, self.base = self.layout, GRID_SIZE
        leaf, lower, upper, root, leaves, lowers, uppers = struct.unpack_from("<QQQQIII", data.data, GRID_SIZE)
        (self.voxels,) = struct.unpack_from("<Q", data.data, GRID_SIZE + 56)
        self.counts = leaves, lowers, uppers
        self.root = self.base + root
        _require(root >= TREE_SIZE and self.root + layout.root <= end, "a root outside of the grid")
        (tiles,) = struct.unpack_from("<I", data.data, self.root + 24)
        after = self.root + layout.root + tiles * layout.tile
        _require(after <= end, "tiles outside of the grid")
        self.tiles = self._rows(self.root + layout.root, tiles, layout.tile)
        starts = []
        for offset, count, size in ((upper, uppers, layout.upper), (lower, lowers, layout.lower)):
            start = self.base + offset if count else after
            _require(start >= after and start + count * size <= end, "nodes outside of the grid, or that overlap")
            starts.append(start)
            after = start + count * size
        self.upper, self.lower = starts
        self.leaf = self.base + leaf if leaves else after
        _require(self.leaf >= after and self.leaf + leaves * layout.leaf <= end, "leaves outside, or that overlap")
        self.leaves = self._leaf_places(leaves, end)
        self._descend()

    def _rows(self, start: int, count: int, size: int) -> np.ndarray:
        return self.data[start : start + count * size].reshape(count, size)

    def _leaf_places(self, count: int, end: int) -> np.ndarray:
        if self.kind != VARIABLE:
            return self.leaf + np.arange(count, dtype=np.int64) * self.layout.leaf
        places, at = [], self.leaf
        for _ in range(count):
            _require(at + self.layout.leaf <= end, "leaves outside of the grid")
            places.append(at)
            (flags,) = struct.unpack_from("<I", self.data.data, at + 12)
            at += self.layout.leaf + (1 << (flags >> 29)) * 64
        _require(at <= end, "leaves outside of the grid")
        return np.array(places, np.int64)

    def _children(self, places: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The numbers of the nodes at places, of which none may be named twice."""
        found = np.searchsorted(known, places)
        inside = found < len(known)
        _require(inside.all() and (known[found] == places).all(), "a child that is no node")
        _require(len(np.unique(found)) == len(found), "a node with two parents")
        return found

    def _value_bytes(self) -> int:
        return 0 if self.layout.dtype is None else np.dtype(self.layout.dtype).itemsize * self.layout.count

    def _descend(self) -> None:
        layout, size = self.layout, self._value_bytes()
        background = self.data[self.root + layout.background :][:size]
        keys = _numbers(self.tiles[:, :8], "<u8")
        _require(len(np.unique(keys)) == len(keys), "two tiles of one place")
        corners = np.stack([keys >> np.uint64(shift) & np.uint64(0x1FFFFF) for shift in (42, 21, 0)], -1)
        origins = (corners.astype(np.int64) << 12).astype(np.uint32).view(np.int32).astype(np.int64)
        children = _numbers(self.tiles[:, 8:16], "<i8")
        own = children == 0
        single = [(origins[own], self.tiles[own, layout.tile_value : layout.tile_value + size])]
        uppers = self.upper + np.arange(self.counts[2], dtype=np.int64) * layout.upper
        nodes = self._children(self.root + children[~own], uppers)
        at = np.zeros((self.counts[2], 3), np.int64)
        at[nodes] = origins[~own]
        reached = nodes
        for start, count, node, table, bits, shift, below in (
            (self.upper, self.counts[2], layout.upper, layout.table, 5, 7, self._lowers()),
            (self.lower, self.counts[1], layout.lower, layout.lower_table, 4, 3, self.leaves),
        ):
            at, reached, found = self._level(start, count, node, table, bits, shift, below, at, reached, background)
            single.append(found)
        self.reached, self.origins, self.background = reached, at, background
        self.single = single

    def _lowers(self) -> np.ndarray:
        return self.lower + np.arange(self.counts[1], dtype=np.int64) * self.layout.lower

    def _level(
        self, start: int, count: int, size: int, table: int, bits: int, shift: int, below: np.ndarray,
        origins: np.ndarray, reached: np.ndarray, background: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, Any]:  # fmt: skip
        """The origins of the nodes below a level, which of them have parents, and tiles that are not the background."""
        rows, length = self._rows(start, count, size), 1 << 3 * bits
        found = np.zeros((len(below), 3), np.int64)
        children, values, places = [], [], []
        each = len(background)
        for node in reached:
            row = rows[node]
            is_child = np.unpackbits(row[32 + length // 8 : 32 + length // 4], bitorder="little").astype(bool)
            entries = row[table : table + length * self.layout.stride].reshape(length, self.layout.stride)
            within = np.flatnonzero(is_child)
            numbers = self._children(start + node * size + _numbers(entries[within, :8], "<i8"), below)
            found[numbers] = origins[node] + _corner(within, bits, shift)
            children.append(numbers)
            other = ~is_child & (entries[:, :each] != background).any(1) if each else np.zeros(length, bool)
            values.append(entries[other, :each])
            places.append(origins[node] + _corner(np.flatnonzero(other), bits, shift))
        joined = np.concatenate([np.zeros(0, np.int64), *children])
        _require(len(np.unique(joined)) == len(joined), "a node with two parents")
        empty = np.zeros((0, 3), np.int64)
        kept = np.concatenate([empty, *places]), np.concatenate([np.zeros((0, each), np.uint8), *values])
        return found, joined, kept

    def content(self) -> tuple[Any, ...]:
        """The origins of leaves, all values, where those of leaves are, and the origins of tiles with one value."""
        self.order = np.sort(self.reached)
        layout, places = self.layout, self.leaves[self.order]
        tiles = _wrapped(self.origins[self.order])
        singles = tuple(_wrapped(origins) for origins, _ in self.single)
        if layout.dtype is None:
            return tiles, None, places + layout.values, tuple(x[:0] for x in singles)
        dtype = np.dtype(layout.dtype)
        rows = self._rows(self.leaf, self.counts[0], layout.leaf)[self.order]
        own = rows[:, layout.values : layout.values + 512 * layout.count * dtype.itemsize]
        parts = [own.reshape(-1), *(values.reshape(-1) for _, values in reversed(self.single)), self.background]
        values = np.frombuffer(np.concatenate(parts).tobytes(), dtype).astype(dtype.newbyteorder("="))
        return tiles, values.reshape(-1, layout.count), places + layout.values, singles

    def indices(self) -> tuple[np.ndarray, np.ndarray]:
        """The bits of active voxels of the leaves, and the indices of their first ones, of index grids."""
        if self.kind not in (*DENSE_INDEX, *ON_INDEX):
            return np.zeros((0, 512), np.uint8), np.zeros(0, np.int64)
        rows = self._rows(self.leaf, self.counts[0], self.layout.leaf)[self.order]
        bits = np.unpackbits(np.ascontiguousarray(rows[:, 16:80]), axis=1, bitorder="little")
        if self.kind in DENSE_INDEX:
            bits = np.ones_like(bits)
        return bits, _numbers(rows[:, 80:88], "<u8").view(np.int64) - 1


def _numbers(rows: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers whose bytes are the rows of an array."""
    return np.frombuffer(np.ascontiguousarray(rows).tobytes(), dtype)


def _corner(within: np.ndarray, bits: int, shift: int) -> np.ndarray:
    """The first voxels of the entries of a node's table."""
    low = (1 << bits) - 1
    return np.stack([within >> 2 * bits, within >> bits & low, within & low], -1).astype(np.int64) << shift


def _wrapped(origins: np.ndarray) -> np.ndarray:
    return origins.astype(np.uint32).view(np.int32) if len(origins) else np.zeros((0, 3), np.int32)
