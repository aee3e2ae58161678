"""Tests if arrays overlap."""

from __future__ import annotations

import numpy as np

from jwarp.arrays.array import array

# The exact test for a shared element of two arrays of any strides can take long; this limit is some milliseconds.
OVERLAP_WORK = 100_000


def overlap(a: array, b: array) -> bool:
    """True if two arrays share an element."""
    (low, high), (other_low, other_high) = a.layout.bounds, b.layout.bounds
    if a.memory is not b.memory or low >= other_high or other_low >= high:
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

    def __init__(self, a: array):
        layout = a.layout
        self.__array_interface__ = {
            "data": (4096 + layout.offset, True), "shape": layout.full_shape, "strides": layout.full_strides,
            "typestr": layout.dtype.str, "version": 3,
        }  # fmt: skip


def _addresses(a: array) -> np.ndarray:
    return np.asarray(_Addresses(a))
