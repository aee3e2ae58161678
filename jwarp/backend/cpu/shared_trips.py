"""Lets the threads of a vector make the trips of a loop together whose ranges are about the same.

A loop from one number up to another, which differ between threads, has each thread at a trip of its own: what is loaded
there is gathered. Where the ranges overlap, as those of neighbours in a grid do, all threads go through the union of
them instead, and each takes part in its own: the trip is the same number for all, so that what it loads is loaded once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.ir.builder import Builder, make_block
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Node, Op, Operand, Value, used_values, walk, walk_node
from jwarp.ir.visit import Rewriter

# Threads go together where all trips are at most so many times those of one thread, as a power of two.
MOST_TRIPS = 2
# A loop's body is written twice, so that it must not be too long.
MAX_NODES = 400
# What a trip loads is fetched so many trips before.
AHEAD = 16


def with_shared_trips(kernel: Kernel) -> Kernel:
    """The kernel with two forms of each loop over ranges that are `nearby`."""
    marked = {n.result for n in walk(kernel.body) if isinstance(n, Op) and n.name == "nearby"}
    if not marked or kernel.block_dim or kernel.order:
        return kernel
    return dataclasses.replace(kernel, body=_Sharing(kernel, marked).block(kernel.body))


class _Sharing(Rewriter):
    def __init__(self, kernel: Kernel, marked: set[Value | None]):
        self.kernel, self.marked, self.used = kernel, marked, used_values(kernel.body)

    def nodes(self, node: Node) -> Iterable[Node]:
        made = self.node(node)
        return _both_forms(self.kernel, made) if isinstance(made, For) and self.is_shared(made) else [made]

    def is_shared(self, loop: For) -> bool:
        """Whether threads may go together: what one finds must not depend on which of them comes first."""
        if loop.lo not in self.marked or loop.step != 1 or loop.lanes is not None:
            return False
        inside = list(walk_node(loop))
        return len(inside) <= MAX_NODES and not any(isinstance(n, Op) and self.goes_by_order(n) for n in inside)

    def goes_by_order(self, node: Op) -> bool:
        """Whether an operation finds what threads have left that came before, or keeps their records."""
        return node.row.in_order or (node.row.is_atomic and node.result in self.used)


def _both_forms(kernel: Kernel, loop: For) -> list[Node]:
    """The test of how far the ranges of threads are apart, and the loop in both forms."""
    builder, kind, span = Builder(), loop.index.type, loop.span
    builder.span = span
    first = builder.op("neg", builder.op("lane_max", builder.op("neg", loop.lo)))
    last = builder.op("lane_max", loop.hi)
    longest = builder.op("lane_max", builder.op("sub", loop.hi, loop.lo))
    trips = builder.op("shr", builder.op("sub", last, first), Const(kind, MOST_TRIPS))
    is_near = builder.op("le", trips, longest)

    copy = Cloner()
    index, params = copy.fresh(loop.index), copy.fresh_all(loop.params)
    body = copy.block(loop.body)
    with builder.block() as nodes:
        _fetch_ahead(builder, kernel, body, index, last)
        begun, goes_on = builder.op("ge", index, loop.lo), builder.op("lt", index, loop.hi)
        takes_part = builder.op("and", begun, goes_on)
        after = tuple(Value(p.type, p.name) for p in params)
        builder.append(If(takes_part, body, Block((), params), after, span))
    together = tuple(Value(r.type, r.name) for r in loop.results)
    shared = For(index, first, last, 1, params, loop.init, make_block(nodes, after), together, span)

    alone = tuple(Value(r.type, r.name) for r in loop.results)
    apart = dataclasses.replace(loop, results=alone)
    builder.append(If(is_near, Block((shared,), together), Block((apart,), alone), loop.results, span))
    return builder.nodes


def _fetch_ahead(builder: Builder, kernel: Kernel, body: Block, index: Value, last: Operand) -> None:
    """Have what trips will load that are some way ahead: elements of arrays that an array tells them, as of points."""
    loads = [n for n in body.nodes if isinstance(n, Op) and n.name == "load" and kernel.local(n.array) is None]
    tellers = {n.result for n in loads if n.args == (index,)}
    told = {n.array: n for n in loads if n.args[:1] and n.args[0] in tellers}
    if not told:
        return
    later = builder.op("add", index, Const(index.type, AHEAD))
    later = builder.op("min", later, builder.op("sub", last, Const(index.type, 1)))
    for load in told.values():
        teller = next(n for n in loads if n.result is load.args[0])
        assert teller.result is not None
        number = Value(teller.result.type)
        builder.append(Op("load", (later,), teller.attr, number, load.span))
        rest = tuple(Const(x.type, 0) for x in load.args[1:])
        builder.append(Op("prefetch", (number, *rest), load.attr, None, load.span))
