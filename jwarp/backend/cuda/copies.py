"""Finds loops that only fetch tiles for products from arrays, which the hardware does while the block works on.

Of a loop that begins with such fetches, each iteration begins those of a later one: its tiles have some places in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from jwarp.ir.attributes import ArrayName
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    Kernel,
    Node,
    Op,
    Operand,
    Value,
    arrays_changed,
    arrays_read,
    blocks,
    failure_texts,
    operands,
    results,
    used_values,
    walk,
    walk_node,
    written_params,
)
from jwarp.types import bfloat16, float16, float32

_Made = TypeVar("_Made")

# Types of which there are instructions that add neighbours to memory.
ADDED = (float16, bfloat16, float32)
# Fewer bytes are fetched as well by loads.
LEAST_BYTES = 512


@dataclass(frozen=True)
class Copy:
    """A matrix of `rows` x `columns` elements that goes to the shared array `target`.

    Its first element is that of array `source` at `corner`, where None is 0; rows go on along `axis`.
    """

    target: int
    source: int
    rows: int
    columns: int
    corner: tuple[Operand | None, ...]
    axis: int


@dataclass(frozen=True)
class Addition:
    """A matrix of `rows` x `columns` elements of the shared array `source` that is added to array `target`.

    The first one is added to the element at `corner`, where None is 0; rows go on along `axis`.
    """

    target: int
    source: int
    rows: int
    columns: int
    corner: tuple[Operand | None, ...]
    axis: int


@dataclass(frozen=True)
class Pipeline:
    """The beginning of a loop before it does anything else: operations on numbers, and loops that are copies."""

    prefix: tuple[Node, ...]
    targets: frozenset[int]


@dataclass(frozen=True)
class Copies:
    """The copies and additions that loops with lanes make, and the loops that fetch ahead, by the loops."""

    of: Mapping[Node, tuple[Copy, ...]]
    pipelines: Mapping[Node, Pipeline]
    additions: Mapping[Node, tuple[Addition, ...]] = field(default_factory=dict)

    @property
    def ahead(self) -> frozenset[int]:
        """The shared arrays that are fetched ahead, which need several places."""
        return frozenset().union(*(p.targets for p in self.pipelines.values()))


def find_copies(kernel: Kernel, trusted: Container[Node]) -> Copies:
    """The copies of a lowered kernel: accesses that are not `trusted` may be where there is nothing to fetch."""
    units = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.code.is_unit]
    read = {array for n in units for array in arrays_read(n)}
    written = frozenset(written_params(kernel))
    found: dict[Node, tuple[Copy, ...]] = {}
    additions: dict[Node, tuple[Addition, ...]] = {}
    used = used_values(kernel.body)
    for node in walk(kernel.body):
        if isinstance(node, For) and node.lanes == ():
            added = Reader(kernel, node, trusted, written).additions(used)
            if added:
                additions[node] = added
            copies = Reader(kernel, node, trusted, written).copies()
            if copies and all(c.target in read and _bytes(kernel, c) >= LEAST_BYTES for c in copies):
                found[node] = copies
    pipelines: dict[Node, Pipeline] = {}
    for node in walk(kernel.body):
        # A check that fails leaves while something is on its way.
        if not isinstance(node, For) or node.lanes is not None or failure_texts(kernel):
            continue
        pipeline = _pipeline(kernel, node, found)
        if pipeline is not None:
            pipelines[node] = pipeline
    return Copies(found, pipelines, additions)


NO_COPIES = Copies({}, {})


def _bytes(kernel: Kernel, copy: Copy) -> int:
    return copy.rows * copy.columns * kernel.array(copy.target).dtype.dtype.itemsize


@dataclass(frozen=True)
class _Place:
    """An index of an element: `base`, where None is 0, and the number of the lane or a part of it.

    The part is ("div", n) or ("mod", n) for its quotient or remainder by n, ("whole", 0), or None.
    """

    base: Operand | None
    part: tuple[str, int] | None


def _divided(node: Op, places: list[_Place | None]) -> _Place | None:
    """The quotient or remainder of an index."""
    match places:
        case [_Place(None, ("whole", _)), _] if isinstance(node.args[1], Const):
            return _Place(None, (node.name, node.args[1].value))
    return None


def _added(node: Op, places: list[_Place | None]) -> _Place | None:
    match places:
        case [_Place(base, None), _Place(None, part)] | [_Place(None, part), _Place(base, None)]:
            return _Place(base, part)
    return None


# The place of the result of an operation on indices; None by default.
_INDEX_RULES: dict[str, Callable[[Op, list[_Place | None]], _Place | None]] = {
    "div": _divided,
    "mod": _divided,
    "add": _added,
}


class Reader:
    """Reads the body of a loop with lanes as copies, or additions, if that is what it is."""

    def __init__(self, kernel: Kernel, loop: For, trusted: Container[Node], written: Container[int]):
        self.kernel, self.loop, self.trusted, self.written = kernel, loop, trusted, written
        self.places: dict[Value, _Place | None] = {loop.index: _Place(None, ("whole", 0))}
        self.loads: dict[Value, Op] = {}

    def copies(self) -> tuple[Copy, ...] | None:
        return self._read(lambda node: node.row.is_store, self.copy)

    def additions(self, used: Container[Value | None]) -> tuple[Addition, ...] | None:
        """The additions of the loop, if it does nothing else, and nothing reads the old values."""
        return self._read(lambda node: node.row.is_addition and node.result not in used, self.addition)

    def _read(self, is_wanted: Callable[[Op], bool], made_of: Callable[[Op], _Made | None]) -> tuple[_Made, ...] | None:
        """The replacement of each wanted node, if the loop has only these, their loads and operations on indices."""
        loop = self.loop
        if not (isinstance(loop.lo, Const) and isinstance(loop.hi, Const) and loop.lo.value == 0 and loop.step == 1):
            return None
        found = []
        for node in loop.body.nodes:
            if not isinstance(node, Op):
                return None
            if is_wanted(node):
                made = made_of(node)
                if made is None:
                    return None
                found.append(made)
            elif node.row.is_load:
                assert node.result is not None
                self.loads[node.result] = node
            elif node.row.is_pure and node.result is not None:
                self.places[node.result] = self.index(node)
            else:
                return None
        return tuple(found) if len(found) == len(self.loads) else None

    def addition(self, node: Op) -> Addition | None:
        *indices, value = node.args
        assert isinstance(self.loop.hi, Const)
        count = self.loop.hi.value
        load = self.loads.get(value) if isinstance(value, Value) else None
        local = None if load is None else self.kernel.local(load.array)
        if load is None or local is None or not local.shared or load.args[0] is not self.loop.index:
            return None
        is_given = node.array < len(self.kernel.params) and node in self.trusted
        if not is_given or count != local.size or local.dtype not in ADDED:
            return None
        matrix = self.matrix(indices, count)
        return None if matrix is None else Addition(node.array, load.array, *matrix)

    def index(self, node: Op) -> _Place | None:
        """The result of an operation on indices."""
        rule = _INDEX_RULES.get(node.name)
        return rule(node, [self.place(x) for x in node.args]) if rule is not None else None

    def place(self, x: Operand) -> _Place | None:
        return self.places[x] if isinstance(x, Value) and x in self.places else _Place(x, None)

    def copy(self, store: Op) -> Copy | None:
        index, value = store.args[0], store.args[-1]
        load = self.loads.get(value) if isinstance(value, Value) else None
        local = self.kernel.local(store.array)
        if load is None or index is not self.loop.index or local is None or not local.shared:
            return None
        assert isinstance(self.loop.hi, Const)
        count = self.loop.hi.value
        is_given = load.array < len(self.kernel.params) and load.array not in self.written and load in self.trusted
        if not is_given or count != local.size:
            return None
        matrix = self.matrix(load.args, count)
        return None if matrix is None else Copy(store.array, load.array, *matrix)

    def matrix(self, indices: Sequence[Operand], count: int) -> tuple[int, int, tuple[Operand | None, ...], int] | None:
        """The rows, columns, corner and axis of the matrix of an array that the elements of the loop are at."""
        places = [self.place(x) for x in indices]
        if any(p is None for p in places):
            return None
        parts = [p.part for p in places if p is not None]
        corner = tuple(p.base for p in places if p is not None)
        moving = [axis for axis, part in enumerate(parts) if part is not None]
        last = len(parts) - 1
        match [parts[axis] for axis in moving]:
            case [("whole", _)] if moving == [last]:
                return 1, count, corner, last
            case [("div", rows), ("mod", columns)] if moving[1] == last and rows == columns and count % columns == 0:
                return count // columns, columns, corner, moving[0]
        return None


def _pipeline(kernel: Kernel, loop: For, copies: Mapping[Node, tuple[Copy, ...]]) -> Pipeline | None:
    """The part of a loop that can begin some iterations ahead: its first nodes, if they depend on the index alone."""
    unknown: set[Value] = set(loop.params)
    prefix: list[Node] = []
    for node in loop.body.nodes:
        free = {x for n in walk_node(node) for x in operands(n)} - {y for n in walk_node(node) for y in results(n)}
        is_number = isinstance(node, Op) and node.row.is_pure
        if not (is_number or node in copies) or free & unknown:
            break
        prefix.append(node)
    while prefix and prefix[-1] not in copies:
        prefix.pop()
    targets = frozenset(c.target for n in prefix for c in copies.get(n, ()))
    inside, outside = _uses(loop.body), _uses(kernel.body, skip=loop)
    count = sum(len(copies.get(n, ())) for n in prefix)
    if not targets or count != len(targets) or targets & outside or not targets <= inside:
        return None
    return Pipeline(tuple(prefix), targets)


def _uses(block: Block, skip: For | None = None) -> frozenset[ArrayName]:
    """The arrays that a block uses, but for what a loop in it does."""
    found: set[ArrayName] = set()
    for node in block.nodes:
        if node is skip:
            continue
        if isinstance(node, Op):
            found |= _arrays(node)
        for inner in blocks(node):
            found |= _uses(inner, skip)
    return frozenset(found)


def _arrays(node: Op) -> set[ArrayName]:
    return {*arrays_read(node), *arrays_changed(node)}
