"""`pack_arg` of `warp._src.context`: the argument of a launch as Warp passes it to compiled code, a value of ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from jwarp.arrays.descriptors import array_t, indexedarray_t
from jwarp.programs.array_types import family_of
from jwarp.types import ArrayType, ScalarType, StructArrayType, as_type, element_of, indexedarray, wanted_type
from jwarp.types.queries import type_repr


def pack_arg(kernel: Any, kind: Any, name: str, value: Any, device: Any, adjoint: bool = False) -> Any:
    """The value of ctypes for an argument: the descriptor of an array, or a number.

    Raises:
        RuntimeError: an array does not fit its parameter.
        TypeError: a class of an array is derived from several kinds of arrays.
    """
    wanted: Any = as_type(kind) or wanted_type(kind)
    of_array = getattr(wanted, "indexed", None) or wanted
    which = "adjoint argument" if adjoint else "argument"
    where = f"Error launching kernel '{getattr(kernel, 'key', kernel)}', {which} '{name}'"
    if not isinstance(of_array, ArrayType | StructArrayType) or not of_array.dims:
        return _number(where, wanted, value)
    is_indexed = of_array is not wanted and not adjoint
    if value is None:
        return indexedarray_t(data=array_t(ndim=of_array.dims)) if is_indexed else array_t(ndim=of_array.dims)
    try:
        family = family_of(value)
    except TypeError as error:
        raise RuntimeError(f"{where}: {error}") from None
    is_held = family is not None and getattr(value, "device", None) is not None
    if not is_held or issubclass(family, indexedarray) is not is_indexed:  # type: ignore[arg-type]
        raise RuntimeError(
            f"{where} expects an array of type {type_repr(kind)}, but passed value has type {type(value).__name__}."
        )
    if value.dtype is not element_of(of_array):
        raise RuntimeError(f"{where} expects an array with dtype {element_of(of_array)!r}, not {value.dtype!r}")
    if value.ndim != of_array.dims:
        raise RuntimeError(f"{where} expects an array with {of_array.dims} dimension(s), but it has {value.ndim}")
    found = value.__ctype__()
    _check_descriptor(where, found, indexedarray_t if is_indexed else array_t, of_array.dims)
    return found


def _check_descriptor(where: str, found: Any, kind: type[ctypes.Structure], dims: int) -> None:
    if not issubclass(type(found), kind) or ctypes.sizeof(found) != ctypes.sizeof(kind):
        shown = type(found).__name__
        raise RuntimeError(f"{where}: __ctype__() gave {shown}, which is incompatible with {kind.__name__}")
    plain = kind.from_buffer_copy(found)
    ndim = plain.data.ndim if kind is indexedarray_t else plain.ndim
    if ndim != dims:
        raise RuntimeError(f"{where}: the descriptor has {ndim} dimension(s), not {dims}")


def _number(where: str, wanted: Any, value: Any) -> Any:
    if not isinstance(wanted, ScalarType) or not isinstance(value, bool | int | float | np.generic):
        raise RuntimeError(f"{where}: {type(value).__name__} is no number or array")
    return wanted._type_(value)
