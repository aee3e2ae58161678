"""Queries of types and values: `wp.types.type_is_vector`, `is_array`, `type_size_in_bytes` and their kin."""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np

from jwarp.types.annotations import is_derived
from jwarp.types.arrays import ArrayType, StructArrayType, StructType, element_of
from jwarp.types.blocks import StackKind, TileKind, tile
from jwarp.types.composites import (
    MATRIX,
    QUATERNION,
    TRANSFORM,
    VECTOR,
    Composite,
    CompositeKind,
    CompositeType,
    CompositeValue,
)
from jwarp.types.indexed import indexedarray
from jwarp.types.scalars import ScalarType, as_scalar, from_dtype
from jwarp.types.structs import Struct

_CTYPES: dict[str, Any] = {
    **{f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": ctypes.c_uint16,  # of these two C has the bits, as in Warp
    "bfloat16": ctypes.c_uint16,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
}


def _scalar(kind: Any) -> ScalarType | None:
    """The scalar type that a type is: jwarp's, Python's or NumPy's."""
    if isinstance(kind, type) and issubclass(kind, np.generic):
        return from_dtype(np.dtype(kind))
    return as_scalar(kind) if isinstance(kind, type) else None


def _is_of(kind: Any, wanted: CompositeKind) -> bool:
    return isinstance(kind, CompositeType) and kind is not Composite and kind.kind is wanted


# -- types


def type_is_int(t: Any) -> bool:
    """True for the integer types; bool is none."""
    scalar = _scalar(t)
    return scalar is not None and scalar.is_int


def type_is_float(t: Any) -> bool:
    """True for the floating-point types."""
    scalar = _scalar(t)
    return scalar is not None and scalar.is_float


def type_is_scalar(t: Any) -> bool:
    """True for the types of numbers; bool is none."""
    return type_is_int(t) or type_is_float(t)


def type_is_vector(t: Any) -> bool:
    """True for the vector types."""
    return _is_of(t, VECTOR)


def type_is_matrix(t: Any) -> bool:
    """True for the matrix types."""
    return _is_of(t, MATRIX)


def type_is_quaternion(t: Any) -> bool:
    """True for the quaternion types."""
    return _is_of(t, QUATERNION)


def type_is_transformation(t: Any) -> bool:
    """True for the transformation types."""
    return _is_of(t, TRANSFORM)


def type_is_composite(t: Any) -> bool:
    """True for types with components: vectors, matrices, quaternions, transformations."""
    return isinstance(t, CompositeType) and t is not Composite


def type_is_value(t: Any) -> bool:
    """True for the types of numbers, bool, and types with components."""
    return _scalar(t) is not None or type_is_composite(t)


def type_is_struct(t: Any) -> bool:
    """True for struct types."""
    return isinstance(t, StructType)


def type_is_array(t: Any) -> bool:
    """True for the classes of arrays, such as `wp.array` itself, and not for those that programs derive from them."""
    return _is_of_arrays(t) and not is_derived(t)


def _is_of_arrays(t: Any) -> bool:
    return isinstance(t, type) and (issubclass(t, indexedarray) or hasattr(t, "array_type"))


def type_is_tile(t: Any) -> bool:
    """True for a class of tiles."""
    return isinstance(t, type) and issubclass(t, (tile, TileKind))


# -- values


def is_int(x: Any) -> bool:
    """True for an integer; a bool is none."""
    return type_is_int(type(x))


def is_float(x: Any) -> bool:
    """True for a float."""
    return type_is_float(type(x))


def is_scalar(x: Any) -> bool:
    """True for a number; a bool is none."""
    return type_is_scalar(type(x))


def _value_of(x: Any, wanted: CompositeKind) -> bool:
    return isinstance(x, CompositeValue) and x.kind is wanted


def is_vector(x: Any) -> bool:
    """True for a vector."""
    return _value_of(x, VECTOR)


def is_matrix(x: Any) -> bool:
    """True for a matrix."""
    return _value_of(x, MATRIX)


def is_quaternion(x: Any) -> bool:
    """True for a quaternion."""
    return _value_of(x, QUATERNION)


def is_transformation(x: Any) -> bool:
    """True for a transformation."""
    return _value_of(x, TRANSFORM)


def is_composite(x: Any) -> bool:
    """True for a value with components: a vector, matrix, quaternion or transformation."""
    return isinstance(x, CompositeValue)


def is_value(x: Any) -> bool:
    """True for a number, a bool, or a value with components."""
    return isinstance(x, CompositeValue) or _scalar(type(x)) is not None


def is_struct(x: Any) -> bool:
    """True for a value of a struct type."""
    return isinstance(x, Struct)


def is_array(x: Any) -> bool:
    """True for an array, or the type of array parameters, as `wp.array[float]` is."""
    return isinstance(x, (ArrayType, StructArrayType)) or _is_of_arrays(type(x))


def is_tile(x: Any) -> bool:
    """True for the type of a tile."""
    return isinstance(x, TileKind)


# -- sizes, names, equality


def type_size(dtype: Any) -> int:
    """The number of components of a type; 1 for numbers and structs."""
    return dtype.size if type_is_composite(dtype) else 1


def type_ctype(dtype: Any) -> Any:
    """The type of ctypes for a number, or for the components of a composite.

    Raises:
        TypeError: it is neither.
    """
    if type_is_composite(dtype):
        made = _CTYPES[dtype.dtype.name]
        for extent in reversed(dtype.shape):
            made = made * extent
        return made
    scalar = _scalar(dtype)
    if scalar is None:
        raise TypeError(f"wp.types.type_ctype: {type_repr(dtype)} is no type of numbers")
    return _CTYPES[scalar.name]


def type_size_in_bytes(dtype: Any) -> int:
    """The bytes that a value of a type takes in an array; those of a struct are laid out as in C.

    Raises:
        TypeError: it is no type of values.
    """
    return size_and_alignment(dtype)[0]


def size_and_alignment(kind: Any) -> tuple[int, int]:
    """The size and the alignment of a type in bytes."""
    if isinstance(kind, ArrayType) and kind.dims == 0:
        kind = kind.element
    if is_array(kind):
        return 80, 8  # what Warp passes for an array
    if type_is_composite(kind):
        return kind.size * kind.dtype.bits // 8, kind.dtype.bits // 8
    if isinstance(kind, StructType):
        end, alignment = 0, 1
        for field in kind.fields.values():
            size, step = size_and_alignment(field)
            end, alignment = -(-end // step) * step + size, max(alignment, step)
        return max(1, -(-end // alignment) * alignment), alignment
    scalar = _scalar(kind)
    if scalar is None:
        raise TypeError(f"wp.types.type_size_in_bytes: {type_repr(kind)} is no type of values")
    size = scalar.dtype.itemsize
    return size, size


def no_overload(name: str, types: Iterable[Any]) -> str:
    """The reason why a kernel cannot call a function with arguments of these types."""
    given = ", ".join(t if isinstance(t, str) else type_repr(t) for t in types)
    return f"Couldn't find function overload for '{name}' that matched inputs with types: [{given}]"


def no_function(name: str, values: Iterable[Any]) -> str:
    """The reason why a function of the kernel language cannot be called with these values outside kernels."""
    types = (type_repr(type(x)) if type_is_composite(type(x)) else type(x).__name__ for x in values)
    return f"Couldn't find a function '{name}' compatible with the arguments '{', '.join(types)}'"


def type_repr(t: Any) -> str:
    """The name of a type, as Warp writes it."""
    if is_array(t):
        name = type(t).__name__ if _is_of_arrays(type(t)) else "array"
        written = getattr(t, "family", name)
        data = f"shape={tuple(t.shape)}" if getattr(t, "device", None) is not None else f"ndim={_dims(t)}"
        return f"{written}({data}, dtype={type_repr(_element(t))})"
    if t is Any:
        return "Any"
    if type_is_composite(t):
        return _composite_repr(t)
    if isinstance(t, ScalarType):
        return t.name
    if t not in (builtins.bool, float, int) and (scalar := as_scalar(t)) is not None:
        return scalar.name  # of the class of its numbers
    if t in (builtins.bool, float, int):
        return t.__name__
    return f"{t.__module__}.{t.__qualname__}" if isinstance(t, type) else repr(t)


# The endings of Warp's names of short vectors and matrices.
_SUFFIXES = {
    "int8": "b",
    "int16": "s",
    "int32": "i",
    "int64": "l",
    "uint8": "ub",
    "uint16": "us",
    "uint32": "ui",
    "uint64": "ul",
    "float16": "h",
    "float32": "f",
    "float64": "d",
}


def _composite_repr(t: CompositeType) -> str:
    extents, suffix = "".join(map(str, t.shape)), _SUFFIXES.get(t.dtype.name)
    if t.kind in (QUATERNION, TRANSFORM):
        name = "quat" if t.kind is QUATERNION else "transform"
        return f"{name}(dtype={t.dtype.name})" if suffix is None else name + suffix
    if suffix is not None and max(t.shape) <= 4:
        return ("vec" if t.kind is VECTOR else "mat") + extents + suffix
    of = f"length={t.shape[0]}" if t.kind is VECTOR else f"shape={t.shape}"
    return f"{'vector' if t.kind is VECTOR else 'matrix'}({of}, dtype={t.dtype.name})"


def types_equal(a: Any, b: Any) -> bool:
    """True if two types are equal: `float` is `wp.float32`, and arrays are compared by their elements."""
    if a is b:
        return True
    if is_array(a) or is_array(b):
        return is_array(a) and is_array(b) and types_equal(_element(a), _element(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(types_equal, a, b))
    if isinstance(a, TileKind) and isinstance(b, TileKind):
        return types_equal(a.dtype, b.dtype)
    if isinstance(a, StackKind) and isinstance(b, StackKind):
        return a == b
    first, second = (_scalar(t) or t for t in (a, b))
    return first is second


def _dims(t: Any) -> int:
    """The number of axes of an array, or of the type of arrays."""
    return t.dims if isinstance(t, (ArrayType, StructArrayType)) else t.ndim


def _element(t: Any) -> Any:
    """The type of the elements of an array, or of an array type."""
    return element_of(t) if isinstance(t, (ArrayType, StructArrayType)) else t.dtype
