"""The scalar types, numbers and truth values, and which of them a Python or NumPy type stands for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from jwarp.config import config
from jwarp.errors import KernelTypeError


class ScalarType(type):
    """Metaclass of the scalar types, so that `wp.float32` is a class, as in Warp."""

    name: str
    kind: str
    bits: int
    dtype: np.dtype
    _length_ = 1  # the number of components, as composites have it

    def __new__(mcs, name: str, bases: tuple, fields: dict, **details: Any) -> ScalarType:
        made = super().__new__(mcs, name, bases, fields)
        made.name = name.rstrip("_")
        if details or not isinstance(bases[0] if bases else None, ScalarType):  # else it is as the type it derives from
            made.kind, made.bits = details.get("kind", ""), details.get("bits", 0)
            made.dtype = np.dtype(details.get("dtype", np.void))
        return made

    def __init__(cls, name: str, bases: tuple, fields: dict, **details: Any):
        super().__init__(name, bases, fields)

    def __repr__(cls) -> str:
        return cls.name

    def __instancecheck__(cls, value: Any) -> bool:
        made = NUMBER_CLASSES.get(cls)
        return made is not None and isinstance(value, made)

    # Libraries for Warp and NumPy read these two from its types.

    @property
    def _type_(cls) -> Any:
        """The type of ctypes with the bits of a number."""
        is_half = cls.is_float and cls.bits == 16
        return np.ctypeslib.as_ctypes_type(np.dtype(np.uint16) if is_half else cls.dtype)

    @property
    def __numpy_dtype__(cls) -> np.dtype:
        return cls.dtype

    @property
    def is_float(cls) -> bool:
        """True for the floating-point types."""
        return cls.kind == "float"

    @property
    def is_int(cls) -> bool:
        """True for the integer types, signed or not; bool is none."""
        return cls.kind in ("int", "uint")

    @property
    def min(cls) -> int:
        """Smallest value of an integer type."""
        return -(1 << (cls.bits - 1)) if cls.kind == "int" else 0

    @property
    def max(cls) -> int:
        """Largest value of an integer type."""
        return (1 << (cls.bits - (cls.kind == "int"))) - 1


# The classes of the numbers that scalar types make in whole programs of Warp, and the types whose components and
# results are Python's own numbers there (those of all types by `wp.config.legacy_scalar_return_types`). Elsewhere both
# are empty: numbers are NumPy's.
NUMBER_CLASSES: dict[ScalarType, Any] = {}
NATIVE: set[ScalarType] = set()


def number(kind: ScalarType, value: Any) -> Any:
    """A number of a type, as code outside kernels gets it from what it reads or calls."""
    if kind in NATIVE or (NUMBER_CLASSES and config.of_warp["legacy_scalar_return_types"]):
        return kind.dtype.type(value).item()
    return NUMBER_CLASSES.get(kind, kind.dtype.type)(value)


class Scalar(metaclass=ScalarType):
    """Base of the scalar types. Called outside kernels, `wp.float32(x)` gives a NumPy scalar of that dtype.

    Raises:
        KernelTypeError: the type does not have the value, such as -1 for an unsigned type.
    """

    def __new__(cls, value: Any = 0) -> Any:
        try:
            return NUMBER_CLASSES.get(cls, cls.dtype.type)(value)
        except (TypeError, ValueError, OverflowError):
            raise KernelTypeError(f"wp.{cls.name}: {value!r} is no value of this type", hint=range_of(cls)) from None


def range_of(type_: ScalarType) -> str:
    """A hint: the values of an integer type; empty for others."""
    return f"its values are {type_.min} to {type_.max}" if type_.is_int else ""


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
    for t in (int8, int16, int32, int64, uint8, uint16, uint32, uint64) + (float16, bfloat16, float32, float64, bool_)
}
_BY_DTYPE = {t.dtype: t for t in SCALARS.values()}
SIGNED_INTS = (int8, int16, int32, int64)
UNSIGNED_INTS = (uint8, uint16, uint32, uint64)
INTS = SIGNED_INTS + UNSIGNED_INTS
FLOATS = (float16, bfloat16, float32, float64)

# The Python types that stand for a scalar type in annotations and conversions.
PYTHON_SCALARS: dict[type, ScalarType] = {int: int32, float: float32, bool: bool_}


def as_scalar(annotation: Any) -> ScalarType | None:
    """The scalar type that `annotation` stands for, or None."""
    if isinstance(annotation, ScalarType) and SCALARS.get(annotation.name) is annotation:
        return annotation
    if isinstance(annotation, type) and annotation in PYTHON_SCALARS:
        return PYTHON_SCALARS[annotation]
    if isinstance(annotation, np.dtype) or (
        isinstance(annotation, type) and issubclass(annotation, (np.generic, ml_dtypes.bfloat16))
    ):
        return from_dtype(annotation)
    # JAX's own types, such as jax.numpy.float32, say their dtype.
    said = getattr(annotation, "dtype", None) if isinstance(annotation, type) else None
    return from_dtype(said) if isinstance(said, np.dtype) and not isinstance(annotation, ScalarType) else None


def from_dtype(dtype: Any) -> ScalarType | None:
    """The scalar type whose NumPy dtype is `dtype` (native byte order), or None."""
    return _BY_DTYPE.get(np.dtype(dtype))
