"""A launch on a tape: what is kept of its arrays, and the way back through it."""

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
        self.way: ArrayBackward | None = None
        self.refusal: JwarpError | None = None
        self.reversal: BackwardPass | None = None
        try:
            way = self.way = backward_of(launch)
        except LaunchError as error:
            self.refusal = error
            self.arrays = tuple(a for a in values if isinstance(a, array))
            return
        self.arrays = tuple([values[p] for p in way.arrays])
        self.versions = [a.memory.version for a in self.arrays]
        self._prepare(way)
        reversal = self.reversal
        if reversal is not None:
            if reversal.program.kernel.order and not way.program.kernel.order:
                launch.program = way.ordered
            for p in reversal.reads:
                a = values[p]
                if isinstance(a, array):
                    self.kept[p] = a.memory.keep(a.layout)
        self.values = lightened(values)

    @property
    def written(self) -> tuple[array, ...]:  # type: ignore[override]
        return tuple([a for p in self.changed if isinstance(a := self.values[p], array)])

    def _moving(self, way: ArrayBackward) -> tuple[int, ...]:
        """The parameters whose gradients are followed."""
        values = self.values
        return tuple([p for p in way.floats if values[p]._grad is not None])

    def _prepare(self, way: ArrayBackward) -> None:
        """Find the adjoint for the arrays that have gradients now."""
        self.moving = self._moving(way)
        self.refusal = self.reversal = None
        try:
            self.reversal = way.pass_of(self.moving, self.values)
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
                raise placed(self.refusal, self.where)
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
            refuse_traced(f"kernel '{self.kernel.name}'", followed)
        contents, grads = self._given(way, reversal)
        will_change([grad.memory for grad in followed])
        reversal(contents, grads)
        if done is not None:
            done()
        return None

    def steps(self) -> list[Recorded] | None:
        if not [a for a in self.written if a._grad is not None]:
            return []
        way, reversal = self.way, self.reversal
        if way is None or way.on_gpu or not self.kernel.enable_backward or self.refusal is not None:
            return None
        if reversal is None:
            return []
        followed = [self.values[p]._grad for p in self.moving]
        if self._moving(way) != self.moving or self._retains(way) or not all(map(is_here, followed)):
            return None
        return [reversal.recorded(*self._given(way, reversal))]

    @property
    def keeps(self) -> Iterable[Kept]:
        return self.kept.values()

    def key(self) -> Hashable | None:
        way, reversal, values = self.way, self.reversal, self.values
        if way is None or self.refusal is not None or self._moving(way) != self.moving:
            return None
        if not self.kernel.enable_backward:
            return None
        parts = tokens(self.arrays)
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

    def _retains(self, way: ArrayBackward) -> bool:
        """Whether there are gradients to be retained of what it writes."""
        return bool([p for p in self.moving if self.values[p].retain_grad and p in way.written])

    def _given(self, way: ArrayBackward, reversal: BackwardPass) -> tuple[list[Any], list[Any]]:
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
        return any(a.grad is not None and not is_zero(a.grad.memory.read(a.grad.layout)) for a in self.written)

    def _content(self, way: ArrayBackward, p: int) -> Any:
        """What the adjoint reads of a parameter: the content before the launch."""
        kept, of = self.kept.get(p), self.values[p]
        if kept is not None:
            return way.kept(kept)
        if not isinstance(of, array):
            return way.number(p, of)
        if of.memory.version != self.versions[way.arrays.index(p)]:
            raise placed(
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
                f"tape.backward passes over a launch of kernel '{self.kernel.name}' ({place_text(self.where)}), which"
                f" was made with enable_backward=False ({self.kernel.span}): gradients through it are missing",
                KernelWarning,
                stacklevel=6,
            )

    def _refuse_retained(self, way: ArrayBackward) -> None:
        for p in way.written:
            a = self.values[p]
            if isinstance(a, array) and a.retain_grad and p in way.read_and_stored:
                raise placed(
                    both_before_and_after(f"kernel '{self.kernel.name}', parameter '{self.kernel.params[p].name}'", a),
                    self.where,
                )


_NUMBERS = (float, int)
