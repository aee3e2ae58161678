"""Drops dead stores: those that are undone before anything has read them."""

from __future__ import annotations

from dataclasses import dataclass

from jwarp.ir.attributes import ArrayName
from jwarp.ir.nodes import Block, Op, Value, arrays_changed, arrays_read, used_values, walk_node
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
                # What a branch or loop does to the log is not followed.
                for array in {a for n in walk_node(node) if isinstance(n, Op) for a in _touched(n)}:
                    open_.pop(array, None)
            elif node.name == "save":
                open_.setdefault(node.array_name, []).append(_Overwritten(k))
            elif node.name == "undo":
                found = open_[node.array_name].pop() if open_.get(node.array_name) else None
                if found is not None and found.write is not None and not found.is_read:
                    gone |= {found.save, found.write, k}
            elif node.row.is_write and node.result not in self.used:
                entry = open_[node.array_name][-1] if open_.get(node.array_name) else None
                if entry is None or entry.write is not None:
                    _read(open_, node.array_name)
                else:
                    entry.write = k
                    # What an atomic operation adds to is an element that another write may have left.
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
