"""Which instance of a generic kernel the arguments of a launch ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jwarp.bind import compat
from jwarp.bind.values import describe
from jwarp.caches import PerOwner
from jwarp.dispatch.tracebacks import shortened
from jwarp.errors import JwarpError
from jwarp.frontend.generics import GenericKernel, Seen, seen_array, seen_number
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import arguments
from jwarp.types import CompositeValue, Struct, from_dtype
from jwarp.wire import Role

MAX_CHOICES = 256


def instance_for_launch(kernel: Kernel, inputs: Any, outputs: Any) -> Kernel:
    """The kernel that a launch runs: of a generic one, the instance for these inputs and outputs.

    Raises:
        KernelTypeError, LaunchError: counts or names do not fit, or an argument does not fit or tell its type.
    """
    assert isinstance(kernel, GenericKernel)
    try:
        given = arguments.match(kernel.name, kernel.signature, (), inputs, outputs)
        return _chosen(kernel, given.values, [role is Role.ZEROS for role in given.roles])
    except JwarpError as error:
        raise shortened(error) from error.__cause__


def instance_for_call(kernel: Kernel, values: Sequence[Any], fresh: Sequence[int]) -> Kernel:
    """The kernel that a call with these values of all parameters runs; of outputs `fresh`, they are shapes.

    Raises:
        KernelTypeError: an argument does not fit or tell its type.
    """
    assert isinstance(kernel, GenericKernel)
    return _chosen(kernel, values, [u in fresh for u in range(len(values))])


def _chosen(kernel: GenericKernel, values: Sequence[Any], is_output: Sequence[bool]) -> Kernel:
    key = tuple(map(_key, values, is_output))
    if None in key:
        return kernel.chosen(list(map(_seen, values, is_output)))
    # Those that `wp.overload` made are preferred, so what was chosen before there were as many may be wrong.
    return _CHOICES.of(kernel).made(
        (len(kernel.overloads), key), lambda: kernel.chosen(list(map(_seen, values, is_output)))
    )


_CHOICES: PerOwner[GenericKernel, Any, Kernel] = PerOwner("choices of an instance", MAX_CHOICES)


def _key(value: Any, is_output: bool) -> Any:
    """What must be alike for the instance to be the same; None where a closer look is needed."""
    kind = type(value)
    if kind is compat.Array:
        return (value.shape, value.dtype, value.weak_type)
    if kind is np.ndarray:
        return (value.shape, value.dtype)
    if is_output:
        return value if kind is int or (kind is tuple and all(type(n) is int for n in value)) else None
    return kind if kind is float or kind is bool or kind is int else None


def _seen(value: Any, is_output: bool) -> Seen:
    """What is known of the type of an argument."""
    if isinstance(value, Struct):
        return Seen(f"the struct {type(value)!r}", kind=type(value))
    if isinstance(value, CompositeValue) and value.kind is not None and value.ndim == value.kind.rank:
        dtype = from_dtype(value.dtype)
        kind = None if dtype is None else value.type_in_kernels(dtype)
        shown = f"{kind!r} {list(value.shape)}"
        return Seen(shown, kind=kind, shape=value.shape, dtype=dtype)
    given = describe(value)
    if given.origin == "number" and given.dtype is None and not is_output:
        return seen_number(type(value), str(value))
    if given.shape == () and getattr(value, "weak_type", False):  # what a Python number is where JAX traces
        return seen_number(type(np.zeros((), given.dtype).item()), str(given))
    if given.shape is not None and given.dtype is not None and isinstance(given.dtype, np.dtype):
        return seen_array(str(given), given.shape, given.dtype)
    if is_output:
        return _seen_shape(value)
    if isinstance(value, (tuple, list)):
        numbers = _numbers(value)
        if numbers is not None:
            return seen_array(f"the {type(value).__name__} {value!r}", numbers.shape, numbers.dtype)
    return Seen("None" if value is None else f"{type(value).__name__} {str(value)[:60]}")


def _seen_shape(value: Any) -> Seen:
    """What is known of an output that is given by its shape."""
    entries = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return Seen(f"the shape {value}", shape=entries)


def _numbers(value: Any) -> Any:
    """The array that a tuple of numbers is as a vector or matrix, None if it is none."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    kinds = {"i": np.int32, "f": np.float32, "b": np.bool_}
    return array.astype(kinds[array.dtype.kind]) if array.dtype.kind in kinds and array.size else None
