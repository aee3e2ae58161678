"""Finds components of one element that a kernel reads next to each other: sixteen bytes are one access."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from jwarp.backend.cuda.staged import component_of
from jwarp.ir.nodes import Block, Kernel, Node, Op, Operand, Value, blocks, written_params
from jwarp.types import ArrayType, bool_

SIZE = 16  # bytes


@dataclass(frozen=True, eq=False)
class Quads:
    """Reads of a block that are done where the first of them is; `value` stands for what is read."""

    nodes: tuple[Op, ...]
    value: Value
    count: int  # accesses
    places: dict[Op, int]  # where among what is read theirs is

    def access(self, array: str, element: str) -> str:
        """All of it, by the element of the first read."""
        return f"jw_read_quads<{self.count}>(&{element} - {self.places[self.nodes[0]]}, jw_has_quads({array}))"


def quads_of(kernel: Kernel, trusted: Container[Node]) -> dict[Op, Quads]:
    """By their reads, which need no test. What is read is written by nobody while the kernel runs."""
    if kernel.block_dim:
        return {}
    return {node: quads for quads in _Search(kernel, trusted).block(kernel.body) for node in quads.nodes}


def has_quads(type: ArrayType) -> bool:
    """True if elements are as long as some accesses, so that all of them begin as the array does."""
    size = type.dtype.dtype.itemsize
    return type.dtype is not bool_ and size >= 4 and math.prod(type.components) * size % SIZE == 0


class _Search:
    def __init__(self, kernel: Kernel, trusted: Container[Node]):
        self.kernel, self.trusted, self.written = kernel, trusted, frozenset(written_params(kernel))

    def block(self, block: Block) -> Iterator[Quads]:
        found: dict[tuple[int, tuple[Operand, ...]], list[tuple[Op, int]]] = {}
        for node in block.nodes:
            for inner in blocks(node):
                yield from self.block(inner)
            if not isinstance(node, Op) or not node.row.is_load or node not in self.trusted:
                continue
            if node.array >= len(self.kernel.params) or node.array in self.written:
                continue
            type = self.kernel.array(node.array).type
            component = component_of(node, type) if isinstance(type, ArrayType) and has_quads(type) else None
            if component is not None and isinstance(type, ArrayType):
                found.setdefault((node.array, tuple(node.indices[: type.dims])), []).append((node, component))
        yield from filter(None, map(_shared, found.values()))


def _shared(reads: Sequence[tuple[Op, int]]) -> Quads | None:
    """The accesses from the first component to the last one, if they are fewer than the reads."""
    result = reads[0][0].result
    if result is None:
        return None
    each = SIZE // result.type.dtype.itemsize
    parts = [component // each for _, component in reads]
    first, count = min(parts), max(parts) - min(parts) + 1
    if count >= len({component for _, component in reads}):
        return None
    places = {node: component - first * each for node, component in reads}
    return Quads(tuple(node for node, _ in reads), Value(result.type), count, places)
