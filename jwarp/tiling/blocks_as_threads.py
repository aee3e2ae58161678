"""Makes a kernel with tiles one whose threads do what its blocks do, so that blocks run side by side in a vector.

Factors of small matrices, and systems of equations with them, have few operations that may run at once: a vector of
blocks is busy where a vector of elements waits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from jwarp.ir.nodes import For, Kernel, Node, Op, While, failure_texts, has_native_code, prints, walk
from jwarp.ir.visit import Rewriter
from jwarp.tiling.symbolic_tiles import mapped_shape_of
from jwarp.tiling.to_scalars import lower_tiles, shared_bytes
from jwarp.tiling.whole import WHOLE, is_whole

# The tiles of so many blocks, which are in memory at once, take no more than caches of a processor have.
BLOCKS = 16
MOST_BYTES = 1 << 18


def gains_as_threads(kernel: Kernel) -> bool:
    """True if the blocks of a kernel may run side by side, and serial dependencies take most of their time.

    Nothing but its coordinates may depend on which block it is, and lanes may not go through loops of their own.
    """
    if not kernel.block_dim or kernel.order or kernel.locals or kernel.functions:
        return False
    if failure_texts(kernel) or prints(kernel) or has_native_code(kernel.body):
        return False
    nodes = list(walk(kernel.body))
    wholes = [node.name for node in nodes if isinstance(node, Op) and is_whole(node)]
    if not wholes or not all(name in WHOLE and WHOLE[name].alone for name in wholes):
        return False
    return not any(_keeps_together(node) for node in nodes)


def _keeps_together(node: Node) -> bool:
    """True if a node needs a block, and would mean something else to a thread."""
    if not isinstance(node, Op):
        return isinstance(node, (For, While)) and (mapped_shape_of(node) != () or has_lanes(node))
    row = node.row
    return (
        row.in_order
        or row.threads.is_common
        or (row.threads.differ and row.attribute is None)
        or row.is_atomic
        or not (row.is_movable or row.only_reads or row.changes_memory)
    )


def has_lanes(node: Node) -> bool:
    """True if a node is a loop whose iterations run in lockstep."""
    return isinstance(node, For) and node.lanes is not None


def fits_threads(kernel: Kernel) -> bool:
    """True if the tiles of as many blocks as a vector has lanes fit in memory."""
    return shared_bytes(lower_tiles(kernel, alone=True)) * BLOCKS <= MOST_BYTES


def as_threads(kernel: Kernel) -> Kernel:
    """The kernel of launches with a thread for each block."""
    lowered = lower_tiles(kernel, alone=True)
    locals_ = tuple(dataclasses.replace(local, shared=False) for local in lowered.locals)
    body = _OneByOne().block(lowered.body)
    return dataclasses.replace(lowered, body=body, locals=locals_, block_dim=0)


class _OneByOne(Rewriter):
    """Loops go from iteration to iteration."""

    def nodes(self, node: Node) -> Iterator[Node]:
        for made in super().nodes(node):
            yield dataclasses.replace(made, lanes=None) if isinstance(made, For) and has_lanes(made) else made
