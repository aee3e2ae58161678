"""The types of vectors and matrices: scalars in one or two axes, with a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.caches import cached
from jwarp.errors import KernelTypeError
from jwarp.types.scalars import (
    ScalarType,
    as_scalar,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    range_of,
    uint8,
    uint16,
    uint32,
    uint64,
)


class CompositeType(type):
    """Metaclass of the vector and matrix types: component type, and shape of one or two extents."""

    name: str
    dtype: ScalarType
    shape: tuple[int, ...]

    def __repr__(cls) -> str:
        return cls.name

    @property
    def size(cls) -> int:
        """Number of components."""
        return int(np.prod(cls.shape))

    @property
    def is_vector(cls) -> bool:
        return len(cls.shape) == 1

    @property
    def transposed(cls) -> CompositeType:
        """The matrix type with rows and columns exchanged."""
        return matrix((cls.shape[1], cls.shape[0]), cls.dtype)


class Composite(metaclass=CompositeType):
    """Base of the vector and matrix types. Called outside kernels, `wp.vec3(…)` gives a NumPy array."""

    def __new__(cls, *components: Any) -> Any:
        values = _components(cls, components)
        if values.size not in (0, 1, cls.size):
            raise KernelTypeError(f"{cls.name} has {cls.size} components, {values.size} values given")
        whole = np.broadcast_to(values if values.size else 0, cls.size).reshape(cls.shape)
        return whole.astype(cls.dtype.dtype).view(CompositeValue)


def _components(type_: CompositeType, components: tuple) -> np.ndarray:
    """The numbers that a vector or matrix is made of outside kernels."""
    scalar = type_.dtype
    try:
        given = np.asarray(components)
        values = np.asarray(components, scalar.dtype).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise KernelTypeError(
            f"{type_.name}{components!r}: these are no components of type {scalar}", hint=range_of(scalar)
        ) from None
    if scalar.is_int and given.size and given.dtype.kind not in "biu":
        raise KernelTypeError(f"{type_.name}{components!r}: these are no integers", hint="round them first")
    return values


class CompositeValue(np.ndarray):
    """A vector or matrix outside kernels: a NumPy array that kernels may refer to by name."""


# The suffixes of Warp's names: vec3d, mat33h.
_SUFFIXES = {
    "b": int8, "ub": uint8, "s": int16, "us": uint16, "i": int32, "ui": uint32, "l": int64, "ul": uint64,
    "h": float16, "f": float32, "d": float64,
}  # fmt: skip
_SHORT: dict[ScalarType, str] = {dtype: suffix for suffix, dtype in _SUFFIXES.items()}


@cached("types that kernels name")
def composite(shape: tuple[int, ...], dtype: ScalarType) -> CompositeType:
    square = len(shape) == 1 or shape[0] == shape[1]
    suffix = "" if dtype is float32 else _SHORT.get(dtype)
    if suffix is not None and square and 2 <= shape[0] <= 4:
        name = f"{'vec' if len(shape) == 1 else 'mat'}{''.join(map(str, shape))}{suffix}"
    elif len(shape) == 1:
        name = f"vector({shape[0]}, {dtype})"
    else:
        name = f"matrix({shape}, {dtype})"
    fields = {"name": name, "dtype": dtype, "shape": shape, "__doc__": f"{name} of {dtype}.", "__module__": "jwarp"}
    return CompositeType(name, (Composite,), fields)


def _extents(what: str, extents: tuple) -> tuple[int, ...]:
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in extents):
        raise KernelTypeError(f"{what}: extents must be positive integers, not {extents}")
    return extents


def vector(length: int, dtype: Any) -> CompositeType:
    """The type of vectors of `length` components of scalar type `dtype`."""
    scalar = as_scalar(dtype)
    if scalar is None:
        raise KernelTypeError(f"wp.types.vector: the component type must be a scalar type, not {dtype!r}")
    return composite(_extents("wp.types.vector", (length,)), scalar)


def matrix(shape: tuple[int, int], dtype: Any) -> CompositeType:
    """The type of matrices of `shape` (rows, columns) with components of scalar type `dtype`."""
    scalar = as_scalar(dtype)
    if scalar is None or not isinstance(shape, (tuple, list)) or len(shape) != 2:
        raise KernelTypeError(f"wp.types.matrix: needs (rows, columns) and a scalar type, not {shape!r}, {dtype!r}")
    return composite(_extents("wp.types.matrix", tuple(shape)), scalar)


@dataclass(frozen=True)
class FloatMatrix:
    """Stands for the matrix types of one shape with components of any float type, where a function takes any."""

    shape: tuple[int, int]

    def fits(self, type: Any) -> bool:
        return isinstance(type, CompositeType) and type.shape == self.shape and type.dtype.is_float

    def __str__(self) -> str:
        return f"a {self.shape[0]} by {self.shape[1]} matrix of floats"


vec2, vec3, vec4 = (vector(n, float32) for n in (2, 3, 4))
vec2b, vec3b, vec4b = (vector(n, int8) for n in (2, 3, 4))
vec2ub, vec3ub, vec4ub = (vector(n, uint8) for n in (2, 3, 4))
vec2s, vec3s, vec4s = (vector(n, int16) for n in (2, 3, 4))
vec2us, vec3us, vec4us = (vector(n, uint16) for n in (2, 3, 4))
vec2i, vec3i, vec4i = (vector(n, int32) for n in (2, 3, 4))
vec2ui, vec3ui, vec4ui = (vector(n, uint32) for n in (2, 3, 4))
vec2l, vec3l, vec4l = (vector(n, int64) for n in (2, 3, 4))
vec2ul, vec3ul, vec4ul = (vector(n, uint64) for n in (2, 3, 4))
vec2h, vec3h, vec4h = (vector(n, float16) for n in (2, 3, 4))
vec2f, vec3f, vec4f = (vector(n, float32) for n in (2, 3, 4))
vec2d, vec3d, vec4d = (vector(n, float64) for n in (2, 3, 4))
mat22, mat33, mat44 = (matrix((n, n), float32) for n in (2, 3, 4))
mat22h, mat33h, mat44h = (matrix((n, n), float16) for n in (2, 3, 4))
mat22f, mat33f, mat44f = (matrix((n, n), float32) for n in (2, 3, 4))
mat22d, mat33d, mat44d = (matrix((n, n), float64) for n in (2, 3, 4))
