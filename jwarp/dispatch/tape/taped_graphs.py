"""Graphs that record tapes or build grids, as native steps that one run of the graph found."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jwarp._native as _native
from jwarp.arrays.allocation import announce_writes
from jwarp.arrays.array import array
from jwarp.arrays.changes import CHANGES
from jwarp.arrays.commands import LISTENING, Command, listeners, submit
from jwarp.arrays.memory import SAVES, HostMemory, Kept, KeptTogether, Memory, Saved, have_changed, will_change
from jwarp.collector import no_collection
from jwarp.config import config
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.executors import Recorded, Replay, Scratch, copying, native_steps
from jwarp.dispatch.tape.entries import Entry
from jwarp.dispatch.tape.geometry_changes import Builds, GeometryChange, changed_by, owners_among
from jwarp.dispatch.tape.launch_entry import LaunchEntry
from jwarp.dispatch.tape.native_steps import (
    Several,
    all_of,
    changed_states,
    launches_on_geometry,
    steps_of,
    written_by,
)
from jwarp.dispatch.tape.tape import OfTape
from jwarp.errors import LaunchError
from jwarp.frontend import options

# How often the steps are found anew, as arrays have other gradients, or records other arguments.
MAX_TAKES = 8


def is_found_by_running(commands: Sequence[Command]) -> bool:
    """True if some of the commands are of tapes, or build grids: others have steps before they run."""
    return any(isinstance(command, (OfTape, GeometryChange)) for command in all_of(commands))


class TapedGraph:
    """The commands of a graph that has been run once. They are as they were, so that the next run finds the steps."""

    def __init__(self, commands: Sequence[Command]):
        self.commands = commands
        changed = changed_by(commands)
        # Launches on what is built here are followed from build to build.
        self._geometry = [c for c in launches_on_geometry(commands) if not all(owners_among(c, changed))]
        self._changed: list[Any] = []
        self._known: _Steps | None = None
        self._left = MAX_TAKES

    def run(self) -> bool:
        """Run them; False where Python has to, and then nothing has run."""
        if LISTENING and listeners.here.recorders:
            return False
        if changed := changed_states(self._geometry):
            self._known = None
            if changed != self._changed:  # built in this graph, likely
                self._changed = changed
                return False
            for launch in self._geometry:
                launch.renew()
        if self._known is not None and self._known.holds():
            self._known.run()
            return True
        self._known = None
        if self._left <= 0:
            return False
        self._left -= 1
        self._known = _taken(self.commands)
        if self._known is None:
            self._left = 0
        return True


class _Steps:
    """The native steps of a run, and what must be as it was then."""

    def __init__(
        self,
        commands: Sequence[Command],
        steps: _native.HostGraph,
        met: dict[Any, dict[array, array]],
        builds: Builds,
    ):
        self._builds = builds
        self._like = config.settings, options.changes
        self._checked: object = None  # the mark of the last time that gradients and launches were looked at
        flat = list(all_of(commands))
        self._launches = [(c, c.values, c.program) for c in flat if isinstance(c, ArrayLaunch)]
        tapes = list(dict.fromkeys(c.tape for c in flat if isinstance(c, OfTape)))
        # Tapes clear the entries from before the run; if the run made others, the next run clears these, too.
        self._tapes = [(tape, tuple(tape.launches), met[tape]) for tape in tapes]
        given = {id(a): a for _, values, _ in self._launches for a in values if type(a) is array}
        given.update((id(a), a) for _, entries, _ in self._tapes for entry in entries for a in entry.arrays)
        self._graded = [(a, a._grad) for a in given.values()]
        grads = [g.memory for tape in tapes for g in tape.gradients.values()]
        entries = [entry for _, entries, _ in self._tapes for entry in entries]
        effects = [a.memory for entry in entries for a in entry.side_effects]
        written: dict[Memory, None] = dict.fromkeys([*written_by(commands), *grads, *effects])
        self._finding: dict[Any, tuple[LaunchEntry, dict[int, array]]] = {}
        for entry in entries:
            if isinstance(entry, LaunchEntry) and entry.found is not None:
                _, mixed = self._finding.setdefault(entry.backward and entry.backward.program, (entry, {}))
                mixed.update((id(a), a) for a in entry.found.mixed)
        in_place: dict[Memory, list[Kept]] = {}
        for kept in _kept(entry for _, entries, _ in self._tapes for entry in entries):
            if not kept.is_saved:
                in_place.setdefault(kept.memory, []).append(kept)
        self._in_place = [KeptTogether(memory, handles) for memory, handles in in_place.items()]
        self._hosts = [memory for memory in in_place if isinstance(memory, HostMemory)]
        self._changing = [content for content in self._in_place if content.memory in written]
        self._all_written = written
        self._replay = Replay(steps, [memory for memory in written if memory not in in_place])

    def holds(self) -> bool:
        """True if the steps still do what the commands do."""
        settings, changes = self._like
        latest = CHANGES.latest  # before the looks
        return (
            settings is config.settings
            and changes == options.changes
            and (latest is self._checked or self._has_same_arrays(latest))
            and all(tape.gradients == met and not tape.is_open for tape, _, met in self._tapes)
            and all(
                entry.found is None or entry.found.is_apart(entry.read, mixed.values(), self._all_written)
                for entry, mixed in self._finding.values()
            )
            and not any(owner.number for owner in self._builds.changed.values())  # which launches may look up
        )

    def _has_same_arrays(self, latest: object) -> bool:
        """True if launches have the same arguments, and arrays the same gradients."""
        if not (
            all(c.values is values and c.program is program for c, values, program in self._launches)
            and all(a._grad is grad and not a._retain_grad for a, grad in self._graded)
        ):
            return False
        self._checked = latest
        return True

    def run(self) -> None:
        gone = will_change(self._changing)
        self._builds.begin()
        try:
            self._replay()
        except ValueError as error:
            raise LaunchError(f"a graph with a tape: {error}", hint="capture it anew") from None
        finally:  # also where a kernel failed: what has been let go of is kept again
            self._builds.settle()
            for tape, entries, _ in self._tapes:
                tape.launches[:] = entries
            have_changed(self._in_place, gone, self._hosts)


@no_collection()  # nearly all that is made is kept
def _taken(commands: Sequence[Command]) -> _Steps | None:
    """Run the commands, and find their native steps; None where there are none for some of them."""
    announce_writes(written_by(commands))  # for what others keep
    steps: list[Recorded] = []
    is_whole = True
    tapes = {id(c.tape): c.tape for c in all_of(commands) if isinstance(c, OfTape)}
    older = [entry for tape in tapes.values() for entry in tape.launches]
    met = {tape: dict(tape.gradients) for tape in tapes.values()}
    builds, of_tapes = Builds(commands), _OfTapes(tapes.values())
    for given in _in_turn(commands):
        command = given.now()
        if isinstance(command, OfTape):
            builds.replace(command.tape.launches)
        saves: list[Saved] = []
        SAVES.here = saves
        try:
            if isinstance(command, Several):
                # Another time it may write something else: tapes keep all that it may write.
                announce_writes(written_by([command]))
            submit(command)
        finally:
            SAVES.here = None
        if not is_whole:
            continue
        own = _steps(command, builds)
        if own is None or (saves and not of_tapes.have(saves)) or _goes_back_through(command, older):
            is_whole = False
            continue
        steps += [copying(saved, buffer) for saved, buffer, _ in saves]
        steps += builds.in_turn(own)
    for tape in tapes.values():
        builds.replace(tape.launches)
    builds.end()
    native = native_steps(steps, Scratch()) if is_whole else None
    if native is None:
        return None
    made = _Steps(commands, _native.HostGraph(native), met, builds)
    return made if made.holds() else None


def _in_turn(commands: Sequence[Command]) -> Iterator[Command]:
    """The commands, those of graphs one by one."""
    for command in commands:
        if isinstance(command, Several) and command.in_turn:
            yield from _in_turn(command.inner)
        else:
            yield command


def _steps(command: Command, builds: Builds) -> list[Recorded] | None:
    """The steps of a command that has run."""
    if isinstance(command, OfTape):
        return command.found_steps()
    if isinstance(command, GeometryChange):
        return builds.build(command)
    if isinstance(command, Several):
        if listeners.here.recorders:
            return None  # what a tape records in a loop or a branch is another thing each time
        if any(True in owners_among(c, builds.changed) for c in all_of([command])):
            return None
    if isinstance(command, ArrayLaunch):
        if command.program is not command.plain:  # a tape wants its threads in another order
            command = copy.copy(command)
            command.prepared = command.executable = None
        if True in owners_among(command, builds.changed):
            return builds.launch(command)
        if command.changed_geometry():
            return None
    return steps_of([command])


def _goes_back_through(command: Command, older: Sequence[Entry]) -> bool:
    """True if a tape goes back through what it recorded before this run, which is another thing each time."""
    if not isinstance(command, OfTape) or not command.goes_back:
        return False
    known = set(map(id, older))
    return any(id(entry) in known for entry in command.tape.launches)


class _OfTapes:
    """The handles that tapes have got, while these record more."""

    def __init__(self, tapes: Iterable[Any]):
        self._seen = [[tape, 0] for tape in tapes]
        self._own: dict[int, Kept] = {}

    def have(self, saves: Sequence[Saved]) -> bool:
        """True if tapes keep all that was saved."""
        for pair in self._seen:
            tape, count = pair
            entries = tape.launches[count:] if count <= len(tape.launches) else tape.launches
            self._own.update((id(kept), kept) for kept in _kept(entries))
            pair[1] = len(tape.launches)
        return all(id(kept) in self._own for _, _, handles in saves for kept in handles)


def _kept(entries: Iterable[Entry]) -> Iterator[Kept]:
    """The contents that entries keep."""
    for entry in entries:
        yield from entry.keeps
