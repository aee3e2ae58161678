"""Finds launch axes along which a launch may be cut into pieces that know nothing of each other.

Along such an axis, the coordinate of a thread is the index along one axis of each array that it goes with, and nothing
else: not a number to compute with, no other index. A piece of the launch then works on a piece of these arrays, and its
threads, counted from 0, do what they did. What all pieces only add to is summed afterwards.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from jwarp.errors import NO_SPAN, Span
from jwarp.ir.attributes import ArrayNumber, Extent
from jwarp.ir.nodes import Block, Kernel, Node, Op, Operand, Value, blocks, operands, used_values, walk_all
from jwarp.types import bool_


@dataclass(frozen=True)
class Split:
    """A launch axis that may be cut.

    `places` is the axis of each array parameter that is cut with it, `sums` are the parameters that all pieces add to.
    """

    places: Mapping[int, int]
    sums: frozenset[int]


@dataclass(frozen=True)
class Obstacle:
    """Why a launch axis may not be cut, and the line that shows it."""

    reason: str
    span: Span = NO_SPAN


@dataclass
class _Uses:
    """How the coordinate along one axis is used: where it is an index, and which extents it is compared with."""

    places: dict[int, set[int]] = field(default_factory=dict)
    compared: list[tuple[Extent, Span]] = field(default_factory=list)
    obstacle: Obstacle | None = None

    def refuse(self, reason: str, span: Span) -> None:
        self.obstacle = self.obstacle or Obstacle(reason, span)


def independent_axes(kernel: Kernel) -> tuple[Split | Obstacle, ...]:
    """For each coordinate that `kernel` reads, how a launch is cut along it, or why it may not be."""
    nodes = list(walk_all(kernel))
    used = used_values(kernel.body)
    coordinates = {n.result: n.number for n in nodes if isinstance(n, Op) and n.row.is_coordinate}
    lengths = {n.result: n.attr_as(Extent) for n in nodes if isinstance(n, Op) and n.attr.__class__ is Extent}
    uses = [_Uses() for _ in range(kernel.tid_dims)]
    accesses: dict[int, list[Op]] = {}
    for node in nodes:
        if isinstance(node, Op) and node.row.indices is not None and node.row.attribute is ArrayNumber:
            accesses.setdefault(node.array, []).append(node)
        _look(node, uses, coordinates, lengths, used, len(kernel.params))
    _look_at_yields(kernel.body, uses, coordinates)
    return tuple(_decide(kernel, axis, own, accesses, coordinates, nodes, lengths) for axis, own in enumerate(uses))


def _look(
    node: Node,
    uses: list[_Uses],
    coordinates: Mapping[Value | None, int],
    lengths: Mapping[Value | None, Extent],
    used: Container[Value],
    params: int,
) -> None:
    """Note what a node does with coordinates."""
    for block in blocks(node):
        _look_at_yields(block, uses, coordinates)
    if isinstance(node, Op) and (node.row.is_native or node.row.is_tile or node.row.uses_notes or _counts(node, used)):
        for own in uses:
            own.refuse("depends on which other threads there are", node.span)
    compared = _compared(node, coordinates, lengths)
    if compared is not None:
        axis, extent = compared
        uses[axis].compared.append((extent, node.span))
        return
    is_access = isinstance(node, Op) and node.row.indices is not None and node.row.attribute is ArrayNumber
    indices = len(node.indices) if isinstance(node, Op) and is_access else 0
    for k, x in enumerate(operands(node)):
        found = coordinates.get(x) if isinstance(x, Value) else None
        if found is None:
            continue
        if isinstance(node, Op) and k < indices and node.array < params:
            uses[found].places.setdefault(node.array, set()).add(k)
        else:
            uses[found].refuse("uses the coordinate of the thread as a number", node.span)


def _look_at_yields(block: Block, uses: list[_Uses], coordinates: Mapping[Value | None, int]) -> None:
    for x in block.yields:
        found = coordinates.get(x) if isinstance(x, Value) else None
        if found is not None:
            uses[found].refuse("keeps the coordinate of the thread in a variable", NO_SPAN)


def _counts(node: Op, used: Container[Value]) -> bool:
    """True if a node distinguishes threads by more than their coordinates, or by the effects of earlier threads."""
    row = node.row
    is_number = row.arity == 0 and row.is_pure and row.attribute is None and row.result is not None
    return is_number or (row.is_atomic and node.result in used)


def _compared(
    node: Node, coordinates: Mapping[Value | None, int], lengths: Mapping[Value | None, Extent]
) -> tuple[int, Extent] | None:
    """The axis and the extent that a node compares, which is true or false in a piece as in the whole."""
    if not isinstance(node, Op) or node.result is None or node.result.type is not bool_ or len(node.args) != 2:
        return None
    first, second = (x if isinstance(x, Value) else None for x in node.args)
    for x, y in ((first, second), (second, first)):
        if x in coordinates and y in lengths:
            return coordinates[x], lengths[y]
    return None


def _decide(
    kernel: Kernel,
    axis: int,
    own: _Uses,
    accesses: Mapping[int, list[Op]],
    coordinates: Mapping[Value | None, int],
    nodes: Iterable[Node],
    lengths: Mapping[Value | None, Extent],
) -> Split | Obstacle:
    if own.obstacle is not None:
        return own.obstacle
    if not own.places:
        return Obstacle("reads and writes the same elements in all threads along it")
    places: dict[int, int] = {}
    sums: set[int] = set()
    for p, ops in accesses.items():
        if p >= len(kernel.params):
            continue
        name = kernel.params[p].name
        if p in own.places:
            if len(own.places[p]) > 1:
                return Obstacle(f"uses one coordinate for several axes of '{name}'", ops[0].span)
            (place,) = own.places[p]
            other = next((op for op in ops if _axis_of(op.indices[place], coordinates) != axis), None)
            if other is not None:
                return Obstacle(f"reaches elements of '{name}' that belong to other threads", other.span)
            places[p] = place
        elif any(op.row.changes_elements for op in ops):
            stored = next((op for op in ops if not op.row.is_addition), None)
            if stored is not None:
                return Obstacle(f"changes elements of '{name}' that all threads along it share", stored.span)
            sums.add(p)
    foreign = next((span for extent, span in own.compared if places.get(extent.array) != extent.axis), None)
    if foreign is not None:
        return Obstacle("compares the coordinate of the thread with an extent", foreign)
    cut = set(places.items())
    for node in nodes:
        read = [*operands(node), *(x for block in blocks(node) for x in block.yields)]
        for extent in (lengths[x] for x in read if isinstance(x, Value) and x in lengths):
            compared = _compared(node, coordinates, lengths)
            if (extent.array, extent.axis) in cut and (compared is None or compared[0] != axis):
                return Obstacle(f"uses an extent of '{kernel.params[extent.array].name}' as a number", node.span)
    return Split(places, frozenset(sums))


def _axis_of(x: Operand, coordinates: Mapping[Value | None, int]) -> int | None:
    return coordinates.get(x) if isinstance(x, Value) else None
