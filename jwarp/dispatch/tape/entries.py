"""The entries of a tape, one for each command: the contents that it keeps, and the commands of its backward pass."""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.commands import Call, Command, SteppedCall
from jwarp.arrays.memory import Kept, place_of_caller
from jwarp.arrays.overlap import overlap
from jwarp.arrays.writes import Computation, Copy, Fill
from jwarp.dispatch.steps.executors import Recorded, is_here, moving
from jwarp.errors import JwarpError, LaunchError, NotDifferentiableError


class Retained:
    """Gradients of arrays with `retain_grad` that were overwritten: what writes take away is put back at the end."""

    def __init__(self) -> None:
        self._taken: list[tuple[array, np.ndarray]] = []

    def around(self, written: Sequence[array], commands: list[Command]) -> list[Command]:
        """The commands of the backward pass of what has `written` to arrays, with those that note what they take."""
        if not [a for a in written if a.retain_grad and a.grad is not None]:
            return commands
        noted: list[Callable[[], None]] = []
        return [Call(lambda: noted.append(self.watch(written))), *commands, Call(lambda: noted.pop()())]

    def watch(self, given: Iterable[array]) -> Callable[[], None]:
        """A function to call after a write went back, which keeps what that took from the gradients of arrays."""
        before = [(a.grad, a.grad.host().copy()) for a in given if a.retain_grad and a.grad is not None]
        return lambda: self._taken.extend((grad, old - grad.host()) for grad, old in before)

    def put_back(self) -> None:
        """Add what was taken."""
        for grad, taken in self._taken:
            added(grad, taken)
        self._taken.clear()


class Entry(abc.ABC):
    """One command on a tape. `arrays` are those that it is about, `written` those of them that it writes to."""

    arrays: tuple[array, ...] = ()
    written: tuple[array, ...] = ()
    where: tuple[str, int] | None = None  # file and line where it was recorded

    @abc.abstractmethod
    def commands(self, retained: Retained) -> list[Command]:
        """The commands that take the gradients of what it left to those of what it found.

        They are those for the gradients that there are now, and run before others are asked for theirs.

        Raises:
            NotDifferentiableError: it has no exact derivative, also when a command runs.
        """

    @property
    def keeps(self) -> Iterable[Kept]:
        """The contents that it keeps."""
        return ()

    @property
    def side_effects(self) -> Iterable[array]:
        """The arrays that its backward pass writes to besides gradients."""
        return ()

    @property
    def is_asked(self) -> bool:
        """True if arrays that it wrote have gradients other than zero."""
        return any(a.grad is not None and not is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written)

    @property
    def place(self) -> str:
        """Where it was recorded, as text."""
        return "" if self.where is None else "{}:{}".format(*self.where)

    def placed(self, error: JwarpError) -> JwarpError:
        """The error of a command, with where the entry was recorded."""
        made = copy.copy(error)
        made.add_note(f"recorded on a tape at {self.place}")
        return made

    def key(self) -> Hashable | None:
        """The layout key of its commands; None on the slow path."""
        return None


def has_gradients(a: array) -> bool:
    """True if arrays of this type have gradients: their elements are of floats."""
    return a.layout.dtype.kind not in "biu"


def tokens(arrays: Iterable[array]) -> list[Any]:
    """The part of a layout key that tells arrays and their gradients from others."""
    made: list[Any] = []
    for a in arrays:
        grad = a._grad
        made += a.token, None if grad is None else grad.token, a.retain_grad
    return made


def refuse_traced(what: str, gradients: Iterable[array]) -> None:
    if any(grad.memory.is_traced for grad in gradients):
        raise LaunchError(
            f"{what}: wp.Tape goes back through arrays whose content is known, and JAX traces those of this launch",
            hint="jax.grad of a function of wp.functionalize goes back through what JAX traces",
        )


def zeroing(grad: array) -> Fill:
    """The command that sets a gradient to zero."""
    return Fill(grad, np.zeros((), grad.layout.dtype))


def added(grad: array, more: Any) -> None:
    """Add to a gradient."""
    memory, layout = grad.memory, grad.layout
    memory.write(layout, memory.read(layout) + more)


def is_zero(content: Any) -> bool:
    return isinstance(content, np.ndarray) and not content.any()


def both_before_and_after(what: str, a: array) -> LaunchError:
    """The error for an array with `retain_grad` that is read and overwritten at once."""
    return LaunchError(
        f"{what}: {a.memory.made_at} has retain_grad, and is both read and overwritten, so that it has a gradient"
        " before and another one after",
        hint="let it write to another array, or set retain_grad to False",
    )


class FunctionEntry(Entry):
    """A function that the program itself runs in the backward pass."""

    def __init__(self, function: Callable[[], Any], arrays: Sequence[array]):
        self.function, self.arrays = function, tuple(arrays)

    def commands(self, retained: Retained) -> list[Command]:
        return [Call(self.function)]


class ComputationEntry(Entry):
    """A function that changes arrays, with its backward pass, if it has one."""

    def __init__(self, command: Computation):
        self.command, self.where = command, place_of_caller()
        self.written = tuple(a for a in command.changed if has_gradients(a))
        self.arrays = (*command.changed, *command.reads)
        self.kept: list[Kept] | None = None
        if any(a.grad is not None for a in self.written):
            self.kept = [a.memory.keep(a.layout) for a in command.reads]

    def commands(self, retained: Retained) -> list[Command]:
        return retained.around(self.written, [Call(self._back)])

    def _back(self) -> None:
        if not self.is_asked:
            return
        back, name = self.command.back, self.command.name
        if back is None:
            raise NotDifferentiableError(
                f"{name} has no derivative, and what it wrote to has a gradient",
                hint="tape.record_func takes a function that goes back through it",
            )
        if self.kept is None and self.command.reads:
            raise LaunchError(
                f"{name}: the gradient needs what the arrays held, and nothing was kept, as no array that it writes"
                " had a gradient when it was recorded",
                hint="make the arrays with requires_grad=True before",
            )
        refuse_traced(name, [a.grad for a in self.arrays if a.grad is not None])
        for a in self.written:
            if a.retain_grad and any(overlap(a, b) for b in self.command.given):
                raise both_before_and_after(name, a)
        back([kept.array() for kept in self.kept or ()])


class FillEntry(Entry):
    """A fill: what was there before has no gradient."""

    def __init__(self, command: Fill):
        self.arrays = self.written = tuple(command.written)

    def commands(self, retained: Retained) -> list[Command]:
        grad = self.written[0].grad
        return [] if grad is None else retained.around(self.written, [zeroing(grad)])

    def key(self) -> Hashable | None:
        return FillEntry, *tokens(self.arrays)


class CopyEntry(Entry):
    """A copy: the gradient goes to the source, and what was there before has none."""

    def __init__(self, command: Copy):
        self.arrays, self.written = (command.dest, command.src), tuple(command.written)
        self.where = place_of_caller()

    def commands(self, retained: Retained) -> list[Command]:
        target, source = self.arrays[0].grad, self.arrays[1].grad
        if target is None:
            return []
        if source is None:
            return retained.around(self.written, [zeroing(target)])
        if source.layout.dtype != target.layout.dtype:
            return [Call(self._refuse), *retained.around(self.written, [zeroing(target)])]
        return [SteppedCall(lambda: self._move(target, source, retained), lambda: self._steps(target, source))]

    def _move(self, target: array, source: array, retained: Retained) -> None:
        """Add the gradient to that of the source, of which it may be a part, and set it to zero."""
        done = retained.watch(self.written)
        content = target.memory.read(target.layout)
        flowing = content.copy() if isinstance(content, np.ndarray) else content
        target.memory.write(target.layout, np.zeros((), target.layout.dtype))
        done()  # before some of it comes back, where the source is of the same array
        added(source, flowing.reshape(source.layout.full_shape))

    def _steps(self, target: array, source: array) -> list[Recorded] | None:
        if self.written[0].retain_grad or not (is_here(target) and is_here(source)):
            return None
        content, into = target.host(), source.host()
        return [moving(content, into)] if content.shape == into.shape else None

    def _refuse(self) -> None:
        if self.is_asked:
            target, source = self.arrays
            raise NotDifferentiableError(
                f"wp.copy: elements of {source.dtype!r} were copied to an array of {target.dtype!r}, and"
                " such a copy of bits has no derivative",
                hint="convert them in a kernel, or copy to an array without a gradient",
            )

    def key(self) -> Hashable | None:
        return CopyEntry, *tokens(self.arrays)


class SecondOrderEntry(Entry):
    """Gradients that were computed, by an adjoint launch or another tape, which tapes do not go back through."""

    def __init__(self, command: Any):
        self.title, self.span, self.where = command.title, command.span, place_of_caller()
        self.arrays = self.written = tuple(command.written)

    def commands(self, retained: Retained) -> list[Command]:
        return [Call(self._refuse)]

    def _refuse(self) -> None:
        if self.is_asked:
            raise NotDifferentiableError(
                f"{self.title} was recorded, what it computed has a gradient, and tapes have no second derivative",
                self.span,
                "jax.hessian, or jax.grad of jax.grad, of wp.jax_callable gives them",
            )
