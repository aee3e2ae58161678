"""The arguments of launches that write NumPy arrays in place, as the arrays that those take; JAX's are inputs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jwarp.bind import compat, values
from jwarp.compiler.program import Program
from jwarp.dispatch.call import dlpack
from jwarp.dispatch.call.call import is_mutable
from jwarp.dispatch.executables.host_arrays import Place, Use
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault, Matched
from jwarp.types import ArrayType
from jwarp.types.arrays import Extents


def read_places(program: Program, matched: Matched) -> tuple[Place, ...]:
    """One array for each parameter: those of outputs to be written, others as they are or converted.

    Raises:
        KernelTypeError, LaunchError: naming the arguments that do not fit, or JAX's transformation.
    """
    refuse_tracing(program, matched)
    faults: list[Fault] = []
    places = []
    for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        place = read_place(param, value, is_output=p in matched.outputs)
        if isinstance(place, Fault):
            faults.append(place)
        else:
            places.append(place)
    arguments.raise_faults(program.name, faults)
    return tuple(places)


def read_contents(program: Program, matched: Matched) -> tuple[list[np.ndarray | None], Extents]:
    """The array for each parameter of an adjoint, None for outputs that start as zeros; and their extents."""
    refuse_tracing(program, matched)
    faults: list[Fault] = []
    contents: list[np.ndarray | None] = []
    extents: list[tuple[int, ...] | None] = []
    for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        found: Any = read_place(param, value, is_output=False)
        shape: Any = None
        if p in matched.outputs and not is_mutable(value):
            shape = arguments.read_output(param, value, values.describe(value, param), x64=True)
            found = shape if isinstance(shape, Fault) else found if isinstance(value, jax.Array) else None
        if isinstance(found, Fault):
            faults.append(found)
            continue
        contents.append(None if found is None else found.array)
        extents.append(None if not param.is_array else shape if found is None else found.array.shape)
    arguments.raise_faults(program.name, faults)
    return contents, tuple(extents)


def read_gradient(param: Param, shape: tuple[int, ...], value: Any, *, changes: bool) -> np.ndarray | Fault:
    """The array of a gradient or cotangent of a parameter of `shape`; one that `changes` is the caller's own."""
    where = f"adjoint of '{param.name}'"
    given = _described(param, value) if is_mutable(value) else values.describe(value)
    fault = arguments.check_gradient(where, param, shape, given)
    if fault is not None:
        return fault
    array = np.asarray(given.value)
    if changes and not array.flags.writeable:
        return Fault(LaunchError, f"{where}: the array is read-only", "pass one that may be written: array.copy()")
    return array


def refuse_tracing(program: Program, matched: Matched, what: str = "NumPy outputs are") -> None:
    """Refuse a launch in place of traced values, or while a function is traced."""
    traced = [
        f"parameter '{param.name}' is traced"
        for param, value in zip(program.params, matched.values, strict=True)
        if isinstance(value, compat.Tracer)
    ]
    if traced or not compat.is_not_tracing():
        reason = traced[0] if traced else "a function is being traced"
        raise LaunchError(
            f"kernel '{program.name}': {reason}, and {what} written in place, which is not possible"
            " inside jax.jit and JAX's other transformations",
            hint="give shapes as outputs, or launch outside of the traced function",
        )


def read_place(param: Param, value: Any, *, is_output: bool) -> Place | Fault:
    """The array for a parameter, or what is wrong with the value."""
    return _read_output(param, value) if is_output else _read_input(param, value)


def _read_output(param: Param, value: Any) -> Place | Fault:
    if not is_mutable(value):
        return arguments.mixed_fault(param, is_mutable=False)
    given = _described(param, value)
    return arguments.check_in_place(param, given) or Place(given.value, Use.IN_OUT)


def _read_input(param: Param, value: Any) -> Place | Fault:
    given = _described(param, value)
    # What JAX can hold is of no account here.
    fault = arguments.check_input(param, given, x64=True)
    if fault is not None:
        return fault
    if not isinstance(param.type, ArrayType):
        return Place(arguments.to_scalar(param.type, given))
    # A view of a JAX array, where it is in this computer's memory.
    array = np.asarray(given.value)
    return Place(array.astype(param.type.dtype.dtype) if param.is_value else array)


def _described(param: Param, value: Any) -> Argument:
    """The argument; arrays of other libraries as NumPy sees them."""
    if isinstance(value, np.ndarray) or not is_mutable(value):
        return values.describe(value, param)
    try:
        return values.describe(dlpack.view(value), param)
    # Foreign code, and dtypes that NumPy lacks.
    except Exception:
        return Argument(value, "other")
