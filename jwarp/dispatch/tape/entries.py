"""The entries of a tape, one for each command: the contents that it keeps, and the commands of its backward pass."""

from __future__ import annotations

import abc
import copy
import warnings
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.allocation import will_change
from jwarp.arrays.array import array
from jwarp.arrays.changes import CHANGES
from jwarp.arrays.commands import Call, Command, SteppedCall
from jwarp.arrays.living import table
from jwarp.arrays.memory import Kept, place_of_caller
from jwarp.arrays.overlap import overlap
from jwarp.arrays.rematerialised import Remade, lightened
from jwarp.arrays.writes import Computation, Copy, Fill
from jwarp.dispatch.call.found import Found
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.backward import ArrayBackward, BackwardPass, backward_of
from jwarp.dispatch.steps.executors import Recorded, is_here, moving
from jwarp.errors import JwarpError, KernelWarning, LaunchError, NotDifferentiableError
from jwarp.launching.steps import Slot


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


class LaunchEntry(Entry):
    """A launch: its arrays, and what was in those that its adjoint reads.

    Where the adjoint is found to read another array later, as more arrays have gradients then, the content must be
    what it was: `versions` tells.
    """

    def __init__(self, launch: ArrayLaunch):
        values = launch.own_numbers()
        self.values: Sequence[Any] = values
        self.kernel, self.where, self.changed = launch.kernel, place_of_caller(6), launch.plain.written
        self.dims, self.block_dim = launch.dims, launch.block_dim
        self.kept: dict[int, Kept] = {}
        self.found = Found(self.kernel, self.changed, values) if self.kernel.looks_up else None
        self.backward: ArrayBackward | None = None
        self.refusal: JwarpError | None = None
        self.backward_pass: BackwardPass | None = None
        try:
            backward = self.backward = backward_of(launch)
        except LaunchError as error:
            self.refusal = error
            self.arrays = tuple(a for a in values if isinstance(a, array))
            return
        self.arrays = tuple([values[p] for p in backward.arrays])
        self.versions = [a.memory.version for a in self.arrays]
        self._prepare(backward)
        backward_pass = self.backward_pass
        if backward_pass is not None:
            if backward_pass.program.kernel.order and not backward.program.kernel.order:
                launch.program = backward.ordered
                CHANGES.note()
            for p in backward_pass.reads:
                a = values[p]
                if self._is_found(p):
                    self.found.keep()
                elif isinstance(a, array):
                    self.kept[p] = a.memory.keep(a.layout)
        self.values = lightened(values)

    @property
    def written(self) -> tuple[array, ...]:  # type: ignore[override]
        return tuple([a for p in self.changed if isinstance(a := self.values[p], array)])

    @property
    def read(self) -> Collection[int] | None:
        """The parameters that the kernel reads; None where nobody knows."""
        return None if self.backward is None else self.backward.read

    @property
    def side_effects(self) -> Iterable[array]:
        changes = () if self.backward_pass is None else self.backward_pass.changes
        return [a for p in changes if isinstance(a := self.values[p], array)]

    def _moving(self, backward: ArrayBackward) -> tuple[int, ...]:
        """The parameters whose gradients are followed."""
        return tuple([p for p in backward.floats if self._gradient(p) is not None])

    def _is_found(self, p: int) -> bool:
        """True for the parameter that is all memory, which the launch finds arrays in."""
        return self.found is not None and self.found.is_found(p)

    def _gradient(self, p: int) -> Any:
        """The gradient of what a parameter is given; all memory where that of what is found there is followed."""
        value = self.values[p]
        if self.found is None or not self.found.is_found(p):
            return value._grad if isinstance(value, array) else None
        return value if self.found.has_gradients(self.kernel.params[p].dtype) else None

    @property
    def is_asked(self) -> bool:
        found = self.found is not None and any(self._is_found(p) and self._gradient(p) for p in self.changed)
        return found or super().is_asked

    def _prepare(self, backward: ArrayBackward) -> None:
        """Find the adjoint for the arrays that have gradients now."""
        self.moving = self._moving(backward)
        self.refusal = self.backward_pass = None
        try:
            self.backward_pass = backward.pass_of(self.moving, self.values)
        except (NotDifferentiableError, LaunchError) as error:
            self.refusal = error

    def commands(self, retained: Retained) -> list[Command]:
        made: list[Command] = []
        if self.found is not None and self.kernel.enable_backward:
            made.append(SteppedCall(self._check_apart, list))
        values = self.values
        if not [p for p in self.changed if self._gradient(p) is not None]:
            return []
        backward = self.backward
        if backward is not None and self._moving(backward) != self.moving:
            self._prepare(backward)
        if not self.kernel.enable_backward:
            return [Call(self._switched_off)]
        if self.refusal is not None:
            return [*made, Call(self._refuse)]
        if backward is None or self.backward_pass is None:
            return made
        made.append(SteppedCall(self.go_back, self._steps))
        written = [a for p in self.moving if (a := values[p]).retain_grad and p in backward.written]
        if not written:
            return made
        self._refuse_retained(backward)
        return retained.around(written, made)

    def go_back(self) -> None:
        """Run the adjoint in place."""
        backward, backward_pass = self.backward, self.backward_pass
        assert backward is not None and backward_pass is not None  # as the commands are those of an adjoint
        followed = [self._gradient(p) for p in self.moving]
        refuse_traced(f"kernel '{self.kernel.name}'", (*followed, *self.side_effects))
        if self.found is None:
            backward.run(backward_pass, self.values, followed, self._given(backward, backward_pass))
            return
        slots = backward_pass.slots
        runs_again = len(backward_pass.steps.launches) > 1
        with table.in_use():
            moves = self.found.moves(slots, runs_again=runs_again, copied=backward_pass.writes_found)
            arrays = self._given(backward, backward_pass)
            arrays.update({slot: moves.words for slot in slots if self.found.is_moves(slot)})
            will_change([a.gradient for a in self.found.graded])
            backward.run(backward_pass, self.values, followed, arrays)

    def _steps(self) -> list[Recorded] | None:
        backward, backward_pass = self.backward, self.backward_pass
        assert backward is not None and backward_pass is not None
        if backward.on_gpu or not all(is_here(self._gradient(p)) for p in self.moving):
            return None
        if any(self._is_found(slot.param) for slot in backward_pass.slots):
            return None
        return [Recorded(backward_pass.steps, self._given(backward, backward_pass, remakes=False))]

    def _refuse(self) -> None:
        if self.refusal is not None and self.is_asked:
            raise self.refusal

    def _check_apart(self) -> None:
        """Refuse a derivative that is asked for, and whose arrays may be found by numbers, too."""
        if self.found is not None and self.is_asked:
            self.found.check_apart(self.found.mixed, self._added(self.backward_pass))

    def _added(self, backward_pass: BackwardPass | None) -> list[array]:
        """The gradients of parameters, where the adjoint follows those of what is found by numbers, too."""
        given = [] if backward_pass is None else [slot.param for slot in backward_pass.slots if slot.kind == "given"]
        own = [p for p in given if not self._is_found(p)]
        return [self._gradient(p) for p in own] if len(own) < len(given) else []

    @property
    def keeps(self) -> Iterable[Kept]:
        return self.kept.values()

    def key(self) -> Hashable | None:
        backward, backward_pass, values = self.backward, self.backward_pass, self.values
        if backward is None or self.refusal is not None or self._moving(backward) != self.moving:
            return None
        if not self.kernel.enable_backward or self.found is not None:
            return None
        parts = tokens(self.arrays)
        parts.append(backward_pass)
        if backward_pass is not None:
            for p in backward_pass.reads:
                of = values[p]
                if type(of) is array:
                    kept = self.kept.get(p)
                    if kept is None or kept.is_saved:
                        return None
                elif type(of) in _NUMBERS and of != 0:  # zeros have signs
                    parts += type(of), of
                elif of is not None:
                    return None
        return tuple(parts)

    def _given(self, backward: ArrayBackward, backward_pass: BackwardPass, *, remakes: bool = True) -> dict[Slot, Any]:
        """The arrays of the backward pass by slot; also a `Remade` unless it `remakes`."""

        def content(p: int) -> Any:
            of = self.values[p]
            return of if isinstance(of, Remade) and not remakes else self._content(backward, p)

        values = self.values
        return backward.arrays_of(backward_pass, values, content, lambda p: backward.shown(self._gradient(p)))

    def _content(self, backward: ArrayBackward, p: int) -> Any:
        """The content of a parameter before the launch."""
        kept, of = self.kept.get(p), self.values[p]
        if self._is_found(p):
            return backward.shown(of)  # whose content `moves` says where it is
        if kept is not None:
            return backward.kept(kept)
        if not isinstance(of, array):
            return backward.number(p, of)
        if of.memory.version != self.versions[backward.arrays.index(p)]:
            raise LaunchError(
                f"kernel '{self.kernel.name}', parameter '{self.kernel.params[p].name}': the gradient needs what"
                " the array held, and it has been written since; nothing was kept, as no array that the launch"
                " writes had a gradient when it was recorded",
                hint="make the arrays with requires_grad=True before the launch",
            )
        return backward.shown(of)

    def _switched_off(self) -> None:
        if self.is_asked:
            warnings.warn(
                f"tape.backward passes over a launch of kernel '{self.kernel.name}' ({self.place}), which"
                f" was made with enable_backward=False ({self.kernel.span}): gradients through it are missing",
                KernelWarning,
                stacklevel=6,
            )

    def _refuse_retained(self, backward: ArrayBackward) -> None:
        for p in backward.written:
            a = self.values[p]
            if isinstance(a, array) and a.retain_grad and p in backward.read_and_stored:
                raise both_before_and_after(f"kernel '{self.kernel.name}', parameter '{self.kernel.params[p].name}'", a)


_NUMBERS = (float, int)
