"""From the numbers of a call to the scalars and vectors that a launch reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp.ir.nodes import Param
from jwarp.types import CompositeValue

# Numbers within it convert to every float type but the half-wide ones without becoming infinite.
_LARGE = 3e38

Convert = Callable[[Any], Any]


def converter(param: Param, kind: type) -> Convert | None:
    """From a Python number to the scalar that the parameter takes, or to None for the slow path."""
    if param.is_array:
        return None
    type_, make = param.dtype, param.dtype.dtype.type
    if type_.is_float and type_.bits >= 32 and kind in (float, int):
        return lambda x: make(x) if -_LARGE < x < _LARGE else None
    if type_.is_int and kind is int:
        low, high = type_.min, type_.max
        return lambda x: make(x) if low <= x <= high else None
    return make if type_.kind == "bool" and kind is bool else None


def content_of(param: Param, value: Any) -> Convert | None:
    """The conversion of such a value to what the parameter reads; None for the slow path each time."""
    if type(value) in (float, int, bool):
        return converter(param, type(value))
    if type(value) is np.float64 and param.dtype.dtype.kind == "f":
        return converter(param, float)
    if not isinstance(value, (np.generic, CompositeValue)):
        return None
    is_same = value.dtype == param.dtype.dtype and np.shape(value) == getattr(param.type, "components", ())
    return np.asarray if is_same else None
