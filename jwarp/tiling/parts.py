"""The parts of a schedule for a kernel with tiles: loop nests, operations on whole tiles, moves, control flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jwarp.ir.nodes import (
    Const,
    For,
    If,
    Node,
    Op,
    Operand,
    Value,
    While,
    blocks,
    inner_params,
    operands,
    results,
    walk_node,
)
from jwarp.types import TileType


@dataclass
class Nest:
    """Operations on the elements of one shape, which one loop nest does element by element.

    `reduced` are the axes that reductions in it run over, if not over all. Nothing joins a nest that is `closed`;
    one that is `reversed` goes from the last element to the first.
    """

    shape: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    reduced: tuple[int, ...] = ()
    closed: bool = False
    reversed: bool = False


@dataclass
class Step:
    """An operation on scalars that changes something."""

    node: Op


@dataclass
class Move:
    """The memory of `target` becomes what `source` is."""

    target: Value
    source: Operand


@dataclass
class Whole:
    """An operation on whole tiles: `reads` are in memory, and so is the result, `target`.

    A product that is to `accumulate` is added to what the target holds.
    """

    node: Op
    reads: tuple[Value, ...]
    target: Value
    accumulate: bool = False


@dataclass
class Control:
    """Control flow of the block as a whole."""

    node: If | For | While
    schedules: tuple[Schedule, ...]


Part = Nest | Step | Move | Whole | Control


@dataclass
class Schedule:
    """A block: `before[k]` are operations on scalars that come before part k, or after all parts."""

    parts: list[Part] = field(default_factory=list)
    before: list[list[Op]] = field(default_factory=lambda: [[]])
    yields: tuple[Operand, ...] = ()

    def append(self, part: Part) -> int:
        """Add a part after all others; its number."""
        self.parts.append(part)
        self.before.append([])
        return len(self.parts) - 1


def tiles_in(values: Iterable[Value]) -> tuple[Value, ...]:
    """Those of the values that are tiles."""
    return tuple(v for v in values if isinstance(v.type, TileType))


def free_operands(node: Node) -> Iterator[Operand]:
    """The constants of a node and its blocks, and the values that these read from outside."""
    if isinstance(node, Op):  # most are
        yield from node.args
        return
    inside: set[Value] = set()
    for inner in walk_node(node):
        inside.update(inner_params(inner))
        if inner is not node:
            inside.update(results(inner))
    for inner in walk_node(node):
        for x in (*operands(inner), *(y for block in blocks(inner) for y in block.yields)):
            if isinstance(x, Const) or x not in inside:
                yield x
