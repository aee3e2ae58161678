"""Moves integer operations out of branches, so that what a branch computes of indices is seen everywhere."""

from __future__ import annotations

import dataclasses

from jwarp.ir.nodes import Block, For, If, Kernel, Node, Op, Value, While, results
from jwarp.ir.ops import OPS


def speculate(kernel: Kernel) -> Kernel:
    """`kernel` with pure operations on integers and bools moved before the branches that they are in.

    They cost little and have a result for all arguments. Operations on floats stay: those that a branch
    guards may give NaN without it, which a derivative would multiply by zero.
    """
    return dataclasses.replace(kernel, body=_block(kernel.body))


def _block(block: Block) -> Block:
    nodes: list[Node] = []
    for node in block.nodes:
        match node:
            case Op():
                nodes.append(node)
            case If():
                sides = []
                for side in (_block(node.then), _block(node.orelse)):
                    moved, kept = _split(side)
                    nodes += moved
                    sides.append(kept)
                nodes.append(dataclasses.replace(node, then=sides[0], orelse=sides[1]))
            case For():
                nodes.append(dataclasses.replace(node, body=_block(node.body)))
            case While():
                nodes.append(dataclasses.replace(node, cond=_block(node.cond), body=_block(node.body)))
    return Block(tuple(nodes), block.yields)


def _split(block: Block) -> tuple[list[Node], Block]:
    """The operations that can run before the block, and the rest of it."""
    inside: set[Value] = set()
    moved: list[Node] = []
    kept: list[Node] = []
    for node in block.nodes:
        if (
            isinstance(node, Op)
            and node.result is not None
            and not node.result.type.is_float
            and OPS[node.name].effect == "pure"
            and not any(a in inside for a in node.args)
        ):
            moved.append(node)
        else:
            kept.append(node)
            inside.update(results(node))
    return moved, Block(tuple(kept), block.yields)
