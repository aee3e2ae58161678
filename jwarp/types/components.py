"""The numbers that vectors, matrices and the like are made of outside kernels."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jwarp.errors import KernelTypeError
from jwarp.types.scalars import range_of


def components_of(type_: Any, components: tuple) -> np.ndarray:
    """The numbers that a composite is made of outside kernels."""
    scalar = type_.dtype
    try:
        given = _flat(components)
        values = np.asarray(given, scalar.dtype)
    except (TypeError, ValueError, OverflowError):
        text = f"{type_.name}{components!r}: these are no components of type {scalar}"
        if len(components) == 1 and not isinstance(components[0], (tuple, list, np.ndarray)):
            got = type(components[0]).__name__
            text += f": Invalid argument in {type_.kind.name} constructor: expected a scalar value, got {got}"
        raise KernelTypeError(text, hint=range_of(scalar)) from None
    if scalar.is_int and given.size and given.dtype.kind not in "biu":
        raise KernelTypeError(f"{type_.name}{components!r}: these are no integers", hint="round them first")
    return values


def _flat(parts: Sequence[Any]) -> np.ndarray:
    """The numbers in `parts`, which may be a number, or an array, or a tuple of parts, each."""
    flat = [_flat(part) if isinstance(part, (tuple, list)) else _numbers(part) for part in parts]
    return np.concatenate(flat) if flat else np.zeros(0)


def _numbers(part: Any) -> np.ndarray:
    found = np.asarray(part).reshape(-1)
    # A type that NumPy does not know may say that it is an integer.
    return np.asarray([operator.index(part)]) if found.dtype == object and hasattr(part, "__index__") else found


def wrong_components(type_: Any, given: tuple, count: int) -> KernelTypeError:
    """The error for arguments of so many components in all, which is another number than the type has."""
    kind, shape = type_.kind, type_._shape_
    parts = [name for name, _ in kind.parts]
    if len(given) == len(parts):
        for name, part in zip(parts, given, strict=True):
            if np.ndim(part) == 0:
                text = f"Invalid argument '{name}' in {kind.name} constructor: expected a sequence"
                return KernelTypeError(f"{text}, got {type(part).__name__}")
    fault = f"Invalid number of arguments in {kind.name} constructor, expected {type_._length_} elements, got {count}"
    if len(shape) == 2 and len(given) == shape[0]:
        row = next(row for row in given if _flat((row,)).size != shape[1])
        fault = f"Invalid argument in matrix constructor, expected row of length {shape[1]}, got {row}"
    return KernelTypeError(f"{type_.name}: {fault}", also=ValueError)
