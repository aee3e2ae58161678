"""The types of the kernel language: scalars, and arrays of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


class ScalarType(type):
    """Metaclass of the scalar types, so that `wp.float32` is a class, as in Warp."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype

    def __new__(mcs, name: str, bases: tuple, fields: dict, **details: Any) -> ScalarType:
        made = super().__new__(mcs, name, bases, fields)
        made.name = name.rstrip("_")
        made.kind, made.bits = details.get("kind", ""), details.get("bits", 0)
        made.dtype = np.dtype(details.get("dtype", np.void))
        return made

    def __init__(cls, name: str, bases: tuple, fields: dict, **details: Any):
        super().__init__(name, bases, fields)

    def __repr__(cls) -> str:
        return cls.name

    @property
    def is_float(cls) -> bool:
        return cls.kind == "float"

    @property
    def is_int(cls) -> bool:
        return cls.kind in ("int", "uint")

    @property
    def min(cls) -> int:
        """Smallest value of an integer type."""
        return -(1 << (cls.bits - 1)) if cls.kind == "int" else 0

    @property
    def max(cls) -> int:
        """Largest value of an integer type."""
        return (1 << (cls.bits - (cls.kind == "int"))) - 1


class Scalar(metaclass=ScalarType):
    """Base of the scalar types. Called outside kernels, `wp.float32(x)` gives a NumPy scalar."""

    def __new__(cls, value: Any = 0) -> Any:
        return cls.dtype.type(value)


class int8(Scalar, kind="int", bits=8, dtype=np.int8):
    """8-bit signed integer."""


class int16(Scalar, kind="int", bits=16, dtype=np.int16):
    """16-bit signed integer."""


class int32(Scalar, kind="int", bits=32, dtype=np.int32):
    """32-bit signed integer; `int` in kernels."""


class int64(Scalar, kind="int", bits=64, dtype=np.int64):
    """64-bit signed integer."""


class uint8(Scalar, kind="uint", bits=8, dtype=np.uint8):
    """8-bit unsigned integer."""


class uint16(Scalar, kind="uint", bits=16, dtype=np.uint16):
    """16-bit unsigned integer."""


class uint32(Scalar, kind="uint", bits=32, dtype=np.uint32):
    """32-bit unsigned integer."""


class uint64(Scalar, kind="uint", bits=64, dtype=np.uint64):
    """64-bit unsigned integer."""


class float16(Scalar, kind="float", bits=16, dtype=np.float16):
    """IEEE 754 half precision."""


class bfloat16(Scalar, kind="float", bits=16, dtype=ml_dtypes.bfloat16):
    """The upper half of a float32."""


class float32(Scalar, kind="float", bits=32, dtype=np.float32):
    """IEEE 754 single precision; `float` in kernels."""


class float64(Scalar, kind="float", bits=64, dtype=np.float64):
    """IEEE 754 double precision."""


class bool_(Scalar, kind="bool", bits=8, dtype=np.bool_):
    """Truth value, one byte in memory; `bool` in kernels."""


SCALARS: dict[str, ScalarType] = {
    t.name: t
    for t in (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
    + (float16, bfloat16, float32, float64, bool_)
}
SIGNED_INTS = (int8, int16, int32, int64)
UNSIGNED_INTS = (uint8, uint16, uint32, uint64)
INTS = SIGNED_INTS + UNSIGNED_INTS
FLOATS = (float16, bfloat16, float32, float64)

# The Python types that stand for a scalar type in annotations and conversions.
PYTHON_SCALARS: dict[type, ScalarType] = {int: int32, float: float32, bool: bool_}

MAX_DIMS = 4


@dataclass(frozen=True)
class ArrayType:
    """An array parameter: element type and number of dimensions (1 to 4)."""

    dtype: ScalarType
    ndim: int

    def __repr__(self) -> str:
        return f"array{self.ndim if self.ndim > 1 else ''}{'d' if self.ndim > 1 else ''}[{self.dtype}]"


Type = ScalarType | ArrayType


def as_scalar(annotation: Any) -> ScalarType | None:
    """The scalar type that `annotation` stands for, or None."""
    if isinstance(annotation, ScalarType) and annotation is not Scalar:
        return annotation
    if isinstance(annotation, type) and annotation in PYTHON_SCALARS:
        return PYTHON_SCALARS[annotation]
    if isinstance(annotation, np.dtype) or (
        isinstance(annotation, type) and issubclass(annotation, (np.generic, ml_dtypes.bfloat16))
    ):
        return from_dtype(annotation)
    return None


def from_dtype(dtype: Any) -> ScalarType | None:
    """The scalar type whose NumPy dtype is `dtype` (native byte order), or None."""
    dtype = np.dtype(dtype)
    return next((t for t in SCALARS.values() if t.dtype == dtype and dtype.isnative), None)


def as_type(annotation: Any) -> Type | None:
    """The kernel-language type that `annotation` stands for, or None."""
    return annotation if isinstance(annotation, ArrayType) else as_scalar(annotation)


def _array_type(dtype: Any, ndim: Any) -> ArrayType:
    scalar = as_scalar(dtype)
    if scalar is None:
        raise TypeError(f"wp.array: element type must be a wp scalar type, int, float or bool, not {dtype!r}")
    if not isinstance(ndim, int) or not 1 <= ndim <= MAX_DIMS:
        raise TypeError(f"wp.array: ndim must be 1 to {MAX_DIMS}, not {ndim!r}")
    return ArrayType(scalar, ndim)


class array:
    """Annotation of an array parameter: `wp.array[float]` or `wp.array(dtype=float, ndim=2)`."""

    _ndim = 1

    def __class_getitem__(cls, dtype: Any) -> Any:
        return _array_type(dtype, cls._ndim)

    def __new__(cls, dtype: Any = None, ndim: int | None = None) -> Any:
        return _array_type(dtype, cls._ndim if ndim is None else ndim)


class array1d(array):
    """Annotation of a 1-D array parameter."""


class array2d(array):
    """Annotation of a 2-D array parameter."""

    _ndim = 2


class array3d(array):
    """Annotation of a 3-D array parameter."""

    _ndim = 3


class array4d(array):
    """Annotation of a 4-D array parameter."""

    _ndim = 4
