"""Descriptors of arrays as structures of ctypes, laid out as Warp's: the address, extents, strides, the gradient."""

from __future__ import annotations

import ctypes
from typing import Any

from jwarp.types import MAX_DIMS


class array_t(ctypes.Structure):
    """The descriptor of an array. Its address is 0 where there are no elements."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("grad", ctypes.c_uint64),
        ("shape", ctypes.c_int32 * MAX_DIMS),
        ("strides", ctypes.c_int32 * MAX_DIMS),
        ("ndim", ctypes.c_uint16),
        ("flags", ctypes.c_uint16),
    )


class indexedarray_t(ctypes.Structure):
    """The descriptor of an indexed array: that of its array, the addresses of its indices, its extents."""

    _fields_ = (
        ("data", array_t),
        ("indices", ctypes.c_void_p * MAX_DIMS),
        ("shape", ctypes.c_int32 * MAX_DIMS),
    )


def described(a: Any) -> array_t:
    """The descriptor of an array as it is now, one object as long as it says the same."""
    grad = a.grad
    address = 0 if grad is None else grad.ptr or 0
    known: array_t | None = a.__dict__.get("_descriptor")
    if known is None or known.grad != address:
        known = array_t(a.ptr or 0, address, tuple(a.shape), tuple(a.strides), a.ndim)
        a.__dict__["_descriptor"] = known
    return known


def indexed_described(x: Any) -> indexedarray_t:
    """The descriptor of an indexed array of a `wp.array`."""
    made = indexedarray_t(x.data.__ctype__(), shape=tuple(x.shape))
    for axis, indices in enumerate(x.indices):
        made.indices[axis] = None if indices is None else indices.ptr
    return made
