"""What a tape remembers of commands, and the ways back through them: cotangents of arrays, in place in their `grad`."""

from __future__ import annotations

import abc
import itertools
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.commands import Call, Command
from jwarp.arrays.memory import HostMemory, Kept, place_of_caller
from jwarp.arrays.overlap import overlap
from jwarp.arrays.writes import Computation, Copy, Fill
from jwarp.bind.compat import is_not_tracing
from jwarp.dispatch import backward_plans
from jwarp.dispatch.array_adjoint import ArrayAdjoint, will_change
from jwarp.dispatch.array_reversal import WayBack, way_back
from jwarp.dispatch.arrays import ArrayLaunch
from jwarp.dispatch.reversal import Reversal
from jwarp.dispatch.scratch import Scratch
from jwarp.errors import NO_SPAN, JwarpError, KernelWarning, LaunchError, NotDifferentiableError, Span


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

    def steps(self, scratch: Scratch) -> list[Any] | None:
        """The native steps that do the same each time that they run; None where Python is needed."""
        return None

    @property
    def keeps(self) -> Iterable[Kept]:
        """What it keeps of contents."""
        return ()

    def key(self) -> Hashable | None:
        """What must be alike for the same steps to go back through it; None where a closer look is needed."""
        return None


def entry_of(command: Command) -> Entry | None:
    """What a tape remembers of a command that is about to run; None where it changes no array of floats."""
    made = _ENTRIES.get(type(command))
    return None if made is None else made(command)


def has_gradients(a: array) -> bool:
    """Whether arrays of this type have gradients: their elements are of floats."""
    return a.layout.dtype.kind not in "biu"


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
        if not any(a.grad is not None and not _is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written):
            return
        back, name = self.command.back, self.command.name
        if back is None:
            raise _placed(
                NotDifferentiableError(
                    f"{name} has no derivative, and what it wrote to has a gradient",
                    hint="tape.record_func takes a function that goes back through it",
                ),
                self.where,
            )
        if self.kept is None and self.command.reads:
            raise _placed(
                LaunchError(
                    f"{name}: the gradient needs what the arrays held, and nothing was kept, as no array that it writes"
                    " had a gradient when it was recorded",
                    hint="make the arrays with requires_grad=True before",
                ),
                self.where,
            )
        _refuse_traced(name, [a.grad for a in self.arrays if a.grad is not None])
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
        return None if target.retain_grad or not _is_here(target.grad) else [zeroing(target.grad)]

    def key(self) -> Hashable | None:
        return FillEntry, *_tokens(self.arrays)


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
        if source.grad is not None:
            layout = source.grad.layout
            if layout.dtype != flowing.dtype:
                if not _is_zero(flowing):
                    raise _placed(
                        NotDifferentiableError(
                            f"wp.copy: elements of {source.dtype!r} were copied to an array of {target.dtype!r}, and"
                            " such a copy of bits has no derivative",
                            hint="convert them in a kernel, or copy to an array without a gradient",
                        ),
                        self.where,
                    )
            else:
                added(source.grad, flowing.reshape(layout.full_shape))
        done()

    def steps(self, scratch: Scratch) -> list[Any] | None:
        target, source = self.arrays
        if target.grad is None:
            return []
        if target.retain_grad or not _is_here(target.grad):
            return None
        content = target.grad.host()
        if source.grad is None:
            return [zeroing(target.grad)]
        into = source.grad.host() if _is_here(source.grad) else None
        if into is None or (into.shape, into.dtype) != (content.shape, content.dtype):
            return None
        flowing = scratch.empty(content.shape, content.dtype)
        return [(flowing, content), zeroing(target.grad), (into, flowing, "add")]

    def key(self) -> Hashable | None:
        return CopyEntry, *_tokens(self.arrays)


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


class SecondOrderEntry(Entry):
    """Gradients that were computed, which tapes do not go back through."""

    def __init__(self, what: str, span: Span, gradients: Iterable[array]):
        self.what, self.span, self.where = what, span, place_of_caller()
        self.arrays = self.written = tuple(gradients)

    def back(self, retained: Retained) -> None:
        if any(a.grad is not None and not _is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written):
            raise _placed(
                NotDifferentiableError(
                    f"{self.what} was recorded, what it computed has a gradient, and tapes have no second derivative",
                    self.span,
                    "jax.hessian, or jax.grad of jax.grad, of wp.jax_callable gives them",
                ),
                self.where,
            )


def _of_adjoint(launch: ArrayAdjoint) -> Entry:
    kernel = launch.kernel
    return SecondOrderEntry(f"kernel '{kernel.name}': an adjoint launch", kernel.span, launch.gradients)


def _of_backward(command: Backward) -> Entry:
    return SecondOrderEntry("wp.Tape.backward of another tape", NO_SPAN, command.gradients)


class LaunchEntry(Entry):
    """A launch: its arrays, and what was in those that its adjoint reads.

    Where the adjoint is found to read another array later, as more arrays have gradients then, the content must be
    what it was: `versions` tells.
    """

    def __init__(self, launch: ArrayLaunch):
        self.kernel, self.where, self.values = launch.kernel, place_of_caller(5), launch.values
        values = launch.values
        self.kept: dict[int, Kept] = {}
        self.refusal: JwarpError | None = None
        self.reversal: Reversal | None = None
        self.way: WayBack | None = None
        try:
            way = self.way = way_back(launch)
        except LaunchError as error:
            self.refusal = error
            self.arrays = tuple(a for a in values if isinstance(a, array))
            self.written = tuple(a for p in launch.program.written if isinstance(a := values[p], array))
            return
        self.arrays = tuple([values[p] for p in way.arrays])
        self.written = tuple([a for p in launch.program.written if (a := values[p]) is not None])
        self.versions = [a.memory.version for a in self.arrays]
        self._prepare(way)
        if self.reversal is not None:
            if self.reversal.program.kernel.order and not way.program.kernel.order:
                launch.program = way.ordered
            for p in self.reversal.reads:
                a = values[p]
                if isinstance(a, array):
                    self.kept[p] = a.memory.keep(a.layout)

    def _moving(self, way: WayBack) -> tuple[int, ...]:
        """The parameters whose gradients are followed."""
        values = self.values
        return tuple([p for p in way.floats if values[p]._grad is not None])

    def _prepare(self, way: WayBack) -> None:
        """Find the adjoint for the arrays that have gradients now."""
        self.moving, self.refusal, self.reversal = self._moving(way), None, None
        try:
            self.reversal = way.reversal(self.moving, self.values)
        except (NotDifferentiableError, LaunchError) as error:
            self.refusal = error

    def back(self, retained: Retained) -> None:
        if not [a for a in self.written if a._grad is not None]:
            return
        way = self.way
        if way is not None and self._moving(way) != self.moving:
            self._prepare(way)
        if not self.kernel.enable_backward:
            return self._switched_off()
        if self.refusal is not None:
            if self._is_asked():
                raise _placed(self.refusal, self.where)
            return None
        reversal = self.reversal
        if way is None or reversal is None:
            return None
        values = self.values
        done = None
        if self._retains(way):
            self._refuse_retained(way)
            done = retained.watch([values[p] for p in self.moving if p in way.written])
        followed = [values[p]._grad for p in self.moving]
        if [grad for grad in followed if grad.memory.is_traced]:
            _refuse_traced(f"kernel '{self.kernel.name}'", followed)
        contents, grads = self._given(way, reversal)
        will_change(followed)
        reversal(contents, grads)
        if done is not None:
            done()
        return None

    def steps(self, scratch: Scratch) -> list[Any] | None:
        if not [a for a in self.written if a._grad is not None]:
            return []
        way, reversal = self.way, self.reversal
        if way is None or way.on_gpu or not self.kernel.enable_backward or self.refusal is not None:
            return None
        if reversal is None:
            return []
        followed = [self.values[p]._grad for p in self.moving]
        if self._moving(way) != self.moving or self._retains(way) or not all(map(_is_here, followed)):
            return None
        return reversal.steps(*self._given(way, reversal), scratch)

    @property
    def keeps(self) -> Iterable[Kept]:
        return self.kept.values()

    def key(self) -> Hashable | None:
        way, reversal, values = self.way, self.reversal, self.values
        if way is None or self.refusal is not None or self._moving(way) != self.moving:
            return None
        if not self.kernel.enable_backward:
            return None
        parts = _tokens(self.arrays)
        parts.append(reversal)
        if reversal is not None:
            for p in reversal.reads:
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

    def _retains(self, way: WayBack) -> bool:
        """Whether there are gradients to be retained of what it writes."""
        return bool([p for p in self.moving if self.values[p].retain_grad and p in way.written])

    def _given(self, way: WayBack, reversal: Reversal) -> tuple[list[Any], list[Any]]:
        """What the adjoint is given: contents and gradients, by parameter."""
        contents: list[Any] = [None] * len(self.values)
        grads: list[Any] = [None] * len(self.values)
        for p in self.moving:
            grads[p] = way.shown(self.values[p]._grad)
        for p in reversal.reads:
            contents[p] = self._content(way, p)
        return contents, grads

    def _is_asked(self) -> bool:
        """Whether there are gradients of what it wrote."""
        return any(a.grad is not None and not _is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written)

    def _content(self, way: WayBack, p: int) -> Any:
        """What the adjoint reads of a parameter: the content before the launch."""
        kept, of = self.kept.get(p), self.values[p]
        if kept is not None:
            return way.kept(kept)
        if not isinstance(of, array):
            return way.number(p, of)
        if of.memory.version != self.versions[way.arrays.index(p)]:
            raise _placed(
                LaunchError(
                    f"kernel '{self.kernel.name}', parameter '{self.kernel.params[p].name}': the gradient needs what"
                    " the array held, and it has been written since; nothing was kept, as no array that the launch"
                    " writes had a gradient when it was recorded",
                    hint="make the arrays with requires_grad=True before the launch",
                ),
                self.where,
            )
        return way.shown(of)

    def _switched_off(self) -> None:
        if self._is_asked():
            warnings.warn(
                f"tape.backward passes over a launch of kernel '{self.kernel.name}' ({_place(self.where)}), which was"
                f" made with enable_backward=False ({self.kernel.span}): gradients through it are missing",
                KernelWarning,
                stacklevel=6,
            )

    def _refuse_retained(self, way: WayBack) -> None:
        for p in way.written:
            a = self.values[p]
            if isinstance(a, array) and a.retain_grad and p in way.read_and_stored:
                raise _placed(
                    LaunchError(
                        f"kernel '{self.kernel.name}', parameter '{self.kernel.params[p].name}': the array has"
                        " retain_grad, and the launch both reads and overwrites it, so that it has a gradient before"
                        " and another one after",
                        hint="let the kernel write to another array, or set retain_grad to False",
                    ),
                    self.where,
                )


_NUMBERS = (float, int)


def _tokens(arrays: Iterable[array]) -> list[Any]:
    """What tells arrays and their gradients from others."""
    made: list[Any] = []
    for a in arrays:
        grad = a._grad
        made += a.token, None if grad is None else grad.token, a.retain_grad
    return made


# What remembers each kind of command.
_ENTRIES: dict[type[Command], Callable[[Any], Entry]] = {
    ArrayAdjoint: _of_adjoint,
    ArrayLaunch: LaunchEntry,
    Backward: _of_backward,
    Copy: CopyEntry,
    Computation: ComputationEntry,
    Fill: FillEntry,
}


def _refuse_traced(what: str, gradients: Iterable[array]) -> None:
    if any(grad.memory.is_traced for grad in gradients):
        raise LaunchError(
            f"{what}: wp.Tape goes back through arrays whose content is known, and JAX traces those of this launch",
            hint="jax.grad of a function of wp.functionalize goes back through what JAX traces",
        )


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


def added(grad: array, more: Any) -> None:
    """Add to a gradient."""
    memory, layout = grad.memory, grad.layout
    memory.write(layout, memory.read(layout) + more)


def zeroing(a: array) -> tuple[np.ndarray, np.ndarray]:
    """The native step that sets an array of this computer's memory to zeros."""
    return a.host(), np.broadcast_to(np.zeros((), a.layout.dtype), a.layout.full_shape)


def _is_here(a: array) -> bool:
    """Whether native code of the host may look at an array."""
    return isinstance(a.memory, HostMemory)


def _is_zero(content: Any) -> bool:
    return isinstance(content, np.ndarray) and not content.any()


def _place(where: tuple[str, int]) -> str:
    return f"{where[0]}:{where[1]}"


def _placed(error: JwarpError, where: tuple[str, int]) -> JwarpError:
    """The error, with where the command was recorded."""
    made = type(error)(*error.__reduce__()[1])
    made.add_note(f"recorded on a tape at {_place(where)}")
    return made
