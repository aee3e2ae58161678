"""The executors of steps on arrays: at once on those of the host or of a GPU, and as native steps on the host's."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, assert_never

import numpy as np

from jwarp import _native
from jwarp.arrays.allocation import announce_writes
from jwarp.arrays.array import array
from jwarp.arrays.cuda_arrays import borrow
from jwarp.arrays.memory import HostMemory, Memory
from jwarp.arrays.rematerialised import Remade, there
from jwarp.compiler.program_base import Program
from jwarp.dispatch.call.checks import Place
from jwarp.dispatch.executables.device_launch import Content, Work, device_of
from jwarp.dispatch.executables.host import code_of, require
from jwarp.errors import LaunchError
from jwarp.launching.steps import Add, Allocate, Copy, Launch, Shape, Slot, Step, Steps
from jwarp.wire import Role

Arrays = list[Any]
Code = tuple[str, bytes, np.ndarray]  # of a launch, as the native module takes it
Run = Callable[[Arrays], None]


class HostSteps:
    """Steps that are compiled for any arrays of their slots.

    Attributes:
        slots: Those that no step allocates, in the order of the arrays; None for an array that no step has a use for.

    Raises:
        CompileError: a kernel cannot be compiled.
    """

    def __init__(self, steps: Steps, slots: Sequence[Slot | None] | None = None):
        self._steps = steps
        self.slots = steps.given if slots is None else tuple(slots)
        self._places = {slot: k for k, slot in enumerate(self.slots) if slot is not None}
        count = len(self.slots)
        for step in steps.steps:
            if isinstance(step, Allocate):
                self._places[step.slot], count = count, count + 1
            elif isinstance(step, Launch):
                require(step.launch, step.shapes)

    def place(self, slot: Slot) -> int:
        """The number of a slot's array."""
        return self._places[slot]

    def __call__(self, arrays: Mapping[Slot, Any]) -> None:
        """Run the steps on the arrays of the slots."""
        given = [None if slot is None else arrays[slot] for slot in self.slots]
        for run in self.code:
            run(given)

    def run(self, *given: Any) -> Arrays:
        """Run them on these arrays; all arrays, with those that the steps have allocated."""
        arrays = list(given)
        for run in self.code:
            run(arrays)
        return arrays

    @functools.cached_property
    def code(self) -> tuple[Run, ...]:
        """The functions that run the steps, one after the other; those that allocate append an array."""
        return tuple(self._compiled())

    def _compiled(self) -> Iterable[Run]:
        """The function that runs each step."""
        copied = {step.target: self.place(step.source) for step in self._steps.steps if isinstance(step, Copy)}
        for step in self._steps.steps:
            if isinstance(step, Allocate):
                yield _copying(copied[step.slot]) if step.slot in copied else self._allocating(step)
            elif isinstance(step, Copy):
                assert step.target not in self.slots, "new memory is a copy from the start"
            elif isinstance(step, Launch):
                yield _launching(step, tuple(map(self.place, step.slots)))
            elif isinstance(step, Add):
                yield _adding(self.place(step.source), self.place(step.target), step.shape)
            else:
                assert_never(step)

    def _allocating(self, step: Allocate) -> Run:
        shape, dtype, value = step.shape, step.dtype, step.value
        if value is None:
            return lambda arrays: arrays.append(np.empty(shape, dtype))
        if step.slot not in self._steps.written:
            constant = np.full(shape, value, dtype)
            return lambda arrays: arrays.append(constant)
        assert value == 0
        return lambda arrays: arrays.append(np.zeros(shape, dtype))


def _launching(step: Launch, places: tuple[int, ...]) -> Run:
    native = _native.HostLaunch(*code_of(step.launch), step.launch.operands, step.launch.results)
    return lambda arrays: native([arrays[k] for k in places])


def _copying(source: int) -> Run:
    return lambda arrays: arrays.append(arrays[source].copy())


def _adding(source: int, target: int, shape: Shape | None) -> Run:
    def add(arrays: Arrays) -> None:
        into, more = arrays[target], arrays[source]
        np.add(into, more if shape is None else more.reshape(shape), out=into, casting="unsafe")

    return add


class Native(NamedTuple):
    """A step that is native from the beginning: a prepared launch, a branch or a loop."""

    step: Any


class Recorded(NamedTuple):
    """Steps, and the arrays of the slots that these do not allocate.

    A capture, and the backward pass of a tape, are lists of them: one for each command. What one allocates no other
    one needs.
    """

    steps: Steps | Native
    arrays: Mapping[Slot, np.ndarray | Remade]


def copying(target: np.ndarray, source: np.ndarray) -> Recorded:
    """An array becomes another one, which broadcasts to it; what overlaps is read before it is written."""
    into, out, own = Slot("array", 0), Slot("array", 1), Slot("own", 0)
    steps: tuple[Step, ...] = (Copy(out, into),)
    if np.may_share_memory(target, source):
        steps = Allocate(own, target.shape, source.dtype), Copy(out, own), Copy(own, into)
    return Recorded(Steps(steps), {into: target, out: source})


def native_step(step: Any) -> Recorded:
    """A native step as it is."""
    return Recorded(Native(step), {})


def is_here(a: array) -> bool:
    """True if native code of the host may access an array."""
    return isinstance(a.memory, HostMemory)


def moving(source: np.ndarray, target: np.ndarray) -> Recorded:
    """The elements of an array are added to another one, of which it may be a part, and become zeros."""
    out, into, none, own = (Slot("array", 0), Slot("array", 1), Slot("array", 2), Slot("own", 0))
    steps = Allocate(own, source.shape, source.dtype), Copy(out, own), Copy(none, out), Add(own, into)
    return Recorded(Steps(steps), {out: source, into: target, none: np.zeros((), source.dtype)})


class Replay:
    """A native graph as a call that announces what it writes."""

    def __init__(self, native: _native.HostGraph, written: Iterable[Memory]):
        self._native, self._written = native, tuple(dict.fromkeys(written))

    def __call__(self) -> None:
        """Run it.

        Raises:
            ValueError: an array was resized or moved by force, and nothing has run.
        """
        announce_writes(self._written)
        self._native()


class Scratch:
    """Memory for native steps that run one after the other. What one turn takes is taken again after `turn`."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[tuple[int, ...], np.dtype], list[np.ndarray]] = collections.defaultdict(list)
        self._taken: collections.Counter[tuple[tuple[int, ...], np.dtype]] = collections.Counter()

    @property
    def nbytes(self) -> int:
        """The size of the memory."""
        return sum(array.nbytes for arrays in self._arrays.values() for array in arrays)

    def turn(self) -> None:
        """Free all arrays."""
        self._taken.clear()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array that nothing else uses in this turn."""
        key = shape, dtype
        known, count = self._arrays[key], self._taken[key]
        self._taken[key] += 1
        if count == len(known):
            known.append(np.empty(shape, dtype))
        return known[count]


def native_steps(recorded: Iterable[Recorded], scratch: Scratch) -> list[Any] | None:
    """The native steps of a list, which work on `scratch` memory; None where there are none for one of its steps."""
    made: list[Any] = []
    codes: dict[Any, Code] = {}  # the lists are of a few backward passes that come again
    for one in recorded:
        scratch.turn()
        own = _bound(one, scratch, codes)
        if own is None:
            return None
        made += own
    return made


def _bound(recorded: Recorded, scratch: Scratch, codes: dict[Any, Code]) -> list[Any] | None:
    steps = recorded.steps
    if isinstance(steps, Native):
        return [steps.step]
    arrays, made = {slot: there(x) for slot, x in recorded.arrays.items()}, list[Any]()
    for step in steps.steps:
        if isinstance(step, Allocate):
            if step.value is None:
                arrays[step.slot] = scratch.empty(step.shape, step.dtype)
            elif step.slot not in steps.written:
                arrays[step.slot] = np.full(step.shape, step.value, step.dtype)
            else:
                arrays[step.slot] = array = scratch.empty(step.shape, step.dtype)
                made.append((array, np.broadcast_to(np.array(step.value, step.dtype), step.shape)))
        elif isinstance(step, Copy):
            source, target = arrays[step.source], arrays[step.target]
            # The array itself, where it may be: a graph sees changes of its attributes, and none through a view.
            made.append((target, source if source.shape == target.shape else np.broadcast_to(source, target.shape)))
        elif isinstance(step, Launch):
            of, key = [arrays[slot] for slot in step.slots], (step.launch, step.shapes)
            if key not in codes:
                require(*key)
                codes[key] = code_of(step.launch)
            made.append(_native.BoundHostLaunch(*codes[key], of, step.launch.operands, step.launch.results))
        elif isinstance(step, Add):
            source, target = arrays[step.source], arrays[step.target]
            if source.dtype != target.dtype:
                return None
            made.append((target, source if step.shape is None else source.reshape(step.shape), "add"))
        else:
            assert_never(step)
    return made


# On a GPU, in the order of a stream


class DeviceSteps:
    """Steps for any arrays of their slots. Errors speak of a launch of `program`."""

    def __init__(self, program: Program, steps: Steps):
        self.program, self.steps, self.written = program, steps.steps, steps.written
        # Memory that one launch alone sees is allocated, and filled, by the launch.
        seen = collections.Counter(slot for step in self.steps for slot in step.slots)
        self.unseen = {
            slot
            for step in self.steps
            if isinstance(step, Launch)
            for slot, role in zip(step.slots, step.launch.roles, strict=True)
            if role is Role.ZEROS and seen[slot] == 1
        }
        self.copies = {step.target for step in self.steps if isinstance(step, Copy)}

    def __call__(self, arrays: Mapping[Slot, Any], stream: int = 0, *, waits: bool = False) -> None:
        """Put the steps on a stream, and wait for their end if that `waits`.

        Args:
            arrays: By slot: places, arrays on a GPU, arrays of NumPy for values.
            stream: The handle of the stream.

        Raises:
            LaunchError: an array cannot be borrowed, arrays are on several GPUs, or the driver refuses a launch.
            CompileError: a kernel cannot be compiled.
        """
        if self.steps:
            _Run(self, arrays, stream).put(waits=waits)

    def read(self, slot: Slot, given: Any, stream: int) -> Place:
        """The array of a slot, as it is borrowed."""
        if isinstance(given, Place):
            return given
        if isinstance(given, np.ndarray):
            return Place(given)
        name = self.program.name
        try:
            found = borrow(given, stream)
        # A foreign object raises: the array is deleted, or not on a GPU.
        except Exception as error:
            parameter = self.program.params[slot.param].name
            raise LaunchError(
                f"kernel '{name}', parameter '{parameter}': the adjoint cannot borrow it, {error}"
            ) from None
        assert found is not None
        return Place(found.outline, owner=found.owner)


class _Run:
    """One run of steps on a stream."""

    def __init__(self, of: DeviceSteps, arrays: Mapping[Slot, Any], stream: int):
        self.of, self.stream, program = of, stream, of.program
        self.given = {slot: of.read(slot, x, stream) for slot, x in arrays.items()}
        places = self.given.values()
        owners = [x.owner for x in places if x.owner is not None]
        self.work = Work(f"kernel '{program.name}'", stream, device_of(program, places), owners, program.span)
        self.own: dict[Slot, Content] = {}

    def put(self, *, waits: bool) -> None:
        """Put all steps on the stream."""
        for step in self.of.steps:
            if isinstance(step, Allocate):
                if step.slot not in self.of.copies:
                    self.own[step.slot] = self._allocated(step)
            elif isinstance(step, Copy):
                self.own[step.target] = self._copied(step.source)
            elif isinstance(step, Launch):
                self._launch(step)
            elif isinstance(step, Add):
                self._add(step)
            else:
                assert_never(step)
        if waits:
            self.work.wait()

    def _allocated(self, step: Allocate) -> Content:
        if step.value is None:
            return None if step.slot in self.of.unseen else self.work.memory(step.shape, step.dtype)
        if not step.shape and step.slot not in self.of.written:
            return np.array(step.value, step.dtype).tobytes()
        assert step.value == 0
        return self.work.zeros(step.shape, step.dtype)

    def _copied(self, slot: Slot) -> Content:
        """The address of a copy of an array, None for one without elements."""
        given = self.given[slot]
        return None if given.owner is None else self.work.packed(given.array)

    def _read(self, slot: Slot) -> Content:
        return self.own[slot] if slot in self.own else self.work.content(self.given[slot])

    def _launch(self, step: Launch) -> None:
        roles = step.launch.roles
        written = [
            None if role is Role.READ else self.given.get(slot) for slot, role in zip(step.slots, roles, strict=True)
        ]
        self.work.launch(step.launch, list(map(self._read, step.slots)), step.shapes, written)

    def _add(self, step: Add) -> None:
        source, target = self._read(step.source), self.given[step.target]
        assert isinstance(source, int) and target.owner is not None
        self.work.add(source, target.array)
