"""Lets the threads of a vector make the trips of a loop together whose ranges are about the same.

A loop from one number up to another, which differ between threads, has each thread at a trip of its own: what is loaded
there is gathered. Where the ranges overlap, as those of neighbours in a grid do, all threads go through the union of
them instead, and each takes part in its own: the trip is the same number for all, so that what it loads is loaded once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.ir.attributes import Extent
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Node, Op, Operand, Value, While, used_values, walk, walk_node
from jwarp.ir.visit import Rewriter
from jwarp.types import ValueType, bool_, int32, int64

# Threads go together where all trips are at most so many times those of one thread, as a power of two.
MOST_TRIPS = 2
# How many groups of threads are looked for: a row of cells ends within a vector, and wraps round.
MOST_GROUPS = 6
# A loop's body is written twice, so that it must not be too long.
MAX_NODES = 400
# What a trip loads is fetched so many trips before.
AHEAD = 16


def with_loops_in_lockstep(kernel: Kernel) -> Kernel:
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
    """The loop for threads whose ranges are about the same, one such group after the other, and then for the others."""
    builder, kind, span = Builder(), loop.index.type, loop.span
    builder.span = span
    longest = builder.op("lane_max", builder.op("sub", loop.hi, loop.lo))
    spread = builder.op("sub", builder.op("lane_max", loop.hi), _least(builder, loop.lo))
    are_near = builder.op("le", builder.op("shr", spread, Const(kind, MOST_TRIPS)), longest)
    me = builder.op("thread")

    waits, alone, turn = Value(bool_, "waits"), Value(bool_, "alone"), Value(int32, "group")
    carried = tuple(Value(p.type, p.name) for p in loop.params)
    with builder.block() as nodes:
        more = builder.op("and", waits, builder.op("lt", turn, Const(int32, MOST_GROUPS)))
    cond = make_block(nodes, (more,))
    with builder.block() as nodes:
        low, high, leader = (builder.op("one_of", x) for x in (loop.lo, loop.hi, me))
        meets = builder.op("and", builder.op("le", loop.lo, high), builder.op("ge", loop.hi, low))
        joins = builder.op("or", are_near, meets)
        with builder.block() as inner:
            first, last = _least(builder, loop.lo), builder.op("lane_max", loop.hi)
            pays = builder.op("or", are_near, builder.op("beside", builder.op("ne", me, leader)))
            for array in _counted_along(kernel, loop):  # so that trips need not test their loads
                extent = _extent(builder, array, kind)
                fits = builder.op("and", builder.op("ge", first, Const(kind, 0)), builder.op("le", last, extent))
                pays = builder.op("and", pays, builder.op("and", fits, builder.op("lt", first, last)))
            shared = _shared(builder, kernel, loop, first, last, carried)
            found = (*(Value(p.type, p.name) for p in carried), Value(bool_))
            then = Block((shared,), (*shared.results, Const(bool_, True)))
            builder.append(If(pays, then, Block((), (*carried, Const(bool_, False))), found, span))
        taken = (*(Value(p.type, p.name) for p in carried), Value(bool_))
        then = make_block(inner, found)
        builder.append(If(joins, then, Block((), (*carried, Const(bool_, False))), taken, span))
        left = builder.op("or", alone, builder.op("and", joins, builder.op("not", taken[-1])))
        following = (builder.op("not", joins), left, builder.op("add", turn, Const(int32, 1)))
    body = make_block(nodes, (*taken[:-1], *following))
    after = tuple(Value(p.type, p.name) for p in (*carried, waits, alone, turn))
    begun = (builder.op("lt", loop.lo, loop.hi), Const(bool_, False), Const(int32, 0))
    builder.append(While((*carried, waits, alone, turn), (*loop.init, *begun), cond, body, after, span))

    is_left = builder.op("or", after[-3], after[-2])
    end = builder.op("select", is_left, loop.hi, loop.lo)
    builder.append(dataclasses.replace(loop, init=after[:-3], hi=end))
    return builder.nodes


def _least(builder: Builder, x: Operand) -> Operand:
    every = Const(x.type, -1)
    return builder.op("xor", builder.op("lane_max", builder.op("xor", x, every)), every)


def _extent(builder: Builder, array: int, kind: ValueType) -> Operand:
    extent = builder.op("shape", attr=Extent(array, 0))
    return builder.op("cast", extent, type=kind) if kind != extent.type else extent


def _shared(
    builder: Builder, kernel: Kernel, loop: For, first: Operand, last: Operand, init: tuple[Operand, ...]
) -> For:
    """The loop from the first trip of any thread to the last one, in which each takes part in its own."""
    copy = Cloner()
    index, params = copy.fresh(loop.index), copy.fresh_all(loop.params)
    body = copy.block(loop.body)
    with builder.block() as nodes:
        _fetch_ahead(builder, kernel, body, index)
        takes_part = builder.op("and", builder.op("ge", index, loop.lo), builder.op("lt", index, loop.hi))
        after = tuple(Value(p.type, p.name) for p in params)
        builder.append(If(takes_part, body, Block((), params), after, loop.span))
    results = tuple(Value(r.type, r.name) for r in loop.results)
    return For(index, first, last, 1, params, init, make_block(nodes, after), results, loop.span)


def _counted_along(kernel: Kernel, loop: For) -> list[int]:
    """The arrays with one axis of which each trip loads the element of its number."""
    if loop.index.type not in (int32, int64):
        return []
    loads = (n for n in loop.body.nodes if isinstance(n, Op) and n.name == "load" and n.args == (loop.index,))
    return sorted({n.array for n in loads if kernel.local(n.array) is None})


def _fetch_ahead(builder: Builder, kernel: Kernel, body: Block, index: Value) -> None:
    """Have what trips will load that are some way ahead: elements of arrays that an array tells them, as of points."""
    loads = [n for n in body.nodes if isinstance(n, Op) and n.name == "load" and kernel.local(n.array) is None]
    tellers = {n.result for n in loads if n.args == (index,)}
    told = {n.array: n for n in loads if n.args[:1] and n.args[0] in tellers}
    if not told:
        return
    later = builder.op("add", index, Const(index.type, AHEAD))
    for load in told.values():
        teller = next(n for n in loads if n.result is load.args[0])
        end = builder.op("sub", _extent(builder, teller.array, index.type), Const(index.type, 1))
        later = builder.op("min", later, end)
        assert teller.result is not None
        number = Value(teller.result.type)
        builder.append(Op("load", (later,), teller.attr, number, load.span))
        rest = tuple(Const(x.type, 0) for x in load.args[1:])
        builder.append(Op("prefetch", (number, *rest), load.attr, None, load.span))
