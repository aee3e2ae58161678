"""Drops dead stores: those that are undone before anything has read them, and those that nothing reads again."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from dataclasses import dataclass

from jwarp.ir.attributes import ArrayName
from jwarp.ir.nodes import (
    Block,
    Const,
    If,
    Node,
    Op,
    Operand,
    Value,
    arrays_changed,
    arrays_read,
    used_values,
    walk_node,
)
from jwarp.ir.visit import Rewriter


def drop_dead_stores(body: Block) -> Block:
    """`body` without what nobody sees: an element saved to its array's log, overwritten, and restored from there."""
    return _Dropper(used_values(body)).block(body)


@dataclass
class _Overwritten:
    """A `save` of a block, and the write that it is for, which nothing has looked at so far."""

    save: int
    write: int | None = None
    is_read: bool = False


class _Dropper(Rewriter):
    """Looks at each block by itself. `used` are the values that something reads."""

    def __init__(self, used: frozenset[Value]):
        self.used = used

    def block(self, block: Block) -> Block:
        block = super().block(block)
        open_: dict[ArrayName, list[_Overwritten]] = {}
        gone: set[int] = set()
        for k, node in enumerate(block.nodes):
            if not isinstance(node, Op):
                # The effect of a branch or loop on the log is not followed.
                for array in {a for n in walk_node(node) if isinstance(n, Op) for a in _touched(n)}:
                    open_.pop(array, None)
            elif node.row.adds_to_log:
                open_.setdefault(node.array_name, []).append(_Overwritten(k))
            elif node.row.restores and not node.row.restores_until:
                found = open_[node.array_name].pop() if open_.get(node.array_name) else None
                if found is not None and found.write is not None and not found.is_read:
                    gone |= {found.save, found.write, k}
            elif node.row.is_write and node.result not in self.used:
                entry = open_[node.array_name][-1] if open_.get(node.array_name) else None
                if entry is None or entry.write is not None:
                    _read(open_, node.array_name)
                else:
                    entry.write = k
                    # An atomic operation adds to an element that another write may have left.
                    for earlier in open_[node.array_name][:-1] if node.row.is_atomic else ():
                        earlier.is_read = True
            elif node.row.uses_log:
                open_.pop(node.array_name, None)
            else:
                for array in _touched(node):
                    _read(open_, array)
        return Block(tuple(n for k, n in enumerate(block.nodes) if k not in gone), block.yields)


def _touched(node: Op) -> tuple[ArrayName, ...]:
    """The arrays on whose elements, or on whose logs, an operation works."""
    own = (node.array_name,) if node.row.uses_log else ()
    return (*own, *arrays_read(node), *arrays_changed(node))


def _read(open_: dict[ArrayName, list[_Overwritten]], array: ArrayName) -> None:
    for entry in open_.get(array, ()):
        entry.is_read = True


# The elements of an array that are read later, by their indices; None for any of them.
_Later = Mapping[ArrayName, tuple[tuple[Operand, ...], ...] | None]


def drop_unread_stores(body: Block, arrays: Container[ArrayName]) -> Block:
    """`body` without stores to elements of `arrays` that nothing reads after them.

    Nobody asks what these arrays hold in the end, and no two threads touch one element of them.
    """
    made, _ = _without_unread(body, arrays, {})
    return made


def _without_unread(block: Block, arrays: Container[ArrayName], later: _Later) -> tuple[Block, _Later]:
    """The block, and what is read from its start on; `later` is what is read after it."""
    kept: list[Node] = []
    for node in reversed(block.nodes):
        if isinstance(node, If):
            sides = [_without_unread(b, arrays, later) for b in (node.then, node.orelse)]
            (then, first), (orelse, second) = sides
            later = {array: _joined(first.get(array, ()), second.get(array, ())) for array in {*first, *second}}
            same = then is node.then and orelse is node.orelse
            kept.append(node if same else dataclasses.replace(node, then=then, orelse=orelse))
        elif isinstance(node, Op) and node.row.is_store and node.array_name in arrays:
            read = later.get(node.array_name, ())
            if read is None or any(_may_meet(node.indices, indices) for indices in read):
                kept.append(node)
        else:
            kept.append(node)
            later = _with_reads(node, arrays, later)
    if len(kept) == len(block.nodes) and all(x is y for x, y in zip(reversed(kept), block.nodes, strict=True)):
        return block, later
    return Block(tuple(reversed(kept)), block.yields), later


def _with_reads(node: Node, arrays: Container[ArrayName], later: _Later) -> _Later:
    """The elements read later, plus those read by a node. The next iteration of a loop may read what it stores."""
    added: dict[ArrayName, tuple[tuple[Operand, ...], ...] | None] = {}
    for inner in walk_node(node):
        for array in _touched(inner) if isinstance(inner, Op) else ():
            if array in arrays:
                one = isinstance(node, Op) and node.row.is_access
                added[array] = _joined(later.get(array, ()), (node.indices,)) if isinstance(node, Op) and one else None
    return {**later, **added} if added else later


def _joined(
    x: tuple[tuple[Operand, ...], ...] | None, y: tuple[tuple[Operand, ...], ...] | None
) -> tuple[tuple[Operand, ...], ...] | None:
    return None if x is None or y is None else tuple(dict.fromkeys((*x, *y)))


def _may_meet(x: tuple[Operand, ...], y: tuple[Operand, ...]) -> bool:
    """True if two accesses may touch one element; indices below zero count from the end."""
    return not any(
        isinstance(a, Const) and isinstance(b, Const) and a.value != b.value and min(a.value, b.value) >= 0
        for a, b in zip(x, y, strict=True)
    )
