"""Searches of sorted arrays, written in the kernel language."""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.table import library
from jwarp.frontend.func import func


@func
def lower_bound(arr: Any, value: Any):
    """The index of the first element of sorted `arr` that is not below `value`; else that of the last."""
    lower = 0
    upper = arr.shape[0] - 1
    while lower < upper:
        middle = lower + (upper - lower) // 2
        if arr[middle] < value:
            lower = middle + 1
        else:
            upper = middle
    return lower


@library(
    """
    lower_bound(arr: array[Number], value: Number) -> int
    lower_bound(arr: array[Number], arr_begin: int, arr_end: int, value: Number) -> int"""
)
@func
def lower_bound(arr: Any, arr_begin: int, arr_end: int, value: Any):  # noqa: F811 - an overload
    """The index of the first element of a sorted array that is at least `value`; the last index if there is none.

    It looks at the elements from `arr_begin` up to, and without, `arr_end`, or at all.
    """
    lower = arr_begin
    upper = arr_end - 1
    while lower < upper:
        middle = lower + (upper - lower) // 2
        if arr[middle] < value:
            lower = middle + 1
        else:
            upper = middle
    return lower
