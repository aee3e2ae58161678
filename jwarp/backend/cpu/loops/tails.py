"""Run loops in lockstep as long as many lanes go on, and the last few lanes of them one after the other.

Adjacent threads that search a tree go ways of their own: what they read is gathered, and each iteration takes as long
for one lane as for all. When most lanes are done, a lane by itself is faster: it runs scalar code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from jwarp.analysis.lane_serialised import is_marked
from jwarp.backend.cpu.target import host_target
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import (
    Block,
    For,
    If,
    Kernel,
    Node,
    Op,
    Value,
    While,
    blocks,
    used_values,
    walk_all,
    walk_node,
    with_bodies,
)
from jwarp.ir.visit import Rewriter
from jwarp.types import bool_

# A loop is written twice, so that it must not be too long; and its condition, which lanes look at once more.
MAX_NODES, MAX_NODES_OF_TEST = 1500, 12


def with_serial_tails(kernel: Kernel) -> Kernel:
    """The kernel with two forms of the loops that are marked to be left apart, and of those right around them."""
    if not any(map(is_marked, walk_all(kernel))):
        return kernel
    return with_bodies(kernel, _Tails(kernel).block)


class _Tails(Rewriter):
    def __init__(self, kernel: Kernel):
        self.kernel, self.used = kernel, used_values(kernel.body)

    def nodes(self, node: Node) -> Iterable[Node]:
        if not isinstance(node, While):
            return (self.node(node),)
        made = self.inside(node)
        assert isinstance(made, While)
        is_about = is_marked(node) or any(map(is_marked, _loops_right_inside(node.body)))
        if is_about and self.may_be_alone(node) and _is_short(node):
            return _both_forms(made, node)
        return (_unmarked(made),)

    def may_be_alone(self, loop: While) -> bool:
        """True if what a lane finds does not depend on which of them comes first, and is not kept by vector."""
        if self.kernel.block_dim or self.kernel.order or host_target().width == 1:
            return False
        return not any(self.needs_lanes(n) for n in walk_node(loop))

    def needs_lanes(self, node: Node) -> bool:
        if not isinstance(node, Op):
            return isinstance(node, For) and node.lanes is not None
        row = node.row
        if row.threads.is_affinity or row.threads.differ or row.in_order or row.is_native:
            return True
        if row.is_check or row.is_barrier or row.prints or (row.is_atomic and node.result in self.used):
            return True
        is_elsewhere = not row.is_access or self.kernel.local(node.array) is not None
        return (row.reads_elements or row.changes_elements) and is_elsewhere


def _is_short(loop: While) -> bool:
    test = loop.cond.nodes
    return (
        len(test) <= MAX_NODES_OF_TEST
        and all(isinstance(n, Op) and n.row.is_pure for n in test)
        and sum(1 for _ in walk_node(loop)) <= MAX_NODES
    )


def _loops_right_inside(block: Block) -> Iterator[While]:
    for node in block.nodes:
        if isinstance(node, While):
            yield node
        elif isinstance(node, If):
            for inner in blocks(node):
                yield from _loops_right_inside(inner)


def _both_forms(made: While, loop: While) -> list[Node]:
    """The loop while many lanes go on, in which such loops are `made` already, and the rest of it for each lane."""
    test, are_many, goes_on = _plain_test(loop), Value(bool_), Value(bool_)
    asks = Op("many_lanes", test.yields, None, are_many, loop.span)
    many = Block((*test.nodes, asks, Op("and", (*test.yields, are_many), None, goes_on, loop.span)), (goes_on,))
    left = tuple(Value(r.type, r.name) for r in loop.results)
    together = dataclasses.replace(made, cond=many, results=left)

    asked = Cloner(dict(zip(loop.params, left, strict=True))).block(test)

    copy = _Plain()
    params = copy.fresh_all(loop.params)
    own, marked = copy.block(test), Value(bool_)
    cond = Block((*own.nodes, Op("lane_divergence", own.yields, None, marked, loop.span)), (marked,))
    found = tuple(Value(r.type, r.name) for r in loop.results)
    alone = While(params, left, cond, copy.block(loop.body), found, loop.span)
    return [
        together,
        *asked.nodes,
        If(asked.yields[0], Block((alone,), found), Block((), left), loop.results, loop.span),
    ]


def _plain_test(loop: While) -> Block:
    """The condition of a loop without its mark."""
    if not is_marked(loop):
        return loop.cond
    mark = loop.cond.nodes[-1]
    assert isinstance(mark, Op)
    return Block(loop.cond.nodes[:-1], mark.args)


def _unmarked(loop: While) -> While:
    return dataclasses.replace(loop, cond=_plain_test(loop)) if is_marked(loop) else loop


class _Plain(Cloner):
    """Copies loops without their marks."""

    def node(self, node: Node) -> Node:
        return super().node(_unmarked(node) if isinstance(node, While) else node)
