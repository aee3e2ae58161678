"""The arguments of a call, checked, and as the numbers and host arrays that launches take."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jwarp.arrays import cuda_arrays, dlpack
from jwarp.bind import compat, values
from jwarp.compiler.derivative_steps import integers_of
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.program_base import Program
from jwarp.dispatch.call.call import Call, is_mutable, is_on_device
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault, Matched
from jwarp.launching.descriptor import extents_of
from jwarp.launching.record import Sizes
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
    SCRATCH   its content is of no account, before and after: it starts as zeros
    """

    READ = Role.READ, False
    IN_OUT = Role.IN_OUT, True
    COPY = Role.IN_OUT, False
    SCRATCH = Role.ZEROS, False

    def __init__(self, role: Role, changes: bool):
        self.role = role
        self.changes = changes  # whether the caller's array changes


class Place(NamedTuple):
    """The array for one parameter of a launch. It has the parameter's dtype and rank, and any strides.

    Of an array on a GPU it is the outline, and `owner` keeps the memory; there it is None for a value.
    """

    array: np.ndarray
    use: Use = Use.READ
    owner: Any = None

    @property
    def is_moved(self) -> bool:
        """True if kernels on a GPU work on a copy of the array, since it is not contiguous."""
        return self.owner is not None and not self.array.flags.c_contiguous


class Reader(abc.ABC):
    """Reads the arguments of launches in place, whose arrays are all of one placement."""

    written: str  # what cannot be written while JAX traces
    for_gpu = False

    @abc.abstractmethod
    def input(self, param: Param, value: Any) -> Place | Fault:
        """The array for a parameter that is read."""

    @abc.abstractmethod
    def output(self, param: Param, value: Any) -> Place | Fault:
        """The array for a parameter that is written."""

    @abc.abstractmethod
    def may_be_shape(self, value: Any) -> bool:
        """True if it is no array for an output of an adjoint, so that it has to be the shape of one."""

    @abc.abstractmethod
    def _gradient(self, where: str, value: Any, changes: bool) -> tuple[Argument, Any] | Fault:
        """A gradient or cotangent, and the owner of its memory."""

    def gradient(self, param: Param, shape: tuple[int, ...], value: Any, *, changes: bool) -> Place | Fault:
        """The array of a gradient or cotangent of a parameter of `shape`; one that `changes` is the caller's own."""
        where = f"adjoint of '{param.name}'"
        found = self._gradient(where, value, changes)
        if isinstance(found, Fault):
            return found
        given, owner = found
        fault = arguments.check_gradient(where, param, shape, given)
        if fault is not None:
            return fault
        array = np.asarray(given.value)
        if changes and not array.flags.writeable:
            hint = "pass one that may be written" + (": array.copy()" if owner is None else "")
            return Fault(LaunchError, f"{where}: the array is read-only", hint)
        return Place(array, Use.IN_OUT if changes else Use.READ, owner)


class _HostReader(Reader):
    """Reads arrays in host memory."""

    written = "NumPy outputs are"

    def input(self, param: Param, value: Any) -> Place | Fault:
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

    def output(self, param: Param, value: Any) -> Place | Fault:
        if not is_mutable(value):
            return arguments.mixed_fault(param, is_mutable=False)
        given = _described(param, value)
        return arguments.check_in_place(param, given) or Place(given.value, Use.IN_OUT)

    def may_be_shape(self, value: Any) -> bool:
        return not is_mutable(value)

    def _gradient(self, where: str, value: Any, changes: bool) -> tuple[Argument, Any] | Fault:
        return _described(None, value), None


ON_HOST = _HostReader()


class DeviceReader(Reader):
    """Reads arrays on a GPU, for work on a stream: those of other libraries are borrowed, and None knows their content.

    What is not there is a value by value, or an array without elements.
    """

    written = "outputs on a GPU are"
    for_gpu = True

    def __init__(self, stream: int):
        self.stream = stream

    def input(self, param: Param, value: Any) -> Place | Fault:
        where = f"parameter '{param.name}'"
        if not cuda_arrays.is_cuda_array(value):
            if _is_absent(param, value):
                return Place(value)
            found = ON_HOST.input(param, value)
            if isinstance(found, Fault) or param.is_value or not param.is_array:
                return found
            message = f"{where} is not on the GPU that the outputs are on"
            return Fault(LaunchError, message, "pass an array of the same library")
        shown = self._borrowed(where, value)
        if isinstance(shown, Fault):
            return shown
        # Nobody has read it yet, so nothing can be converted: a scalar has exactly the type, too.
        given, owner = shown
        shape = param.type.components if param.is_value and isinstance(param.type, ArrayType) else ()
        fault: Fault | None = None
        if isinstance(param.type, ArrayType) and not param.is_value:
            fault = arguments.check_input(param, given, x64=True)
        elif (given.shape, given.dtype) != (shape, param.dtype.dtype):
            fault = Fault(KernelTypeError, f"{where}: expected {param.type!r}, got {given}")
        return fault or Place(given.value, Use.READ, owner)

    def output(self, param: Param, value: Any) -> Place | Fault:
        if _is_absent(param, value):
            return Place(value, Use.IN_OUT)
        where = f"output '{param.name}'"
        if isinstance(value, jax.Array) or not cuda_arrays.is_cuda_array(value):
            return Fault(
                LaunchError,
                f"{where} is no array on a GPU that can be written in place, and another output is; all outputs of one"
                " launch must be of one kind",
                "pass arrays of one library for all outputs",
            )
        shown = self._borrowed(where, value)
        if isinstance(shown, Fault):
            return shown
        given, owner = shown
        return arguments.check_in_place(param, given) or Place(given.value, Use.IN_OUT, owner)

    def may_be_shape(self, value: Any) -> bool:
        is_empty = isinstance(value, np.ndarray) and not value.size
        return not (is_empty or isinstance(value, jax.Array) or cuda_arrays.is_cuda_array(value))

    def _gradient(self, where: str, value: Any, changes: bool) -> tuple[Argument, Any] | Fault:
        if not cuda_arrays.is_cuda_array(value) or (changes and isinstance(value, jax.Array)):
            return Fault(
                LaunchError,
                f"{where}: must be an array on the GPU that the others are on, got {type(value).__name__}",
                "pass an array of the same library" + (", to which the gradient is added" if changes else ""),
            )
        return self._borrowed(where, value)

    def _borrowed(self, where: str, value: Any) -> tuple[Argument, Any] | Fault:
        """The outline of another library's array, and its owner; or the reason why there is none."""
        try:
            found = cuda_arrays.borrow(value, self.stream)
        # Foreign code: an array that is deleted, on another stream's graph, or described wrongly.
        except Exception as error:
            return Fault(KernelTypeError, f"{where}: the array cannot be borrowed, {type(error).__name__}: {error}")
        if found is None:
            return Fault(KernelTypeError, f"{where}: the array has a dtype that kernels do not have")
        return Argument(found.outline, "cuda", found.outline.shape, found.outline.dtype), found.owner


def _is_absent(param: Param, value: Any) -> bool:
    """True if it is the array without elements that None is given for."""
    return param.is_array and isinstance(value, np.ndarray) and not value.size


def read_places(program: Program, matched: Matched, reader: Reader) -> tuple[Place, ...]:
    """One array for each parameter: those of outputs to be written, others as they are or converted.

    Raises:
        KernelTypeError, LaunchError: naming the arguments that do not fit, or JAX's transformation.
    """
    refuse_tracing(program, matched, reader.written)
    faults: list[Fault] = []
    places = []
    for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        place = (reader.output if p in matched.outputs else reader.input)(param, value)
        if isinstance(place, Fault):
            faults.append(place)
        else:
            places.append(place)
    arguments.raise_faults(program.name, faults)
    return tuple(places)


def read_contents(program: Program, matched: Matched, reader: Reader) -> tuple[list[Place | None], Extents]:
    """The array for each parameter of an adjoint, None for outputs that start as zeros; and their extents."""
    refuse_tracing(program, matched, reader.written)
    faults: list[Fault] = []
    contents: list[Place | None] = []
    extents: list[tuple[int, ...] | None] = []
    for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        shape: Any = None
        if p in matched.outputs and reader.may_be_shape(value):
            shape = arguments.read_output(param, value, values.describe(value, param), x64=True)
        if isinstance(shape, tuple):
            contents.append(None)
            extents.append(shape)
            continue
        found = shape if isinstance(shape, Fault) else reader.input(param, value)
        if isinstance(found, Fault):
            faults.append(found)
            continue
        contents.append(found)
        extents.append(found.array.shape if param.is_array else None)
    arguments.raise_faults(program.name, faults)
    return contents, tuple(extents)


def refuse_tracing(program: Program, matched: Matched, what: str) -> None:
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


def _described(param: Param | None, value: Any) -> Argument:
    """The argument; arrays of other libraries as NumPy sees them."""
    if isinstance(value, np.ndarray) or not is_mutable(value):
        return values.describe(value, param)
    try:
        return values.describe(dlpack.view(value), param)
    except KernelTypeError:  # its description contradicts itself
        raise
    # Foreign code, and dtypes that NumPy lacks.
    except Exception:
        return Argument(value, "other")


def check_part(param: Param, value: Any, role: Role, in_place: bool = False) -> arguments.Fault | None:
    """The fault of the value of a parameter of the IR, or None. Launches in place take 64 bits whatever JAX does."""
    if is_on_device(value):
        return None  # looked at in each launch, as its owner may still change it
    if value is None and not param.is_value:
        return None  # no array at all
    x64, given = in_place or compat.x64_enabled(), values.describe(value, param)
    found: Any
    if role is not Role.ZEROS:
        found = arguments.check_input(param, given, x64 or is_mutable(value))
    elif is_mutable(value):
        found = ON_HOST.output(param, value)
    else:
        found = arguments.read_output(param, value, given, x64)
    return found if isinstance(found, arguments.Fault) else None


def has_content(value: Any) -> bool:
    """True if it is an array, which an output starts from, and not the shape of one."""
    return values.describe(value).origin in ("jax", "numpy") or cuda_arrays.is_cuda_array(value)


def shape_of(kernel_name: str, param: Param, value: Any) -> tuple[int, ...]:
    """The shape of an input that fits its parameter.

    Raises:
        KernelTypeError, LaunchError: it does not.
    """
    given = values.describe(value)
    fault = arguments.check_input(param, given, x64=True)  # what JAX cannot hold is refused where it becomes an operand
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
    if any(is_on_device(x) for x in call.given.values):
        return  # checked in each launch
    program, threads = call.program.arranged(call.dims, call.block_dim)
    shapes = _shapes(call, program)
    program.check(threads, (*extents_of(program.params, shapes), *(shapes[p] for p in program.shadowed)))


def sizes_of(call: Call) -> Sizes | None:
    """The facts that the choice of an adjoint depends on; None where JAX traces, or memory is a GPU's."""
    values = call.matched.values
    if any(isinstance(x, compat.Tracer) or is_on_device(x) for x in values):
        return None
    program, threads = call.program.arranged(call.dims, call.block_dim)
    if not isinstance(program, GeneratedProgram):
        return None
    numbers = [np.asarray(x) if p.is_value else None for p, x in zip(program.params, values, strict=True)]
    return Sizes(threads, extents_of(program.params, _shapes(call, program)), integers_of(program, numbers))


def _shapes(call: Call, program: Program) -> list[tuple[int, ...]]:
    matched = call.matched
    return [
        _shape(param, value, is_output=p in matched.outputs)
        for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True))
    ]


def _shape(param: Param, value: Any, *, is_output: bool) -> tuple[int, ...]:
    given = values.describe(value, param)
    if is_output and given.origin not in ("jax", "numpy", "spec"):
        found = arguments.read_output(param, value, given, x64=True)
        if isinstance(found, tuple):
            return found
    return given.shape or ()
