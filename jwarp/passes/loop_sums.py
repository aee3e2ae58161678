"""Sums that loops make in one element: a value carries them around the loop, and the element is added to once after."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    Value,
    While,
    arrays_changed,
    arrays_read,
    inner_params,
    results,
    rounds_as_written,
    used_values,
    walk,
)
from jwarp.ir.visit import Rewriter
from jwarp.passes.hoist import hoist
from jwarp.types import ScalarType, float32

# A loop carries so many sums at most, each in a register.
MAX_SUMS = 16

Place = tuple[int, tuple[Operand, ...]]


def carried_sums(kernel: Kernel) -> Kernel:
    """The kernel with additions to elements that a loop does not choose moved after it.

    The order of sums changes. Sums of floats of 16 bits are carried in 32. Kernels whose threads have an order, or
    work on tiles, or whose bits count stay as they are.
    """
    loops = [node for node in walk(kernel.body) if isinstance(node, For)]
    adds = any(isinstance(n, Op) and n.row.is_addition for x in loops for n in walk(x.body))
    if not adds or kernel.order or kernel.block_dim or rounds_as_written(kernel):
        return kernel
    kernel = hoist(kernel, guarded=True)  # the indices that loops do not choose
    return dataclasses.replace(kernel, body=_Carrier(used_values(kernel.body)).block(kernel.body))


class _Carrier(Rewriter):
    """Moves additions out of loops, from the innermost ones on."""

    def __init__(self, used: frozenset[Value]):
        self.used = used

    def nodes(self, node: Node) -> Iterable[Node]:
        node = self.node(node)
        return self._out_of(node) if isinstance(node, For) and node.lanes is None else (node,)

    def _out_of(self, loop: For) -> list[Node]:
        inner = list(walk(loop.body))
        operations = [node for node in inner if isinstance(node, Op)]
        # An operation that waits for other threads, or signals them, happens at a certain time.
        if any(isinstance(node, While) for node in inner) or any(
            node.row.is_atomic and not self._adds(node) for node in operations
        ):
            return [loop]
        own: set[Operand] = {*inner_params(loop), *(v for node in inner for v in (*results(node), *inner_params(node)))}
        touched = {a for op in operations if not self._adds(op) for a in (*arrays_read(op), *arrays_changed(op))}
        places = dict.fromkeys(
            _place(op)
            for op in loop.body.nodes
            if isinstance(op, Op) and self._adds(op) and op.array not in touched and own.isdisjoint(op.indices)
        )
        if not 0 < len(places) <= MAX_SUMS:
            return [loop]
        return self._carrying(loop, set(places))

    def _carrying(self, loop: For, places: set[Place]) -> list[Node]:
        sums: dict[Place, Operand] = {}
        params: list[Value] = []
        last: dict[Place, Op] = {}
        builder = Builder()
        for node in loop.body.nodes:
            if not isinstance(node, Op) or not self._adds(node) or _place(node) not in places:
                builder.append(node)
                continue
            place, (value,) = _place(node), node.values
            builder.span, kind = node.span, _carried(value.type)
            if place not in sums:
                params.append(Value(kind))
                sums[place] = params[-1]
            sums[place] = builder.op("add", sums[place], _cast(builder, value, kind))
            last[place] = node
        totals = tuple(Value(param.type) for param in params)
        body = Block(tuple(builder.nodes), (*loop.body.yields, *(sums[place] for place in last)))
        carrying = dataclasses.replace(
            loop, params=(*loop.params, *params), init=(*loop.init, *(zero(p.type) for p in params)), body=body,
            results=(*loop.results, *totals),
        )  # fmt: skip
        after = Builder()
        for op, total in zip(last.values(), totals, strict=True):
            after.span = op.span
            value = _cast(after, total, op.values[0].type)
            after.append(dataclasses.replace(op, args=(*op.indices, value)))
        if _surely_runs(loop):
            return [carrying, *after.nodes]
        # A loop without iterations adds nothing: its elements may not be there.
        test = Builder()
        test.span = loop.span
        runs = test.op("lt" if loop.step > 0 else "gt", loop.lo, loop.hi)
        return [carrying, *test.nodes, If(runs, Block(tuple(after.nodes)), Block(), (), loop.span)]

    def _adds(self, node: Op) -> bool:
        """True if the operation adds to an element, and nothing reads the old value."""
        return node.row.is_addition and node.result not in self.used


def _surely_runs(loop: For) -> bool:
    """True if a loop with constant bounds runs at least one iteration."""
    bounds = loop.lo, loop.hi
    if not all(isinstance(bound, Const) for bound in bounds):
        return False
    low, high = (bound.value for bound in bounds if isinstance(bound, Const))
    return low < high if loop.step > 0 else low > high


def _place(node: Op) -> Place:
    return node.array, node.indices


def _carried(kind: object) -> ScalarType:
    assert isinstance(kind, ScalarType)
    return float32 if kind.is_float and kind.bits == 16 else kind


def _cast(builder: Builder, value: Operand, kind: object) -> Operand:
    assert isinstance(kind, ScalarType)
    return value if value.type == kind else builder.op("cast", value, type=kind)
