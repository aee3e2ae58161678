"""`wp.launch` on arrays of other libraries in the memory of NVIDIA GPUs, which are written in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays import cuda_arrays
from jwarp.arrays.allocation import announce_writes
from jwarp.arrays.array import array
from jwarp.bind.compat import is_not_tracing
from jwarp.compiler.program_base import Program
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.checks import Convert, DeviceReader, Use, content_of, read_places
from jwarp.dispatch.executables.device_launch import Settled, Work, device_of
from jwarp.dispatch.executables.host import described
from jwarp.dispatch.executables.table import Ready


class Forward(Ready):
    """A launch. Its arguments are looked at anew each time: they are owned by libraries that may still change them.

    Arrays of jwarp's say who may use them, and stay where they are: a launch on nothing else looks at them once, and is
    on the stream that all work on these is on.
    """

    def __init__(self, call: Call):
        super().__init__(call)
        self.known = Prepared(call, 0) if call.is_shared else None

    @property
    def repeated(self) -> Callable[[int], None] | None:
        """A function that puts it on a stream once more; None before it has run, or where it copies or waits."""
        known = self.known
        if known is None or known.settled is None or known.settled.native.has_checks:
            return None
        settled, device, kept = known.settled, known.device, known.kept
        return lambda stream: settled.run(stream, device, kept)

    def __call__(self, stream: Any = None) -> Any:
        call = self.call
        if stream is None and call.is_shared:
            stream = 0
        made = self.known or Prepared(call, cuda_arrays.read_stream(call.program.name, stream))
        if not made.stays:
            self.known = None
        made.put(waits=stream is None)
        return call.results(dict(enumerate(call.matched.values)))


class Prepared:
    """A launch whose arguments have been checked, for one stream.

    Attributes:
        settled: The launch with its arguments in device memory, once they are known, if nothing is copied.
        kept: Objects that live until the end of such a launch.

    Raises:
        KernelTypeError, LaunchError: an argument or the stream does not fit, or outputs share memory.
    """

    def __init__(self, call: Call, stream: int):
        places = read_places(call.program, call.matched, DeviceReader(stream))
        self.stream, self.device = stream, device_of(call.program, places)
        self.name = call.program.name
        program, threads = call.program.arranged(call.dims, call.block_dim)
        places = tuple(x._replace(use=Use.COPY) if p in call.copied else x for p, x in enumerate(places))
        self.launch, self.places = described(
            program, threads, places, call.block_dim, shared=call.is_shared, scratch=_nowhere
        )
        self.settled: Settled | None = None
        self.kept: list[Any] = []

    @property
    def stays(self) -> bool:
        """True if no array is borrowed. Another library must be asked each time, as it may be using the array."""
        return all(x.owner is None or isinstance(x.owner, cuda_arrays.Own) for x in self.places)

    def put(self, *, waits: bool) -> None:
        """Put the launch on the stream, and wait for its end if that `waits`.

        A caller who names no stream works on one that is not known, if the arrays are another library's.

        Raises:
            CompileError: the kernel cannot be compiled.
            LaunchError: there is no usable driver, or the launch failed.
            RuntimeError: a check failed, where that is waited for.
        """
        if self.settled is not None and not waits:
            return self.settled.run(self.stream, self.device, self.kept)
        owners, span = [x.owner for x in self.places], self.launch.program.span
        work, places = Work(f"kernel '{self.name}'", self.stream, self.device, owners, span), self.places
        contents, shapes = [work.content(x) for x in places], [x.array.shape for x in places]
        written = [x if x.use.changes else None for x in places]
        settled = work.launch(self.launch, contents, shapes, written, waits=waits)
        if not any(x.use in (Use.COPY, Use.SCRATCH) or x.is_moved for x in places):
            self.settled, self.kept = settled, work.kept


def _nowhere(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The outline of memory that a launch allocates itself."""
    return np.broadcast_to(np.empty((), dtype), shape)


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
        announce_writes(x.memory for p in self.program.written if type(x := values[p]) is array)
        owners = [memory.owner for memory in memories]  # which live until the launch has ended
        dataclasses.replace(settled, placed=placed).run(stream, device, owners)
        return True

    def learn_launch(self, made: Ready, values: Sequence[Any]) -> None:
        """Do from now on what a launch does that has run on these values, if that may be repeated."""
        known = made.known if type(made) is Forward else None
        # Of tiles, JAX's precision decides each time how they run.
        if (
            known is None
            or known.settled is None
            or known.launch.program.kernel.block_dim
            or len(known.places) != len(values)
        ):
            return
        places: list[tuple[int, int, Converted]] = []
        for at, p in enumerate((*known.launch.operands, *known.launch.results)):
            place = _place(self.program.params[p], values[p])
            if place is not None:
                places.append((at, p, place))
            elif values[p] is not None and not (type(values[p]) is array and not values[p].size):
                return
        self._launch, self._places = (known.settled, known.stream, known.device), tuple(places)


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
