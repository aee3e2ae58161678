"""Run loops in lockstep whose ranges overlap: the iteration is the same number for all lanes.

A loop between bounds that differ between lanes has each lane at an iteration of its own: its loads are gathers.
Where the ranges overlap, as those of neighbours in a grid do, all lanes go through the union of them instead, and
each is active in its own range. What an iteration loads by its number is loaded once.
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

# Lanes run in lockstep where the iterations of all are at most so many times those of one lane, as a power of two.
MOST_ITERATIONS = 2
# The most groups of lanes: a row of cells ends within a vector, and wraps round.
MOST_GROUPS = 6
# A loop's body is written twice, so that it must not be too long.
MAX_NODES = 400
# The number of iterations by which a load is prefetched.
AHEAD = 16


def with_loops_in_lockstep(kernel: Kernel) -> Kernel:
    """The kernel with two forms of each loop whose ranges are marked to overlap, as those of neighbours."""
    marked = {n.result for n in walk(kernel.body) if isinstance(n, Op) and n.row.threads.is_affinity}
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
        """True if lanes may run in lockstep: what one finds must not depend on which of them comes first."""
        if loop.lo not in self.marked or loop.step != 1 or loop.lanes is not None:
            return False
        inside = list(walk_node(loop))
        return len(inside) <= MAX_NODES and not any(isinstance(n, Op) and self.goes_by_order(n) for n in inside)

    def goes_by_order(self, node: Op) -> bool:
        """True if an operation finds what threads have left that came before, or keeps their records."""
        return node.row.in_order or (node.row.is_atomic and node.result in self.used)


def _both_forms(kernel: Kernel, loop: For) -> list[Node]:
    """The loop for threads whose ranges are about the same, one such group after the other, and then for the others."""
    builder, kind, span = Builder(), loop.index.type, loop.span
    builder.span = span
    longest = builder.op("lane_max", builder.op("sub", loop.hi, loop.lo))
    spread = builder.op("sub", builder.op("lane_max", loop.hi), _least(builder, loop.lo))
    are_near = builder.op("le", builder.op("shr", spread, Const(kind, MOST_ITERATIONS)), longest)
    me = builder.op("thread")

    waits, alone, turn = Value(bool_, "waits"), Value(bool_, "alone"), Value(int32, "group")
    carried = tuple(Value(p.type, p.name) for p in loop.params)
    with builder.block() as nodes:
        more = builder.op("and", waits, builder.op("lt", turn, Const(int32, MOST_GROUPS)))
    cond = make_block(nodes, (more,))
    with builder.block() as nodes:
        low, high, leader = (builder.op("one_of", x) for x in (loop.lo, loop.hi, me))
        overlaps = builder.op("and", builder.op("le", loop.lo, high), builder.op("ge", loop.hi, low))
        joins = builder.op("or", are_near, overlaps)
        with builder.block() as inner:
            first, last = _least(builder, loop.lo), builder.op("lane_max", loop.hi)
            pays = builder.op("or", are_near, builder.op("any_lane", builder.op("ne", me, leader)))
            for array in _counted_along(kernel, loop):  # so that iterations need not test their loads
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
    """The loop from the first iteration of any lane to the last one, in which each is active in its own range."""
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
    """The arrays with one axis of which each iteration loads the element of its number."""
    if loop.index.type not in (int32, int64):
        return []
    loads = (n for n in loop.body.nodes if isinstance(n, Op) and n.row.is_load and n.args == (loop.index,))
    return sorted({n.array for n in loads if kernel.local(n.array) is None})


def _fetch_ahead(builder: Builder, kernel: Kernel, body: Block, index: Value) -> None:
    """Prefetch what later iterations load: elements of arrays by indices that another array has, as of points."""
    loads = [n for n in body.nodes if isinstance(n, Op) and n.row.is_load and kernel.local(n.array) is None]
    indices = {n.result for n in loads if n.args == (index,)}
    indexed = {n.array: n for n in loads if n.args[:1] and n.args[0] in indices}
    if not indexed:
        return
    later = builder.op("add", index, Const(index.type, AHEAD))
    for load in indexed.values():
        by = next(n for n in loads if n.result is load.args[0])
        end = builder.op("sub", _extent(builder, by.array, index.type), Const(index.type, 1))
        later = builder.op("min", later, end)
        assert by.result is not None
        number = Value(by.result.type)
        builder.append(Op("load", (later,), by.attr, number, load.span))
        rest = tuple(Const(x.type, 0) for x in load.args[1:])
        builder.append(Op("prefetch", (number, *rest), load.attr, None, load.span))
