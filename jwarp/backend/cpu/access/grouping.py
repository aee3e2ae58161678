"""Which operations are one access: those to components of the same elements, and runs along rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jwarp.analysis.ownership import added_to
from jwarp.backend.cpu.access.descriptor import component_of
from jwarp.ir.nodes import Node, Op, Operand, Value
from jwarp.types import ArrayType

# Numbers of a run: those of so many iterations, which `loops.unrolled` makes at once.
RUN = 4


def components_from(nodes: Sequence[Node], start: int, arrays: Mapping[int, ArrayType]) -> list[Op]:
    """The accesses from `start` on that are to different components of the same elements of an array; it may be one."""
    first = nodes[start]
    if not isinstance(first, Op) or not first.row.is_access:
        return []
    array = arrays[first.array]
    if array.dims == 0 or (first.row.is_atomic and not first.row.is_addition):
        return []
    found: list[Op] = []
    seen: set[int | None] = {None}
    for node in nodes[start:]:
        if not isinstance(node, Op) or node.row is not first.row or node.array != first.array:
            break
        position = component_of(node, array)
        if node.args[: array.dims] != first.args[: array.dims] or position in seen:
            break
        seen.add(position)
        found.append(node)
    return found


def run_from(nodes: Sequence[Node], start: int, definitions: Mapping[Value, Node]) -> list[Op]:
    """The loads from `start` on that are of numbers next to each other in the same rows, if they are a whole run."""
    found: list[Op] = []
    for k, node in enumerate(nodes[start : start + RUN]):
        if not isinstance(node, Op) or not node.row.is_load or len(node.args) < 2:
            return []
        if found and (node.array != found[0].array or node.args[:-1] != found[0].args[:-1]):
            return []
        if k and _distance(node.args[-1], found[0].args[-1], definitions) != k:
            return []
        found.append(node)
    return found if len(found) == RUN else []


def _distance(x: Operand, y: Operand, definitions: Mapping[Value, Node]) -> int | None:
    """The difference of x and y, if x is y plus a number."""
    node = definitions.get(x) if isinstance(x, Value) else None
    added = added_to(node) if isinstance(node, Op) else None
    return added[1] if added is not None and added[0] is y else None
