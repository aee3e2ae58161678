"""Threads that leave their block for good, as `if lane == 0: return` lets them: the others go on without them.

What comes after such a return stands in the other branch. Where that branch has tile operations and is the last
thing that the kernel does, it is the code of a block with fewer lanes.
"""

from __future__ import annotations

import dataclasses

from jwarp.ir.nodes import Block, If, Kernel, Op, walk
from jwarp.types import TileType


def without_last_results(block: Block) -> Block:
    """A block whose last branches give nothing, as nothing comes after them."""
    *first, last = block.nodes or (None,)
    if not isinstance(last, If):
        return Block(block.nodes)
    sides = without_last_results(last.then), without_last_results(last.orelse)
    return Block((*first, dataclasses.replace(last, then=sides[0], orelse=sides[1], results=())))


def last_branches(kernel: Kernel) -> set[If]:
    """The branches after which nothing comes."""
    found: set[If] = set()
    open_ = [kernel.body]
    while open_:
        block = open_.pop()
        node = block.nodes[-1] if block.nodes else None
        if isinstance(node, If):
            found.add(node)
            open_ += [node.then, node.orelse]
    return found


def stays(node: If) -> bool | None:
    """Which side of a branch is for the lanes that stay: True for the first one, None if it cannot be said."""
    sides = [_works_together(block) for block in (node.then, node.orelse)]
    return None if sides[0] == sides[1] else sides[0]


def _works_together(block: Block) -> bool:
    """True if a block contains an operation that all lanes perform together."""
    ops = (n for n in walk(block) if isinstance(n, Op))
    return any(
        n.row.is_tile or n.row.is_barrier or any(isinstance(x.type, TileType) for x in (*n.args, n.result) if x)
        for n in ops
    )
