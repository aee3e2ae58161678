"""Launches whose blocks go from one row to the next: their threads are counted, and find their coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from jwarp.ir.nodes import Block, Const, Kernel, Node, Op, Value
from jwarp.ir.visit import Rewriter
from jwarp.types import int32


def counted(kernel: Kernel, dims: tuple[int, ...]) -> Kernel:
    """The kernel of launches over as many threads as `dims` have in all, in their order, along one dimension."""
    number = Value(int32)
    body = _Counted(number, dims).block(kernel.body)
    own = Op("tid", (), 0, number, kernel.span)
    return replace(kernel, tid_dims=1, body=Block((own, *body.nodes), body.yields))


class _Counted(Rewriter):
    """Makes coordinates of the number of a thread."""

    def __init__(self, number: Value, dims: tuple[int, ...]):
        self.number, self.dims = number, dims

    def nodes(self, node: Node) -> Iterable[Node]:
        if not isinstance(node, Op) or not node.row.is_coordinate:
            return super().nodes(node)
        axis, inner = node.number, Value(int32)
        extent = self.dims[axis] if axis < len(self.dims) else 1
        below = Const(int32, math.prod(self.dims[axis + 1 :]))
        return (
            Op("div", (self.number, below), None, inner, node.span),
            Op("mod", (inner, Const(int32, extent)), None, node.result, node.span),
        )
