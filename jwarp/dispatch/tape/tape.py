"""The backward pass of a tape: cotangents of arrays, in their `grad`, through all that was recorded."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from jwarp import _native
from jwarp.arrays.allocation import announce_writes
from jwarp.arrays.array import array
from jwarp.arrays.commands import Call, Command
from jwarp.arrays.memory import Memory
from jwarp.arrays.overlap import overlap
from jwarp.arrays.writes import Computation, Copy, Fill
from jwarp.bind.compat import is_not_tracing
from jwarp.caches import Cache
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.backward import ArrayAdjoint
from jwarp.dispatch.steps.executors import Recorded, Scratch, native_steps
from jwarp.dispatch.tape.entries import (
    ComputationEntry,
    CopyEntry,
    Entry,
    FillEntry,
    Retained,
    SecondOrderEntry,
    has_gradients,
)
from jwarp.dispatch.tape.launch_entry import LaunchEntry
from jwarp.dispatch.tape.native_steps import steps_of
from jwarp.errors import NO_SPAN, JwarpError, LaunchError

MAX_REPLAYS = 32
# Of more scratch memory than this, a backward pass takes longer than its Python, and the memory is not to be kept.
MAX_SCRATCH_BYTES = 1 << 24


def entry_of(command: Command) -> Entry | None:
    """The entry of a command that is about to run; None where it changes no array of floats."""
    made = _ENTRIES.get(type(command))
    return None if made is None else made(command)


class Backward(Command):
    """The backward pass of a tape: through its entries, the last one first."""

    title, span = "wp.Tape.backward of another tape", NO_SPAN

    def __init__(self, entries: Sequence[Entry]):
        self.entries = tuple(entries)
        self.met = tuple({id(a): a for entry in entries for a in entry.arrays}.values())

    @property
    def written(self) -> list[array]:
        """Gradients, and what custom gradients change."""
        effects = (a for entry in self.entries for a in entry.side_effects)
        return [*(a.grad for a in self.met if a.grad is not None), *effects]

    def run(self) -> None:
        key = self._key() if is_not_tracing() else None
        if key is not None and _repeated(key):
            return
        self._go_back()
        if key is not None:
            self._learn(key)

    def _key(self) -> Hashable | None:
        """The layout key of the steps; None on the slow path."""
        parts: list[Hashable] = []
        for entry in reversed(self.entries):
            key = entry.key()
            if key is None:
                return None
            parts.append(key)
        return tuple(parts)

    def _learn(self, key: Hashable) -> None:
        """Keep the native steps of a pass that has run twice."""
        if (seen := _REPLAYS.get(key)) is not True:
            if seen is None:
                _REPLAYS.replace(key, True)
            return
        # If a gradient that a launch read has changed on the way, what was kept of it is another copy each time.
        scratch, recorded = Scratch(), self.steps() if self._key() == key else None
        steps = None if recorded is None else native_steps(recorded, scratch)
        if steps is None or scratch.nbytes > MAX_SCRATCH_BYTES:
            _REPLAYS.replace(key, False)
        else:
            written, met = [a.memory for a in self.written], [a.memory for a in self.met if a.layout.size]
            _REPLAYS.replace(key, _Replay(_native.HostGraph(steps), written, met))

    def _go_back(self) -> None:
        refuse_aliases(self.entries)
        retained = Retained()
        for entry in reversed(self.entries):
            try:
                for command in entry.commands(retained):
                    command.run()
            except JwarpError as error:
                if entry.where is None:
                    raise
                raise entry.placed(error) from None
        retained.put_back()

    def steps(self) -> list[Recorded] | None:
        """The steps that do the same each time that they run; None where Python runs one of them."""
        return steps_of([command for entry in reversed(self.entries) for command in entry.commands(Retained())])


class OfTape(Call):
    """Something that a tape does. After it has run, `found_steps` gives the steps that do the same, or None.

    `goes_back`: It goes back through what was recorded.
    """

    def __init__(
        self,
        tape: Any,
        function: Callable[[], Any],
        found_steps: Callable[[], list[Recorded] | None],
        *,
        goes_back: bool = False,
    ):
        super().__init__(function)
        self.tape, self.found_steps, self.goes_back = tape, found_steps, goes_back


# The entries of each kind of command.
_ENTRIES: dict[type[Command], Callable[[Any], Entry]] = {
    ArrayAdjoint: SecondOrderEntry,
    ArrayLaunch: LaunchEntry,
    Backward: SecondOrderEntry,
    Copy: CopyEntry,
    Computation: ComputationEntry,
    Fill: FillEntry,
}


def refuse_aliases(entries: Iterable[Entry]) -> None:
    """Refuse gradients of memory that is written by an array that has none, or another one, as well.

    Raises:
        LaunchError: there is such memory.
    """
    graded: dict[tuple[int, int, int], array] = {}
    bare: dict[tuple[int, Any], array] = {}
    given: dict[int, array] = {}
    written: dict[int, array] = {}
    for entry in entries:
        given.update([(id(a), a) for a in entry.arrays])
        written.update([(id(a), a) for a in entry.written])
    if len({id(a.memory) for a in given.values()}) == len(given):
        return
    for a in given.values():
        if a.grad is not None:
            distance = a.grad.layout.offset - a.layout.offset
            graded.setdefault((id(a.memory), id(a.grad.memory), distance), a)
    for a in written.values():
        if a.grad is None and has_gradients(a):
            bare.setdefault((id(a.memory), a.layout), a)
    by_memory: dict[int, list[array]] = {}
    for (memory, _, _), a in graded.items():
        by_memory.setdefault(memory, []).append(a)
    for group in by_memory.values():
        for one, other in itertools.combinations(group, 2):
            if overlap(one, other):
                raise LaunchError(
                    f"two arrays on the tape show the same elements of {one.memory.made_at}, and have gradients of"
                    " their own",
                    hint="make views of an array that has a gradient: they have views of it",
                )
    for (memory, _), a in bare.items():
        for other in by_memory.get(memory, ()):
            if overlap(a, other):
                raise LaunchError(
                    f"an array without a gradient was written, which shows elements of {a.memory.made_at}, and another"
                    " array that shows them has one",
                    hint="make the view after requires_grad was set: it has a view of the gradient",
                )


class _Replay:
    """The native steps of a backward pass. They end with the first of the memories that does."""

    __slots__ = ("__weakref__", "_ends", "_native", "_written")

    def __init__(self, native: _native.HostGraph, written: Sequence[Memory], met: Sequence[Memory]):
        self._native: _native.HostGraph | None = native
        self._written = [weakref.ref(memory) for memory in dict.fromkeys(written)]
        end = functools.partial(_end, weakref.ref(self))
        self._ends = [weakref.ref(memory, end) for memory in dict.fromkeys([*written, *met])]

    def end(self) -> None:
        """Let go of the arrays."""
        self._native = None

    def run(self) -> bool:
        """Run it; False where it cannot, and then nothing has run."""
        native = self._native
        if native is None:
            return False
        announce_writes([memory for known in self._written if (memory := known()) is not None])
        try:
            native()
        except ValueError:  # an array was resized by force
            self.end()
            return False
        return True


def _end(replay: Callable[[], _Replay | None], _: Any) -> None:
    found = replay()
    if found is not None:
        found.end()


_REPLAYS: Cache[Hashable, _Replay | bool] = Cache("backward passes of tapes", MAX_REPLAYS)


def _repeated(key: Hashable) -> bool:
    """Repeat a backward pass, if its steps are known; False if nothing has run."""
    replay = _REPLAYS.get(key)
    return type(replay) is _Replay and replay.run()
