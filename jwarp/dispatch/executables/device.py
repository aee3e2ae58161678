"""`wp.launch` on arrays of other libraries in the memory of NVIDIA GPUs, which are written in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp import _native
from jwarp.arrays import cuda_arrays
from jwarp.arrays.array import array
from jwarp.bind import values
from jwarp.bind.compat import is_not_tracing
from jwarp.compiler.program import Program
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import Convert, Place, Use, content_of, refuse_tracing
from jwarp.dispatch.executables.device_launch import Placed, Settled, Work, settle
from jwarp.dispatch.executables.host import without_aliases
from jwarp.dispatch.executables.table import Ready
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.ir.nodes import Param
from jwarp.launching import arguments
from jwarp.launching.arguments import Argument, Fault, Matched
from jwarp.launching.descriptor import descriptor_of
from jwarp.types import ArrayType
from jwarp.wire import DTYPES


@dataclass(frozen=True)
class Given:
    """An argument: its outline in memory, and what the native module takes. `owner` is None for a value."""

    place: Place
    placed: Placed
    owner: _native.DeviceArray | cuda_arrays.Own | None = None

    @classmethod
    def of(cls, param: Param, found: cuda_arrays.Borrowed, *, changes: bool) -> Given:
        """An array that lies on a GPU."""
        placed = (found.owner.address, DTYPES[param.dtype.name], found.outline.shape)
        return cls(Place(found.outline, Use.IN_OUT if changes else Use.READ), placed, found.owner)


class Forward(Ready):
    """A launch. Its arguments are looked at anew each time: they are owner by libraries that may still change them.

    Arrays of jwarp's say who may use them, and stay where they are: a launch on nothing else looks at them once, and is
    on the stream that all work on these is on.
    """

    def __init__(self, call: Call):
        super().__init__(call)
        self._known = Prepared(call, 0) if call.is_shared else None

    def __call__(self) -> Any:
        return self.on_stream(0 if self.call.is_shared else None)

    @property
    def settled(self) -> tuple[Settled, int, int, Sequence[Given]] | None:
        """The launch, its stream, GPU and arguments; None before it has run, and where it copies arrays."""
        return None if self._known is None else self._known.settled

    @property
    def repeated(self) -> Callable[[int], None] | None:
        """A function that puts it on a stream once more; None before it has run, or where it copies or waits."""
        return None if self._known is None else self._known.repeated

    def on_stream(self, stream: Any) -> Any:
        call = self.call
        made = self._known or Prepared(call, cuda_arrays.read_stream(call.program.name, stream))
        if not made.stays:
            self._known = None
        made.put(waits=stream is None)
        return call.results(dict(enumerate(call.matched.values)))


class Prepared:
    """A launch whose arguments have been checked, for one stream.

    Raises:
        KernelTypeError, LaunchError: an argument or the stream does not fit, or outputs share memory.
    """

    def __init__(self, call: Call, stream: int):
        program, matched = call.program, call.matched
        refuse_tracing(program, matched, "outputs on a GPU are")
        self.given = given = _read(program, matched, stream)
        self.stream, self.device, self.block_dim = stream, device_of(program, given), call.block_dim
        self.name = program.name
        program, self.threads = program.arranged(call.dims, call.block_dim)
        places = [g.place._replace(use=Use.COPY) if p in call.copied else g.place for p, g in enumerate(given)]
        program, self.places = without_aliases(program, places, shared=call.is_shared)
        self.program = program
        # The arguments in device memory, once they are known, if nothing is copied; objects that live until the end.
        self._settled: Settled | None = None
        self.kept: list[Any] = []

    @property
    def stays(self) -> bool:
        """True if no array is borrowed. Another library must be asked each time, as it may be using the array."""
        return all(g.owner is None or isinstance(g.owner, cuda_arrays.Own) for g in self.given)

    def put(self, *, waits: bool) -> None:
        """Put the launch on the stream, and wait for its end if that `waits`.

        A caller who names no stream works on one that is not known, if the arrays are another library's.

        Raises:
            CompileError: the kernel cannot be compiled.
            LaunchError: there is no usable driver, or the launch failed.
            RuntimeError: a check failed, where that is waited for.
        """
        if self._settled is not None and not waits:
            return self._settled.run(self.stream, self.device, self.kept)
        given, program, places = self.given, self.program, self.places
        shadows = [shadow(program, p, places[p].array.shape) for p in program.shadowed]
        work = Work(f"kernel '{self.name}'", self.stream, self.device, [g.owner for g in given], program.span)
        placed = [self._placed(g, place, work) for g, place in zip(given, places, strict=True)] + shadows
        uses = [*(place.use for place in places), *(Use.SCRATCH for _ in shadows)]
        launch = descriptor_of(program, self.threads, tuple(use.role for use in uses), self.block_dim)
        back = [
            (at[0], place.array)
            for at, g, place in zip(placed, given, places, strict=False)
            if place.use.changes and moved(g)
        ]
        settled = settle(launch, placed, self.device)
        settled.run(self.stream, self.device, None if waits and not back else work.kept)
        if not shadows and not any(place.use is Use.COPY or moved(g) for g, place in zip(given, places, strict=True)):
            self._settled, self.kept = settled, work.kept
        for address, target in back:
            assert isinstance(address, int)
            work.unpack(address, target)
        if waits and back:
            work.wait()

    @property
    def repeated(self) -> Callable[[int], None] | None:
        """A function that puts it on a stream once more; None before it has run, or where it copies or waits."""
        settled, device, kept = self._settled, self.device, self.kept
        if settled is None or settled.native.has_checks:
            return None
        return lambda stream: settled.run(stream, device, kept)

    @property
    def settled(self) -> tuple[Settled, int, int, Sequence[Given]] | None:
        """The launch, its stream, GPU and arguments, if it has run without copies; of tiles JAX's precision decides
        each time how."""
        if self._settled is None or self.program.kernel.block_dim:
            return None
        return self._settled, self.stream, self.device, self.given

    @staticmethod
    def _placed(given: Given, place: Place, work: Work) -> Placed:
        if place.use is Use.COPY and given.owner is not None:
            return work.packed(place.array), *given.placed[1:]
        return contiguous(given, work)


def moved(given: Given) -> bool:
    """True if kernels work on a copy of the array, since it is not contiguous."""
    return given.owner is not None and not given.place.array.flags.c_contiguous


def contiguous(given: Given, work: Work) -> Placed:
    """The form in which the native module takes an argument: an array that is not contiguous is copied."""
    if not moved(given):
        return given.placed
    return work.packed(given.place.array), *given.placed[1:]


def _read(program: Program, matched: Matched, stream: int) -> list[Given]:
    given, faults = [], []
    for p, (param, value) in enumerate(zip(program.params, matched.values, strict=True)):
        read = _read_output if p in matched.outputs else read_input
        found = read(param, value, stream)
        if isinstance(found, Fault):
            faults.append(found)
        else:
            given.append(found)
    arguments.raise_faults(program.name, faults)
    return given


def _absent(param: Param, value: Any, use: Use) -> Given | None:
    """The argument for an array that None is given for."""
    if param.is_array and isinstance(value, np.ndarray) and not value.size:
        return Given(Place(value, use), (None, DTYPES[param.dtype.name], value.shape))
    return None


def _read_output(param: Param, value: Any, stream: int) -> Given | Fault:
    absent = _absent(param, value, Use.IN_OUT)
    if absent is not None:
        return absent
    if isinstance(value, jax.Array) or not cuda_arrays.is_cuda_array(value):
        return Fault(
            LaunchError,
            f"output '{param.name}' is no array on a GPU that can be written in place, and another output is;"
            " all outputs of one launch must be of one kind",
            "pass arrays of one library for all outputs",
        )
    found = borrowed(f"output '{param.name}'", value, stream)
    if isinstance(found, Fault):
        return found
    described = Argument(found.outline, "cuda", found.outline.shape, found.outline.dtype)
    return arguments.check_in_place(param, described) or Given.of(param, found, changes=True)


def read_input(param: Param, value: Any, stream: int) -> Given | Fault:
    """The argument for a parameter that is read, or what is wrong with it."""
    where = f"parameter '{param.name}'"
    if not cuda_arrays.is_cuda_array(value):
        return _absent(param, value, Use.READ) or _read_value(where, param, value)
    found = borrowed(where, value, stream)
    if isinstance(found, Fault):
        return found
    # Nobody has read it yet, so nothing can be converted: a scalar has exactly the type, too.
    described = Argument(found.outline, "cuda", found.outline.shape, found.outline.dtype)
    shape = param.type.components if param.is_value and isinstance(param.type, ArrayType) else ()
    if isinstance(param.type, ArrayType) and not param.is_value:
        fault = arguments.check_input(param, described, x64=True)
    elif (described.shape, described.dtype) != (shape, param.dtype.dtype):
        fault = Fault(KernelTypeError, f"{where}: expected {param.type!r}, got {described}")
    else:
        fault = None
    return fault or Given.of(param, found, changes=False)


def _read_value(where: str, param: Param, value: Any) -> Given | Fault:
    """A number or a vector by value, which the launch takes to the GPU."""
    described = values.describe(value, param)
    fault = arguments.check_input(param, described, x64=True)
    if fault is not None:
        return fault
    if not isinstance(param.type, ArrayType):
        array = np.asarray(arguments.to_scalar(param.type, described))
    elif param.is_value:
        array = np.asarray(described.value).astype(param.type.dtype.dtype)
    else:
        return Fault(
            LaunchError, f"{where} is not on the GPU that the outputs are on", "pass an array of the same library"
        )
    return Given(Place(array), (array.tobytes(), DTYPES[param.dtype.name], array.shape))


def borrowed(where: str, value: Any, stream: int) -> cuda_arrays.Borrowed | Fault:
    """The other library's array, or the reason why there is none."""
    try:
        found = cuda_arrays.borrow(value, stream)
    # Foreign code: an array that is deleted, on another stream's graph, or described wrongly.
    except Exception as error:
        return Fault(KernelTypeError, f"{where}: the array cannot be borrowed, {type(error).__name__}: {error}")
    if found is None:
        return Fault(KernelTypeError, f"{where}: the array has a dtype that kernels do not have")
    return found


def device_of(program: Program, given: Sequence[Given]) -> int:
    """The GPU that all arrays are on."""
    devices = {g.owner.device for g in given if g.owner is not None}
    if len(devices) > 1:
        raise LaunchError(
            f"kernel '{program.name}': the arrays are on several GPUs, {', '.join(map(str, sorted(devices)))}",
            hint="copy them to one",
        )
    return devices.pop()


def shadow(program: Program, p: int, shape: tuple[int, ...]) -> Placed:
    """The memory in which checks of races note who was where."""
    (param,) = (
        program.kernel.params[len(program.params) + k] for k, shadowed in enumerate(program.shadowed) if shadowed == p
    )
    return None, DTYPES[param.dtype.name], shape


# From a value of a call to what the native module takes for its parameter; None if the slow path is needed.
Converted = Callable[[Any], Any]


class DeviceExecutable:
    """A launch for all calls of one layout, once it has learnt it: arrays are contiguous, and nothing is copied.

    Attributes:
        program: What it runs.
        backward: The backward passes of such launches, once somebody has asked for them.
    """

    __slots__ = ("__weakref__", "_launch", "_places", "backward", "program")

    def __init__(self, program: Program):
        self.program = program
        self.backward: Any = None
        self._launch: Any = None  # a launch with its parameters, the stream and the GPU
        self._places: Sequence[tuple[int, int, Converted]] = ()  # of each parameter: where, the value's number

    def call(self, values: Sequence[Any]) -> Any:
        """Run it: True, or None for the slow path, and then nothing has run."""
        if self._launch is None or not is_not_tracing():
            return None
        settled, stream, device = self._launch
        placed = [*settled.placed]
        for at, p, place in self._places:
            made = place(values[p])
            if made is None:
                return None
            placed[at] = made, *placed[at][1:]
        memories: list[Any] = [x.memory for x in values if type(x) is array]
        for p in self.program.written:
            written = values[p]
            if type(written) is array and written.memory.is_watched:
                written.memory.will_write()
        owners = [memory.owner for memory in memories]  # which live until the launch has ended
        dataclasses.replace(settled, placed=placed).run(stream, device, owners)
        return True

    def learn_launch(self, made: Ready, values: Sequence[Any]) -> None:
        """Do from now on what a launch does that has run on these values, if that may be repeated."""
        found = made.settled if type(made) is Forward else None
        if found is None:
            return
        settled, stream, device, given = found
        if len(given) != len(values):
            return
        places: list[tuple[int, int, Converted]] = []
        for at, placed in enumerate(settled.placed):
            for p, one in enumerate(given):
                if one.placed is not placed:
                    continue
                place = _place(self.program.params[p], values[p])
                if place is not None:
                    places.append((at, p, place))
                elif values[p] is not None and not (type(values[p]) is array and not values[p].size):
                    return
                break
        self._launch, self._places = (settled, stream, device), tuple(places)


def _place(param: Any, value: Any) -> Converted | None:
    if type(value) is array:
        return _address if value.size else None
    convert = content_of(param, value)
    return None if convert is None else _bytes(convert, param.dtype.dtype)


def _address(value: array) -> int:
    memory: Any = value.memory
    found: int = memory.start + value.layout.offset
    return found


def _bytes(convert: Convert, dtype: np.dtype) -> Converted:
    def place(value: Any) -> bytes | None:
        made = convert(value)
        return None if made is None else np.asarray(made, dtype).tobytes()

    return place
