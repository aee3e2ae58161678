"""Makes the first launch dimension of a kernel the last one, along which vectors have their lanes."""

from __future__ import annotations

import dataclasses

from jwarp.ir.nodes import Kernel, Op, failure_texts, prints, used_values, walk
from jwarp.ir.visit import map_ops


def rotates(kernel: Kernel) -> bool:
    """Whether nothing but its coordinates depends on how the threads of a kernel are numbered.

    Checks name the first thread that fails, prints come in order, and so do the old values of atomic operations, as
    far as one can tell.
    """
    if kernel.block_dim or kernel.tid_dims < 2 or failure_texts(kernel) or prints(kernel):
        return False
    ops, used = (node for node in walk(kernel.body) if isinstance(node, Op)), used_values(kernel.body)
    return not any(node.name == "thread" or (node.row.is_atomic and node.result in used) for node in ops)


def rotated(kernel: Kernel) -> Kernel:
    """The kernel of launches over (n1, …, n0) that does what `kernel` does over (n0, n1, …)."""
    count = kernel.tid_dims

    def moved(node: Op) -> Op:
        return dataclasses.replace(node, attr=(node.number - 1) % count) if node.name == "tid" else node

    return dataclasses.replace(kernel, body=map_ops(kernel.body, moved))
