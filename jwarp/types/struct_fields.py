"""Values that programs give to fields of structs, which are converted and checked then, as Warp does."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.errors import KernelTypeError
from jwarp.types.annotations import Written
from jwarp.types.arrays import ArrayType, StructArrayType, StructType, element_of, user_type
from jwarp.types.composites import CompositeType, CompositeValue, wrong_components
from jwarp.types.indexed import indexedarray
from jwarp.types.queries import type_repr
from jwarp.types.scalars import NUMBER_CLASSES, ScalarType
from jwarp.types.structs import ASSIGNED, Struct, copied, is_plain


def assigned(kind: StructType, name: str, value: Any) -> Any:
    """The value of a field for what a program gives: a vector, matrix or number of the field's type, always a copy.

    None is zero. Python's and NumPy's numbers stay as they are. Values of JAX and of other libraries are checked at
    launches.

    Raises:
        KernelTypeError: another struct, or none, for a struct, one number, other components or another count of them
            for a vector or matrix, no number for a number, a float for an integer, or no array, or one that does not
            fit, for an array.
    """
    field = kind.fields[name]
    of_array = getattr(field, "indexed", None) or field
    if isinstance(of_array, ArrayType | StructArrayType) and of_array.dims:
        if value is not None:
            _check_array(name, of_array, value, is_indexed=of_array is not field)
        return value
    wanted = user_type(field)
    if isinstance(wanted, CompositeType):
        return _composite(name, wanted, value)
    if isinstance(wanted, StructType):
        return _struct(name, wanted, value)
    return _scalar(name, wanted, value) if isinstance(wanted, ScalarType) else value


def _struct(name: str, wanted: StructType, value: Any) -> Any:
    """A copy of the struct for a field. Structs of grids, trees and meshes are checked at launches."""
    if isinstance(value, Struct):
        if not is_plain(value):
            return value
        if type(value) is wanted:
            return copied(value)
    elif not (value is None or isinstance(value, bool | int | float | str | list | tuple | dict | np.ndarray)):
        return value
    given = f"{type(value)!r}" if isinstance(value, Struct) else f"{type(value).__name__}, a non-structure value"
    text = f"Struct field '{name}' expects a struct of type {wanted!r}, got {given}"
    raise KernelTypeError(text, also=RuntimeError)


def _composite(name: str, wanted: CompositeType, value: Any) -> Any:
    """The vector or matrix of a type with given components, in memory of its own."""
    if type(value) is wanted:
        return value.copy()  # Warp's structs have memory of their own for what they hold
    if value is None:
        return wanted(*[0] * wanted.size)
    if isinstance(value, bool | int | float | np.generic):
        raise _refusal(name, f"{type_repr(wanted)} but got a single value of type {type(value).__name__}")
    if isinstance(value, CompositeValue):
        parts = np.asarray(value).ravel()
    elif isinstance(value, list | tuple | range | np.ndarray):
        try:
            parts = np.asarray(value)
        except ValueError:  # rows of different lengths
            raise _refusal(name, f"{type_repr(wanted)} but got {value!r}") from None
        parts = parts.ravel() if parts.shape == wanted.shape else parts
    elif isinstance(value, str | bytes | dict | set | Struct):
        raise _refusal(name, f"{type_repr(wanted)} but got {type(value).__name__}")
    else:
        return value
    if parts.dtype.kind not in "biufV" or parts.ndim != 1:  # V: bfloat16
        raise _refusal(name, f"{type_repr(wanted)} but got {value!r}: its components must be real numbers")
    if wanted.dtype.is_int and parts.dtype.kind not in "biu":
        raise _refusal(name, f"{type_repr(wanted)} but got {value!r}: a float cannot be interpreted as an integer")
    if len(parts) != wanted.size:
        raise wrong_components(wanted, (value,), len(parts))
    return wanted(*parts.tolist())


def _scalar(name: str, wanted: ScalarType, value: Any) -> Any:
    """The number for a field: the one given, or of the field's type where it is a number of a type of kernels."""
    if value is None:
        return wanted(0)
    made = isinstance(value, tuple(NUMBER_CLASSES.values()))
    if wanted.kind == "bool":
        return bool(value) if made or isinstance(value, float | str | bytes | list | tuple | dict) else value
    if isinstance(value, str | bytes | complex | list | tuple | dict | CompositeValue) or (
        isinstance(value, np.ndarray) and value.ndim
    ):
        raise _refusal(name, f"{wanted.name} but got {value!r}: must be real number, not {type(value).__name__}")
    if wanted.is_int and (
        isinstance(value, float) or (isinstance(value, np.generic | np.ndarray) and _is_float(value))
    ):
        raise _refusal(name, f"{wanted.name} but got {value!r}: a float cannot be interpreted as an integer")
    return wanted(value.item()) if made else value


def _is_float(value: Any) -> bool:
    return value.dtype.kind not in "biu"


def _check_array(name: str, wanted: Any, value: Any, *, is_indexed: bool) -> None:
    is_known = isinstance(value, indexedarray | Written)
    if is_known and isinstance(value, indexedarray) is is_indexed:
        dtype = value.dtype
        if dtype is not element_of(wanted) and not isinstance(dtype, np.dtype):
            raise _refusal(name, f"dtype {type_repr(element_of(wanted))}, got {type_repr(dtype)}")
        if value.ndim != wanted.dims:
            raise _refusal(name, f"an array with {wanted.dims} dimension(s), got {value.ndim} dimension(s)")
    elif is_known or isinstance(value, list | tuple | bool | int | float | str):
        raise _refusal(name, f"a Warp {'indexed array' if is_indexed else 'array'}, got {type(value).__name__}")


def _refusal(name: str, wanted: str) -> KernelTypeError:
    return KernelTypeError(f"Struct field '{name}' expects {wanted}")


ASSIGNED.append(assigned)
