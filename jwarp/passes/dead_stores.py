"""Drops stores that are undone before anything has read them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from jwarp.ir.nodes import WRITES, Block, For, If, Node, Op, Value, While, walk_node

_USES = frozenset(("load", "clear", "mark", "rollback", "save", "undo", *WRITES))


@dataclass
class _Overwritten:
    """A `save` of a block, and the write that it is for, which nothing has looked at so far."""

    save: int
    write: int | None = None
    is_read: bool = False


def drop_undone(block: Block, used: frozenset[Value]) -> Block:
    """`block` without what nobody sees: an element saved, overwritten, and restored. `used` are the values read."""
    nodes = [_inner(node, used) for node in block.nodes]
    open_: dict[int, list[_Overwritten]] = {}
    gone: set[int] = set()
    for k, node in enumerate(nodes):
        if not isinstance(node, Op):
            # What a branch or loop does to the log is not followed.
            for array in {n.attr for n in walk_node(node) if isinstance(n, Op) and n.name in _USES}:
                open_.pop(array, None)
        elif node.name == "save":
            open_.setdefault(node.attr, []).append(_Overwritten(k))
        elif node.name == "undo":
            found = open_[node.attr].pop() if open_.get(node.attr) else None
            if found is not None and found.write is not None and not found.is_read:
                gone |= {found.save, found.write, k}
        elif node.name in WRITES and node.result not in used:
            entry = open_[node.attr][-1] if open_.get(node.attr) else None
            if entry is None or entry.write is not None:
                _read(open_, node.attr)
            else:
                entry.write = k
                # What an atomic operation adds to is an element that another write may have left.
                for earlier in open_[node.attr][:-1] if node.name != "store" else ():
                    earlier.is_read = True
        elif node.name in ("mark", "rollback"):
            open_.pop(node.attr, None)
        elif node.name in _USES:
            _read(open_, node.attr)
    return Block(tuple(n for k, n in enumerate(nodes) if k not in gone), block.yields)


def _read(open_: dict[int, list[_Overwritten]], array: int) -> None:
    for entry in open_.get(array, ()):
        entry.is_read = True


def _inner(node: Node, used: frozenset[Value]) -> Node:
    match node:
        case Op():
            return node
        case If():
            then, orelse = drop_undone(node.then, used), drop_undone(node.orelse, used)
            return dataclasses.replace(node, then=then, orelse=orelse)
        case For():
            return dataclasses.replace(node, body=drop_undone(node.body, used))
        case While():
            return dataclasses.replace(node, cond=drop_undone(node.cond, used), body=drop_undone(node.body, used))
