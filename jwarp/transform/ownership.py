"""Finds how threads share arrays: elements of a thread's own, and those of its neighbours too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jwarp.ir.nodes import WRITES, Block, Const, Kernel, Node, Op, Operand, Value, indices_of, walk
from jwarp.transform.authored import touched_by_gradients
from jwarp.types import int32, int64

# An index that is one coordinate of the thread plus a constant: (axis, constant).
Place = tuple[int, int]
Definitions = Mapping[Value, Op]

MAX_OFFSET = 1 << 16


def definitions_of(body: Block) -> Definitions:
    """The operation that defines each value, as far as one does."""
    return {n.result: n for n in walk(body) if isinstance(n, Op) and n.result is not None}


def place_of(index: Operand, definitions: Definitions) -> Place | None:
    """Which coordinate `index` is, and what is added to it; None for anything else."""
    if isinstance(index, Const) or index.type not in (int32, int64) or index not in definitions:
        return None
    node = definitions[index]
    if node.name == "tid":
        return node.attr, 0
    if node.name == "cast":
        return place_of(node.args[0], definitions)
    signs = {"add": (1, 1), "sub": (None, -1)}.get(node.name)
    if signs is None:
        return None
    x, y = node.args
    if isinstance(x, Const) and signs[0] is not None:
        x, y = y, x
    inner = place_of(x, definitions)
    if inner is None or not isinstance(y, Const) or abs(y.value) > MAX_OFFSET:
        return None
    return inner[0], inner[1] + signs[1] * y.value


def accesses(nodes: Iterable[Node]) -> Iterable[Op]:
    """The loads, stores and atomic operations among `nodes`."""
    return (n for n in nodes if isinstance(n, Op) and (n.name == "load" or n.name in WRITES))


def owned_arrays(kernel: Kernel) -> frozenset[int]:
    """The array parameters no element of which two threads of a launch over `tid_dims` axes can touch.

    All accesses to such an array agree, for every launch axis, in one index that is the thread's
    coordinate plus a constant that is not negative: a negative index would count from the end.
    """
    definitions = definitions_of(kernel.body)
    common: dict[int, list[Place | None]] = {}
    for node in accesses(walk(kernel.body)):
        found = [place_of(i, definitions) for i in indices_of(node)]
        known = common.setdefault(node.attr, found)
        common[node.attr] = [x if x == y else None for x, y in zip(known, found, strict=True)]
    axes = set(range(kernel.tid_dims))
    elsewhere = touched_by_gradients(kernel)
    return frozenset(
        p for p, indices in common.items()
        if {i[0] for i in indices if i and i[1] >= 0} >= axes and p not in elsewhere
    )  # fmt: skip


def stencils(kernel: Kernel) -> dict[int, tuple[int, ...]]:
    """The array parameters that are only read, at the thread's coordinates plus constants.

    For each the launch axis of every index; those of vector and matrix components are constants.
    """
    definitions = definitions_of(kernel.body)
    found: dict[int, tuple[int, ...] | None] = {}
    for node in accesses(walk(kernel.body)):
        array = kernel.array(node.attr).type
        dims = getattr(array, "dims", 0)
        places = [place_of(i, definitions) for i in indices_of(node)[:dims]]
        constant = all(isinstance(i, Const) for i in indices_of(node)[dims:])
        axes = tuple(p[0] for p in places if p)
        complete = (
            constant and node.name == "load" and sorted(axes) == list(range(kernel.tid_dims)) == list(range(dims))
        )
        if found.setdefault(node.attr, axes) != axes or not complete:
            found[node.attr] = None
    elsewhere = touched_by_gradients(kernel)
    return {p: axes for p, axes in found.items() if axes is not None and p < len(kernel.params) and p not in elsewhere}
