"""Prefetch where threads load from several neighbouring rows of an array, as in a grid.

Processors fetch ahead by themselves along few streams. Rows of a stencil are too many for them, and only the last one
of these comes from far away: the others have been read with the rows before.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from jwarp.ir.builder import Builder
from jwarp.ir.contents import definitions_of
from jwarp.ir.nodes import Block, Const, For, Kernel, Node, Op, Operand, Value, While
from jwarp.ir.visit import Rewriter
from jwarp.types import ArrayType, int32

# So far ahead, in bytes: the page after the one at hand, which processors do not go on to by themselves.
AHEAD = 4096

# The sign with which an operation adds the number on its right.
_SIGNS = {"add": 1, "sub": -1}


def with_prefetches(kernel: Kernel) -> Kernel:
    """The kernel with an operation that fetches ahead after the loads of rows furthest along, outside of its loops."""
    if kernel.block_dim or kernel.tid_dims < 2:
        return kernel
    return dataclasses.replace(kernel, body=_Fetching(kernel).block(kernel.body))


@dataclasses.dataclass(frozen=True)
class _Place:
    """Indices as values that are the same for all loads of a stream's array, and numbers added to them."""

    bases: tuple[Operand, ...]
    offsets: tuple[int, ...]


class _Fetching(Rewriter):
    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.furthest: set[Op] = set()
        self.made = definitions_of(kernel.body)

    def loop(self, node: For | While) -> Node:
        return node

    def block(self, block: Block) -> Block:
        self.furthest |= self.furthest_of(block)
        return super().block(block)

    def nodes(self, node: Node) -> Iterable[Node]:
        if isinstance(node, Op) and node in self.furthest:
            return node, *self.fetched(node)
        return super().nodes(node)

    def furthest_of(self, block: Block) -> set[Op]:
        """Of each array that a block loads several rows of, the load that comes last in memory."""
        rows: dict[tuple[int, tuple[Operand, ...]], dict[tuple[int, ...], Op]] = {}
        for node in block.nodes:
            if isinstance(node, Op) and node.row.is_load and (place := self.place(node)) is not None:
                rows.setdefault((node.array, place.bases), {}).setdefault(place.offsets[:-1], node)
        return {found[max(found)] for found in rows.values() if len(found) > 1}

    def place(self, load: Op) -> _Place | None:
        """The place of the elements that the lanes load one after the other; None if they do not."""
        array = self.kernel.array(load.array).type
        if self.kernel.local(load.array) is not None or not isinstance(array, ArrayType) or array.dims < 2:
            return None
        pairs = [self.parts(i) for i in load.args[: array.dims]]
        *axes, last = [self.axis(base) for base, _ in pairs]
        if None in axes or last != self.kernel.tid_dims - 1 or last in axes:
            return None
        return _Place(tuple(base for base, _ in pairs), tuple(offset for _, offset in pairs))

    def parts(self, index: Operand) -> tuple[Operand, int]:
        """An index as a value and a number that is added to it."""
        node = self.made.get(index) if isinstance(index, Value) else None
        sign = _SIGNS.get(node.name) if node is not None else None
        if node is not None and sign is not None and isinstance(node.args[1], Const):
            base, offset = self.parts(node.args[0])
            return base, offset + sign * node.args[1].value
        return index, 0

    def axis(self, index: Operand) -> int | None:
        """The launch axis that an index is the coordinate along."""
        node = self.made.get(index) if isinstance(index, Value) else None
        return node.number if node is not None and node.row.is_coordinate else None

    def fetched(self, load: Op) -> Iterable[Node]:
        array = self.kernel.array(load.array).type
        assert isinstance(array, ArrayType)
        last = array.dims - 1
        builder = Builder()
        builder.span = load.span
        ahead = builder.op(
            "add", load.args[last], Const(int32, AHEAD // (array.dtype.bits // 8 * math.prod(array.components)))
        )
        builder.append(Op("prefetch", (*load.args[:last], ahead, *load.args[last + 1 :]), load.attr, None, load.span))
        return builder.nodes
