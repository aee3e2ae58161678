"""Builds of grids in graphs: commands, and the steps that do the same in memory that the graph has for them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jwarp.arrays.commands import Call, Command
from jwarp.arrays.rematerialised import Turn, remade
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.executors import Recorded, copying
from jwarp.dispatch.tape.entries import Entry
from jwarp.dispatch.tape.launch_entry import LaunchEntry
from jwarp.dispatch.tape.native_steps import all_of, steps_of
from jwarp.types import Geometry, Struct
from jwarp.types.handles import owners_of
from jwarp.types.structs import unchecked


class Planned(NamedTuple):
    """A build that has run, as steps.

    Attributes:
        steps: They build anew, in memory of the graph, from what the points are then.
        stands: Pairs of an array that the build made, and the array of the graph that has the same content, now and
            after the steps; or a `Turn`.
        settle: Is called when steps have run, and lets the owner be what they have built.
    """

    steps: Sequence[Recorded]
    stands: Sequence[tuple[np.ndarray, np.ndarray | Turn]]
    settle: Callable[[], None]


class GeometryChange(Call):
    """Builds or refits a grid, tree or mesh, its `owner`.

    After it has run, `planned` gives the steps that do the same; None where there are none. What it is given is a
    dictionary for memory that the builds of one graph share.
    """

    def __init__(
        self,
        owner: Geometry,
        function: Callable[[], Any],
        planned: Callable[[dict[Any, Any]], Planned | None] | None = None,
    ):
        super().__init__(function)
        self.owner, self.planned = owner, planned or (lambda _: None)


def changed_by(commands: Sequence[Command]) -> dict[int, Geometry]:
    """The grids, trees and meshes that commands build or refit, by `id`."""
    return {id(c.owner): c.owner for c in all_of(commands) if isinstance(c, GeometryChange)}


def owners_among(launch: Command, changed: Mapping[int, Geometry]) -> list[bool]:
    """For each grid, tree and mesh that a launch is given, whether it is one of these."""
    if not isinstance(launch, ArrayLaunch) or not launch.geometry:
        return []
    return [id(owner) in changed for u in launch.geometry for owner in owners_of(launch.given[u])]


class Builds:
    """The builds of a run of a graph, and the steps of launches on what they have built."""

    def __init__(self, commands: Sequence[Command]):
        self.changed = changed_by(commands)
        self._done = np.zeros(1, np.int32)  # how many builds the steps have done
        self._settling: list[tuple[int, Callable[[], None]]] = []  # of each build, with the `id` of its owner
        self._shared: dict[Any, Any] = {}
        # By the `id` of an array, or of what makes it again, which is kept as long.
        self._stands: dict[int, tuple[Any, np.ndarray | Turn]] = {}
        self._latest: dict[int, list[int]] = {}  # the arrays that can be made again of the last build of each owner
        self._current: dict[int, Turn] = {}  # whose turn it was last, by memory

    def build(self, command: GeometryChange) -> list[Recorded] | None:
        """The steps of a build that has just run."""
        planned = command.planned(self._shared)
        if planned is None:
            return None
        for key in self._latest.pop(id(command.owner), ()):
            del self._stands[key]
        self._settling.append((id(command.owner), planned.settle))
        for made, stand in planned.stands:
            self._stands[id(made)] = made, stand
            if (again := remade(made)) is not None:
                self._stands[id(again)] = again, stand
                self._latest.setdefault(id(command.owner), []).append(id(made))
            if isinstance(stand, Turn):
                self._current[id(stand.memory)] = stand
        return [*planned.steps, copying(self._done, np.array([len(self._settling)], np.int32))]

    def begin(self) -> None:
        """Before the steps run."""
        self._done[0] = 0

    def settle(self) -> None:
        """When the steps have run, or some of them: let each owner be what the last one of its builds has made."""
        for settle in dict(self._settling[: self._done[0]]).values():
            settle()

    def launch(self, command: ArrayLaunch) -> list[Recorded] | None:
        """The steps of a launch that has run on what was built; None where some of it is built elsewhere."""
        among = owners_among(command, self.changed)
        built = {id(owner) for u in command.geometry for owner in owners_of(command.given[u])}
        if not all(among) or not built <= set(dict(self._settling)):
            return None
        turns: list[Turn] = []
        made = copy.copy(command)
        made.prepared = made.executable = None
        made.take({u: self._placed(command.given[u], turns) for u in command.geometry})
        own = steps_of([made])
        return None if own is None else [*self._again(turns), *own]

    def _placed(self, value: Any, turns: list[Turn]) -> Any:
        """A struct with the graph's arrays in the place of those that a build made."""
        kind: Any = type(value)
        parts: dict[str, Any] = {}
        for name in kind.fields:
            part = getattr(value, name)
            if isinstance(part, Struct):
                part = self._placed(part, turns)
            elif id(part) in self._stands:
                _, stand = self._stands[id(part)]
                if isinstance(stand, Turn):
                    turns.append(stand)
                    stand = stand.memory
                part = stand
            parts[name] = part
        made = unchecked(kind, parts)
        object.__setattr__(made, "_seen", getattr(value, "_seen", (None, 0)))
        return made

    def _again(self, turns: Iterable[Turn]) -> Iterator[Recorded]:
        for turn in turns:
            if self._current.get(id(turn.memory)) is not turn:
                self._current[id(turn.memory)] = turn
                yield from turn.again

    def replace(self, entries: Iterable[Entry]) -> None:
        """Let entries of tapes have the graph's arrays, which are what they went through after each run, too."""
        stands = self._stands
        if not stands:
            return
        for entry in entries:
            if isinstance(entry, LaunchEntry):
                entry.values = tuple([stands[id(x)][1] if id(x) in stands else x for x in entry.values])

    def end(self) -> None:
        """Let go of what was built while the steps were found."""
        for of in (self._stands, self._latest, self._current, self._shared):
            of.clear()

    def in_turn(self, recorded: Iterable[Recorded]) -> Iterator[Recorded]:
        """Steps on the graph's arrays, and before them those after which these are as the steps need them."""
        for one in recorded:
            turns = {slot: x for slot, x in one.arrays.items() if isinstance(x, Turn)}
            if turns:
                yield from self._again(turns.values())
                one = one._replace(arrays={**one.arrays, **{slot: turn.memory for slot, turn in turns.items()}})
            yield one
