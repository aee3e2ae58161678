"""The voxels of a volume, as arrays: what kernels are given of them, and what JAX sees as leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.api.geometry import nanovdb
from jwarp.api.geometry.arrays import refuse_ended
from jwarp.api.geometry.pytrees import as_jax
from jwarp.api.geometry.volume_tables import grid_of, table_of
from jwarp.arrays.array import array
from jwarp.errors import LaunchError
from jwarp.lib.geometry.volumes import KINDS
from jwarp.types import NAMED, SCALARS, CompositeType, Geometry, as_scalar

# The types of values, by their names in NanoVDB.
DTYPES: dict[str, Any] = {
    "float": SCALARS["float32"],
    "double": SCALARS["float64"],
    "int16": SCALARS["int16"],
    "int32": SCALARS["int32"],
    "int64": SCALARS["int64"],
    "Vec3f": NAMED["vec3"],
    "Vec3d": NAMED["vec3d"],
    "Half": SCALARS["float16"],
    "uint32": SCALARS["uint32"],
    "bool": SCALARS["bool"],
    "Vec4f": NAMED["vec4"],
    "Vec4d": NAMED["vec4d"],
    "Vec3u8": NAMED["vec3ub"],
    "Vec3u16": NAMED["vec3us"],
    "uint8": SCALARS["uint8"],
}
# The kinds whose values have 64 bits.
_WIDE = (2, 5, 7, 18)
LEAVES = ("table", "dense", "low", "extents", "masks", "starts", "tiles", "values", "transform", "inverse",
          "translation", "transform_rest", "inverse_rest", "translation_rest")  # fmt: skip


class Voxels(Geometry):
    """Tiles of voxels with values or indices, and the transform from index to world space."""

    table: Any
    dense: Any
    low: Any
    extents: Any
    masks: Any
    starts: Any
    tiles: Any
    transform: Any
    inverse: Any
    translation: Any
    transform_rest: Any
    inverse_rest: Any
    translation_rest: Any

    def set_transform(self, transform: Any, inverse: Any, translation: Any) -> None:
        for name, matrix in (("transform", transform), ("inverse", inverse), ("translation", translation)):
            with np.errstate(all="ignore"):
                single = np.asarray(matrix, np.float32)
                rest = np.where(np.isfinite(single), np.asarray(matrix, np.float64) - single, 0.0).astype(np.float32)
            setattr(self, name, fixed(single))
            setattr(self, f"{name}_rest", fixed(rest))

    def set_tiles(self, tiles: np.ndarray, values: np.ndarray | None, kind: int, single: Any = None) -> None:
        """Let the volume have these tiles, by their first voxels, all of whose voxels have a value or an index."""
        levels = [(tiles >> 3, np.arange(len(tiles)))]
        before = 0
        # As they were read: of the largest first; their values are in the opposite order.
        for shift, origins in zip((3, 7, 12), reversed(single or ((),) * 3), strict=True):
            numbers = -2 - before - np.arange(len(origins))
            before += len(origins)
            if shift == 3 and len(origins):
                levels[0] = (np.concatenate([levels[0][0], origins >> 3]), np.concatenate([levels[0][1], numbers]))
            elif shift > 3:
                levels.append((np.asarray(origins, np.int32).reshape(-1, 3) >> shift, numbers))
        none = np.zeros(0, np.int32), np.zeros(3, np.int32), np.zeros(3, np.int32)
        grid = grid_of(*levels[0])
        if grid is not None:
            levels[0] = np.zeros((0, 3), np.int32), np.zeros(0, np.int32)
        self.dense, self.low, self.extents = map(fixed, grid or none)
        table, self.sizes = table_of(levels)
        self.table, self.tiles = fixed(table), fixed(np.asarray(tiles, np.int32))
        self.masks, self.starts = fixed(np.zeros(0, np.uint32)), fixed(np.zeros(0, np.int32))
        self.single, self.count = 512 * len(tiles), 512 * len(tiles)
        self.background = -1 if values is None else len(values) - 1
        self.kind = kind
        self.set_numbers(values)
        self.version += 1

    def set_numbers(self, values: np.ndarray | None) -> None:
        if values is None:
            self.values: Any = fixed(np.zeros(0, np.float32))
            return
        kind = self.dtype
        rows = np.ascontiguousarray(values).reshape(-1, *(kind.shape if isinstance(kind, CompositeType) else ()))
        self.values = array(rows.view(numbers_dtype(kind)), dtype=kind, device=self.device)

    # -- what a kernel is given

    @property
    def arrays(self) -> Any:  # type: ignore[override]
        """The arguments for a kernel."""
        refuse_ended(self, LEAVES)
        as_jax(self, LEAVES)
        return self.in_place

    @property
    def in_place(self) -> Any:
        is_wide = self.kind in _WIDE
        kind: Any = KINDS[is_wide]
        floats: Any = _NONE[np.float64 if is_wide else np.float32]
        integers: Any = _NONE[np.int64 if is_wide else np.int32]
        if self.has_integers:
            integers = self._numbers()
        elif self.background >= 0:
            floats = self._numbers()
        return kind(
            self.table, self.dense, self.low, self.extents, self.masks, self.starts, floats, integers,
            np.asarray(self.sizes, np.int32), self.kind, self.single, self.background, self.count,
            self.transform, self.inverse, self.translation, self.transform_rest,
            self.inverse_rest, self.translation_rest,
        )  # fmt: skip

    def _numbers(self) -> Any:
        """The numbers of all values in one row.

        Raises:
            LaunchError: `values` has been set to an array of another shape.
        """
        count = nanovdb.LAYOUTS[self.kind].count
        values = self.values
        if type(values) is array:
            values = values.view(values.dtype.dtype).flatten() if count > 1 else values  # a view of the same memory
            shape = values.shape
            if self.kind == 10:
                values = values.view(SCALARS["int32"])
        else:
            rest = tuple(values.shape)[1:]
            if rest != ((count,) if count > 1 else ()):
                raise LaunchError(f"wp.Volume: values of shape {tuple(values.shape)} for {self.type_str}")
            values = values.reshape(-1)
            shape = values.shape
            if self.kind == 10:
                values = values.view(np.int32)
        if shape != ((self.background + 1) * count,):
            raise LaunchError(f"wp.Volume: {shape[0] // count} values for {self.background + 1}")
        return values

    @property
    def has_integers(self) -> bool:
        return self.kind in (4, 5, 10)

    @property
    def type_str(self) -> str:
        """The name of the type in NanoVDB."""
        return nanovdb.LAYOUTS[self.kind].name

    @property
    def dtype(self) -> Any:
        """The type of the values; None for a volume of indices, and where there is no type here for them."""
        return DTYPES.get(self.type_str)

    @property
    def is_index(self) -> bool:
        """True for a volume of indices."""
        return self.type_str in nanovdb.INDEX_NAMES


def numbers_dtype(kind: Any) -> np.dtype[Any]:
    """The type of the numbers of a scalar or of a vector."""
    found: np.dtype[Any] = (kind.dtype if isinstance(kind, CompositeType) else as_scalar(kind) or kind).dtype
    return found


def fixed(made: np.ndarray) -> np.ndarray:
    """An array that nobody can write to."""
    found = np.array(made)
    found.flags.writeable = False
    return found


_NONE = {kind: fixed(np.zeros(0, kind)) for kind in (np.float32, np.float64, np.int32, np.int64)}
