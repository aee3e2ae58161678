"""Eager launches that are repeated: the checks of the first hold for every call of the same kinds and shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.bind import compat
from jwarp.bind.calls import eager
from jwarp.bind.prepare import Prepared
from jwarp.bind.primitive import is_fixed
from jwarp.config import config
from jwarp.frontend.kernel import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching.descriptor import Program

# Numbers within it convert to every float type but the half-wide ones without becoming infinite.
_LARGE = 3e38

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a repeated call runs: `feeds` are the places of the operands among the values, and what converts them."""

    run: Callable[..., list[Any]]
    feeds: tuple[tuple[int, Convert | None], ...]
    order: tuple[int, ...]
    names: tuple[str, ...] | None

    def call(self, values: Sequence[Any]) -> Any:
        """The outputs; None where a number does not fit as it did, which the checks have to look at."""
        operands = []
        for place, convert in self.feeds:
            value = values[place]
            if convert is not None:
                value = convert(value)
                if value is None:
                    return None
            operands.append(value)
        found = self.run(*operands)
        results = tuple([found[k] for k in self.order])
        return results if self.names is None else dict(zip(self.names, results, strict=True))


def key_of(values: Sequence[Any], *others: Hashable) -> Hashable | None:
    """What must be the same for the plan of an earlier call to hold; None where there can be no plan."""
    parts: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is compat.Array:
            parts.append((value.shape, value.dtype))
        elif kind is float or kind is int or kind is bool:
            parts.append(kind)
        elif kind is np.ndarray:
            parts.append((kind, value.shape, value.dtype))
        else:
            return None
    return (compat.x64_enabled(), config.settings, *parts, others)


def shape_key(value: Any) -> Hashable | None:
    """The part of the key that an output is: a shape, or an array's."""
    kind = type(value)
    if kind is int:
        return value
    if kind is tuple:
        return value if all(type(n) is int for n in value) else None
    return (kind, value.shape, value.dtype) if kind is compat.Array or kind is np.ndarray else None


def find(kernel: Kernel, key: Hashable | None) -> Plan | None:
    """The plan of an earlier call."""
    return None if key is None else kernel.plans.get(key)


def keep(
    kernel: Kernel,
    key: Hashable | None,
    made: Prepared,
    values: Sequence[Any],
    outputs: Sequence[int],
    *,
    names: Sequence[str] | None = None,
    differentiable: bool = True,
    side_effect: bool = False,
) -> None:
    """Keep a plan for calls with `key`, if what converts their values is plain.

    `values` has one value for each parameter.
    """
    if key is None or not made.launch.results or not is_fixed(made.launch, made.zeros):
        return
    program = made.launch.program
    feeds: list[tuple[int, Convert | None]] = []
    for index, operand in zip(made.launch.operands, made.operands, strict=True):
        value = values[index]
        if operand is value:
            feeds.append((index, None))
            continue
        convert = converter(program, program.params[index], type(value))
        if convert is None:
            return
        feeds.append((index, convert))
    run = eager(made.launch, made.zeros, differentiable=differentiable, side_effect=side_effect)
    order = tuple(made.launch.results.index(p) for p in outputs)
    kernel.plans.keep(key, Plan(run, tuple(feeds), order, None if names is None else tuple(names)))


def converter(program: Program, param: Param, kind: type) -> Convert | None:
    """From a Python number to the scalar that the parameter takes, or to None where that needs a closer look."""
    if param.is_array:
        return None
    type_, make = param.dtype, param.dtype.dtype.type
    if type_.is_float and type_.bits >= 32 and kind in (float, int):
        return lambda x: make(x) if -_LARGE < x < _LARGE else None
    if type_.is_int and kind is int:
        low, high = type_.min, type_.max
        return lambda x: make(x) if low <= x <= high else None
    return make if type_.kind == "bool" and kind is bool else None
