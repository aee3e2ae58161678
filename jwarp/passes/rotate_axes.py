"""Makes the first launch dimension of a kernel the last one, along which vectors have their lanes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.ir.nodes import Const, Kernel, Node, Op, Value, failure_texts, has_native_code, prints, used_values, walk
from jwarp.ir.visit import Rewriter, map_ops
from jwarp.types import int32


def rotates(kernel: Kernel) -> bool:
    """True if the numbering of threads affects nothing but their coordinates.

    Checks name the first thread that fails, prints come in order, and so do the old values of atomic operations, as
    far as one can tell.
    """
    if kernel.order or kernel.block_dim or kernel.tid_dims < 2 or failure_texts(kernel) or prints(kernel):
        return False
    if has_native_code(kernel.body):
        return False
    ops, used = (node for node in walk(kernel.body) if isinstance(node, Op)), used_values(kernel.body)
    return not any(node.row.is_thread_number or (node.row.is_atomic and node.result in used) for node in ops)


def rotated(kernel: Kernel) -> Kernel:
    """The kernel of launches over (n1, …, n0) that does what `kernel` does over (n0, n1, …)."""
    count = kernel.tid_dims

    def moved(node: Op) -> Op:
        return dataclasses.replace(node, attr=(node.number - 1) % count) if node.row.is_coordinate else node

    return dataclasses.replace(kernel, body=map_ops(kernel.body, moved))


def split(kernel: Kernel, size: int) -> Kernel:
    """The kernel of launches over (n0 / size, n1, …, size) that does what `kernel` does over (n0, n1, …)."""
    return dataclasses.replace(kernel, body=_Split(kernel, size).block(kernel.body), tid_dims=kernel.tid_dims + 1)


class _Split(Rewriter):
    """Counts the first coordinate by two others."""

    def __init__(self, kernel: Kernel, size: int):
        self.size, self.last = size, kernel.tid_dims

    def nodes(self, node: Node) -> Iterable[Node]:
        if not isinstance(node, Op) or not node.row.is_coordinate or node.number != 0:
            return super().nodes(node)
        block, first, inner = (Value(int32) for _ in range(3))
        return (
            dataclasses.replace(node, result=block),
            Op("mul", (block, Const(int32, self.size)), None, first, node.span),
            Op("tid", (), self.last, inner, node.span),
            Op("add", (first, inner), None, node.result, node.span),
        )
