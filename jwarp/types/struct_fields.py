"""Values that programs give to fields of structs, which are converted and checked then, as Warp does."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.errors import KernelTypeError
from jwarp.types.annotations import Written
from jwarp.types.arrays import ArrayType, StructArrayType, StructType, element_of, user_type
from jwarp.types.composites import CompositeType, CompositeValue
from jwarp.types.indexed import indexedarray
from jwarp.types.queries import type_repr
from jwarp.types.structs import ASSIGNED


def assigned(kind: StructType, name: str, value: Any) -> Any:
    """The value of a field for what a program gives: of sequences the vector or matrix, of these a copy.

    Values of JAX and of other libraries are checked at launches.

    Raises:
        KernelTypeError: one number for a vector or matrix, or no array, or one that does not fit, for an array.
    """
    field = kind.fields[name]
    of_array = getattr(field, "indexed", None) or field
    if isinstance(of_array, ArrayType | StructArrayType) and of_array.dims:
        if value is not None:
            _check_array(name, of_array, value, is_indexed=of_array is not field)
        return value
    wanted = user_type(field)
    if isinstance(value, CompositeValue):
        return value.copy()  # Warp's structs have memory of their own for what they hold
    if not isinstance(wanted, CompositeType):
        return value
    if value is None:
        return wanted()
    if isinstance(value, bool | int | float | np.generic):
        raise _refusal(name, f"{type_repr(wanted)} but got a single value")
    if isinstance(value, list | tuple | np.ndarray):
        parts = np.asarray(value)
        if parts.dtype.kind in "biuf":
            return wanted(parts.ravel().tolist())
    return value


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
