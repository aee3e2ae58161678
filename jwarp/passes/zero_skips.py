"""Branches that only leave out what adds nothing, `if x == 0.0: continue`, are no branches to derivatives.

Sparse code skips factors that are zero. What it computes is the same without that, so that its derivative at zero is
the one without it, too: of `s += x * y`, y by x. Taken as it is written, the branch says that x has no effect there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator

from jwarp.ir.attributes import Extent
from jwarp.ir.builder import FALSE, TRUE, Builder, make_block, simplify_op, zero
from jwarp.ir.contents import definitions_of
from jwarp.ir.nodes import Block, Const, If, Kernel, Node, Op, Operand, Value, results, walk
from jwarp.ir.rewrites import OF_FINITE
from jwarp.ir.visit import Rewriter
from jwarp.passes.hoist import speculate
from jwarp.types import FLOATS, bool_, int32, int64

LONGEST = 400  # nodes of a branch that is looked at


def without_zero_skips(kernel: Kernel) -> Kernel:
    """The kernel, for derivatives alone: a branch is taken also where a float is zero that lets it be skipped.

    That is so where both sides then do the same, as algebra says, and the one that is taken has no operation whose
    value or slope might not be finite, such as a division. Where it would access elements that are not there, or where
    a number that it reads is not finite, it is skipped as before.
    """
    ops = (node for node in walk(kernel.body) if isinstance(node, Op) and node.result is not None)
    if not any(node.result.type is bool_ and _compared(node) for node in ops):  # type: ignore[union-attr]
        return kernel
    ready = speculate(kernel)
    made = _Skips(ready).block(ready.body)
    return kernel if made is ready.body else dataclasses.replace(ready, body=made)


class _Skips(Rewriter):
    """Rewrites branches from the innermost ones on."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.definitions = definitions_of(kernel.body)

    def nodes(self, node: Node) -> Iterable[Node]:
        node = self.node(node)
        return self.of_branch(node) if isinstance(node, If) else (node,)

    def of_branch(self, node: If) -> Iterable[Node]:
        """The replacement of a branch whose blocks have been rewritten."""
        for skip, other, skipped in ((node.then, node.orelse, True), (node.orelse, node.then, False)):
            if skip.nodes or not other.nodes:
                continue
            reasons = list(self.reasons(node.cond, skipped))
            zeros = [self.zeros(reason) for reason in reasons]
            accesses = self.accesses(other) if any(zeros) else None
            if accesses is None:
                continue
            dropped = [r for r, z in zip(reasons, zeros, strict=True) if z and _Algebra(z).is_same(other, skip)]
            if not dropped:
                continue
            builder = Builder()
            builder.span = node.span
            skips: Operand = FALSE
            dropped_now: Operand = FALSE
            for cond, holds in reasons:
                now = cond if holds else builder.op("not", cond)
                if (cond, holds) in dropped:
                    dropped_now = builder.op("or", dropped_now, now)
                else:
                    skips = builder.op("or", skips, now)
            may_run = builder.op("and", dropped_now, builder.op("not", _outside(builder, accesses)))
            bad = builder.op("and", dropped_now, builder.op("not", _finite(builder, may_run, accesses, other)))
            skips = builder.op("or", skips, bad)
            made = If(skips, skip, other, node.results, node.span)
            return (*builder.nodes, made)
        return (node,)

    def reasons(self, cond: Operand, holds: bool) -> Iterator[tuple[Operand, bool]]:
        """The conditions of which each one lets the branch be skipped, and what they then are."""
        definition = self.definitions.get(cond) if isinstance(cond, Value) else None
        match definition:
            case Op(row=row) if row.is_complement:
                yield from self.reasons(definition.args[0], not holds)
            case Op(row=row) if row.numeric.absorbs is holds:
                for part in definition.args:
                    yield from self.reasons(part, holds)
            case _:
                yield cond, holds

    def zeros(self, reason: tuple[Operand, bool]) -> set[Value]:
        """The floats that are zero if a condition is what it says; none if it says something else, too."""
        cond, holds = reason
        definition = self.definitions.get(cond) if isinstance(cond, Value) else None
        match definition:
            case Op(row=row) if row.is_complement:
                return self.zeros((definition.args[0], not holds))
            case Op(row=row) if row.numeric.absorbs is (not holds):
                parts = [self.zeros((part, holds)) for part in definition.args]
            case Op(row=row) if row.equality is holds:
                return _compared(definition)
            case _:
                return set()
        return set[Value]().union(*parts) if all(parts) else set()

    def accesses(self, block: Block) -> list[Op] | None:
        """The accesses of a block, whose indices are known before it; None where it is none to run without need."""
        nodes = list(walk(block))
        inside = {x for node in nodes for x in results(node)}
        found: dict[tuple, Op] = {}
        for node in nodes:
            if isinstance(node, If):
                continue
            if len(nodes) > LONGEST or not isinstance(node, Op) or not _may_run(node):
                return None
            if node.row.is_access:
                if self.kernel.local(node.array) is not None or any(x in inside for x in node.indices):
                    return None
                found.setdefault((node.array, node.indices), node)
        return list(found.values())


def _compared(node: Op) -> set[Value]:
    """The float that an operation compares with zero, if that is what it does."""
    pairs = (node.args, node.args[::-1]) if len(node.args) == 2 else ()
    for x, y in pairs:
        if isinstance(x, Value) and x.type in FLOATS and y == zero(x.type):
            return {x}
    return set()


def _may_run(node: Op) -> bool:
    row = node.row
    if row.is_access:
        return not row.is_write or row.is_atomic
    is_float = node.result is not None and node.result.type.is_float
    return row.is_pure and (not is_float or row.numeric.is_total or row.transfer.moves_bits or not node.args)


def _outside(builder: Builder, accesses: list[Op]) -> Operand:
    """The truth value that an index of some accesses is negative or outside its array, which stands for no element."""
    pairs = {(node.array, axis, x) for node in accesses for axis, x in enumerate(node.indices)}
    found: Operand = FALSE
    for array, axis, x in sorted(pairs, key=lambda pair: (pair[0], pair[1])):
        size = Value(int32)
        builder.append(Op("shape", (), Extent(array, axis), size, builder.span))
        extent: Operand = size
        if isinstance(x, Const) and x.value < 0:  # one that is written so counts from the end
            found = builder.op("or", found, builder.op("lt", extent, Const(int32, min(-x.value, 2**31 - 1))))
            continue
        if x.type is not int32:  # the greatest unsigned ones are below zero then
            x, extent = (builder.op("cast", each, type=int64) for each in (x, extent))
        for part in (builder.op("lt", x, zero(x.type)), builder.op("ge", x, extent)):
            found = builder.op("or", found, part)
    return found


def _finite(builder: Builder, may_run: Operand, accesses: list[Op], block: Block) -> Operand:
    """The truth value that a branch may run, and that all floats it then reads are finite."""
    nodes = list(walk(block))
    inside = {x for node in nodes for x in results(node)}
    read = dict.fromkeys(x for node in nodes if isinstance(node, Op) for x in node.args)
    floats = [x for x in read if isinstance(x, Value) and x.type in FLOATS and x not in inside]
    loads = [node for node in accesses if not node.row.is_write and node.result and node.result.type in FLOATS]
    if not floats and not loads:
        return may_run
    with builder.block() as then:
        for node in loads:
            loaded = Value(node.result.type)  # type: ignore[union-attr]
            builder.append(dataclasses.replace(node, result=loaded))
            floats.append(loaded)
        finite: Operand = TRUE
        for x in floats:
            finite = builder.op("and", finite, builder.op("lt", builder.op("abs", x), Const(x.type, math.inf)))
    found = Value(bool_)
    builder.append(If(may_run, make_block(then, [finite]), make_block([], [FALSE]), (found,), builder.span))
    return found


class _Algebra:
    """The algebra of values where some floats are zero and the others finite."""

    def __init__(self, zeros: set[Value]):
        self.known: dict[Operand, Operand] = {x: zero(x.type) for x in zeros}

    def is_same(self, other: Block, skip: Block) -> bool:
        """True if a block then changes nothing, and yields the same as a block without operations."""
        return self.changes_nothing(other) and all(
            _equal(self.of(x), self.of(y)) for x, y in zip(other.yields, skip.yields, strict=True)
        )

    def of(self, x: Operand) -> Operand:
        return self.known.get(x, x)

    def changes_nothing(self, block: Block) -> bool:
        for node in block.nodes:
            if isinstance(node, If):
                if not self.changes_nothing(node.then) or not self.changes_nothing(node.orelse):
                    return False
                for x, one, two in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
                    if _equal(self.of(one), self.of(two)):
                        self.known[x] = self.of(one)
                continue
            assert isinstance(node, Op)
            if node.row.is_atomic and (not node.row.is_addition or not _is_zero(self.of(node.values[0]))):
                return False
            if node.row.is_pure and node.result is not None:
                self.known[node.result] = self.result(node)
        return True

    def result(self, node: Op) -> Operand:
        assert node.result is not None
        args = tuple(map(self.of, node.args))
        # Both zeros are one here.
        unsigned = tuple(zero(x.type) if _is_zero(x) else x for x in args)
        found = OF_FINITE.rewritten(node.name, unsigned, node.result.type)
        return found or simplify_op(node.name, args, node.result.type) or node.result


def _is_zero(x: Operand) -> bool:
    return isinstance(x, Const) and x.type in FLOATS and x.value == 0


def _equal(x: Operand, y: Operand) -> bool:
    """True if they are one value, or both zero."""
    return x == y or (_is_zero(x) and _is_zero(y))
