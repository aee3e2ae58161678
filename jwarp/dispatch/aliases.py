"""Arrays of one launch that show the same elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.dispatch.host_arrays import OVERLAP_WORK
from jwarp.errors import LaunchError
from jwarp.launching.program import Program


def identical(of: dict[int, array], written: tuple[int, ...]) -> dict[int, int]:
    """Of parameters that are given one view of one memory, all but one, and that one, which is written if any is."""
    first: dict[Any, int] = {}
    for p in sorted(of, key=lambda p: (p not in written, p)):
        first.setdefault((id(of[p].memory), of[p].layout), p)
    found = {p: first[id(a.memory), a.layout] for p, a in of.items()}
    return {p: q for p, q in found.items() if p != q}


def refuse_overlaps(program: Program, of: dict[int, array], same: dict[int, int]) -> None:
    for p in program.written:
        for q, a in of.items():
            if p in of and same.get(p, p) != same.get(q, q) and overlap(of[p], a):
                names = [program.params[k].name for k in (p, q)]
                raise LaunchError(
                    f"kernel '{program.name}': '{names[0]}', which it writes, and '{names[1]}' overlap in memory, which"
                    " an adjoint does not follow",
                    hint="pass one array for both, or a copy of one",
                )


def overlap(a: array, b: array) -> bool:
    """Whether two arrays show an element both."""
    (low, high), (other_low, other_high) = a.layout.bounds, b.layout.bounds
    if a.memory is not b.memory or low >= other_high or other_low >= high:
        return False
    try:
        return bool(np.shares_memory(_addresses(a), _addresses(b), max_work=OVERLAP_WORK))  # type: ignore[arg-type]
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
