"""Finds the arrays of which every thread touches only elements of its own."""

from __future__ import annotations

from jwarp.ir.nodes import WRITES, Const, Kernel, Op, Operand, Value, indices_of, walk
from jwarp.types import int32, int64

# An index that is one coordinate of the thread plus a constant that is not negative: (axis, constant).
_Own = tuple[int, int]


def owned_arrays(kernel: Kernel) -> frozenset[int]:
    """The array parameters no element of which two threads of a launch over `tid_dims` axes can touch.

    All accesses to such an array agree, for every launch axis, in one index that is the thread's
    coordinate plus a constant. Negative indices, which count from the end, cannot come of that.
    """
    definitions = {n.result: n for n in walk(kernel.body) if isinstance(n, Op) and n.result is not None}
    common: dict[int, list[_Own | None]] = {}
    for node in walk(kernel.body):
        if not isinstance(node, Op) or not (node.name == "load" or node.name in WRITES):
            continue
        found = [_own(i, definitions) for i in indices_of(node)]
        known = common.setdefault(node.attr, found)
        common[node.attr] = [x if x == y else None for x, y in zip(known, found, strict=True)]
    axes = set(range(kernel.tid_dims))
    return frozenset(p for p, indices in common.items() if {i[0] for i in indices if i} >= axes)


def _own(index: Operand, definitions: dict[Value | None, Op]) -> _Own | None:
    if isinstance(index, Const):
        return None
    node = definitions.get(index)
    if node is None or index.type not in (int32, int64):
        return None
    if node.name == "tid":
        return node.attr, 0
    if node.name == "cast":
        return _own(node.args[0], definitions)
    if node.name == "add":
        for x, y in (node.args, node.args[::-1]):
            # The sum must not wrap, or it would be negative: a coordinate stays well below 2^31.
            if isinstance(y, Const) and 0 <= y.value < 1 << 16 and (found := _own(x, definitions)):
                return found[0], found[1] + y.value
    return None
