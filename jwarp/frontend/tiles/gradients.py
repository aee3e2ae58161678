"""Gradients that functions have of their own, for all lanes of a block at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.frontend.tiles.lift import Lifter, Variation
from jwarp.ir.attributes import Extent
from jwarp.ir.nodes import Block, Const, Gradient, Kernel, Node, Op, Operand, Param, Value, walk
from jwarp.ir.visit import map_ops
from jwarp.types import int32


def extents(gradient: Gradient) -> list[Extent]:
    """The extents of arrays that a gradient asks for."""
    found = (n.attr_as(Extent) for n in walk(gradient.kernel.body) if isinstance(n, Op) and n.row.is_extent)
    return sorted(set(found), key=lambda extent: (extent.array, extent.axis))


def extent_in(kernel: Kernel, gradient: Gradient, extent: Extent) -> Extent | Const:
    """Which extent of an array of the caller one of a gradient's parameter is."""
    kind, number, _ = gradient.feeds[extent.array]
    if kind == "gradient":
        number = gradient.feeds[number][1]
    array, param = kernel.array(number), gradient.kernel.params[extent.array]
    axis = extent.axis + array.type.ndim - param.type.ndim  # type: ignore[union-attr]
    local = kernel.local(number)
    return Extent(number, axis) if local is None else Const(int32, local.shape[axis])


def lifted(gradient: Gradient, block_dim: int, position: int) -> Gradient:
    """The gradient of calls that lanes make each for themselves: all that it is given and adds is one for each lane.

    From `position` on, the operands are the extents that it asks for, as inside nothing is the same for all lanes.
    """
    kernel = gradient.kernel
    asked = {extent: len(kernel.params) + k for k, extent in enumerate(extents(gradient))}
    more = tuple(Param(f"extent {k}", int32) for k in range(len(asked)))
    feeds = tuple(("value", 0, position + k) for k in range(len(asked)))

    def as_param(node: Op) -> Op:
        is_asked = node.row.is_extent
        return dataclasses.replace(node, name="param", attr=asked[node.attr_as(Extent)]) if is_asked else node

    lifter = Lifter((block_dim,), _All())
    lifter.before = []
    out: list[Node] = []
    lifter.nodes(map_ops(kernel.body, as_param).nodes, out)
    assert not lifter.before
    made = dataclasses.replace(kernel, params=(*kernel.params, *more), body=Block(tuple(out)))
    return Gradient(made, (*gradient.feeds, *feeds))


class _All(Variation):
    """Everything differs between lanes."""

    def of(self, x: Operand) -> bool:
        return isinstance(x, Value)

    def any(self, xs: Iterable[Operand]) -> bool:
        return any(map(self.of, xs))
