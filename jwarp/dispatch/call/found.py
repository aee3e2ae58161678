"""The arrays that a launch on a tape may have found by numbers: their content then, and their gradients."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.living import Graded, table, word_of
from jwarp.arrays.memory import ALIGNMENT, HostMemory, Kept, Memory, host_memory
from jwarp.arrays.view import View, scalar_of
from jwarp.errors import LaunchError, NotDifferentiableError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching.steps import Slot
from jwarp.types import ScalarType, uint8
from jwarp.types.all_memory import BASE, MEMORY, MOVES, move_of

# A span of memory and where it is moved to, in scalars: the first one, the one after the last, and the distance.
Span = tuple[int, int, int]
_NO_SPAN: Span = (-1, -1, 0)


class Found:
    """The arrays that a launch may have found by numbers, as they were when a tape recorded it.

    Those that have gradients stay alive as long as this; so does the content of all, once somebody has asked to
    `keep` it. `mixed` are the arrays among its `values` that are not what the launch takes them for, where it finds
    them by numbers, too; it has `changed` some.
    """

    def __init__(self, kernel: Kernel, changed: Collection[int] = (), values: Sequence[Any] = ()):
        self._kernel, self._changed = kernel, changed
        everywhere = any(kernel.params[p].is_heap for p in changed)  # it writes to what it finds
        own = (p for p in range(len(values)) if not (kernel.params[p].is_heap or kernel.params[p].is_table))
        self.mixed = tuple([a for p in own if (everywhere or p in changed) and isinstance(a := values[p], array)])
        self._versions = [(weakref.ref(memory), memory.version) for memory in table.memories()]
        self._records, self._contents = table.records(), table.contents()
        self._arrays = [a for a in table.arrays(by_addresses=True) if scalar_of(a.dtype).is_float]
        self._gone = table.graded()
        self._kept: list[Kept] | None = None

    @property
    def graded(self) -> list[Graded]:
        """The arrays that have gradients now."""
        pairs = [(a, a.grad) for a in self._arrays if a.grad is not None]
        own = [Graded(a.memory, a.layout, g.memory, g.layout) for a, g in pairs]
        return [*own, *self._gone]

    def has_gradients(self, kind: ScalarType) -> bool:
        """True if an array of such scalars has a gradient."""
        return any(scalar_of(a.view.element) is kind for a in self.graded)

    def check_no_gradients(self) -> None:
        """Refuse a derivative if some array that may be found has a gradient.

        Raises:
            NotDifferentiableError: there is one.
        """
        for found in self.graded:
            raise NotDifferentiableError(
                f"kernel '{self._kernel.name}' finds arrays by numbers, and {found.memory.made_at}, which it may"
                " find, has a gradient, which an adjoint that is launched would miss",
                self._kernel.span,
                "record the launch on a wp.Tape, or pass the array itself as a parameter or a field of a struct",
            )

    def check_apart(self, arrays: Iterable[array], gradients: Iterable[array]) -> None:
        """Refuse a derivative that would take arrays, parameters of the launch, for others than those it may find.

        `gradients` are those of parameters that it adds to as it adds to those of arrays that it finds.

        Raises:
            NotDifferentiableError: one of them is memory that a number may name.
        """
        spans = [_span(memory) for known, _ in self._versions if (memory := known()) is not None]
        found = {id(a.gradient): a.gradient for a in self.graded}
        for given, others in [*((a, spans) for a in arrays), *((g, map(_span, found.values())) for g in gradients)]:
            assert isinstance(given.memory, HostMemory)  # as of all launches that look numbers up
            start, end = _span(given.memory)
            if any(first < end and start < last for first, last in others):
                raise NotDifferentiableError(
                    f"kernel '{self._kernel.name}' finds arrays by numbers; {given.memory.made_at} is a parameter, or"
                    " the gradient of one, and may be found, too, so that a derivative cannot tell which one was meant",
                    self._kernel.span,
                    "reach each array by its parameter alone, or by a number alone",
                )

    def is_apart(self, read: Collection[int] | None, mixed: Iterable[array], written: Container[Memory]) -> bool:
        """True if steps of the derivative miss nothing that it may find now, where others write to `written`.

        It finds what this keeps, and no memory that came later.

        The launch has `read` parameters; `mixed` are those of all such launches.
        """
        now, params = Found(self._kernel, self._changed), self._kernel.params
        memories = {known() for known, _ in self._versions}
        if any(known() not in memories for known, _ in now._versions):
            return False
        used = range(len(params)) if read is None else [p for p in {*read, *self._changed} if p < len(params)]
        kinds = {params[p].dtype for p in used if self.is_found(p)}
        if any(kind.is_float and now.has_gradients(kind) for kind in kinds):
            return False
        try:
            now.check_apart(mixed, ())
        except NotDifferentiableError:
            return False
        return not any(memory in written for known, _ in now._versions if (memory := known()) is not None)

    # -- content

    @property
    def kept(self) -> Sequence[Kept]:
        """The content that is kept."""
        return self._kept or ()

    def keep(self) -> None:
        """Keep what the arrays hold now, which is what the launch finds.

        Raises:
            LaunchError: something that may be found was written since this was made.
        """
        if self._kept is None:
            self.check_contents()
            memories = [memory for known, _ in self._versions if (memory := known()) is not None]
            self._kept = [_kept(memory) for memory in memories if isinstance(memory, HostMemory)]

    def check_contents(self) -> None:
        """Refuse to read what was written since.

        Raises:
            LaunchError: something that may be found was.
        """
        for known, version in self._versions:
            memory = known()
            if memory is None or memory.version != version:
                which = "an array that is no more" if memory is None else memory.made_at
                raise LaunchError(
                    f"kernel '{self._kernel.name}': the gradient needs what arrays held that the kernel found by"
                    f" numbers, and {which}, which it may have found, was written since",
                    hint="pass the array, grid, tree, mesh or volume itself, whose content tapes keep",
                )

    def check_records(self) -> None:
        """Refuse a derivative that would find other grids, trees and meshes by their ids than the launch.

        Raises:
            LaunchError: one of them was built, refitted or changed since.
        """
        now = table.records()
        if any(now.get(number) != record for number, record in self._records.items()):
            raise LaunchError(
                f"kernel '{self._kernel.name}': the gradient needs what ids named that the kernel looked up, and a"
                " grid, tree, mesh or volume, which it may have found, was built or changed since",
                hint="pass the grid, tree, mesh or volume itself, which tapes keep",
            )

    def is_found(self, p: int) -> bool:
        """True for the parameter that is all memory, which the launch finds arrays in."""
        param = self._kernel.params[p]
        return param.is_heap and not param.is_table

    def is_moves(self, slot: Slot) -> bool:
        """True for what says where a derivative finds what the launch found."""
        return self._kernel.params[slot.param].name == f"{MEMORY}.moves"

    def moves(self, slots: Collection[Slot], *, runs_again: bool, copied: bool) -> Moves:
        """Where a derivative, which is given `slots`, finds the content that the launch found, and gradients.

        With `copied`, it may write to what it finds; where the launch itself `runs_again`, that finds what is there
        now.

        Raises:
            NotDifferentiableError: no gradient of an array, or more than one, is where its elements are.
            LaunchError: something that it finds was written since, or is another one.
        """
        params = self._kernel.params
        if any(params[p].name == f"{MEMORY}.slots" for _, p in slots):
            self.check_records()
        found = [(kind, params[p].dtype) for kind, p in slots if self.is_found(p)]
        held: list[tuple[int, np.ndarray]] = []
        if any(kind == "primal" for kind, _ in found):
            if runs_again:
                self.check_contents()
            self.keep()
            held = [(_start(k), k.array()) for k in self.kept] + self._contents
            held = [(start, _aligned(start, content, copied=copied)) for start, content in held]
        made = Moves(held)
        for kind, dtype in found:
            of_gradients = kind == "given"
            spans = self._of_gradients(dtype) if of_gradients else _of_contents(held, dtype.dtype.itemsize)
            made.add(move_of(dtype, of_gradients=of_gradients), spans)
        return made

    def _of_gradients(self, kind: ScalarType) -> list[Span]:
        """The spans of arrays of such scalars, and how far away their gradients are."""
        size, spans = kind.dtype.itemsize, set[Span]()
        for a in self.graded:
            view, shown, start = a.view, a.shown, a.memory.start
            if scalar_of(view.element) is not kind or not view.size:
                continue
            if not a.gradient.buffer.flags.writeable:
                raise self._refusal(a, "has a gradient that is read-only")
            low, high = view.bounds
            distance = a.gradient.start + shown.offset - start - view.offset
            if view.strides != shown.strides or distance % size or scalar_of(shown.element) is not kind:
                raise self._refusal(a, "has a gradient whose elements do not lie as its own do")
            spans.add(((start + low - BASE) // size, (start + high - BASE) // size, distance // size))
        found: list[Span] = []
        for span in sorted(spans):
            before = found[-1] if found else _NO_SPAN
            if span[0] >= before[1]:
                found.append(span)
            elif span[2] == before[2]:
                found[-1] = before[0], max(before[1], span[1]), before[2]
            else:
                raise self._refusal(self.graded[0], "or another one, has elements with two gradients")
        targets = sorted((first + distance, last + distance) for first, last, distance in found)
        if any(end > start for (_, end), (start, _) in itertools.pairwise(targets)):
            raise self._refusal(self.graded[0], "or another one, shares its gradient with others")
        return found

    def _refusal(self, a: Graded, why: str) -> NotDifferentiableError:
        return NotDifferentiableError(
            f"kernel '{self._kernel.name}' finds arrays by numbers, and {a.memory.made_at}, which it may find, {why}",
            self._kernel.span,
            "make arrays with requires_grad=True, and views of them after that",
        )


class Moves:
    """The content of the parameter `moves` of a derivative, as long as this is alive."""

    def __init__(self, *holds: Any) -> None:
        self.holds = list(holds)
        self.words = np.zeros(MOVES, np.uint64)
        self._row = np.zeros(0, np.uint64)
        for k in range(MOVES):
            self.add(k, [])

    def add(self, role: int, spans: list[Span]) -> None:
        """Say where the scalars of these spans are; all others are nowhere."""
        row = np.array([len(spans) or 1, *(x for span in spans or [_NO_SPAN] for x in span)], np.int64).view(np.uint64)
        self.holds.append(row)
        self.words[role] = word_of(row)


def _kept(memory: HostMemory) -> Kept:
    return memory.keep(View.whole(uint8, (memory.buffer.nbytes,)))


def _aligned(start: int, content: np.ndarray, *, copied: bool) -> np.ndarray:
    """Bytes in the alignment of their address `start`; `copied` in any case."""
    if not copied and (_address(content) - start) % ALIGNMENT == 0:
        return content
    room = host_memory(content.nbytes + ALIGNMENT)
    first = (start - room.start) % ALIGNMENT
    target = room.buffer[first : first + content.nbytes]
    target[...] = content
    return target


def _start(kept: Kept) -> int:
    """The address of the memory that content was kept of."""
    assert isinstance(kept.memory, HostMemory)
    return kept.memory.start


def _address(content: np.ndarray) -> int:
    return int(content.__array_interface__["data"][0])


def _span(memory: Any) -> tuple[int, int]:
    """The addresses of a memory, the first one and the one after the last."""
    return memory.start, memory.start + memory.buffer.nbytes


def _of_contents(held: list[tuple[int, np.ndarray]], size: int) -> list[Span]:
    """The spans of memories, and how far away what they held is. Of memories that overlap, each has a part."""
    return list(_apart(sorted((start, start + x.nbytes, _address(x) - start) for start, x in held), size))


def _apart(spans: Iterable[Span], size: int) -> Iterator[Span]:
    end = 0
    for start, last, distance in spans:
        first, end_of_this = -(-(max(start, end) - BASE) // size), (last - BASE) // size
        if end_of_this > first:
            yield first, end_of_this, distance // size
        end = max(end, last)


__all__ = ["Found", "Moves"]
