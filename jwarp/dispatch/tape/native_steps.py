"""The steps of commands, and native graphs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jwarp._native as _native
from jwarp.arrays.array import array
from jwarp.arrays.commands import Command, submit
from jwarp.arrays.memory import Memory
from jwarp.arrays.writes import Copy, Fill
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.executables.host import Forward
from jwarp.dispatch.executables.table import Ready
from jwarp.dispatch.steps.executors import Recorded, Scratch, copying, is_here, native_step, native_steps
from jwarp.types.handles import states_of


class Several(Command):
    """Runs other commands: all of them once where it does so `in_turn`."""

    in_turn = False


class Branch(Several):
    """Runs one of two lists of commands, by the first element of an array."""

    def __init__(self, condition: array, on_true: Sequence[Command], on_false: Sequence[Command]):
        self.condition, self.on_true, self.on_false = condition, tuple(on_true), tuple(on_false)
        self.inner = *self.on_true, *self.on_false

    def run(self) -> None:
        for command in self.on_true if _holds(self.condition) else self.on_false:
            submit(command)

    def steps(self) -> list[Recorded] | None:
        both = native_graph(self.on_true), native_graph(self.on_false)
        return None if None in both else _by_condition(self.condition, *both)


class Loop(Several):
    """Runs a list of commands while the first element of an array is not 0."""

    def __init__(self, condition: array, body: Sequence[Command]):
        self.condition, self.body = condition, tuple(body)
        self.inner = self.body

    def run(self) -> None:
        while _holds(self.condition):
            for command in self.body:
                submit(command)

    def steps(self) -> list[Recorded] | None:
        body = native_graph(self.body)
        return None if body is None else _by_condition(self.condition, body, None)


def _holds(condition: array) -> bool:
    return bool(condition.host().flat[0])


def _by_condition(condition: array, first: Any, second: Any) -> list[Recorded] | None:
    """The native step that runs one of two graphs, or repeats the only one; None for a condition elsewhere."""
    return [native_step((condition.host(), first, second))] if is_here(condition) else None


def steps_of(commands: Sequence[Command]) -> list[Recorded] | None:
    """The steps of commands; None where Python runs one of them."""
    made: list[Recorded] = []
    for command in commands:
        steps = command.steps()
        if steps is None and isinstance(command, Copy | Fill) and (pair := command.assignment()) is not None:
            steps = [copying(*pair)]
        if steps is None:
            return None
        made += steps
    return made


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


def all_of(commands: Sequence[Command]) -> Iterator[Command]:
    """All commands that may run."""
    for command in commands:
        if isinstance(command, Several):
            yield from all_of(command.inner)
        else:
            yield command


def written_by(commands: Sequence[Command]) -> dict[Memory, None]:
    """The memories that native steps write to, of all that may run."""
    return dict.fromkeys(a.memory for command in all_of(commands) for a in command.written)


def launches_on_geometry(commands: Sequence[Command]) -> Iterator[ArrayLaunch]:
    """The launches that are given a grid, tree, mesh or volume, which could change."""
    for command in all_of(commands):
        if isinstance(command, ArrayLaunch) and command.geometry:
            yield command


def changed_states(launches: Sequence[ArrayLaunch]) -> list[Any]:
    """The states of the grids, trees and meshes that have changed since launches were prepared."""
    found = [made for launch in launches for made in launch.changed_geometry().values()]
    return [state for made in found for state in states_of(made) or [object()]]  # what has none is another each time
