"""Graphs: commands that a capture took, made into as few native calls as it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import jwarp._native as _native
from jwarp.arrays.array import array
from jwarp.arrays.commands import Command, listeners, submit
from jwarp.arrays.memory import HostMemory, Memory
from jwarp.arrays.writes import Copy, Fill
from jwarp.bind.compat import is_not_tracing
from jwarp.dispatch.arrays import ArrayLaunch
from jwarp.dispatch.host import Forward
from jwarp.errors import LaunchError

Run = Callable[[], Any]


class Branch(Command):
    """Runs one of two lists of commands, by the first element of an array."""

    def __init__(self, condition: array, on_true: Sequence[Command], on_false: Sequence[Command]):
        self.condition, self.on_true, self.on_false = condition, tuple(on_true), tuple(on_false)

    def run(self) -> None:
        for command in self.on_true if _holds(self.condition) else self.on_false:
            submit(command)


class Loop(Command):
    """Runs a list of commands while the first element of an array is not 0."""

    def __init__(self, condition: array, body: Sequence[Command]):
        self.condition, self.body = condition, tuple(body)

    def run(self) -> None:
        while _holds(self.condition):
            for command in self.body:
                submit(command)


def _holds(condition: array) -> bool:
    return bool(condition.host().flat[0])


class Graph(Command):
    """What a capture took. `wp.capture_launch(graph)` runs it."""

    def __init__(self, commands: Sequence[Command]):
        self.commands = tuple(commands)
        self._parts: list[_Part] | None = None

    def __repr__(self) -> str:
        return f"<wp.Graph of {len(self.commands)} commands>"

    def run(self) -> None:
        if not is_not_tracing():
            for command in self.commands:
                submit(command)
            return
        if self._parts is None:
            self._parts = list(_parts(self.commands))
        for k, part in enumerate(self._parts):
            if listeners.recorders:
                for command in part.commands:  # which recorders are told of
                    submit(command)
                continue
            for memory in part.written:
                if memory.is_watched:
                    memory.will_write()
            renewed = [_is_renewed(launch) for launch in part.geometry]
            if any(renewed):
                part = self._parts[k] = _native_part(part.commands)
            self._run_part(part.run)

    def _run_part(self, part: Run) -> None:
        try:
            part()
        except ValueError as error:
            if not isinstance(part, _native.HostGraph):
                raise  # of a function of the user's
            raise LaunchError(f"{self!r}: {error}", hint="capture it anew") from None


class _Part(NamedTuple):
    """A call that does what some commands do.

    Without saying so it writes to the memory `written`. The launches `geometry` are given a grid, tree or mesh.
    """

    commands: tuple[Command, ...]
    run: Run
    written: tuple[Memory, ...] = ()
    geometry: tuple[ArrayLaunch, ...] = ()


def _parts(commands: Sequence[Command]) -> Iterator[_Part]:
    """The calls that do what the commands do, in order."""
    of: list[Command] = []
    for command in commands:
        if _steps(command) is not None:
            of.append(command)
            continue
        if of:
            yield _native_part(of)
            of = []
        yield _Part((command,), command.run)
    if of:
        yield _native_part(of)


def _native_part(commands: Sequence[Command]) -> _Part:
    steps = [step for command in commands for step in _steps(command) or ()]
    written, launches = dict.fromkeys(_written(commands)), tuple(_launches(commands))
    return _Part(tuple(commands), _native.HostGraph(steps), tuple(written), launches)


def _is_renewed(launch: ArrayLaunch) -> bool:
    """Whether another native call does what a launch does, as a grid, tree or mesh has changed."""
    before = launch.native
    launch.renew()
    return launch.native is not before


def _steps(command: Command) -> list[Any] | None:
    """The native steps of a command; None where Python runs it."""
    rule = _RULES.get(type(command))
    return None if rule is None else rule(command)


def _launch(command: ArrayLaunch) -> list[Any] | None:
    if command.prepared is None:
        command.prepare()
    ready = command.prepared
    return [ready.run.native] if type(ready) is Forward else None


def _copy(command: Copy) -> list[Any] | None:
    pair = command.dest, command.src
    if not all(isinstance(a.memory, HostMemory) for a in pair):
        return None
    into, out = command.dest.layout, command.src.layout
    if into.full_shape != out.full_shape or into.dtype.itemsize != out.dtype.itemsize:
        out = out.seen_as(into.element)
    target, source = command.dest.host(), command.src.memory.read(out)
    if not np.may_share_memory(target, source):
        return [(target, source)]
    between = np.empty(target.shape, source.dtype)  # what overlaps is read before it is written
    return [(between, source), (target, between)]


def _is_here(a: array) -> bool:
    """Whether native code may look at an array."""
    return isinstance(a.memory, HostMemory)


def _fill(command: Fill) -> list[Any] | None:
    if not isinstance(command.array.memory, HostMemory):
        return None
    target = command.array.host()
    value = np.ascontiguousarray(np.broadcast_to(command.value, target.shape[command.array.ndim :]), target.dtype)
    return [(target, np.broadcast_to(value, target.shape))]


def _native_graph(commands: Sequence[Command]) -> _native.HostGraph | None:
    """The commands as one native graph; None where Python runs one of them."""
    found = [_steps(command) for command in commands]
    if any(steps is None for steps in found):
        return None
    return _native.HostGraph([step for steps in found for step in steps or ()])


def _branch(command: Branch) -> list[Any] | None:
    both = _native_graph(command.on_true), _native_graph(command.on_false)
    return None if None in both or not _is_here(command.condition) else [(command.condition.host(), *both)]


def _loop(command: Loop) -> list[Any] | None:
    body = _native_graph(command.body)
    return None if body is None or not _is_here(command.condition) else [(command.condition.host(), body, None)]


def _graph(command: Graph) -> list[Any] | None:
    found = [_steps(inner) for inner in command.commands]
    return None if any(steps is None for steps in found) else [step for steps in found for step in steps or ()]


_RULES: dict[type, Callable[[Any], list[Any] | None]] = {
    ArrayLaunch: _launch, Copy: _copy, Fill: _fill, Branch: _branch, Loop: _loop, Graph: _graph
}  # fmt: skip


def _all(commands: Sequence[Command]) -> Iterator[Command]:
    """All commands that may run."""
    for command in commands:
        if isinstance(command, Branch):
            yield from _all((*command.on_true, *command.on_false))
        elif isinstance(command, Loop):
            yield from _all(command.body)
        elif isinstance(command, Graph):
            yield from _all(command.commands)
        else:
            yield command


def _written(commands: Sequence[Command]) -> Iterator[Memory]:
    """The memory that native steps write to, of all that may run."""
    for command in _all(commands):
        if isinstance(command, ArrayLaunch):
            yield from command.memories
        elif isinstance(command, Copy):
            yield command.dest.memory
        elif isinstance(command, Fill):
            yield command.array.memory


def _launches(commands: Sequence[Command]) -> Iterator[ArrayLaunch]:
    """The launches that are given a grid, tree or mesh, which could change."""
    for command in _all(commands):
        if isinstance(command, ArrayLaunch) and command.geometry:
            yield command
