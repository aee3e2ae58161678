"""Gives tiles their memory: those that are never needed together share it, and what becomes another stays in place.

Every part of a schedule has a position. At it, what is read element by element comes first, then what is written,
then what is read in any order: so a tile may take the memory of one that is read element by element for the last
time. A tile is live in stretches of positions, from where it is written to where it is read last.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jwarp.ir.nodes import If, Node, Op, Operand, Value, While, results
from jwarp.tiling.parts import Control, Move, Nest, Part, Schedule, Step, Whole, free_operands, tiles_in
from jwarp.tiling.schedule import Scheduler
from jwarp.tiling.symbolic_tiles import Viewed, size_of
from jwarp.types import ScalarType, TileType, shape_of

READ, WRITE, READ_ANY, STEP = 0, 1, 2, 4

Stretch = tuple[int, int]


@dataclass(frozen=True)
class Buffer:
    """Memory for tiles of one type and number of elements, or a table of `values`."""

    dtype: ScalarType
    size: int
    values: tuple[Any, ...] | None = None


def assign(schedule: Schedule, scheduler: Scheduler) -> tuple[list[Buffer], dict[Value, int]]:
    """The buffers that a schedule needs, and which one each tile in memory has."""
    live = _Lifetimes(scheduler)
    live.schedule(schedule)
    classes = _Classes(live.stretches(), live.alike)
    for _, pair in sorted(live.moves, key=lambda move: move[0], reverse=True):
        if all(tile in classes.leader for tile in pair):  # a table has memory of its own
            classes.join(*pair)
    return classes.buffers()


class _Lifetimes:
    """Finds where each tile is live. `moves` are pairs that had better share memory, with what that saves."""

    def __init__(self, scheduler: Scheduler):
        self.forms, self.stored = scheduler.forms, scheduler.stored
        self.position = 0
        self.loops: tuple[int, ...] = ()
        self.ends: list[int] = []  # of the loops, by number
        self.defined: dict[Value, tuple[int, tuple[int, ...]]] = {}
        self.used: dict[Value, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        self.more: dict[Value, list[tuple[int, int | None]]] = defaultdict(list)
        self.merged: set[Value] = set()  # results of branches: each branch moves something there
        self.alike: list[tuple[Value, Value]] = []
        self.moves: list[tuple[int, tuple[Value, Value]]] = []

    def stretches(self) -> dict[Value, list[Stretch]]:
        """Where the tiles in memory are live, as pairs of first and last position."""
        found: dict[Value, list[Stretch]] = {}
        for value, (start, loops) in self.defined.items():
            end = start
            for position, around in self.used[value]:
                # A tile from outside a loop is there for every iteration.
                inner = around[len(loops) :]
                end = max(end, self.ends[inner[0]] if inner else position)
            found[value] = [(start, end), *((a, b) for a, b in self.more[value] if b is not None)]
        return found

    # -- the walk

    def schedule(self, schedule: Schedule) -> None:
        for part, before in zip([*schedule.parts, None], schedule.before, strict=True):
            self.before(before)
            if part is not None:
                self.position += STEP
                self.part(part)
        self.position += STEP

    def before(self, ops: Iterable[Op]) -> None:
        for op in ops:
            if op.row.takes_element:
                self.position += STEP
                self.use(op.args[:1], (), READ_ANY)

    def part(self, part: Part) -> None:
        match part:
            case Nest():
                self.nest(part)
            case Step():
                self.use([x for x in part.node.args if shape_of(x.type)], (), READ_ANY)
            case Move():
                self.move(part)
            case Whole():
                for x in part.reads:
                    self.note(x, READ_ANY)
                self.write(part.target)
                self.note(part.target, READ_ANY)
            case Control():
                self.control(part)

    def note(self, value: Value, when: int) -> None:
        self.used[value].append((self.position + when, self.loops))

    def write(self, value: Value) -> None:
        if value in self.stored and value not in self.defined:
            self.defined[value] = self.position + WRITE, self.loops

    def use(
        self, xs: Iterable[Operand], shape: tuple[int, ...], whole: int, inside: frozenset[Value] = frozenset()
    ) -> None:
        """Note that elements of `xs` are read; in the order of the elements of `shape` at the moment `whole`."""
        for x in xs:
            for leaf in self.forms.leaves(x) if shape_of(x.type) else ():
                self.leaf(leaf, shape, whole, inside)

    def leaf(self, leaf: object, shape: tuple[int, ...], whole: int, inside: frozenset[Value]) -> None:
        if isinstance(leaf, Viewed):
            own = leaf.is_whole(shape) and size_of(leaf.base.type) == math.prod(shape)
            if leaf.base not in inside or not own:
                self.note(leaf.base, whole if own else READ_ANY)

    def nest(self, nest: Nest) -> None:
        inside = frozenset(r for node in nest.nodes for r in results(node) if shape_of(r.type) == nest.shape)
        whole = READ_ANY if nest.closed or nest.reduced else READ
        for node in nest.nodes:
            if isinstance(node, Op) and node.row.takes_element:
                self.use(node.args[:1], (), READ_ANY)
                self.use(node.args[1:], nest.shape, whole, inside)
                continue
            self.use(free_operands(node), nest.shape, whole, inside)
            self.use_source(node, nest.shape, whole, inside)
        for node in nest.nodes:
            for result in results(node):
                self.write(result)

    def use_source(self, node: Node, shape: tuple[int, ...], whole: int, inside: frozenset[Value]) -> None:
        if isinstance(node, Op) and node.result in self.forms.sources:
            for leaf in self.forms.leaves_of(self.forms.sources[node.result]):
                self.leaf(leaf, shape, whole, inside)

    def move(self, part: Move) -> None:
        self.use([part.source], shape_of(part.target.type), READ)
        if part.target in self.merged or part.target in self.defined:
            self.more[part.target].append((self.position + WRITE, None))
        else:
            self.write(part.target)
        form = self.forms.of(part.source)
        if not isinstance(form, Viewed) or form.base.type is not part.target.type:
            return
        if form.is_whole(shape_of(part.target.type)):
            saved = size_of(part.target.type) * 100 ** min(4, len(self.loops))
            self.moves.append((saved, (part.target, form.base)))

    def control(self, part: Control) -> None:
        node = part.node
        if isinstance(node, If):
            made = tiles_in(node.results)
            self.merged.update(made)
            for schedule in part.schedules:
                self.schedule(schedule)
                self.close(made)
            for result in made:
                self.defined[result] = self.position, self.loops
            return
        params, made = tiles_in(node.params), tiles_in(node.results)
        number = len(self.ends)
        self.ends.append(0)
        outer, self.loops = self.loops, (*self.loops, number)
        self.position += STEP
        for param in params:
            start, _ = self.defined[param]
            self.defined[param] = start, self.loops
            self.note(param, READ)
        for k, schedule in enumerate(part.schedules):
            self.schedule(schedule)
            if isinstance(node, While) and k == 0:  # the last iteration ends here, with what is carried as the result
                for param in params:
                    self.note(param, READ_ANY)
        self.ends[number] = self.position
        self.close(params)
        self.loops = outer
        for param, result in zip(params, made, strict=True):
            self.alike.append((param, result))
            self.defined[result] = self.position, self.loops

    def close(self, values: Iterable[Value]) -> None:
        """Extend the live ranges of tiles that were moved to `values` up to here."""
        for value in values:
            self.more[value] = [(a, self.position if b is None else b) for a, b in self.more[value]]


class _Classes:
    """Sets of tiles that share memory."""

    def __init__(self, stretches: dict[Value, list[Stretch]], alike: Iterable[tuple[Value, Value]]):
        self.leader = {value: value for value in stretches}
        self.stretches = {value: list(found) for value, found in stretches.items()}
        for x, y in alike:
            self.unite(self.find(x), self.find(y))

    def find(self, value: Value) -> Value:
        while self.leader[value] is not value:
            value = self.leader[value]
        return value

    def unite(self, x: Value, y: Value) -> None:
        if x is not y:
            self.leader[y] = x
            self.stretches[x] += self.stretches.pop(y)

    def join(self, x: Value, y: Value) -> None:
        """Let two tiles share memory if they are never needed together."""
        x, y = self.find(x), self.find(y)
        if x is not y and not _overlap(self.stretches[x], self.stretches[y]):
            self.unite(x, y)

    def buffers(self) -> tuple[list[Buffer], dict[Value, int]]:
        """Buffers, each for as many classes as are never needed together, and which one each tile has."""
        buffers: list[Buffer] = []
        taken: list[list[Stretch]] = []
        number_of: dict[Value, int] = {}
        for value, stretches in sorted(self.stretches.items(), key=lambda item: min(item[1])):
            tile = value.type
            assert isinstance(tile, TileType)
            wanted = Buffer(tile.scalar, tile.size)
            fitting = (k for k, buffer in enumerate(buffers) if buffer == wanted and not _overlap(taken[k], stretches))
            number = next(fitting, None)
            if number is None:
                number = len(buffers)
                buffers.append(wanted)
                taken.append([])
            taken[number] += stretches
            number_of[value] = number
        return buffers, {value: number_of[self.find(value)] for value in self.leader}


def _overlap(xs: list[Stretch], ys: list[Stretch]) -> bool:
    return any(a <= d and c <= b for a, b in xs for c, d in ys)
