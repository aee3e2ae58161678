"""Tests if arrays overlap."""

from __future__ import annotations

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.view import View

# The exact test for a shared element of two arrays of any strides can take long; this limit is some milliseconds.
OVERLAP_WORK = 100_000


def overlap(a: array, b: array) -> bool:
    """True if two arrays share an element."""
    return a.memory is b.memory and views_overlap(a.layout, b.layout)


def views_overlap(a: View, b: View) -> bool:
    """True if two views of one memory share an element."""
    (low, high), (other_low, other_high) = a.bounds, b.bounds
    if low >= other_high or other_low >= high:
        return False
    return share_elements(_addresses(a), _addresses(b))


def share_elements(a: np.ndarray, b: np.ndarray) -> bool:
    """True if two NumPy arrays share an element, or if that takes too long to decide."""
    try:
        return bool(np.shares_memory(a, b, max_work=OVERLAP_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _Addresses:
    """Where the elements of an array would be, if its memory were at the address 4096; nobody looks there."""

    def __init__(self, layout: View):
        self.__array_interface__ = {
            "data": (4096 + layout.offset, True), "shape": layout.full_shape, "strides": layout.full_strides,
            "typestr": layout.dtype.str, "version": 3,
        }  # fmt: skip


def _addresses(a: View) -> np.ndarray:
    return np.asarray(_Addresses(a))
