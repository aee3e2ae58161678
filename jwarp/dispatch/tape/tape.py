"""What a tape makes of commands, and how it goes back through all of them: cotangents of arrays, in their `grad`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from jwarp.arrays.array import array
from jwarp.arrays.commands import Call, Command
from jwarp.arrays.overlap import overlap
from jwarp.arrays.writes import Computation, Copy, Fill
from jwarp.bind.compat import is_not_tracing
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.array_adjoint import ArrayAdjoint
from jwarp.dispatch.steps.host_executor import Scratch
from jwarp.dispatch.tape import backward_plans
from jwarp.dispatch.tape.commands import ComputationEntry, CopyEntry, FillEntry, SecondOrderEntry
from jwarp.dispatch.tape.entry import Entry, Retained, has_gradients
from jwarp.dispatch.tape.launch_entry import LaunchEntry
from jwarp.errors import NO_SPAN, LaunchError


def entry_of(command: Command) -> Entry | None:
    """What a tape remembers of a command that is about to run; None where it changes no array of floats."""
    made = _ENTRIES.get(type(command))
    return None if made is None else made(command)


class Backward(Command):
    """What a tape does to go back through its entries, the last one first."""

    def __init__(self, entries: Sequence[Entry]):
        self.entries = tuple(entries)
        self.met = tuple({id(a): a for entry in entries for a in entry.arrays}.values())

    @property
    def gradients(self) -> list[array]:
        """The arrays that it writes to."""
        return [a.grad for a in self.met if a.grad is not None]

    def run(self) -> None:
        key = self._key() if is_not_tracing() else None
        if key is not None and backward_plans.repeated(key):
            return
        self._go_back()
        if key is not None:
            arrays = [a for a in self.met if a.layout.size]

            def steps(scratch: Scratch) -> list[Any] | None:
                # A gradient that a launch read has changed on the way: what was kept of it is another copy each time.
                return self.steps(scratch) if self._key() == key else None

            backward_plans.learn(key, steps, [g.memory for g in self.gradients], [a.memory for a in arrays])

    def _key(self) -> Hashable | None:
        """What must be alike for the same steps to go back; None where a closer look is needed."""
        parts: list[Hashable] = []
        for entry in reversed(self.entries):
            key = entry.key()
            if key is None:
                return None
            parts.append(key)
        return tuple(parts)

    def _go_back(self) -> None:
        refuse_aliases(self.entries)
        retained = Retained()
        for entry in reversed(self.entries):
            entry.back(retained)
        retained.put_back()

    def steps(self, scratch: Scratch) -> list[Any] | None:
        """The native steps that do the same each time that they run; None where Python is needed."""
        made: list[Any] = []
        for entry in reversed(self.entries):
            scratch.turn()
            steps = entry.steps(scratch)
            if steps is None:
                return None
            made += steps
        return made


class OfTape(Call):
    """Something that a tape does. `steps` are the native steps that do the same after it has run, None for none.

    `goes_back`: It goes back through what was recorded.
    """

    def __init__(
        self,
        tape: Any,
        function: Callable[[], Any],
        steps: Callable[[Scratch], list[Any] | None],
        *,
        goes_back: bool = False,
    ):
        super().__init__(function)
        self.tape, self.steps, self.goes_back = tape, steps, goes_back


def _of_adjoint(launch: ArrayAdjoint) -> Entry:
    kernel = launch.kernel
    return SecondOrderEntry(f"kernel '{kernel.name}': an adjoint launch", kernel.span, launch.gradients)


def _of_backward(command: Backward) -> Entry:
    return SecondOrderEntry("wp.Tape.backward of another tape", NO_SPAN, command.gradients)


# What remembers each kind of command.
_ENTRIES: dict[type[Command], Callable[[Any], Entry]] = {
    ArrayAdjoint: _of_adjoint,
    ArrayLaunch: LaunchEntry,
    Backward: _of_backward,
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
