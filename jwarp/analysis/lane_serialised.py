"""Lane-serialised loops: the lanes of a vector run them one after the other, as a loop inside of them is vectorised.

A loop with lanes belongs to kernels with tiles, whose other code is the same for all lanes. In a kernel of threads the
lanes are threads. A search that compares one thread's question with many things at once is written as a loop with lanes
inside of others: where these change no memory, a processor runs the outermost of them for each thread by itself, with
the iterations of the innermost as lanes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from jwarp.ir.nodes import (
    Block,
    For,
    Kernel,
    Node,
    Op,
    Operand,
    Value,
    While,
    blocks,
    inner_params,
    operands,
    results,
    walk,
    walk_node,
)
from jwarp.ir.visit import Rewriter


def lane_serialised_loops(kernel: Kernel) -> frozenset[For | While]:
    """The outermost loops with lanes in them that change nothing, and those that are marked; none in kernels of blocks.

    Marked loops stand for the last iterations of others, once these are apart (`backend/cpu/loops/tails.py`).
    """
    if kernel.block_dim:
        return frozenset()
    return frozenset(_outermost(kernel, kernel.body))


def is_marked(loop: Node) -> bool:
    """True if lanes go ways of their own in a loop, as the operation says that its condition ends with."""
    if not isinstance(loop, While) or not loop.cond.nodes:
        return False
    last = loop.cond.nodes[-1]
    return isinstance(last, Op) and last.row.threads.is_divergence and loop.cond.yields == (last.result,)


def has_lanes(kernel: Kernel) -> bool:
    """True if a kernel has a vectorised loop."""
    return any(isinstance(n, For) and n.lanes is not None for n in walk(kernel.body))


def _outermost(kernel: Kernel, block: Block) -> Iterator[For | While]:
    for node in block.nodes:
        if is_marked(node):
            assert isinstance(node, While)
            yield node
        elif isinstance(node, (For, While)) and _may_have_lanes(node) and _may_be_serialised(kernel, node):
            yield node
        else:
            for inner in blocks(node):
                yield from _outermost(kernel, inner)


def _may_have_lanes(node: Node) -> bool:
    return any(isinstance(n, For) and n.lanes is not None for n in walk_node(node))


def _may_be_serialised(kernel: Kernel, loop: For | While) -> bool:
    return all(not isinstance(n, Op) or _is_plain(kernel, n) for n in walk_node(loop)) and not _is_nested(loop)


def _is_plain(kernel: Kernel, node: Op) -> bool:
    if node.row.threads.differ or node.row.is_lasting:
        return False
    if node.row.only_reads:
        return kernel.local(node.array) is None
    return node.row.is_pure or node.row.is_outlined


def _is_nested(loop: For | While) -> bool:
    """True if a loop over lanes contains another one."""
    found = (n for n in walk_node(loop) if isinstance(n, For) and n.lanes is not None)
    return any(sum(isinstance(m, For) and m.lanes is not None for m in walk_node(n)) > 1 for n in found)


def live_ins(node: For | While) -> Iterator[Value]:
    """The values from outside that a loop reads, each once."""
    inside: set[Value] = set()
    for inner in walk_node(node):
        inside.update(results(inner), inner_params(inner))
    read = (x for inner in walk_node(node) for x in (*operands(inner), *_yields(inner)))
    yield from dict.fromkeys(x for x in read if isinstance(x, Value) and x not in inside)


def _yields(node: Node) -> tuple[Operand, ...]:
    return tuple(y for block in blocks(node) for y in block.yields)


def in_turn(kernel: Kernel, kept: frozenset[For | While] = frozenset()) -> Kernel:
    """A kernel of threads whose iterations run one after the other, but for those in the loops `kept`."""
    if kernel.block_dim or not has_lanes(kernel):
        return kernel
    return dataclasses.replace(kernel, body=_InTurn(kept).block(kernel.body))


class _InTurn(Rewriter):
    def __init__(self, kept: frozenset[For | While]):
        self.kept = kept

    def node(self, node: Node) -> Node:
        return node if node in self.kept else super().node(node)

    def loop(self, node: For | While) -> Node:
        made = self.inside(node)
        return dataclasses.replace(made, lanes=None) if isinstance(made, For) else made
