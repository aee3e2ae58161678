"""Moves operations to where they run less often, or are seen from more places: out of loops, and before branches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from jwarp.ir.builder import TRUE, Builder, make_block, zero
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, For, If, Kernel, Node, Op, Operand, While, changed_arrays, inner_params, results
from jwarp.ir.ops import OPS


def hoist(kernel: Kernel, *, guarded: bool = False) -> Kernel:
    """`kernel` with loop-invariant operations, and loads of arrays that the loop does not write, moved out.

    Operations then run even where the loop has no trip. Every operation has a result for all arguments, so that this
    is harmless where accesses stay inside arrays. Where nothing sees to that, ask for `guarded`: loads then run only
    if the loop has a trip, or stay where they are.
    """
    return dataclasses.replace(kernel, body=_hoisted(kernel.body, guarded))


def speculate(kernel: Kernel) -> Kernel:
    """`kernel` with pure operations on integers and bools moved before the branches that they are in.

    What a branch computes of indices is then seen everywhere. Such operations cost little and have a result for all
    arguments. Operations on floats stay: those that a branch guards may give NaN without it, which a derivative would
    multiply by zero. So do loads, as the branch may be what keeps them inside their array.
    """
    return dataclasses.replace(kernel, body=_speculated(kernel.body))


Movable = Callable[[Op], bool]


def _hoisted(block: Block, guarded: bool) -> Block:
    nodes: list[Node] = []
    for node in block.nodes:
        match node:
            case Op():
                nodes.append(node)
            case If():
                then, orelse = _hoisted(node.then, guarded), _hoisted(node.orelse, guarded)
                nodes.append(dataclasses.replace(node, then=then, orelse=orelse))
            case For():
                nodes += _out_of_counted(dataclasses.replace(node, body=_hoisted(node.body, guarded)), guarded)
            case While():
                loop = dataclasses.replace(node, cond=_hoisted(node.cond, guarded), body=_hoisted(node.body, guarded))
                nodes += _out_of_conditional(loop, guarded)
    return Block(tuple(nodes), block.yields)


def _out_of_counted(loop: For, guarded: bool) -> list[Node]:
    """The loop, and before it what moves out of it."""
    moved, body = _split(loop.body, inner_params(loop), _invariant(loop))
    loop = dataclasses.replace(loop, body=body)
    builder = Builder()
    builder.span = loop.span
    runs: Operand = builder.op("lt" if loop.step > 0 else "gt", loop.lo, loop.hi) if guarded else TRUE
    if runs == TRUE:
        return [*moved, loop]
    early, late = _split(make_block(moved), (), _is_pure)
    if not late.nodes:
        return [*early, loop]
    read = tuple(r for node in late.nodes for r in results(node))
    then = Cloner().block(Block(late.nodes, read))
    orelse = make_block([], [zero(r.type) for r in read])
    return [*early, *builder.nodes, If(runs, then, orelse, read, loop.span), loop]


def _out_of_conditional(loop: While, guarded: bool) -> list[Node]:
    """The loop, and before it what moves out of it: its condition runs at least once, its body may not."""
    invariant = _invariant(loop)
    tested, cond = _split(loop.cond, loop.params, invariant)
    moved, body = _split(loop.body, loop.params, lambda node: invariant(node) and (not guarded or _is_pure(node)))
    return [*tested, *moved, dataclasses.replace(loop, cond=cond, body=body)]


def _invariant(loop: For | While) -> Movable:
    """Whether an operation gives in every trip what it gives for the same arguments before the loop."""
    written = changed_arrays(loop)
    return lambda node: _is_pure(node) or (OPS[node.name].effect == "read" and node.attr not in written)


def _is_pure(node: Op) -> bool:
    return OPS[node.name].effect == "pure"


def _speculated(block: Block) -> Block:
    nodes: list[Node] = []
    for node in block.nodes:
        match node:
            case Op():
                nodes.append(node)
            case If():
                sides = []
                for side in (_speculated(node.then), _speculated(node.orelse)):
                    moved, kept = _split(side, (), _is_cheap)
                    nodes += moved
                    sides.append(kept)
                nodes.append(dataclasses.replace(node, then=sides[0], orelse=sides[1]))
            case For():
                nodes.append(dataclasses.replace(node, body=_speculated(node.body)))
            case While():
                nodes.append(dataclasses.replace(node, cond=_speculated(node.cond), body=_speculated(node.body)))
    return Block(tuple(nodes), block.yields)


def _is_cheap(node: Op) -> bool:
    return _is_pure(node) and node.result is not None and not node.result.type.is_float


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
