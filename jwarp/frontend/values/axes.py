"""The forms of an axis of an array in a kernel: an index, a part, elements that indices name, a place in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.ir.nodes import Const, Operand
from jwarp.types import int32


@dataclass(frozen=True)
class Part:
    """The part of an axis that a slice shows: `count` elements from `start` on, `step` apart.

    `limit`, where it is known, is a constant that the indices must stay below, besides the extent of the axis; then
    `start` is not negative and `step` is positive, both constants.
    """

    start: Operand
    count: Operand
    step: Operand
    limit: int | None = None


@dataclass(frozen=True)
class Chosen:
    """The elements of an axis whose indices an array of one dimension holds."""

    indices: Any


@dataclass(frozen=True)
class Located:
    """The place of an array in all memory of its type, as scalars count there.

    `start` is its first scalar, `sizes` are the extents (int32), `steps` the distances of elements along each axis
    (int64). Accesses stay inside of `limits`, where there are such: the first scalar that it may begin an element at,
    and how many there are. What has none was made by jwarp itself.
    """

    start: Operand
    sizes: tuple[Operand, ...]
    steps: tuple[Operand, ...]
    limits: tuple[Operand, Operand] | None = None

    @property
    def scalars(self) -> tuple[Operand, ...]:
        """All that it is made of."""
        return (self.start, *self.sizes, *self.steps, *(self.limits or ()))

    @property
    def family(self) -> tuple[int, bool]:
        """The part of it that remains if its numbers differ."""
        return len(self.sizes), self.limits is None

    def rebuilt(self, scalars: Sequence[Operand]) -> Located:
        """It made of other scalars."""
        n = len(self.sizes)
        limits = None if self.limits is None else (scalars[-2], scalars[-1])
        return Located(scalars[0], tuple(scalars[1 : 1 + n]), tuple(scalars[1 + n : 1 + 2 * n]), limits)

    @property
    def without_elements(self) -> Located:
        """The same place, and nothing there."""
        return Located(self.start, (Const(int32, 0),) * len(self.sizes), self.steps, self.limits)


# Of an axis of an array: the index that is taken of it, what is shown of it, or None for all of it.
Axis = Operand | Part | Chosen | Located | None


def scalars_of(axis: Axis) -> list[Operand]:
    """The scalars that say what is shown."""
    if isinstance(axis, Part):
        return [axis.start, axis.count, axis.step]
    if isinstance(axis, Chosen):
        return [x for inner in axis.indices.axes for x in scalars_of(inner)]
    if isinstance(axis, Located):
        return list(axis.scalars)
    return [] if axis is None else [axis]


def axis_layout(axis: Axis) -> Any:
    """The structure of an axis without its scalars."""
    if isinstance(axis, Chosen):
        return (axis.indices.index, *map(axis_layout, axis.indices.axes))
    return (type(axis) in (Part, Located), *(x.type for x in scalars_of(axis)))


def rebuilt_axis(axis: Axis, scalars: list[Operand]) -> Axis:
    """The same axis with other scalars, which are used up from the front."""
    if isinstance(axis, Part):
        return Part(scalars.pop(0), scalars.pop(0), scalars.pop(0))
    if isinstance(axis, Chosen):
        inner = tuple(rebuilt_axis(x, scalars) for x in axis.indices.axes)
        return Chosen(dataclasses.replace(axis.indices, axes=inner))
    if isinstance(axis, Located):
        return axis.rebuilt([scalars.pop(0) for _ in axis.scalars])
    return None if axis is None else scalars.pop(0)
