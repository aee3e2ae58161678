"""Reads what volumes are allocated of: points, masks, sizes of voxels, values, and how much room there is to be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import jax
import numpy as np

from jwarp.api.geometry.arrays import content_of
from jwarp.arrays.array import array
from jwarp.errors import LaunchError
from jwarp.types import CompositeType, as_scalar, types_equal, vector
from jwarp.types.queries import is_value, type_repr


def _refuse(where: str, what: str, hint: str = "") -> LaunchError:
    return LaunchError(f"{where}: {what}", hint=hint, also=RuntimeError)


@dataclass(frozen=True)
class Capacity:
    """How many voxels and nodes a volume that is rebuilt has room for, and of what it is rebuilt."""

    kind: str
    voxels: int
    leaves: int
    lowers: int
    uppers: int

    @classmethod
    def of(cls, kind: str, name: str, points: Any, voxels: Any, nodes: Sequence[Any]) -> Self:
        """The room that is asked for; what is None follows from what contains it."""
        count = int(np.shape(points)[0])
        before = _positive(voxels, count, name) if kind == "voxels" else count
        found = []
        for limit, what in zip(nodes, ("leaf nodes", "lower nodes", "upper nodes"), strict=True):
            before = _positive(limit, before, what)
            found.append(before)
        most = _positive(voxels, count, name) if kind == "voxels" else 512 * found[0]
        return cls(kind, most, *found)

    def flags(self, voxels: int, nodes: tuple[int, int, int]) -> int:
        """The bits of what is exceeded."""
        limits = zip((*nodes, voxels), (self.leaves, self.lowers, self.uppers, self.voxels), strict=True)
        return sum(1 << k for k, (count, most) in enumerate(limits) if count > most)


def _positive(value: Any, default: int, name: str) -> int:
    try:
        found = int(default if value is None else value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not 0 < found < 1 << 32:
        raise ValueError(f"{name} must be positive and below 2^32, got {found}")
    return found


def matrices_of(voxel_size: Any, transform: Any) -> tuple[np.ndarray, np.ndarray]:
    """The transform from index to world space, and the three lengths of a voxel.

    Raises:
        TypeError: the size is no number, and no sequence of such.
        ValueError: there are not three, they are not positive, or both or neither are given.
    """
    if transform is not None:
        if voxel_size is not None:
            raise ValueError("Only one of 'voxel_size' or 'transform' must be provided")
        matrix = np.asarray(transform, np.float32).reshape(3, 3).astype(np.float64)
        if not (np.isfinite(matrix).all() and np.linalg.det(matrix)):
            raise ValueError(f"the transform has no inverse: {matrix.tolist()}")
        return matrix, np.linalg.norm(matrix, axis=0)
    if isinstance(voxel_size, (int, float, np.number)):
        sides = (float(voxel_size),) * 3
    elif hasattr(voxel_size, "__len__") and not isinstance(voxel_size, (str, bytes, dict)):
        sides = tuple(map(float, voxel_size))  # type: ignore[assignment]
    elif voxel_size is None:
        raise TypeError("voxel_size must be a number or three of them, got None")
    else:
        raise TypeError(f"voxel_size must be a number or three of them, got {type(voxel_size).__name__}")
    if len(sides) != 3:
        raise ValueError(f"voxel_size must be a number or three of them, got {len(sides)}")
    if not all(math.isfinite(side) and side > 0.0 for side in sides):
        raise ValueError(f"voxel_size must be finite and positive, got {voxel_size}")
    return np.diag(np.asarray(sides, np.float32)).astype(np.float64), np.asarray(sides)


def side_lengths(transform: Any) -> tuple[float, float, float]:
    """The lengths of the columns of a matrix."""
    x, y, z = np.linalg.norm(np.asarray(transform, np.float64), axis=0)
    return float(np.float32(x)), float(np.float32(y)), float(np.float32(z))


def value_type(value: Any, allowed: Mapping[str, int], dtypes: Mapping[str, Any]) -> tuple[int, np.ndarray]:
    """The number of the type of a background in NanoVDB, and the background as a row of numbers.

    Raises:
        TypeError: there are no volumes of its type.
    """
    kind: Any = type(value)
    if not is_value(value) and hasattr(value, "__len__"):
        kind = vector(len(value), float)
    scalar = as_scalar(kind) if isinstance(kind, type) and not isinstance(kind, CompositeType) else None
    kind = scalar or kind
    found = next((name for name in allowed if types_equal(dtypes[name], kind)), None)
    if found is None:
        shown = type_repr(kind) if isinstance(kind, type) else repr(kind)
        raise TypeError(f"wp.Volume: no volumes have values of type {shown}; there are {', '.join(allowed)}")
    known = dtypes[found]
    numbers = np.asarray(list(value) if isinstance(known, CompositeType) else [value])
    dtype = (known.dtype if isinstance(known, CompositeType) else known).dtype
    return allowed[found], numbers.astype(np.int32 if found == "uint32" else dtype, casting="unsafe")


def points_of(where: str, points: Any, mask: Any, inverse: Any, translation: Any) -> np.ndarray:
    """The voxels that points are in, (n, 3) of int32, without those that a mask leaves out.

    Raises:
        LaunchError: an array has another type or shape, or JAX traces it.
    """
    found = _known(where, points)
    if found.ndim != 2 or found.shape[1] != 3 or found.dtype not in (np.int32, np.float32):
        raise _refuse(
            where, f"points must be an array (n, 3) of int32 or float32, got {found.dtype}{list(found.shape)}"
        )
    if mask is not None:
        chosen = _known(where, mask)
        if chosen.ndim != 1 or chosen.dtype != np.int32 or len(chosen) < len(found):
            raise _refuse(where, f"point_mask must be an array of int32 with at least {len(found)} entries")
        found = found[chosen[: len(found)] != 0]
    if found.dtype == np.int32:
        return found
    placed = (found - np.asarray(translation)) @ np.asarray(inverse).T
    placed = np.trunc(placed + np.copysign(np.float32(0.5), placed))
    inside = (np.abs(placed) < 2.0**31).all(1)
    if not inside.all():
        raise _refuse(where, "points must be finite, and within 2^31 voxels of the origin")
    return placed.astype(np.int32)


def _known(where: str, given: Any) -> np.ndarray:
    if isinstance(given, jax.core.Tracer):
        raise _refuse(
            where, "which voxels there are is not computed by JAX, which traces these points",
            "allocate outside of jit, and set volume.values",
        )  # fmt: skip
    if not hasattr(given, "__array__") and not isinstance(given, array):
        raise _refuse(where, f"points must be an array, got {type(given).__name__}")
    return np.asarray(content_of(given))


def write_status(status: Any, flags: int) -> None:
    """Write flags to an array of uint32, if there is one.

    Raises:
        LaunchError: it is none.
    """
    if status is None:
        return
    if not isinstance(status, array) or status.layout.dtype != np.uint32 or status.size < 1:
        raise _refuse("wp.Volume", "status must be a wp.array of uint32 with at least one element")
    content = np.array(status.numpy())
    content.reshape(-1)[0] = flags
    status.assign(content)
