"""The entry of a launch on a tape: the contents that it keeps, and its backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from jwarp.arrays.allocation import will_change
from jwarp.arrays.array import array
from jwarp.arrays.memory import Kept, place_of_caller
from jwarp.arrays.rematerialised import lightened
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.backward import ArrayBackward, BackwardPass, backward_of
from jwarp.dispatch.steps.recorded import Recorded
from jwarp.dispatch.tape.entries import (
    Entry,
    Retained,
    both_before_and_after,
    is_here,
    is_zero,
    place_text,
    placed,
    refuse_traced,
    tokens,
)
from jwarp.errors import JwarpError, KernelWarning, LaunchError, NotDifferentiableError


class LaunchEntry(Entry):
    """A launch: its arrays, and what was in those that its adjoint reads.

    Where the adjoint is found to read another array later, as more arrays have gradients then, the content must be
    what it was: `versions` tells.
    """

    def __init__(self, launch: ArrayLaunch):
        values = launch.values
        self.values: Sequence[Any] = values
        self.kernel, self.where, self.changed = launch.kernel, place_of_caller(6), launch.plain.written
        self.kept: dict[int, Kept] = {}
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
            for p in backward_pass.reads:
                a = values[p]
                if isinstance(a, array):
                    self.kept[p] = a.memory.keep(a.layout)
        self.values = lightened(values)

    @property
    def written(self) -> tuple[array, ...]:  # type: ignore[override]
        return tuple([a for p in self.changed if isinstance(a := self.values[p], array)])

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
        if not [a for a in self.written if a._grad is not None]:
            return
        backward = self.backward
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
        if [grad for grad in followed if grad.memory.is_traced]:
            refuse_traced(f"kernel '{self.kernel.name}'", followed)
        contents, grads = self._given(backward, backward_pass)
        will_change([grad.memory for grad in followed])
        backward_pass(contents, grads)
        if done is not None:
            done()
        return None

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
        return [backward_pass.recorded(*self._given(backward, backward_pass))]

    @property
    def keeps(self) -> Iterable[Kept]:
        return self.kept.values()

    def key(self) -> Hashable | None:
        backward, backward_pass, values = self.backward, self.backward_pass, self.values
        if backward is None or self.refusal is not None or self._moving(backward) != self.moving:
            return None
        if not self.kernel.enable_backward:
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

    def _given(self, backward: ArrayBackward, backward_pass: BackwardPass) -> tuple[list[Any], list[Any]]:
        """The arguments of the adjoint: contents and gradients, by parameter."""
        contents: list[Any] = [None] * len(self.values)
        grads: list[Any] = [None] * len(self.values)
        for p in self.moving:
            grads[p] = backward.shown(self.values[p]._grad)
        for p in backward_pass.reads:
            contents[p] = self._content(backward, p)
        return contents, grads

    def _is_asked(self) -> bool:
        """True if arrays that it wrote have gradients other than zero."""
        return any(a.grad is not None and not is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written)

    def _content(self, backward: ArrayBackward, p: int) -> Any:
        """The content of a parameter before the launch."""
        kept, of = self.kept.get(p), self.values[p]
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
