"""The steps of commands, and native graphs of them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import jwarp._native as _native
from jwarp.arrays.array import array
from jwarp.arrays.commands import Command, SteppedCall, submit
from jwarp.arrays.memory import HostMemory, Memory
from jwarp.arrays.writes import Copy, Fill
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.executables.host import Forward
from jwarp.dispatch.executables.table import Ready
from jwarp.dispatch.steps.executors import Native, Recorded, Scratch, copying, filling, native_steps
from jwarp.types.handles import states_of


class Several(Command):
    """Runs other commands: all of them once where it does so `in_turn`."""

    in_turn = False

    @property
    @abc.abstractmethod
    def inner(self) -> tuple[Command, ...]:
        """All commands that it may run."""

    @abc.abstractmethod
    def steps(self) -> list[Recorded] | None:
        """The steps that do the same; None where Python runs it."""


class Branch(Several):
    """Runs one of two lists of commands, by the first element of an array."""

    def __init__(self, condition: array, on_true: Sequence[Command], on_false: Sequence[Command]):
        self.condition, self.on_true, self.on_false = condition, tuple(on_true), tuple(on_false)

    def run(self) -> None:
        for command in self.on_true if _holds(self.condition) else self.on_false:
            submit(command)

    @property
    def inner(self) -> tuple[Command, ...]:
        return *self.on_true, *self.on_false

    def steps(self) -> list[Recorded] | None:
        both = native_graph(self.on_true), native_graph(self.on_false)
        return None if None in both or not _is_here(self.condition) else [_native_step((self.condition.host(), *both))]


class Loop(Several):
    """Runs a list of commands while the first element of an array is not 0."""

    def __init__(self, condition: array, body: Sequence[Command]):
        self.condition, self.body = condition, tuple(body)

    def run(self) -> None:
        while _holds(self.condition):
            for command in self.body:
                submit(command)

    @property
    def inner(self) -> tuple[Command, ...]:
        return self.body

    def steps(self) -> list[Recorded] | None:
        body = native_graph(self.body)
        return (
            None
            if body is None or not _is_here(self.condition)
            else [_native_step((self.condition.host(), body, None))]
        )


def _holds(condition: array) -> bool:
    return bool(condition.host().flat[0])


def steps_of(commands: Sequence[Command]) -> list[Recorded] | None:
    """The steps of commands; None where Python runs one of them."""
    made: list[Recorded] = []
    for command in commands:
        rule = _RULES.get(type(command))
        if isinstance(command, SteppedCall | Several):
            steps = command.steps()
        else:
            steps = None if rule is None else rule(command)
        if steps is None:
            return None
        made += steps
    return made


def _launch(command: ArrayLaunch) -> list[Recorded] | None:
    if command.prepared is None:
        command.prepare()
    ready = command.prepared
    return [_native_step(ready.run.native)] if type(ready) is Forward else None


def _copy(command: Copy) -> list[Recorded] | None:
    pair = command.dest, command.src
    if not all(isinstance(a.memory, HostMemory) for a in pair):
        return None
    into, out = command.dest.layout, command.src.layout
    if into.full_shape != out.full_shape or into.dtype.itemsize != out.dtype.itemsize:
        out = out.seen_as(into.element)
    return [copying(command.dest.host(), command.src.memory.read(out))]


def _native_step(step: Any) -> Recorded:
    return Recorded(Native(step), {})


def _is_here(a: array) -> bool:
    """True if native code may access an array."""
    return isinstance(a.memory, HostMemory)


def _fill(command: Fill) -> list[Recorded] | None:
    if not isinstance(command.array.memory, HostMemory):
        return None
    target = command.array.host()
    value = np.ascontiguousarray(np.broadcast_to(command.value, target.shape[command.array.ndim :]), target.dtype)
    return [filling(target, value)]


def native_graph(commands: Sequence[Command]) -> _native.HostGraph | None:
    """The commands as one native graph; None where Python runs one of them."""
    recorded = steps_of(commands)
    steps = None if recorded is None else native_steps(recorded, Scratch())
    return None if steps is None else _native.HostGraph(steps)


def one_call(launches: Sequence[Ready]) -> Callable[[], None] | None:
    """One native call of launches on NumPy arrays; None where one of them is of another placement.

    It raises ValueError where an array has another shape or place by then, and then nothing has run.
    """
    if not all(type(made) is Forward for made in launches):
        return None
    return _native.HostGraph([made.run.native for made in launches if isinstance(made, Forward)])


_RULES: dict[type, Callable[[Any], list[Any] | None]] = {ArrayLaunch: _launch, Copy: _copy, Fill: _fill}


def all_of(commands: Sequence[Command]) -> Iterator[Command]:
    """All commands that may run."""
    for command in commands:
        if isinstance(command, Several):
            yield from all_of(command.inner)
        else:
            yield command


def written_by(commands: Sequence[Command]) -> Iterator[Memory]:
    """The memory that native steps write to, of all that may run."""
    for command in all_of(commands):
        if isinstance(command, ArrayLaunch):
            yield from command.memories
        elif isinstance(command, Copy):
            yield command.dest.memory
        elif isinstance(command, Fill):
            yield command.array.memory


def launches_on_geometry(commands: Sequence[Command]) -> Iterator[ArrayLaunch]:
    """The launches that are given a grid, tree, mesh or volume, which could change."""
    for command in all_of(commands):
        if isinstance(command, ArrayLaunch) and command.geometry:
            yield command


def changed_states(launches: Sequence[ArrayLaunch]) -> list[Any]:
    """The states of the grids, trees and meshes that have changed since launches were prepared."""
    found = [made for launch in launches for made in launch.changed_geometry().values()]
    return [state for made in found for state in states_of(made) or [object()]]  # what has none is another each time
