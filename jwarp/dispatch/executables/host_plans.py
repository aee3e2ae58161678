"""Launches in place that are repeated: the checks of the first hold for every call of the same kinds and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import may_share_memory

from jwarp.bind import compat
from jwarp.bind.compat import is_not_tracing
from jwarp.dispatch.call.numbers import converter
from jwarp.ir.nodes import Param

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The conditions on the values of a repeated call, and the `names` under which its results come back, if any.

    `converts` are those that are no arrays of NumPy, and what makes arrays of them. Those that are `written` must
    have no memory in common with the others, which calls with the same shapes can differ in.
    """

    converts: tuple[tuple[int, Convert], ...]
    written: tuple[int, ...]
    apart: tuple[tuple[int, int], ...]
    names: tuple[str, ...] | None

    def read(self, values: Sequence[Any]) -> list[Any] | None:
        """The arrays; None where the checks have to look at the values anew."""
        if not is_not_tracing():
            return None
        arrays = list(values)
        for place, convert in self.converts:
            made = convert(arrays[place])
            if made is None:
                return None
            arrays[place] = np.asarray(made)
        for p in self.written:
            flags = arrays[p].flags
            if not (flags.c_contiguous and flags.writeable):
                return None
        for p, q in self.apart:
            if may_share_memory(arrays[p], arrays[q]):
                return None
        return arrays


def converts_of(
    params: Sequence[Param], values: Sequence[Any], arrays: Sequence[np.ndarray | None]
) -> tuple[tuple[int, Convert], ...] | None:
    """The cheapest conversions to arrays of the values that are none; None for the slow path."""
    converts: list[tuple[int, Convert]] = []
    for p, (param, array) in enumerate(zip(params, arrays, strict=True)):
        if array is None or array is values[p]:
            continue
        is_view = param.is_array and not param.is_value and type(values[p]) is compat.Array
        convert = np.asarray if is_view else converter(param, type(values[p]))
        if convert is None:
            return None
        converts.append((p, convert))
    return tuple(converts)


def only_equal(known: Any, convert: Convert) -> Convert:
    """The conversion of a number that is known, and of no other."""
    return lambda x: convert(x) if x == known else None
