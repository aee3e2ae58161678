"""Moves operations out of loops that give the same result in every trip."""

from __future__ import annotations

import dataclasses

from jwarp.ir.attributes import ArrayName
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Node,
    Op,
    Value,
    While,
    changed_arrays,
    inner_params,
    results,
    walk_node,
)
from jwarp.ir.ops import OPS


def hoist(kernel: Kernel) -> Kernel:
    """`kernel` with loop-invariant operations, and loads of arrays the loop does not write, moved out.

    They then run even where the loop has no trip, which is harmless as accesses stay inside arrays.
    """
    return dataclasses.replace(kernel, body=_block(kernel.body))


def _block(block: Block) -> Block:
    nodes: list[Node] = []
    for node in block.nodes:
        match node:
            case Op():
                nodes.append(node)
            case If():
                nodes.append(dataclasses.replace(node, then=_block(node.then), orelse=_block(node.orelse)))
            case For() | While():
                moved, loop = _loop(node)
                nodes += [*moved, loop]
    return Block(tuple(nodes), block.yields)


def _loop(node: For | While) -> tuple[list[Node], For | While]:
    inside: set[Value] = set()
    for inner in walk_node(node):
        inside.update(inner_params(inner), results(inner))
    written = changed_arrays(node)
    moved: list[Node] = []

    def split(block: Block) -> Block:
        stay: list[Node] = []
        for inner in _block(block).nodes:
            if _is_invariant(inner, inside, written):
                moved.append(inner)
                inside.difference_update(results(inner))
            else:
                stay.append(inner)
        return Block(tuple(stay), block.yields)

    if isinstance(node, For):
        return moved, dataclasses.replace(node, body=split(node.body))
    return moved, dataclasses.replace(node, cond=split(node.cond), body=split(node.body))


def _is_invariant(node: Node, inside: set[Value], written: set[ArrayName]) -> bool:
    if not isinstance(node, Op) or node.result is None:
        return False
    effect = OPS[node.name].effect
    movable = effect == "pure" or (effect == "read" and node.attr not in written)
    return movable and all(isinstance(a, Const) or a not in inside for a in node.args)
