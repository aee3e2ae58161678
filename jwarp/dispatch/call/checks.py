"""The arguments of a call, checked, and as the numbers and host arrays that launches take."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jwarp.arrays import cuda_arrays, dlpack
from jwarp.bind import compat, values
from jwarp.compiler.program import Program
from jwarp.dispatch.call.call import Call, is_mutable
from jwarp.errors import LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault, Matched
from jwarp.launching.descriptor import extents_of
from jwarp.types import ArrayType, CompositeValue
from jwarp.types.arrays import Extents
from jwarp.wire import Role

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


class Use(enum.Enum):
    """The use that an in-place launch makes of an array.

    READ      it is read; a scalar is an array of shape ()
    IN_OUT    it is written where it is
    COPY      a copy that the launch makes each time is written; the array is read
    ADD       what the kernel makes of zeros is added to it after the last thread
    SCRATCH   its content is of no account, before and after: it starts as zeros
    """

    READ = Role.READ, False
    IN_OUT = Role.IN_OUT, True
    COPY = Role.IN_OUT, False
    ADD = Role.ZEROS, True
    SCRATCH = Role.ZEROS, False

    def __init__(self, role: Role, changes: bool):
        self.role = role
        self.changes = changes  # whether the caller's array changes


class Place(NamedTuple):
    """The array for one parameter of a launch. It has the parameter's dtype and rank, and any strides."""

    array: np.ndarray
    use: Use = Use.READ


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
    # The types that JAX supports do not matter here.
    fault = arguments.check_input(param, given, x64=True)
    if fault is not None:
        return fault
    if not isinstance(param.type, ArrayType):
        return Place(arguments.to_scalar(param.type, given))
    # A view of a JAX array, if it is in host memory.
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
        found = read_place(param, value, is_output=True)
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
        return  # checked in each launch
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
