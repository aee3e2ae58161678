"""The entries of a tape, one for each command: the contents that it keeps, and its backward pass."""

from __future__ import annotations

import abc
import copy
import warnings
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.allocation import will_change
from jwarp.arrays.array import array
from jwarp.arrays.changes import CHANGES
from jwarp.arrays.memory import HostMemory, Kept, Memory, place_of_caller
from jwarp.arrays.overlap import overlap
from jwarp.arrays.rematerialised import Remade, lightened
from jwarp.arrays.writes import Computation, Copy, Fill
from jwarp.dispatch.call.looking_up import Found
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.backward import ArrayBackward, BackwardPass, backward_of
from jwarp.dispatch.steps.host_executor import Recorded, moving, zeroing
from jwarp.errors import JwarpError, KernelWarning, LaunchError, NotDifferentiableError, Span
from jwarp.types.all_memory import MEMORY


class Retained:
    """Gradients of arrays with `retain_grad` that were overwritten: what writes take away is put back at the end."""

    def __init__(self) -> None:
        self._taken: list[tuple[array, np.ndarray]] = []

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

    @abc.abstractmethod
    def back(self, retained: Retained) -> None:
        """Take the gradients of what it left to those of what it found.

        Raises:
            NotDifferentiableError: it has no exact derivative, and what it wrote to has a gradient other than zero.
        """

    def steps(self) -> list[Recorded] | None:
        """The steps that do the same; None where Python runs it."""
        return None

    @property
    def keeps(self) -> Iterable[Kept]:
        """The contents that it keeps."""
        return ()

    @property
    def side_effects(self) -> Iterable[array]:
        """The arrays that its backward pass writes to besides gradients."""
        return ()

    def key(self) -> Hashable | None:
        """The layout key of its steps; None on the slow path."""
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


def added(grad: array, more: Any) -> None:
    """Add to a gradient."""
    memory, layout = grad.memory, grad.layout
    memory.write(layout, memory.read(layout) + more)


def is_here(a: array) -> bool:
    """True if native code of the host may access an array."""
    return isinstance(a.memory, HostMemory)


def is_zero(content: Any) -> bool:
    return isinstance(content, np.ndarray) and not content.any()


def place_text(where: tuple[str, int]) -> str:
    return f"{where[0]}:{where[1]}"


def placed(error: JwarpError, where: tuple[str, int]) -> JwarpError:
    """The error, with where the command was recorded."""
    made = copy.copy(error)
    made.add_note(f"recorded on a tape at {place_text(where)}")
    return made


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

    def back(self, retained: Retained) -> None:
        self.function()


class ComputationEntry(Entry):
    """A function that changes arrays, with its backward pass, if it has one."""

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

    def steps(self) -> list[Recorded] | None:
        (target,) = self.written
        if target.grad is None:
            return []
        return None if target.retain_grad or not is_here(target.grad) else [zeroing(target.grad.host())]

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

    def steps(self) -> list[Recorded] | None:
        target, source = self.arrays
        if target.grad is None:
            return []
        if target.retain_grad or not is_here(target.grad):
            return None
        content = target.grad.host()
        if source.grad is None:
            return [zeroing(target.grad.host())]
        into = source.grad.host() if is_here(source.grad) else None
        if into is None or (into.shape, into.dtype) != (content.shape, content.dtype):
            return None
        return [moving(content, into)]

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


class LaunchEntry(Entry):
    """A launch: its arrays, and what was in those that its adjoint reads.

    Where the adjoint is found to read another array later, as more arrays have gradients then, the content must be
    what it was: `versions` tells.
    """

    def __init__(self, launch: ArrayLaunch):
        values = launch.values
        self.values: Sequence[Any] = values
        self.kernel, self.where, self.changed = launch.kernel, place_of_caller(6), launch.plain.written
        self.dims, self.block_dim = launch.dims, launch.block_dim
        self.kept: dict[int, Kept] = {}
        self.mixed: tuple[array, ...] = ()
        self.found = Found(launch.kernel) if launch.kernel.looks_up else None
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
        if self.found is not None:
            self.mixed = self._mixed(values)
        self._prepare(backward)
        backward_pass = self.backward_pass
        if backward_pass is not None:
            if backward_pass.program.kernel.order and not backward.program.kernel.order:
                launch.program = backward.ordered
                CHANGES.note()
            for p in backward_pass.reads:
                a = values[p]
                if isinstance(a, array):
                    self.kept[p] = a.memory.keep(a.layout)
        self.values = lightened(values)

    @property
    def written(self) -> tuple[array, ...]:  # type: ignore[override]
        return tuple([a for p in self.changed if isinstance(a := self.values[p], array)])

    @property
    def side_effects(self) -> Iterable[array]:
        changes = () if self.backward_pass is None else self.backward_pass.changes
        return [a for p in changes if isinstance(a := self.values[p], array)]

    def _moving(self, backward: ArrayBackward) -> tuple[int, ...]:
        """The parameters whose gradients are followed."""
        values = self.values
        return tuple([p for p in backward.floats if values[p]._grad is not None])

    def _prepare(self, backward: ArrayBackward) -> None:
        """Find the adjoint for the arrays that have gradients now."""
        self.moving = self._moving(backward)
        self.refusal = self.backward_pass = None
        try:
            self.backward_pass = backward.pass_of(self.moving, self.values)
        except (NotDifferentiableError, LaunchError) as error:
            self.refusal = error

    def back(self, retained: Retained) -> None:
        backward = self.backward
        if self.found is not None and self.kernel.enable_backward:
            try:
                self._check_found(backward, self.found)
            except NotDifferentiableError as error:
                raise placed(error, self.where) from None
        if not [a for a in self.written if a._grad is not None]:
            return
        if self.found is not None and self.kernel.enable_backward and self._is_asked():
            try:
                self.found.check_apart(self.mixed)
            except NotDifferentiableError as error:
                raise placed(error, self.where) from None
        if backward is not None and self._moving(backward) != self.moving:
            self._prepare(backward)
        if not self.kernel.enable_backward:
            return self._switched_off()
        if self.refusal is not None:
            if self._is_asked():
                raise placed(self.refusal, self.where)
            return None
        backward_pass = self.backward_pass
        if backward is None or backward_pass is None:
            return None
        values = self.values
        done = None
        if self._retains(backward):
            self._refuse_retained(backward)
            done = retained.watch([values[p] for p in self.moving if p in backward.written])
        followed = [values[p]._grad for p in self.moving]
        changed = backward.changed(backward_pass, values, followed)
        if [a for a in (*followed, *changed) if a.memory.is_traced]:
            refuse_traced(f"kernel '{self.kernel.name}'", (*followed, *changed))
        contents, grads = self._given(backward, backward_pass)
        will_change([a.memory for a in (*followed, *changed)])
        backward_pass(contents, grads)
        if done is not None:
            done()
        return None

    def _mixed(self, values: Sequence[Any]) -> tuple[array, ...]:
        """The parameters that are not what the launch takes them for where it finds them by numbers, too."""
        params = self.kernel.params
        everywhere = any(params[p].is_heap for p in self.changed)  # it writes to what it finds
        own = (p for p, param in enumerate(params) if not (param.is_heap or param.is_table))
        return tuple([a for p in own if (everywhere or p in self.changed) and isinstance(a := values[p], array)])

    def _check_found(self, backward: ArrayBackward | None, found: Found) -> None:
        """Refuse a derivative that would miss gradients of arrays that the launch finds by numbers."""
        params = self.kernel.params
        used = params if backward is None else [params[p] for p in {*backward.read, *self.changed} if p < len(params)]
        if any(param.is_heap and param.dtype.is_float for param in used):
            found.check_gradients(by_addresses=any(param.name == f"{MEMORY}.words" for param in used))

    def is_apart(self, mixed: Iterable[array], written: Container[Memory]) -> bool:
        """True if its steps miss nothing that it may find by numbers, where others write to the memories `written`.

        `mixed` are the parameters, of all such entries, that are not what the launches take them for.
        """
        found = Found(self.kernel)
        try:
            self._check_found(self.backward, found)
            found.check_apart(mixed)
        except NotDifferentiableError:
            return False
        return found.are_apart(written)

    def steps(self) -> list[Recorded] | None:
        if not [a for a in self.written if a._grad is not None]:
            return []
        backward, backward_pass = self.backward, self.backward_pass
        if backward is None or backward.on_gpu or not self.kernel.enable_backward or self.refusal is not None:
            return None
        if backward_pass is None:
            return []
        followed = [self.values[p]._grad for p in self.moving]
        if self._moving(backward) != self.moving or self._retains(backward) or not all(map(is_here, followed)):
            return None
        return [backward_pass.recorded(*self._given(backward, backward_pass, remakes=False))]

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

    def _retains(self, backward: ArrayBackward) -> bool:
        """True if gradients of arrays that it writes are to be retained."""
        return bool([p for p in self.moving if self.values[p].retain_grad and p in backward.written])

    def _given(
        self, backward: ArrayBackward, backward_pass: BackwardPass, *, remakes: bool = True
    ) -> tuple[list[Any], list[Any]]:
        """The arguments of the adjoint: contents and gradients, by parameter; also a `Remade` unless it `remakes`."""
        contents: list[Any] = [None] * len(self.values)
        grads: list[Any] = [None] * len(self.values)
        for p in self.moving:
            grads[p] = backward.shown(self.values[p]._grad)
        for p in backward_pass.reads:
            of = self.values[p]
            contents[p] = of if isinstance(of, Remade) and not remakes else self._content(backward, p)
        for p in backward_pass.changes:
            contents[p] = backward.now(p, self.values[p])
        return contents, grads

    def _is_asked(self) -> bool:
        """True if arrays that it wrote have gradients other than zero."""
        return any(a.grad is not None and not is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written)

    def _content(self, backward: ArrayBackward, p: int) -> Any:
        """The content of a parameter before the launch."""
        kept, of = self.kept.get(p), self.values[p]
        if self.found is not None and self.kernel.params[p].is_heap:
            self.found.check_contents()
        if kept is not None:
            return backward.kept(kept)
        if not isinstance(of, array):
            return backward.number(p, of)
        if of.memory.version != self.versions[backward.arrays.index(p)]:
            raise placed(
                LaunchError(
                    f"kernel '{self.kernel.name}', parameter '{self.kernel.params[p].name}': the gradient needs what"
                    " the array held, and it has been written since; nothing was kept, as no array that the launch"
                    " writes had a gradient when it was recorded",
                    hint="make the arrays with requires_grad=True before the launch",
                ),
                self.where,
            )
        return backward.shown(of)

    def _switched_off(self) -> None:
        if self._is_asked():
            warnings.warn(
                f"tape.backward passes over a launch of kernel '{self.kernel.name}' ({place_text(self.where)}), which"
                f" was made with enable_backward=False ({self.kernel.span}): gradients through it are missing",
                KernelWarning,
                stacklevel=6,
            )

    def _refuse_retained(self, backward: ArrayBackward) -> None:
        for p in backward.written:
            a = self.values[p]
            if isinstance(a, array) and a.retain_grad and p in backward.read_and_stored:
                raise placed(
                    both_before_and_after(f"kernel '{self.kernel.name}', parameter '{self.kernel.params[p].name}'", a),
                    self.where,
                )


_NUMBERS = (float, int)
