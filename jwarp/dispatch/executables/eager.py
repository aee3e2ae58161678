"""Launches that are repeated outside of transformations: what has to be alike for the checks of the first to hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from jwarp.bind import compat
from jwarp.config import config
from jwarp.dispatch.executables.ready import Ready
from jwarp.frontend import options
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching import grouping

# Numbers within it convert to every float type but the half-wide ones without becoming infinite.
_LARGE = 3e38

Convert = Callable[[Any], Any]
# The values of a call in order of the parameters, and the key under which it may be repeated, None if it may not.
Repeatable = tuple[Sequence[Any], Hashable | None]


def key_of_launch(
    kernel: Kernel,
    dim: Any,
    inputs: Any,
    outputs: Any,
    block_dim: Any,
    adjoint: bool,
    adj_inputs: Any,
    adj_outputs: Any,
) -> Repeatable:
    """The values and the key of a launch, forward or adjoint; no key where it has what only the other one takes."""
    if adjoint:
        return _adjoint_key(kernel, dim, inputs, outputs, block_dim, adj_inputs, adj_outputs)
    if adj_inputs is not None or adj_outputs is not None:
        return (), None
    return _forward_key(kernel, dim, inputs, outputs, block_dim)


def _forward_key(kernel: Kernel, dim: Any, inputs: Any, outputs: Any, block_dim: Any) -> Repeatable:
    """The values and the key of a launch."""
    if (type(inputs) is not list and type(inputs) is not tuple) or (
        block_dim is not None and type(block_dim) is not int
    ):
        return (), None
    if kernel.has_structs:
        inputs = None if outputs is None else grouping.plain_parts(kernel, inputs)
        if inputs is None:
            return (), None
    if type(dim) is not int:
        dim = tuple(dim) if type(dim) is list else dim
        if not (type(dim) is tuple and all(type(n) is int for n in dim)):
            return (), None
    if outputs is None:
        return inputs, key_of(inputs, (dim, block_dim))
    if type(outputs) is not list and type(outputs) is not tuple:
        return (), None
    shapes = tuple([_shape_key(value) for value in outputs])
    if None in shapes:
        return (), None
    return (*inputs, *outputs), key_of(inputs, (dim, block_dim), shapes)


def _adjoint_key(
    kernel: Kernel, dim: Any, inputs: Any, outputs: Any, block_dim: Any, adj_inputs: Any, adj_outputs: Any
) -> Repeatable:
    """The values and the key of an adjoint launch: after the parameters come cotangents, then wanted gradients."""
    if type(adj_outputs) not in (list, tuple) or type(adj_inputs) not in (list, tuple, type(None)):
        return (), None
    if kernel.has_structs:
        return (), None  # whose gradients are structs as well
    values, key = _forward_key(kernel, dim, inputs, outputs, block_dim)
    asked = () if adj_inputs is None else tuple(adj_inputs)
    kinds = tuple([_gradient_key(value) for value in (*adj_outputs, *asked)])
    if key is None or None in kinds:
        return (), None
    wanted = [x for x in asked if x is not None and x is not False]
    return (*values, *adj_outputs, *wanted), (key, adj_inputs is None, len(adj_outputs), kinds)


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
    return (compat.x64_enabled(), config.settings, options.changes, *parts, others)


def _shape_key(value: Any) -> Hashable | None:
    """The part of the key that an output is: a shape, or an array's."""
    kind = type(value)
    if kind is int:
        return value
    if kind is tuple:
        return value if all(type(n) is int for n in value) else None
    return (kind, value.shape, value.dtype) if kind is compat.Array or kind is np.ndarray else None


def _gradient_key(value: Any) -> Hashable | None:
    """The part of the key that a cotangent or a wanted gradient is."""
    kind = type(value)
    if value is None or kind is bool:
        return str(value)
    return (kind, value.shape, value.dtype) if kind is compat.Array or kind is np.ndarray else None


def keep(ready: Ready, key: Hashable | None, values: Sequence[Any]) -> None:
    """Keep the plan of a launch for calls with `key`, if it has one."""
    plan = None if key is None else ready.plan(values)
    if plan is not None:
        ready.call.kernel.plans.keep(key, plan)


def converter(param: Param, kind: type) -> Convert | None:
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
