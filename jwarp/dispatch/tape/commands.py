"""Fills, copies and functions on a tape, and gradients, which tapes do not go back through."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import Kept, place_of_caller
from jwarp.arrays.overlap import overlap
from jwarp.arrays.writes import Computation, Copy, Fill
from jwarp.dispatch.steps.host_executor import Scratch
from jwarp.dispatch.tape.entry import (
    Entry,
    Retained,
    added,
    both_before_and_after,
    has_gradients,
    is_here,
    is_zero,
    placed,
    refuse_traced,
    tokens,
    zeroing,
)
from jwarp.errors import LaunchError, NotDifferentiableError, Span


class FunctionEntry(Entry):
    """A function that the program runs on the way back, itself."""

    def __init__(self, function: Callable[[], Any], arrays: Sequence[array]):
        self.function, self.arrays = function, tuple(arrays)

    def back(self, retained: Retained) -> None:
        self.function()


class ComputationEntry(Entry):
    """A function that changes arrays, and knows its way back, or has none."""

    def __init__(self, command: Computation):
        self.command, self.where = command, place_of_caller()
        self.written = tuple(a for a in command.changed if has_gradients(a))
        self.arrays = (*command.changed, *command.reads)
        self.kept: list[Kept] | None = None
        if any(a.grad is not None for a in self.written):
            self.kept = [a.memory.keep(a.layout) for a in command.reads]

    def back(self, retained: Retained) -> None:
        if not any(a.grad is not None and not is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written):
            return
        back, name = self.command.back, self.command.name
        if back is None:
            raise placed(
                NotDifferentiableError(
                    f"{name} has no derivative, and what it wrote to has a gradient",
                    hint="tape.record_func takes a function that goes back through it",
                ),
                self.where,
            )
        if self.kept is None and self.command.reads:
            raise placed(
                LaunchError(
                    f"{name}: the gradient needs what the arrays held, and nothing was kept, as no array that it writes"
                    " had a gradient when it was recorded",
                    hint="make the arrays with requires_grad=True before",
                ),
                self.where,
            )
        refuse_traced(name, [a.grad for a in self.arrays if a.grad is not None])
        for a in self.written:
            if a.retain_grad and any(overlap(a, b) for b in self.command.given):
                raise placed(both_before_and_after(name, a), self.where)
        done = retained.watch(self.written)
        back([kept.array() for kept in self.kept or ()])
        done()


class FillEntry(Entry):
    """A fill: what was there before has no gradient."""

    def __init__(self, command: Fill):
        self.arrays = self.written = (command.array,)

    def back(self, retained: Retained) -> None:
        (target,) = self.written
        if target.grad is not None:
            done = retained.watch(self.written)
            target.grad.memory.write(target.grad.layout, np.zeros((), target.grad.layout.dtype))
            done()

    def steps(self, scratch: Scratch) -> list[Any] | None:
        (target,) = self.written
        if target.grad is None:
            return []
        return None if target.retain_grad or not is_here(target.grad) else [zeroing(target.grad)]

    def key(self) -> Hashable | None:
        return FillEntry, *tokens(self.arrays)


class CopyEntry(Entry):
    """A copy: the gradient goes to the source, and what was there before has none."""

    def __init__(self, command: Copy):
        self.arrays, self.written = (command.dest, command.src), (command.dest,)
        self.where = place_of_caller()

    def back(self, retained: Retained) -> None:
        target, source = self.arrays
        if target.grad is None:
            return
        done = retained.watch(self.written)
        content = target.grad.memory.read(target.grad.layout)
        flowing = content.copy() if isinstance(content, np.ndarray) else content
        target.grad.memory.write(target.grad.layout, np.zeros((), target.grad.layout.dtype))
        done()  # before some of it comes back, where the source is of the same array
        if source.grad is not None:
            layout = source.grad.layout
            if layout.dtype != flowing.dtype:
                if not is_zero(flowing):
                    raise placed(
                        NotDifferentiableError(
                            f"wp.copy: elements of {source.dtype!r} were copied to an array of {target.dtype!r}, and"
                            " such a copy of bits has no derivative",
                            hint="convert them in a kernel, or copy to an array without a gradient",
                        ),
                        self.where,
                    )
            else:
                added(source.grad, flowing.reshape(layout.full_shape))

    def steps(self, scratch: Scratch) -> list[Any] | None:
        target, source = self.arrays
        if target.grad is None:
            return []
        if target.retain_grad or not is_here(target.grad):
            return None
        content = target.grad.host()
        if source.grad is None:
            return [zeroing(target.grad)]
        into = source.grad.host() if is_here(source.grad) else None
        if into is None or (into.shape, into.dtype) != (content.shape, content.dtype):
            return None
        flowing = scratch.empty(content.shape, content.dtype)
        return [(flowing, content), zeroing(target.grad), (into, flowing, "add")]

    def key(self) -> Hashable | None:
        return CopyEntry, *tokens(self.arrays)


class SecondOrderEntry(Entry):
    """Gradients that were computed, which tapes do not go back through."""

    def __init__(self, what: str, span: Span, gradients: Iterable[array]):
        self.what, self.span, self.where = what, span, place_of_caller()
        self.arrays = self.written = tuple(gradients)

    def back(self, retained: Retained) -> None:
        if any(a.grad is not None and not is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written):
            raise placed(
                NotDifferentiableError(
                    f"{self.what} was recorded, what it computed has a gradient, and tapes have no second derivative",
                    self.span,
                    "jax.hessian, or jax.grad of jax.grad, of wp.jax_callable gives them",
                ),
                self.where,
            )
