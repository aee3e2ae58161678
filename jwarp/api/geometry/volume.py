"""`wp.Volume`: sparse grids of voxels, as NanoVDB has them, which kernels look up and sample."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jwarp.api.geometry import nanovdb
from jwarp.api.geometry.arrays import as_command, content_of, note_trace
from jwarp.api.geometry.nanovdb_files import file_of, grids_of
from jwarp.api.geometry.nanovdb_writer import node_counts, size_of, written
from jwarp.api.geometry.pytrees import register
from jwarp.api.geometry.volume_inputs import (
    Capacity,
    matrices_of,
    points_of,
    side_lengths,
    value_type,
    write_status,
)
from jwarp.api.geometry.volume_tables import in_order, masks_of, offsets, starts_of, words_of
from jwarp.api.geometry.voxels import DTYPES, LEAVES, Voxels, fixed, numbers_dtype
from jwarp.arrays.array import array
from jwarp.arrays.living import table as living
from jwarp.devices import get_device
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import NAMED, SCALARS, CompositeType, Geometry, type_size_in_bytes, uint8

# The types that may be allocated, with their numbers.
_ALLOCATED = {"int32": 4, "uint32": 10, "int64": 5, "float": 1, "double": 2, "Vec3f": 6, "Vec3d": 7, "Vec4f": 17,
              "Vec4d": 18}  # fmt: skip
_INDEX, _ON_INDEX = 19, 20


class Volume(Voxels):
    """A sparse grid of voxels, in tiles of 8 by 8 by 8, with values of one type or with indices.

    Pass the volume, or `volume.id`, to a kernel's parameter of type `wp.uint64`, for `wp.volume_sample`,
    `wp.volume_lookup`, `wp.volume_store` and the other functions. A volume is a JAX pytree with the leaf `values`.
    Derivatives reach it, the positions of samples, and the arrays of `wp.volume_sample_index`. Under `jax.vmap` each
    element of the batch has its own volume. The set of voxels is not computed by JAX.

    Attributes:
        values: The values: 512 for each tile in the order of `get_voxels`, then those of larger tiles, then the
            background. An array of shape (n,), or (n, k) for vectors with k components; empty for volumes of indices.
            `wp.replace(volume, values=x)` is a volume with other values.

    Args:
        data: One or several NanoVDB grids: an array of bytes without the header of a file.
        copy: If False, `feature_array` may share the memory of `data`. Values are always copied.

    Raises:
        LaunchError: The bytes are not a grid, or are damaged. (It is a RuntimeError, too.)
    """

    CLOSEST: ClassVar[int] = 0
    LINEAR: ClassVar[int] = 1

    REBUILD_SUCCESS: ClassVar[int] = 0
    REBUILD_LEAF_CAPACITY_EXCEEDED: ClassVar[int] = 1
    REBUILD_LOWER_CAPACITY_EXCEEDED: ClassVar[int] = 2
    REBUILD_UPPER_CAPACITY_EXCEEDED: ClassVar[int] = 4
    REBUILD_VOXEL_CAPACITY_EXCEEDED: ClassVar[int] = 8
    REBUILD_INVALID_INPUT: ClassVar[int] = 16

    class RebuildInfo(NamedTuple):
        """How much room a volume that is rebuilt has; `kind` is "tiles", "voxels" or None."""

        kind: str | None
        max_voxel_count: int
        max_leaf_node_count: int
        max_lower_node_count: int
        max_upper_node_count: int

    class ActiveStats(NamedTuple):
        """The numbers of voxels with values or indices, and of nodes of NanoVDB's tree."""

        voxel_count: int
        leaf_node_count: int
        lower_node_count: int
        upper_node_count: int

    class GridInfo(NamedTuple):
        """The name, size, place among the grids of the buffer, type and transform of a grid."""

        name: str
        size_in_bytes: int
        grid_index: int
        grid_count: int
        type_str: str
        translation: Any
        transform_matrix: Any

    class FeatureArrayInfo(NamedTuple):
        """The name, address, and size, number and type of the values of a further array of a grid."""

        name: str
        ptr: int
        value_size: int
        value_count: int
        type_str: str

    _buffer: Any = None  # the grids that it was read from
    _grid: Any = None  # the first of them
    _previous: Any = None  # the volume whose buffer it shares
    _capacity: Capacity | None = None
    _value: tuple[int, np.ndarray] | None = None  # the type and the row of the background that it was made with
    _features: tuple[Any, ...] = ()

    def __init__(self, data: Any, copy: bool = True):
        given = content_of(data) if copy or not isinstance(data, array) else data.numpy()
        found = np.asarray(given)
        if found.dtype.itemsize != 1 or found.ndim != 1:
            raise KernelTypeError(
                f"wp.Volume: the data must be bytes of one axis, got {found.dtype}{list(found.shape)}"
            )
        found = found.view(np.uint8)
        self._load(np.array(found) if copy else found, getattr(data, "device", None))

    def _load(self, buffer: np.ndarray, device: Any) -> None:
        self.device = get_device(device)
        self._buffer, self._grid = buffer, nanovdb.read_grid(buffer, strict=False)
        grid = self._grid
        self.set_transform(grid.transform, grid.inverse, grid.translation)
        self.kind = grid.kind
        self._features = tuple((f.name, self._address(f.start), f.size, f.count, f.type) for f in grid.features)
        if grid.values is None:
            bits = grid.masks
            self.set_tiles(grid.tiles, None, grid.kind)
            if len(bits):
                shift = (grid.firsts - _own_starts(bits)).repeat(16)
                self.masks, self.starts = words_of(bits), (starts_of(bits) + shift).astype(np.int32)
                self.count = grid.voxels if grid.kind in nanovdb.ON_INDEX else 512 * len(bits)
        else:
            self.set_tiles(grid.tiles, grid.values, grid.kind, grid.single)
        note_trace(self)

    def _address(self, start: int) -> int:
        return int(self._buffer.__array_interface__["data"][0]) + start

    def get_tile_count(self) -> int:
        """The number of tiles; for a volume that is rebuilt, the most that it has room for."""
        return self._capacity.leaves if self._capacity else int(self.tiles.shape[0])

    def get_voxel_count(self) -> int:
        """The number of voxels with a value or an index; for a rebuildable volume, the most it has room for."""
        return self._capacity.voxels if self._capacity else self.count

    def get_tiles(self, out: Any = None) -> Any:
        """The first voxel of each tile, an array of int32 and shape (n, 3)."""
        return self._coordinates("get_tiles", self.get_tile_count(), np.asarray(self.tiles), out)

    def get_voxels(self, out: Any = None) -> Any:
        """The voxels with a value or an index, in the volume's order, an array of int32 and shape (n, 3)."""
        found = (np.asarray(self.tiles)[:, None] + offsets()).reshape(-1, 3)
        if self.masks.shape[0]:
            bits = np.unpackbits(np.asarray(self.masks).view(np.uint8), bitorder="little").astype(bool)
            found, starts = found[bits], np.asarray(self.starts)
            order = starts.repeat(32)[bits] + (np.cumsum(bits.reshape(-1, 32), axis=1) - 1).reshape(-1)[bits]
            found = found[np.argsort(order, kind="stable")]
        return self._coordinates("get_voxels", self.get_voxel_count(), found, out)

    def _coordinates(self, where: str, count: int, found: np.ndarray, out: Any) -> Any:
        if out is None:
            made = np.zeros((count, 3), np.int32)
            made[: len(found)] = found
            return array(made, dtype=SCALARS["int32"], device=self.device)
        shape = out.layout.full_shape if isinstance(out, array) else ()
        if len(shape) != 2 or shape[1] != 3 or out.layout.dtype != np.int32 or shape[0] < count:
            raise LaunchError(
                f"wp.Volume.{where}: 'out' must be a contiguous array of int32 with at least {count} rows of three",
                also=RuntimeError,
            )
        whole = np.array(out.numpy())
        whole[: len(found)] = found
        out.assign(whole)
        return out

    def get_active_stats(self) -> ActiveStats:
        """The current numbers of voxels and nodes."""
        if self._grid is not None:
            return Volume.ActiveStats(self.count, *self._grid.nodes)
        return Volume.ActiveStats(self.count, *node_counts(np.asarray(self.tiles)))

    def get_voxel_size(self) -> tuple[float, float, float]:
        """The lengths of the sides of a voxel in world space."""
        if self._grid is not None:
            return tuple(float(np.float32(x)) for x in self._grid.voxel_size)  # type: ignore[return-value]
        return side_lengths(self.transform)

    def get_grid_info(self) -> GridInfo:
        """The name, size, type and transform."""
        grid = self._grid
        about = (grid.name, grid.size, grid.index, grid.grids) if grid is not None else ("", self._bytes(), 0, 1)
        translation = NAMED["vec3"](*map(float, np.asarray(self.translation)))
        name, size, index, grids = about
        return Volume.GridInfo(
            name, size, index, grids, self.type_str, translation, NAMED["mat33"](np.asarray(self.transform))
        )

    def _bytes(self) -> int:
        known = self._capacity
        nodes = (known.leaves, known.lowers, known.uppers) if known else node_counts(np.asarray(self.tiles))
        return size_of(self.kind, nodes)

    # -- further arrays of the grid

    def get_feature_array_count(self) -> int:
        """The number of additional arrays of the grid."""
        return len(self._grid.features) if self._grid is not None else 0

    def get_feature_array_info(self, feature_index: int) -> FeatureArrayInfo:
        """The description of an additional array of the grid.

        Raises:
            LaunchError: There is no array with this index.
        """
        if not 0 <= feature_index < self.get_feature_array_count():
            raise LaunchError(f"wp.Volume: Invalid feature array {feature_index}", also=RuntimeError)
        return Volume.FeatureArrayInfo(*self._features[feature_index])

    def feature_array(self, feature_index: int, dtype: Any = None) -> Any:
        """An additional array of the grid, with elements of `dtype` or of the type in its description.

        Raises:
            LaunchError: There is no array with this index, or its values have another size.
        """
        info = self.get_feature_array_info(feature_index)
        kind = DTYPES.get(info.type_str, uint8) if dtype is None else dtype
        size, count, each = type_size_in_bytes(kind), info.value_count, info.value_size
        if size == 1 or (each == 1 and count % size == 0):
            count, each = count * each // size, size
        if each != size:
            raise LaunchError(
                f"wp.Volume: Cannot cast feature data of size {info.value_size} to elements of {size} bytes",
                also=RuntimeError,
            )
        start = self._grid.features[feature_index].start
        found = self._buffer[start : start + count * each]
        components = kind.shape if isinstance(kind, CompositeType) else ()
        numbers = np.frombuffer(found.data, numbers_dtype(kind)).reshape(-1, *components)
        return array(numbers, dtype=kind, device=self.device)

    # -- as NanoVDB has it

    def array(self) -> Any:
        """The NanoVDB grids as bytes, with the current values: a new array of uint8."""
        if self._buffer is None:
            return array(self._written(), dtype=uint8, device=self.device)
        data = np.array(self._buffer)
        if self.background >= 0 and len(self._grid.places):
            raw = np.ascontiguousarray(_host(self.values)).reshape(-1)
            own = (
                raw.reshape(-1)
                .view(np.uint8)[: len(self._grid.places) * self._tile_bytes]
                .reshape(-1, self._tile_bytes)
            )
            for place, row in zip(self._grid.places, own, strict=True):
                data[place : place + self._tile_bytes] = row
        return array(data, dtype=uint8, device=self.device)

    @property
    def _tile_bytes(self) -> int:
        layout = nanovdb.LAYOUTS[self.kind]
        return 512 * layout.count * np.dtype(layout.dtype).itemsize

    def _written(self) -> np.ndarray:
        tiles = np.asarray(self.tiles)
        bits = np.ones((len(tiles), 512), np.uint8)
        starts = 512 * np.arange(len(tiles))
        if self.masks.shape[0]:
            bits = np.unpackbits(np.asarray(self.masks).view(np.uint8), bitorder="little").reshape(-1, 512)
            starts = np.asarray(self.starts).reshape(-1, 16)[:, 0]
        rows = background = None
        if self.background >= 0:
            raw = np.ascontiguousarray(_host(self.values))
            rows = raw.reshape(-1).view(np.uint8).reshape(self.background + 1, -1)
            rows, background = rows[: 512 * len(tiles)], rows[self.background]
        matrices = tuple(
            np.asarray(getattr(self, name), np.float64) + np.asarray(getattr(self, f"{name}_rest"))
            for name in ("transform", "inverse", "translation")
        )
        data = written(self.kind, tiles, rows, background, bits, starts, matrices, self.count)
        room = self._bytes() - len(data)
        return np.concatenate([data, np.zeros(room, np.uint8)]) if room > 0 else data

    @classmethod
    def load_from_nvdb(cls, file_or_buffer: Any, device: Any = None) -> Volume:
        """Read a volume from a NanoVDB file: an open file, or its bytes. `load_next_grid` reads further grids.

        Raises:
            LaunchError: It is not such a file, it is damaged, or it needs blosc, which is not installed.
        """
        data = file_or_buffer.read() if hasattr(file_or_buffer, "read") else file_or_buffer
        grids = grids_of(bytes(data))
        at = 0
        refused = None
        while at < len(grids) or not at:  # all are checked, also those that nobody asks for
            try:
                at += nanovdb.read_grid(grids[at:], strict=True).size
            except nanovdb.Unsupported as error:
                refused, at = refused or error, at + error.size
        if refused is not None:
            raise refused
        made = Geometry.__new__(cls)
        made._load(np.array(grids), device)
        return made

    def save_to_nvdb(self, path: Any, codec: str = "none") -> Any:
        """Write a NanoVDB file, uncompressed or with the codec "zip" or "blosc", and return the path.

        Raises:
            LaunchError: There is no such codec, or the volume is not the first one of its buffer.
        """
        content = file_of(np.asarray(self.array().numpy()), codec)
        with open(path, "wb") as file:
            file.write(content)
        return path

    @classmethod
    def load_from_address(cls, grid_ptr: int, buffer_size: int = 0, device: Any = None) -> Volume:
        """Read a volume from the bytes at the address of an array, `a.ptr`.

        Raises:
            LaunchError: There is no array at this address, or it has fewer bytes.
        """
        found = living.bytes_at(int(grid_ptr))
        if found is None or buffer_size > len(found):
            raise LaunchError(
                f"wp.Volume: Invalid grid buffer pointer {int(grid_ptr):#x}: no living array has its bytes there",
                hint="give the ptr of a wp.array",
                also=RuntimeError,
            )
        made = Geometry.__new__(cls)
        made._load(np.array(found[: buffer_size or len(found)]), device)
        return made

    def load_next_grid(self) -> Volume | None:
        """Read the next grid of the buffer that this volume was read from; None after the last one."""
        grid = self._grid
        if grid is None or grid.index + 1 >= grid.grids or len(self._buffer) <= grid.size:
            return None
        made = Geometry.__new__(type(self))
        made._load(self._buffer[grid.size :], self.device)
        made._previous = self
        return made

    # -- making one

    @classmethod
    def load_from_numpy(
        cls,
        ndarray: Any,
        min_world: Any = (0.0, 0.0, 0.0),
        voxel_size: Any = 1.0,
        bg_value: Any = 0.0,
        device: Any = None,
    ) -> Volume:
        """Make a volume from a dense array of shape (nx, ny, nz), or (nx, ny, nz, 3) if `bg_value` has three numbers.

        Values are int32 if `bg_value` is an int, otherwise float32; vectors are vec3.

        Args:
            min_world: The position of the first voxel in world space.
            voxel_size: The length of a voxel, or its three lengths.
            bg_value: The value outside.
        """
        sides = matrices_of(voxel_size, None)[1]
        dense = np.asarray(ndarray)
        is_vector = hasattr(bg_value, "__len__")
        dtype = np.float32 if is_vector or not isinstance(bg_value, int) else np.int32
        if dense.ndim != 3 + is_vector or (is_vector and dense.shape[3] != 3):
            raise LaunchError(f"wp.Volume.load_from_numpy: an array of shape {dense.shape} is no dense volume")
        shape = tuple(-(-n // 8) * 8 for n in dense.shape[:3])
        padded = np.empty((*shape, *dense.shape[3:]), dtype)
        padded[...] = np.asarray(bg_value, dtype)
        padded[tuple(map(slice, dense.shape[:3]))] = dense
        low = np.asarray(min_world, np.float64)
        high = low + (np.array(shape) - 1) * sides
        made = cls.allocate(low, high, voxel_size, bg_value, min_world, True, device)
        voxels = made.get_voxels().numpy()
        inside = ((voxels >= 0) & (voxels < shape)).all(1)
        at = tuple(voxels[inside].T)
        flat = np.array(_host(made.values))
        flat[: len(voxels)][inside] = padded[at]
        made.set_numbers(flat.reshape(len(flat), -1))
        return made

    @classmethod
    def allocate(
        cls, min: Any, max: Any, voxel_size: Any, bg_value: Any = 0.0, translation: Any = (0.0, 0.0, 0.0),
        points_in_world_space: bool = False, device: Any = None,
    ) -> Volume:  # fmt: skip
        """Make a volume with all tiles that intersect a box, from the voxel `min` to `max`, inclusive.

        For the other arguments, see `allocate_by_tiles`.

        Args:
            points_in_world_space: True if the corners are positions in world space.
        """
        sides = matrices_of(voxel_size, None)[1].astype(np.float32)
        low, high = np.asarray(min, np.float32), np.asarray(max, np.float32)
        if points_in_world_space:
            low, high = (np.around((x - np.asarray(translation)) / sides) for x in (low, high))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise LaunchError("wp.Volume.allocate: the corners must be finite")
        first, last = low.astype(np.int64) // 8, high.astype(np.int64) // 8
        counts = np.maximum(last - first + 1, 0)
        if math.prod(map(int, counts)) > _MOST_TILES:
            raise LaunchError(f"wp.Volume.allocate: a box of {' by '.join(map(str, counts))} tiles is too large")
        tiles = np.stack(np.meshgrid(*(np.arange(n) for n in counts), indexing="ij"), -1).reshape(-1, 3) + first
        points = (8 * tiles).astype(np.int32)
        return cls.allocate_by_tiles(points, voxel_size, bg_value, translation, device)

    @classmethod
    def allocate_by_tiles(
        cls, tile_points: Any, voxel_size: Any = None, bg_value: Any = 0.0, translation: Any = (0.0, 0.0, 0.0),
        device: Any = None, transform: Any = None, rebuildable: bool = False, max_tiles: int | None = None,
        max_lower_nodes: int | None = None, max_upper_nodes: int | None = None, status: Any = None,
        point_mask: Any = None,
    ) -> Volume:  # fmt: skip
        """Make a volume with the tiles that contain points. All voxels have the value `bg_value`.

        Args:
            tile_points: An array of shape (n, 3): int32 for voxels in index space, or float32 for positions in world
                space.
            voxel_size: The length of a voxel, or its three lengths.
            bg_value: The value of all voxels, also outside the tiles. It determines the type of the volume: int32,
                uint32, int64, float32, float64, vec3, vec3d, vec4 or vec4d; a list means float32. None makes a volume
                of indices.
            translation: The position of the voxel (0, 0, 0).
            transform: A matrix from index to world space, instead of `voxel_size`.
            rebuildable: True if `rebuild` will be called. Numbers such as `max_tiles` imply it.
            status: An array of uint32 that receives one of the `REBUILD_` numbers.
            point_mask: An array of int32 and shape (n,), with 0 for points to be left out.

        Raises:
            LaunchError: An array has another type or shape. (It is a RuntimeError, too.)
            TypeError, ValueError: A size, number or type is invalid.
        """
        limits = (max_tiles, max_lower_nodes, max_upper_nodes)
        made = Geometry.__new__(cls)
        made.device = get_device(device)
        matrix, _ = matrices_of(voxel_size, transform)
        made.set_transform(matrix, np.linalg.inv(matrix), np.asarray(translation, np.float32))
        made._value = None if bg_value is None else value_type(bg_value, _ALLOCATED, DTYPES)
        made.kind = _INDEX if made._value is None else made._value[0]
        is_bounded = rebuildable or any(x is not None for x in limits)
        capacity = Capacity.of("tiles", "max_tiles", tile_points, None, limits) if is_bounded else None
        made._fill("tiles", tile_points, point_mask, status, capacity, is_new=True)
        note_trace(made)
        return made

    @classmethod
    def allocate_by_voxels(
        cls, voxel_points: Any, voxel_size: Any = None, translation: Any = (0.0, 0.0, 0.0), device: Any = None,
        transform: Any = None, rebuildable: bool = False, max_active_voxels: int | None = None,
        max_leaf_nodes: int | None = None, max_lower_nodes: int | None = None, max_upper_nodes: int | None = None,
        status: Any = None, point_mask: Any = None,
    ) -> Volume:  # fmt: skip
        """Make a volume of indices, one for each voxel that contains a point, for `wp.volume_sample_index`.

        Arguments are those of `allocate_by_tiles`.
        """
        limits = (max_active_voxels, max_leaf_nodes, max_lower_nodes, max_upper_nodes)
        made = Geometry.__new__(cls)
        made.device = get_device(device)
        matrix, _ = matrices_of(voxel_size, transform)
        made.set_transform(matrix, np.linalg.inv(matrix), np.asarray(translation, np.float32))
        made.kind, made._value = _ON_INDEX, None
        is_bounded = rebuildable or any(x is not None for x in limits)
        capacity = (
            Capacity.of("voxels", "max_active_voxels", voxel_points, limits[0], limits[1:]) if is_bounded else None
        )
        made._fill("voxels", voxel_points, point_mask, status, capacity, is_new=True)
        note_trace(made)
        return made

    @property
    def is_rebuildable(self) -> bool:
        """True if `rebuild` may be called."""
        return self._capacity is not None

    def get_rebuild_info(self) -> RebuildInfo:
        """The room that the volume has for `rebuild`."""
        known = self._capacity
        if known is None:
            return Volume.RebuildInfo(None, 0, 0, 0, 0)
        return Volume.RebuildInfo(known.kind, known.voxels, known.leaves, known.lowers, known.uppers)

    def rebuild(self, points: Any, status: Any = None, point_mask: Any = None) -> Any:
        """Change the tiles or voxels to those of other points. All values become the background value.

        If there is not enough room, the volume does not change, and `status` says so.

        Raises:
            LaunchError: The volume is not rebuildable, or an array has another type or shape.
        """
        known = self._capacity
        if known is None:
            raise LaunchError("wp.Volume.rebuild: Volume was not allocated with rebuildable=True", also=RuntimeError)
        as_command(self, lambda: self._fill(known.kind, points, point_mask, status, known, is_new=False))
        return status

    def _fill(self, kind: str, points: Any, mask: Any, status: Any, capacity: Capacity | None, *, is_new: bool) -> None:
        coordinates = points_of(f"wp.Volume, {kind}", points, mask, self.inverse, self.translation)
        voxels = in_order(coordinates if kind == "voxels" else coordinates >> 3 << 3)
        tiles = in_order(voxels >> 3 << 3)
        flags = 0
        if capacity is not None:
            count = len(voxels) if kind == "voxels" else 512 * len(tiles)
            flags = capacity.flags(count, node_counts(tiles))
            if flags and is_new:
                voxels, tiles, flags = voxels[:0], tiles[:0], flags
        if not flags or is_new:
            values = None
            if self._value is not None:
                _, background = self._value
                values = np.repeat(background[None], 512 * len(tiles) + 1, axis=0)
            self.set_tiles(tiles, values, self.kind)
            if kind == "voxels":
                self.count = len(voxels)
                masks, starts = masks_of(voxels, tiles) if len(voxels) else (self.masks, self.starts)
                self.masks, self.starts = fixed(masks), fixed(starts)
        self._capacity = capacity
        write_status(status, flags)

    def __repr__(self) -> str:
        return f"wp.Volume({self.type_str}, {self.tiles.shape[0]} tiles)"


def _host(values: Any) -> np.ndarray:
    """The content of values that are known, of any type."""
    return np.asarray(values.host() if isinstance(values, array) else values)


def _own_starts(bits: np.ndarray) -> np.ndarray:
    """How many bits come before each tile."""
    counts = bits.sum(1, dtype=np.int64)
    return np.cumsum(counts) - counts


# A box of more tiles than this is not allocated.
_MOST_TILES = 1 << 22
register(Volume, LEAVES, ("sizes", "kind", "single", "background", "count"))
