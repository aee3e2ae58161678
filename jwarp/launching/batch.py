"""The batch axes of a launch: how many elements there are, and which operands and results have one of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# For each batch axis, whether an operand or result has it: in front of its own axes, in their order.
Mask = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """The extents of the batch axes, outermost first, and the mask of each operand and each result.

    A result that lacks an axis is summed over it. Extents may be symbolic while a function is exported.
    """

    extents: tuple[int, ...]
    operands: tuple[Mask, ...]
    results: tuple[Mask, ...]

    @staticmethod
    def none(operands: int, results: int) -> Batch:
        """No axes, for so many operands and results."""
        return Batch((), ((),) * operands, ((),) * results)

    @property
    def all(self) -> Mask:
        """The mask of what has all axes."""
        return (True,) * len(self.extents)

    @property
    def nothing(self) -> Mask:
        """The mask of what has none."""
        return (False,) * len(self.extents)

    def shape(self, mask: Sequence[bool]) -> tuple[int, ...]:
        """The extents of the axes that a mask selects."""
        return tuple(size for size, present in zip(self.extents, mask, strict=True) if present)

    def wider(self, size: int, present: Iterable[bool]) -> Batch:
        """The same with another axis around it, which those operands have that `present` says, and every result."""
        operands = tuple((has_axis, *mask) for has_axis, mask in zip(present, self.operands, strict=True))
        return Batch((size, *self.extents), operands, tuple((True, *mask) for mask in self.results))

    def __repr__(self) -> str:
        """Short, as it is shown with each launch of a jaxpr: `none`, or `4x3 (11 10 -> 11)`."""
        if not self.extents:
            return "none"
        masks = (" ".join("".join(map(str, map(int, mask))) for mask in part) for part in (self.operands, self.results))
        return f"{'x'.join(map(str, self.extents))} ({' -> '.join(masks)})"
