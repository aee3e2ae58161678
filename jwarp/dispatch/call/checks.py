"""Checks of arguments before a launch runs, as a record makes them when one is set."""

from __future__ import annotations

from typing import Any

import jax

from jwarp.bind import compat, values
from jwarp.dispatch.call import host_arguments
from jwarp.dispatch.call.call import Call, is_mutable
from jwarp.dispatch.gpu import cuda_arrays
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.descriptor import extents_of
from jwarp.wire import Role


def check_part(param: Param, value: Any, role: Role) -> arguments.Fault | None:
    """The fault of the value of a parameter of the IR, or None."""
    if is_borrowed(value):
        return None  # looked at in each launch, as its owner may still change it
    if value is None and not param.is_value:
        return None  # no array at all
    x64, given = compat.x64_enabled(), values.describe(value, param)
    found: Any
    if role is not Role.ZEROS:
        found = arguments.check_input(param, given, x64 or is_mutable(value))
    elif is_mutable(value):
        found = host_arguments.read_place(param, value, is_output=True)
    else:
        found = arguments.read_output(param, value, given, x64)
    return found if isinstance(found, arguments.Fault) else None


def is_borrowed(value: Any) -> bool:
    """True if it is an array on a GPU of another library."""
    return not isinstance(value, jax.Array) and cuda_arrays.is_cuda_array(value)


def has_content(value: Any) -> bool:
    """True if it is an array, which an output starts from, and not the shape of one."""
    return values.describe(value).origin in ("jax", "numpy") or cuda_arrays.is_cuda_array(value)


def shape_of(kernel_name: str, param: Param, value: Any) -> tuple[int, ...]:
    """The shape of an input that fits its parameter.

    Raises:
        KernelTypeError, LaunchError: it does not.
    """
    given = values.describe(value)
    fault = arguments.check_input(param, given, compat.x64_enabled())
    arguments.raise_faults(kernel_name, [fault] if fault else [])
    return given.shape or ()


def shown(value: Any) -> str:
    """A value in the text of a record: what it is, not what it holds."""
    given = values.describe(value)
    return f"{given.dtype}{list(given.shape or ())}" if given.origin in ("jax", "numpy", "spec") else str(value)[:40]


def check_extents(call: Call) -> None:
    """Refuse an access that is provably outside, where everything about it is known.

    Raises:
        LaunchError: there is one.
    """
    if any(is_borrowed(x) for x in call.given.values):
        return  # told in each launch
    program, threads = call.program.arranged(call.dims, call.block_dim)
    matched = call.matched
    shapes = [
        _shape(param, value, is_output=p in matched.outputs)
        for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True))
    ]
    program.check(threads, (*extents_of(program.params, shapes), *(shapes[p] for p in program.shadowed)))


def _shape(param: Param, value: Any, *, is_output: bool) -> tuple[int, ...]:
    given = values.describe(value, param)
    if is_output and given.origin not in ("jax", "numpy", "spec"):
        found = arguments.read_output(param, value, given, x64=True)
        if isinstance(found, tuple):
            return found
    return given.shape or ()
