"""`wp.launch` on NumPy arrays that are written in place: their arguments, and JAX's as inputs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp import _native
from jwarp.analysis.affine import Extents
from jwarp.bind import compat, values
from jwarp.dispatch import dlpack, eager
from jwarp.dispatch.host_arrays import InPlace, Place, Use
from jwarp.errors import LaunchError
from jwarp.frontend.kernel import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault, Matched
from jwarp.launching.descriptor import Program, program_of
from jwarp.launching.sizes import refuse_symbolic
from jwarp.types import ArrayType


def is_mutable(value: Any) -> bool:
    """Whether `value` is an array that a launch writes in place when it is an output."""
    if isinstance(value, np.ndarray):
        return True
    immutable = (jax.Array, jax.ShapeDtypeStruct, tuple, list, int, np.generic)
    return not isinstance(value, immutable) and dlpack.is_exporter(value)


def is_wanted(matched: Matched) -> bool:
    """Whether the launch writes in place: it has outputs, and all of them are mutable.

    Raises:
        LaunchError: some are, and some are not.
    """
    return any(is_mutable(matched.values[p]) for p in matched.outputs)


@dataclass(frozen=True, slots=True)
class Plan:
    """A repeated launch: the checks of the first hold for every call of the same kinds and shapes.

    `converts` are the inputs that are no arrays of NumPy, and what makes arrays of them. Those that are
    written must have no memory in common with the others, which calls with the same shapes can differ in.
    """

    native: _native.HostLaunch
    converts: tuple[tuple[int, Callable[[Any], Any]], ...]
    apart: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]
    names: tuple[str, ...] | None

    def call(self, values: Sequence[Any]) -> Any:
        """The outputs; None where the checks have to look at the arguments anew."""
        if not compat.is_not_tracing():
            return None
        arrays = list(values)
        for place, convert in self.converts:
            made = convert(arrays[place])
            if made is None:
                return None
            arrays[place] = np.asarray(made)
        for p in self.outputs:
            flags = arrays[p].flags
            if not (flags.c_contiguous and flags.writeable):
                return None
        for p, q in self.apart:
            if np.may_share_memory(arrays[p], arrays[q]):
                return None
        self.native(arrays)
        results = tuple([values[p] for p in self.outputs])
        return results if self.names is None else dict(zip(self.names, results, strict=True))


def host_program(program: Program) -> Program:
    """The program that runs in this computer's memory: for a handwritten kernel, that of its kernel for the CPU.

    Raises:
        LaunchError: there is none.
    """
    definition = program.handwritten
    if definition is None:
        return program
    if not isinstance(definition.cpu, Kernel):
        raise LaunchError(
            f"kernel '{program.name}' is written in CUDA C++, and there is no kernel for the CPU that could write to "
            "NumPy arrays",
            hint="pass shapes or JAX arrays as outputs, or give a @wp.kernel as cpu= of wp.cuda_kernel",
        )
    found = program_of(definition.cpu, program.settings)
    written = [i for i in found.written if i not in definition.outputs]
    if written:
        raise LaunchError(
            f"kernel '{program.name}': its kernel for the CPU, '{found.name}', writes to "
            f"'{definition.params[written[0]].name}', which is no output"
        )
    return found


def run(
    program: Program, dims: tuple[int, ...], matched: Matched, block_dim: int | None = None
) -> tuple[dict[int, Any], InPlace]:
    """Check the arguments and launch; the arrays that were given as outputs, by parameter index, and the launch."""
    made = record(program, dims, matched, block_dim)
    made()
    return {p: matched.values[p] for p in matched.outputs}, made


def keep(kernel: Kernel, key: Hashable | None, made: InPlace, matched: Matched, names: Sequence[str] | None) -> None:
    """Keep a plan for calls with `key`, if nothing but arrays and plain numbers was given."""
    program, given = made.program, matched.values
    if key is None or made.launch.program is not program or program.shadowed:
        return
    converts: list[tuple[int, Callable[[Any], Any]]] = []
    for p, (param, value) in enumerate(zip(program.params, given, strict=True)):
        if made.places[p].array is value:
            continue
        is_view = param.is_array and not param.is_value and type(value) is compat.Array
        convert = np.asarray if is_view else eager.converter(program, param, type(value))
        if convert is None:
            return
        converts.append((p, convert))
    arrays = [p for p, param in enumerate(program.params) if param.is_array]
    apart = tuple((q, p) for q in matched.outputs for p in arrays if p != q and (p not in matched.outputs or p > q))
    known_names = None if names is None else tuple(names)
    kernel.plans.keep(key, Plan(made.one_call(), tuple(converts), apart, matched.outputs, known_names))


def record(program: Program, dims: tuple[int, ...], matched: Matched, block_dim: int | None = None) -> InPlace:
    """Check the arguments and make the launch, without running it."""
    refuse_symbolic(program.name, [dims], "and arrays that are written in place have known sizes")
    program, threads = program.arranged(dims, block_dim)
    return InPlace(program, threads, read_places(program, matched), block_dim)


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
        return arguments.mixed_fault(param)
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
