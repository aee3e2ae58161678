"""`warp._src.types`: the tables of types, and functions of types alone, under the names that they have there."""

from __future__ import annotations

import math
import types as python_types
import typing
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from jwarp import types
from jwarp.arrays.array import array
from jwarp.arrays.fabric import fabricarray, indexedfabricarray
from jwarp.programs import array_types
from jwarp.programs.array_types import family_of
from jwarp.programs.type_codes import array_type_id, get_type_code
from jwarp.types.annotations import Written
from jwarp.types.array_annotations import ArrayAnnotation, one_value
from jwarp.types.indexed import IndexedAnnotation
from jwarp.types.patterns import fits
from jwarp.types.scalars import FLOATS, SCALARS, SIGNED_INTS, UNSIGNED_INTS, ScalarType, bool_

# Warp has its integers by width, the signed one of each first.
INTS = tuple(kind for pair in zip(SIGNED_INTS, UNSIGNED_INTS, strict=True) for kind in pair)
NUMBERS = (*INTS, *FLOATS)

# NumPy has no bfloat16: Warp's arrays of such are those of its bits.
_NUMPY = {kind: kind.dtype.type for kind in (bool_, *NUMBERS)} | {types.bfloat16: np.uint16}
_OF_NUMPY = {kind.dtype.type: kind for kind in (bool_, *NUMBERS) if kind is not types.bfloat16}

_FAMILIES = (("vec", (2, 3, 4), ("b", "ub", "s", "us", "i", "ui", "l", "ul", "h", "f", "d")),) + (
    ("mat", (22, 33, 44), ("h", "f", "d")),
    ("quat", ("",), ("h", "f", "d")),
    ("transform", ("",), ("h", "f", "d")),
    ("spatial_vector", ("",), ("h", "f", "d")),
    ("spatial_matrix", ("",), ("h", "f", "d")),
)
VECTORS = tuple(
    types.NAMED[f"{family}{size}{suffix}"]
    for family, sizes, suffixes in _FAMILIES
    for size in sizes
    for suffix in suffixes
)


class _Numbers(type):
    """The class of all numbers of some scalar types, which are NumPy's outside kernels."""

    kinds: tuple[ScalarType, ...]

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, tuple(kind.dtype.type for kind in cls.kinds))

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind in cls.kinds or type.__subclasscheck__(cls, kind)


class scalar_base(metaclass=_Numbers):
    """All numbers of the scalar types."""

    kinds = NUMBERS


class int_base(scalar_base):
    """All integers of the scalar types."""

    kinds = INTS


class float_base(scalar_base):
    """All floating-point numbers of the scalar types."""

    kinds = FLOATS


_PARAMETERS = {"Vector": 2, "Matrix": 3}
_OF_A_SCALAR = {"Quaternion": types.quaternion, "Transformation": types.transformation}


class _Generic:
    """A name that annotations of Python functions are made of, and nothing else is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, parts: Any) -> Any:
        """The type that is meant, where there is one: `Vector[float, Literal[3]]`, `Matrix[float, 2, 2]`."""
        whole = parts if isinstance(parts, tuple) else (parts,)
        if any(isinstance(part, typing.TypeVar) for part in whole):
            return python_types.GenericAlias(self, whole)  # type: ignore[arg-type]
        dtype, *extents = whole
        if (wanted := _PARAMETERS.get(self.name, len(whole))) != len(whole):
            raise TypeError(f"{self.name} requires {wanted} parameters, got {len(whole)}")
        numbers = [one_value(n) for n in extents]
        for n in numbers if self.name in _PARAMETERS else ():
            if isinstance(n, int) and n < 1:
                raise TypeError(f"{self.name}: an extent must be a positive integer, got {n}")
        if not all(isinstance(n, int) for n in numbers) or dtype is typing.Any:
            return typing.Any
        if not numbers and self.name in _OF_A_SCALAR:
            return _OF_A_SCALAR[self.name](dtype)
        if self.name == "Vector" and len(numbers) == 1:
            return types.vector(numbers[0], dtype)
        return types.matrix(tuple(numbers), dtype) if self.name == "Matrix" and len(numbers) == 2 else typing.Any

    def __repr__(self) -> str:
        return f"warp._src.types.{self.name}"


def strides_from_shape(shape: Sequence[int], dtype: Any) -> tuple[int, ...]:
    """The strides in bytes of an array of this shape whose elements lie side by side."""
    size = types.type_size_in_bytes(dtype)
    return tuple(size * math.prod(shape[k + 1 :]) for k in range(len(shape)))


def check_array_shape(shape: Sequence[int]) -> None:
    """Refuse a shape that arrays of Warp do not have.

    Raises:
        ValueError: an extent is negative, or 2^31 or more.
    """
    for axis, extent in enumerate(shape):
        if extent < 0:
            raise ValueError(f"Array shapes must be non-negative, got {extent} in dimension {axis}")
        if extent > types.int32.max:
            raise ValueError(
                "Array shapes must not exceed the maximum representable value of a signed 32-bit integer, "
                f"got {extent} in dimension {axis}"
            )


def type_to_warp(dtype: Any) -> Any:
    """The scalar type that a type of Python stands for; other types are what they are."""
    return types.PYTHON_SCALARS.get(dtype, dtype)


def type_typestr(dtype: Any) -> str:
    """The text for a type in NumPy's array interface: `<f4`."""
    scalar = type_scalar_type(type_to_warp(dtype))
    return np.dtype(_NUMPY[scalar]).newbyteorder("<").str


_OF_FAMILY: dict[str, type] = {
    "array": array,
    "indexedarray": types.indexedarray,
    "fabricarray": fabricarray,
    "indexedfabricarray": indexedfabricarray,
}


def matches_array_class(kind: Any, family: Any) -> bool:
    """True if an array, its class or an annotation is of a family: `array`, `indexedarray`, …"""
    if isinstance(kind, ArrayAnnotation):
        return _OF_FAMILY.get(kind.family) is family
    if family is array:
        return isinstance(kind, array | ArrayAnnotation | types.ArrayType | types.StructArrayType) or kind is array
    return kind is family or (isinstance(family, type) and isinstance(kind, family))


def concrete_array_type(kind: Any) -> Any:
    """The family of an array or of an annotation; of anything else, its class."""
    if isinstance(kind, type) and not isinstance(kind, types.StructType):
        return type
    if isinstance(kind, ArrayAnnotation):
        return _OF_FAMILY[kind.family]
    found = family_of(kind)
    if found is None and (getattr(kind, "indexed", None) is not None or isinstance(kind, types.IndexedPattern)):
        return types.indexedarray
    if isinstance(kind, types.ArrayType | types.StructArrayType):
        return array
    return found or type(kind)


def types_equal_generic(a: Any, b: Any, match_generic: bool = True) -> bool:
    """True if two types are equal, or one is of those that the other, such as `typing.Any`, stands for."""
    if types.types_equal(a, b):
        return True
    first, second = (types.wanted_type(kind) for kind in (a, b))
    if first is None or second is None:
        return False
    return bool(first == second or (match_generic and (fits(first, second, {}) or fits(second, first, {}))))


def type_scalar_type(kind: Any) -> Any:
    """The type of the components of a vector or matrix; other types are what they are."""
    return kind.dtype if types.type_is_composite(kind) else kind


def type_length(kind: Any) -> int:
    """The extent of the first axis of a vector, matrix or tile, as a type or as a value; 1 of the type of a number."""
    if isinstance(kind, ScalarType):
        return 1
    return kind.shape[0] if hasattr(kind, "shape") else len(kind)


def flatten(value: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """The items of nested sequences, and the shape of these.

    Raises:
        ValueError: their lengths differ.
    """
    whole = np.empty(_shape_of(value), object)
    whole[...] = value
    return list(whole.ravel()), whole.shape


def _shape_of(value: Any) -> tuple[int, ...]:
    if not hasattr(value, "__len__") or isinstance(value, str):
        return ()
    inner = {_shape_of(item) for item in value}
    if len(inner) > 1:
        raise ValueError("items of nested sequences have several shapes")
    return (len(value), *(inner.pop() if inner else ()))


def _bits_of_bfloat16(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)


def _bfloat16_of_bits(bits: np.ndarray) -> np.ndarray:
    return np.asarray(bits, np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)


def _converter(dtype: Any, bits: Any, back: bool = False) -> Any:
    """The function between floats of 16 bits and these bits, as integers of Python."""
    if back:
        return lambda value: float(np.array(value, bits).view(dtype))
    return lambda value: int(np.array(value, dtype).view(bits))


def members() -> dict[str, Any]:
    """The names of the module, apart from those that are public."""
    dims = types.MAX_DIMS
    return {
        **{name: _Generic(name) for name in ("Vector", "Matrix", "Quaternion", "Transformation", "Array", "Tile")},
        "Any": typing.Any,
        "int_types": INTS,
        "float_types": FLOATS,
        "scalar_types": NUMBERS,
        "scalar_and_bool_types": (*NUMBERS, bool_),
        "value_types": (int, float, bool, *NUMBERS, bool_),
        "non_atomic_types": (types.int8, types.uint8, types.int16, types.uint16),
        "vector_types": VECTORS,
        "array_types": (array, types.indexedarray, fabricarray, indexedfabricarray),
        "generic_types": (typing.Any, types.Scalar, types.Float, types.Int),
        "np_dtype_to_warp_type": {**_OF_NUMPY, **{np.dtype(x): kind for x, kind in _OF_NUMPY.items()}},
        "warp_type_to_np_dtype": _NUMPY,
        "scalar_base": scalar_base,
        "int_base": int_base,
        "float_base": float_base,
        **SCALARS,
        "ARRAY_MAX_DIMS": dims,
        "LAUNCH_MAX_DIMS": dims,
        "ARRAY_TYPE_REGULAR": 0,
        "ARRAY_TYPE_INDEXED": 1,
        "ARRAY_TYPE_FABRIC": 2,
        "ARRAY_TYPE_FABRIC_INDEXED": 3,
        **array_types.MEMBERS,
        "array_type_id": array_type_id,
        "get_type_code": get_type_code,
        "_ArrayAnnotation": ArrayAnnotation,
        "_ArrayAnnotationBase": Written,
        "_IndexedArrayAnnotation": IndexedAnnotation,
        "strides_from_shape": strides_from_shape,
        "check_array_shape": check_array_shape,
        "types_equal_generic": types_equal_generic,
        "concrete_array_type": concrete_array_type,
        "matches_array_class": matches_array_class,
        "type_scalar_type": type_scalar_type,
        "type_length": type_length,
        "type_to_warp": type_to_warp,
        "type_typestr": type_typestr,
        "flatten": flatten,
        "safe_len": lambda thing: len(thing) if hasattr(thing, "__len__") else -1,
        "float_to_half_bits": _converter(np.float16, np.uint16),
        "half_bits_to_float": _converter(np.float16, np.uint16, back=True),
        "float_to_bfloat16_bits": _converter(ml_dtypes.bfloat16, np.uint16),
        "bfloat16_bits_to_float": _converter(ml_dtypes.bfloat16, np.uint16, back=True),
        "_np_float32_to_bfloat16_bits": _bits_of_bfloat16,
        "_np_bfloat16_bits_to_float32": _bfloat16_of_bits,
        "SLICE_BEGIN": types.int32.max,
        "SLICE_END": types.int32.min,
    }
