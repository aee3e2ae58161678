"""Searches of sorted arrays, written in the kernel language."""

from __future__ import annotations

from typing import Any

from jwarp.frontend.func import func


@func
def lower_bound(arr: Any, value: Any):
    """lower_bound(arr, value): index of the first element of sorted `arr` that is not below `value`; else the last."""
    lower = 0
    upper = arr.shape[0] - 1
    while lower < upper:
        middle = lower + (upper - lower) // 2
        if arr[middle] < value:
            lower = middle + 1
        else:
            upper = middle
    return lower


@func
def lower_bound(arr: Any, arr_begin: int, arr_end: int, value: Any):  # noqa: F811 - an overload
    """lower_bound(arr, arr_begin, arr_end, value): the same among the elements from arr_begin up to arr_end."""
    lower = arr_begin
    upper = arr_end - 1
    while lower < upper:
        middle = lower + (upper - lower) // 2
        if arr[middle] < value:
            lower = middle + 1
        else:
            upper = middle
    return lower
