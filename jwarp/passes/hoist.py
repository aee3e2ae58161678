"""Moves operations to where they run less often, or are seen from more places: out of loops, and before branches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable

from jwarp.ir.attributes import ArrayName, Transposes
from jwarp.ir.builder import TRUE, Builder, make_block, zero
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import (
    Block,
    For,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    While,
    changed_arrays,
    inner_params,
    overlaps_of,
    results,
    walk,
    with_bodies,
)
from jwarp.ir.visit import Rewriter, with_blocks


def hoist(kernel: Kernel, *, guarded: bool = False) -> Kernel:
    """`kernel` with loop-invariant operations, and loads of arrays that the loop does not write, moved out.

    Operations then run even if the loop has no iteration. Every operation has a result for all arguments, so this is
    harmless if accesses stay inside arrays. If that is not certain, ask for `guarded`: loads then run only if the loop
    has an iteration, or stay where they are.
    """
    overlaps = overlaps_of(kernel)
    return with_bodies(kernel, _Hoister(guarded, lambda loop: _invariant(overlaps(changed_arrays(loop)))).block)


def hoist_factors(kernel: Kernel) -> Kernel:
    """`kernel` with loop-invariant factors of products of tiles moved out of loops: in memory these are anyway."""
    products = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.attribute is Transposes]
    factors = {x for n in products for x in n.args[:2]}
    return with_bodies(kernel, _Hoister(False, lambda loop: lambda n: n.row.is_pure and n.result in factors).block)


def speculate(kernel: Kernel) -> Kernel:
    """`kernel` with pure operations on integers and bools moved before the branches that they are in.

    What a branch computes of indices is then seen everywhere. Such operations cost little and have a result for all
    arguments. Operations on floats stay: those that a branch guards may give NaN without it, which a derivative would
    multiply by zero. So do loads, as the branch may be what keeps them inside their array.
    """
    return dataclasses.replace(kernel, body=_Speculator().block(kernel.body))


Movable = Callable[[Op], bool]


class _Hoister(Rewriter):
    """Moves operations out of loops, from the innermost ones on."""

    def __init__(self, guarded: bool, invariant: Callable[[For | While], Movable]):
        """`invariant` says of a loop which operations can move out of it, if they depend on nothing inside."""
        self.guarded, self.invariant = guarded, invariant

    def nodes(self, node: Node) -> Iterable[Node]:
        node = self.node(node)
        match node:
            case For():
                return self.out_of_counted(node)
            case While():
                return self.out_of_conditional(node)
            case _:
                return (node,)

    def out_of_counted(self, loop: For) -> list[Node]:
        """The loop, and before it what moves out of it."""
        moved, body = _split(loop.body, inner_params(loop), self.invariant(loop))
        loop = dataclasses.replace(loop, body=body)
        builder = Builder()
        builder.span = loop.span
        runs: Operand = builder.op("lt" if loop.step > 0 else "gt", loop.lo, loop.hi) if self.guarded else TRUE
        if runs == TRUE:
            return [*moved, loop]
        early, late = _split(make_block(moved), (), _is_pure)
        if not late.nodes:
            return [*early, loop]
        read = tuple(r for node in late.nodes for r in results(node))
        then = Cloner().block(Block(late.nodes, read))
        orelse = make_block([], [zero(r.type) for r in read])
        return [*early, *builder.nodes, If(runs, then, orelse, read, loop.span), loop]

    def out_of_conditional(self, loop: While) -> list[Node]:
        """The loop, and before it what moves out of it: its condition runs at least once, its body may not."""
        invariant, guarded = self.invariant(loop), self.guarded
        tested, cond = _split(loop.cond, loop.params, invariant)
        moved, body = _split(loop.body, loop.params, lambda node: invariant(node) and (not guarded or _is_pure(node)))
        return [*tested, *moved, dataclasses.replace(loop, cond=cond, body=body)]


class _Speculator(Rewriter):
    """Moves operations out of branches, from the innermost ones on."""

    def nodes(self, node: Node) -> Iterable[Node]:
        node = self.node(node)
        if not isinstance(node, If):
            return (node,)
        moved, then = _split(node.then, (), _is_cheap)
        also_moved, orelse = _split(node.orelse, (), _is_cheap)
        return [*moved, *also_moved, with_blocks(node, (then, orelse))]


def _invariant(written: Collection[ArrayName]) -> Movable:
    """A test for invariance in a loop that writes arrays: equal arguments give equal results in and before it."""
    return lambda node: node.row.is_pure or (node.row.only_reads and node.attr not in written)


def _is_pure(node: Op) -> bool:
    return node.row.is_pure


def _is_cheap(node: Op) -> bool:
    return node.row.is_pure and node.result is not None and not node.result.type.is_float


def _split(block: Block, inside: Iterable[Operand], movable: Movable) -> tuple[list[Node], Block]:
    """The operations that can run before the block, and the rest of it; `inside` is known in the block alone."""
    known = set(inside)
    moved: list[Node] = []
    kept: list[Node] = []
    for node in block.nodes:
        if isinstance(node, Op) and node.result is not None and movable(node) and known.isdisjoint(node.args):
            moved.append(node)
        else:
            kept.append(node)
            known.update(results(node))
    return moved, Block(tuple(kept), block.yields)
