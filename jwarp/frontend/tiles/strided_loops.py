"""Block-strided loops, `range(lane, n, wp.block_dim())`, rewritten so that all threads run equally many iterations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.ir.contents import definitions_of
from jwarp.ir.nodes import Block, Const, For, Kernel, Node, Op, Operand, Value, walk
from jwarp.ir.visit import Rewriter


def in_step(kernel: Kernel, block_dim: int, lane_axis: int | None) -> Kernel:
    """The kernel with such loops counted from the first thread of the block, where `n` is a multiple of its size.

    All threads then leave them together. That the product which `n` is does not wrap is taken for granted.
    """
    ops = definitions_of(kernel.body)
    threads = {x for x, n in ops.items() if n.row.is_coordinate and n.attr == lane_axis}
    if not any(isinstance(n, For) and n.lo in threads and n.step == block_dim for n in walk(kernel.body)):
        return kernel

    def is_whole(x: Operand) -> bool:
        if isinstance(x, Const):
            return x.value % block_dim == 0
        made = ops.get(x)
        return made is not None and made.name == "mul" and any(isinstance(a, Const) and is_whole(a) for a in made.args)

    class InStep(Rewriter):
        def nodes(self, node: Node) -> Iterable[Node]:
            node = self.node(node)
            if not isinstance(node, For) or node.lo not in threads or node.step != block_dim or not is_whole(node.hi):
                return (node,)
            kind, span = node.index.type, node.span
            lane, first, number = Value(kind), Value(kind), Value(kind)
            own = Op("add", (number, lane), None, node.index, span)
            body = Block((own, *node.body.nodes), node.body.yields)
            return (
                Op("mod", (node.lo, Const(kind, block_dim)), None, lane, span),
                Op("sub", (node.lo, lane), None, first, span),
                dataclasses.replace(node, index=number, lo=first, body=body),
            )

    return dataclasses.replace(kernel, body=InStep().block(kernel.body))
