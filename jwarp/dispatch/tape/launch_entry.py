"""The entry of a launch on a tape: the contents that its adjoint reads, and the commands of its backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

from jwarp.arrays.allocation import will_change
from jwarp.arrays.array import array
from jwarp.arrays.changes import CHANGES
from jwarp.arrays.commands import Call, Command, SteppedCall
from jwarp.arrays.living import table
from jwarp.arrays.memory import Kept, place_of_caller
from jwarp.arrays.rematerialised import Remade, lightened
from jwarp.dispatch.call.found import Found
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.backward import ArrayBackward, BackwardPass, backward_of
from jwarp.dispatch.steps.executors import Recorded, is_here
from jwarp.dispatch.tape.entries import Entry, Retained, both_before_and_after, refuse_traced, tokens
from jwarp.errors import JwarpError, KernelWarning, LaunchError, NotDifferentiableError
from jwarp.launching.steps import Slot


class LaunchEntry(Entry):
    """A launch: its arrays, and what was in those that its adjoint reads.

    Where the adjoint is found to read another array later, as more arrays have gradients then, the content must be
    what it was: `versions` tells.
    """

    found: Found | None = None
    backward: ArrayBackward | None = None
    backward_pass: BackwardPass | None = None
    refusal: JwarpError | None = None

    def __init__(self, launch: ArrayLaunch):
        values = launch.own_numbers()
        self.values: Sequence[Any] = values
        self.kernel, self.where, self.changed = launch.kernel, place_of_caller(6), launch.plain.written
        self.dims, self.block_dim = launch.dims, launch.block_dim
        self.kept: dict[int, Kept] = {}
        if self.kernel.looks_up:
            self.found = Found(self.kernel, self.changed, values)
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
                if self.found is not None and self.found.is_found(p):
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
        if self.found is not None:
            return tuple([p for p in backward.floats if self._gradient(p) is not None])
        values = self.values
        return tuple([p for p in backward.floats if values[p]._grad is not None])

    def _is_found(self, p: int) -> bool:
        """True for the parameter that is all memory, which the launch finds arrays in."""
        return self.found is not None and self.found.is_found(p)

    def _gradient(self, p: int) -> Any:
        """The gradient of what a parameter is given; all memory where that of what is found there is followed."""
        value = self.values[p]
        if self.found is None or not self.found.is_found(p):
            return value._grad if isinstance(value, array) else None
        return value if self.found.has_gradients(self.kernel.params[p].dtype) else None

    def _gradients(self, params: Sequence[int]) -> list[Any]:
        """The gradients of what some parameters are given."""
        if self.found is not None:
            return list(map(self._gradient, params))
        values = self.values
        return [a._grad if isinstance(a := values[p], array) else None for p in params]

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
        if not [grad for grad in self._gradients(self.changed) if grad is not None]:
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
        followed = self._gradients(self.moving)
        touched = [*followed, *self.side_effects] if backward_pass.changes else followed
        if [a for a in touched if a.memory.is_traced]:
            refuse_traced(f"kernel '{self.kernel.name}'", touched)
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
        given = self._given(backward, backward_pass, remakes=False)
        # It finds content in place, by the launch's own `moves`: `Found.is_apart` is asked before each run.
        if backward_pass.writes_found or any(kind == "given" and self._is_found(p) for kind, p in given):
            return None
        return [Recorded(backward_pass.steps, given)]

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
        return self.kept.values() if self.found is None else [*self.kept.values(), *self.found.kept]

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

        values, shown = self.values, backward.shown
        if self.found is None:
            return backward.arrays_of(backward_pass, values, content, lambda p: shown(values[p]._grad))
        return backward.arrays_of(backward_pass, values, content, lambda p: shown(self._gradient(p)))

    def _content(self, backward: ArrayBackward, p: int) -> Any:
        """The content of a parameter before the launch."""
        kept, of = self.kept.get(p), self.values[p]
        if kept is not None:
            return backward.kept(kept)
        if not isinstance(of, array):
            return backward.number(p, of)
        if self._is_found(p):
            return backward.shown(of)  # whose content `moves` says where it is
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
