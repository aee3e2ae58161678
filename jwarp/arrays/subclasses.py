"""Values whose class a program derives from `wp.array` or `wp.indexedarray`, as what launches know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.stand_ins import stand_in
from jwarp.arrays.struct_array import StructArray
from jwarp.config import surface
from jwarp.types import Struct, array_of, indexed_type, indexedarray, unchecked

_SIMPLE = {array, StructArray, indexedarray, int, float, bool, type(None)}


def plain(value: Any) -> Any:
    """A value with a `wp.array` in place of each object of a class that is derived from it, also inside of it.

    These have one state, so that what a launch does to the one is done to the other; `original` goes back. In a
    program, other objects that say where in the host's memory their elements are become arrays of NumPy.
    """
    kind = type(value)
    if kind in _SIMPLE:
        return value if kind is not indexedarray else _with_plain_parts(value)
    if issubclass(kind, array):
        return stand_in(value)
    if issubclass(kind, indexedarray):
        return indexedarray(plain(value.data), [plain(indices) for indices in value.indices])
    if issubclass(kind, Struct):
        given = [getattr(value, name) for name in kind.fields]
        found = [plain(x) for x in given]
        return value if all(x is y for x, y in zip(given, found, strict=True)) else unchecked(kind, found)
    if kind is dict:
        return plain_values(value)
    if surface.is_warps and hasattr(kind, "__array_interface__") and not issubclass(kind, (np.ndarray, np.generic)):
        return np.asarray(value)  # which shows the memory of another library's array
    return value


def plain_values(values: Any) -> Any:
    """The values of a call, a list or a dict, each as `plain` gives it; the same object where nothing is changed."""
    if isinstance(values, Mapping):
        named = {name: plain(x) for name, x in values.items()}
        return values if all(named[name] is x for name, x in values.items()) else named
    if type(values) is not list and type(values) is not tuple:
        return values
    found = [plain(x) for x in values]
    return values if all(x is y for x, y in zip(values, found, strict=True)) else found


def type_of_value(value: Any) -> Any:
    """The type of parameters that an array, an indexed array or a struct fits; None for other values."""
    kind = type(value)
    if issubclass(kind, array):
        return None if value.device is None else array_of(value.dtype, value.ndim)
    if issubclass(kind, indexedarray):
        of_data = type_of_value(value.data)
        return None if of_data is None else indexed_type(of_data)
    return kind if issubclass(kind, Struct) else None


def _with_plain_parts(value: indexedarray) -> indexedarray:
    parts = (value.data, *value.indices)
    found = [plain(x) for x in parts]
    return value if all(x is y for x, y in zip(parts, found, strict=True)) else indexedarray(found[0], found[1:])
