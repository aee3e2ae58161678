"""Gathers the gradient of an array that threads read around their own place, instead of scattering it.

A thread that reads x[i - 1] and x[i + 1] adds to the gradient of its neighbours. Seen from the element, it
is its neighbours that add: thread j sums up what threads j + 1 and j - 1 have for it, and stores that once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from jwarp.analysis.ownership import shifted_of
from jwarp.analysis.stencils import Place, coordinate_of, place_of
from jwarp.ir.attributes import ArrayName, Attribute, Extent, Origin
from jwarp.ir.builder import Builder, make_block, zero
from jwarp.ir.clone import Cloner
from jwarp.ir.contents import Definitions, definitions_of
from jwarp.ir.nodes import Block, Const, If, Node, Op, Operand, Value, blocks, changed_arrays, walk
from jwarp.ir.row_groups import Memory
from jwarp.ir.visit import Rewriter
from jwarp.passes.prune import prune
from jwarp.types import ScalarType, bool_, int32

# Each neighbour's values are computed once more: operations grow at most by this factor.
MAX_GROWTH = 6
MAX_OPS = 600

Offset = tuple[int, ...]
Component = tuple[Operand, ...]


def gather(
    body: Block,
    axes: Mapping[int, tuple[int, ...]],
    returned: frozenset[Origin],
    exceeded: frozenset[int] = frozenset(),
) -> Block:
    """`body` with the gradients of the parameters in `axes` gathered; unchanged where that does not pay.

    `axes` has the launch axis of every index of the parameter. The kernel is then to be launched over all
    elements of these arrays, and gets the dimensions of the original launch as origins of kind `dim`. Arrays that are
    `exceeded` have fewer elements than that launch has threads.
    """
    targets = {Origin("gradient", p): axes[p] for p in axes}
    made = _gathered(_Unclamped(targets, definitions_of(body)).block(body), targets, returned, exceeded)
    return body if made is None else made


def _gathered(
    body: Block, targets: Mapping[Origin, tuple[int, ...]], returned: frozenset[Origin], exceeded: frozenset[int]
) -> Block | None:
    """The body with the gradients of `targets` gathered; None where that does not pay."""
    definitions = definitions_of(body)
    adds = [n for n in walk(body) if isinstance(n, Op) and n.row.is_addition and n.attr in targets]
    touched = {n.attr for n in walk(body) if isinstance(n, Op) and n.attr in targets and n not in adds}
    if not adds or touched or any(_key(n, targets, definitions) is None for n in adds):
        return None
    rest = prune(_Without(targets).block(body), returned - set(targets))
    copies: dict[Origin, dict[Offset, Block]] = {}
    components: dict[Origin, list[Component]] = {}
    for target in targets:
        keys = [_key(n, targets, definitions) for n in adds if n.attr == target]
        parts = list(dict.fromkeys(k[1] for k in keys if k))
        components[target] = parts
        copies[target] = {}
        for offset in dict.fromkeys(k[0] for k in keys if k):
            copy = _Collector(target, offset, parts, targets, definitions).collected(body)
            if copy is None:
                return None
            copies[target][offset] = copy
    size = sum(_count(copy) for group in copies.values() for copy in group.values())
    if size > MAX_OPS or size > MAX_GROWTH * max(_count(body), 10) or _has_state(rest):
        return None
    # A thread reads for its neighbours what no thread may change in the same launch.
    read = {array for group in copies.values() for copy in group.values() for array in _arrays_loaded(copy)}
    if not read.isdisjoint(array for node in rest.nodes for array in changed_arrays(node)):
        return None
    return _Assembly(definitions, exceeded).whole(rest, targets, copies, components)


def _key(
    node: Op, targets: Mapping[Origin, tuple[int, ...]], definitions: Definitions
) -> tuple[Offset, Component] | None:
    """The offsets of an addition from the thread's place, and the component that it adds to."""
    axes = targets[node.origin]
    indices = node.args[:-1]
    shifted = [shifted_of(i, definitions) for i in indices[: len(axes)]]
    if any(s is None or s[0] != axis for s, axis in zip(shifted, axes, strict=True)):
        return None
    return tuple(s[1] for s in shifted if s), indices[len(axes) :]


def _arrays_loaded(block: Block) -> set[ArrayName]:
    return {n.origin for n in walk(block) if isinstance(n, Op) and n.row.is_load}


def _count(block: Block) -> int:
    return sum(1 for _ in walk(block))


def _has_state(block: Block) -> bool:
    """True if the block has loops or uses memory, so that it can be neither repeated nor split."""
    return any(n.row.uses.adds is not Memory.NONE if isinstance(n, Op) else not isinstance(n, If) for n in walk(block))


class _Unclamped(Rewriter):
    """Adds at clamped indices in branches, each of which has an index at a constant distance.

    `g` at `max(i - 1, 0)` is added at `i - 1` if `i >= 1`, and else at `i`, which is 0 then.
    """

    def __init__(self, targets: Mapping[Origin, tuple[int, ...]], definitions: Definitions):
        self.targets, self.definitions = targets, definitions

    def nodes(self, node: Node) -> Iterable[Node]:
        if not isinstance(node, Op) or node.attr not in self.targets or not node.row.is_addition:
            return super().nodes(node)
        builder = Builder()
        builder.span = node.span
        self.add(builder, node, 0)
        return builder.nodes

    def add(self, builder: Builder, node: Op, k: int) -> None:
        """Append an addition whose indices from the k-th on may be clamped."""
        if k == len(self.targets[node.origin]):
            builder.append(node)
            return
        place = place_of(node.args[k], self.definitions)
        if place is None or not place.has_ends:
            self.add(builder, node, k + 1)
        else:
            self.add_near(builder, node, k, place, place.offset)

    def add_near(self, builder: Builder, node: Op, k: int, place: Place, offset: int) -> None:
        """Append an addition at an offset, or for threads that are nearer to the end, at a smaller one."""
        at = coordinate_of(node.args[k], self.definitions)
        index = builder.op("add", at, Const(int32, offset))

        def far(builder: Builder) -> None:
            self.add(builder, dataclasses.replace(node, args=(*node.args[:k], index, *node.args[k + 1 :])), k + 1)

        if offset == 0 or not place.is_clamped:
            far(builder)
            return
        nearer = offset + 1 if offset < 0 else offset - 1
        limit = Const(int32, 0) if offset < 0 or place.high is None else place.high
        holds = builder.op("ge" if offset < 0 else "le", index, limit)
        with builder.block() as then:
            far(builder)
        with builder.block() as orelse:
            self.add_near(builder, node, k, place, nearer)
        builder.append(If(holds, make_block(then), make_block(orelse), ()))


class _Without(Rewriter):
    """Leaves out the additions to `targets`."""

    def __init__(self, targets: Mapping[Origin, tuple[int, ...]]):
        self.targets = targets

    def nodes(self, node: Node) -> Iterable[Node]:
        return () if isinstance(node, Op) and node.attr in self.targets else super().nodes(node)


class _Collector:
    """Makes of the additions at one offset the results of a block, one for each component."""

    def __init__(
        self,
        target: Origin,
        offset: Offset,
        components: list[Component],
        targets: Mapping[Origin, tuple[int, ...]],
        definitions: Definitions,
    ):
        self.target, self.offset, self.components = target, offset, components
        self.targets, self.definitions = targets, definitions

    def collected(self, body: Block) -> Block | None:
        """The block that yields the sums; None if it does more than compute them."""
        type = next(n.args[-1].type for n in walk(body) if isinstance(n, Op) and n.attr == self.target)
        nodes, totals = self.block(body, [None] * len(self.components))
        made = prune(make_block(nodes, [zero(type) if t is None else t for t in totals]), ())
        changes = any(changed_arrays(node) for node in made.nodes)
        return None if changes or _has_state(made) else made

    def block(self, block: Block, totals: list[Operand | None]) -> tuple[list[Node], list[Operand | None]]:
        builder, totals = Builder(), list(totals)
        for node in block.nodes:
            builder.span = node.span
            if isinstance(node, Op) and node.attr in self.targets:
                key = _key(node, self.targets, self.definitions)
                if node.attr == self.target and key is not None and key[0] == self.offset:
                    k = self.components.index(key[1])
                    before = totals[k]
                    totals[k] = node.args[-1] if before is None else builder.op("add", before, node.args[-1])
            elif isinstance(node, If):
                totals = self.branch(builder, node, totals)
            else:
                builder.append(node)
        return builder.nodes, totals

    def branch(self, builder: Builder, node: If, totals: list[Operand | None]) -> list[Operand | None]:
        sides = [self.block(b, [None] * len(totals)) for b in (node.then, node.orelse)]
        changed = [k for k in range(len(totals)) if any(side[k] is not None for _, side in sides)]
        made: dict[int, Value] = {}
        for k in changed:
            first = next(side[k] for _, side in sides if side[k] is not None)
            assert first is not None
            made[k] = Value(first.type)
        yields = [[zero(made[k].type) if (t := side[k]) is None else t for k in changed] for _, side in sides]
        blocks_ = [
            make_block(nodes, [*b.yields, *extra])
            for (nodes, _), b, extra in zip(sides, blocks(node), yields, strict=True)
        ]
        then, orelse = blocks_
        builder.append(If(node.cond, then, orelse, (*node.results, *made.values()), node.span))
        after = list(totals)
        for k in changed:
            before = totals[k]
            after[k] = made[k] if before is None else builder.op("add", before, made[k])
        return after


class _Assembly:
    def __init__(self, definitions: Definitions, exceeded: frozenset[int]):
        self.definitions, self.exceeded = definitions, exceeded
        self.builder = Builder()
        self.coordinates: dict[int, Value] = {}
        self.dims: dict[int, Value] = {}

    def whole(
        self,
        rest: Block,
        targets: Mapping[Origin, tuple[int, ...]],
        copies: Mapping[Origin, Mapping[Offset, Block]],
        components: Mapping[Origin, list[Component]],
    ) -> Block:
        axes = sorted({axis for order in targets.values() for axis in order})
        for axis in axes:
            self.coordinates[axis] = self.read("tid", axis)
            self.dims[axis] = self.read("param", Origin("dim", axis))
        for target, order in targets.items():
            if target.param not in self.exceeded:
                self.store(target, order, copies[target], components[target])
                continue
            with self.builder.block() as nodes:
                self.store(target, order, copies[target], components[target])
            self.builder.append(If(self.has_element(target, order), make_block(nodes), Block(), ()))
        if rest.nodes:
            inside = self.inside(dict.fromkeys(axes, 0))
            self.builder.append(If(inside, Block(rest.nodes), Block(), ()))
        return make_block(self.builder.nodes)

    def read(self, name: str, attr: Attribute | None) -> Value:
        made = Value(int32)
        self.builder.append(Op(name, (), attr, made))
        return made

    def has_element(self, target: Origin, order: tuple[int, ...]) -> Operand:
        """The truth value that an array has an element at the thread's coordinates."""
        holds: Operand = Const(bool_, True)
        for k, axis in enumerate(order):
            extent = Value(int32)
            self.builder.append(Op("shape", (), Extent(target.param, k), extent))
            holds = self.builder.op("and", holds, self.builder.op("lt", self.coordinates[axis], extent))
        return holds

    def shifted(self, axis: int, offset: int) -> Operand:
        """The coordinate of the thread that reads this one's element with an offset."""
        return self.builder.op("sub", self.coordinates[axis], Const(int32, offset))

    def inside(self, offsets: Mapping[int, int]) -> Operand:
        """The truth value that the thread at these offsets belongs to the original launch."""
        holds: Operand = Const(bool_, True)
        for axis, offset in offsets.items():
            at = self.shifted(axis, offset)
            if offset > 0:
                holds = self.builder.op("and", holds, self.builder.op("ge", at, Const(int32, 0)))
            holds = self.builder.op("and", holds, self.builder.op("lt", at, self.dims[axis]))
        return holds

    def store(
        self, target: Origin, order: tuple[int, ...], copies: Mapping[Offset, Block], components: list[Component]
    ) -> None:
        totals: list[Operand | None] = [None] * len(components)
        for offset, copy in copies.items():
            offsets = dict(zip(order, offset, strict=True))
            inside = self.inside(offsets)
            known: dict[Value, Operand] = {}
            kept = []
            for node in copy.nodes:
                if isinstance(node, Op) and node.row.is_coordinate and node.result is not None:
                    known[node.result] = self.shifted(node.number, offsets[node.number])
                else:
                    kept.append(node)
            there = Cloner(known).block(Block(tuple(kept), copy.yields))
            types: list[ScalarType] = [y.type for y in there.yields]
            made = tuple(Value(t) for t in types)
            self.builder.append(If(inside, there, make_block([], [zero(t) for t in types]), made))
            for k, value in enumerate(made):
                before = totals[k]
                totals[k] = value if before is None else self.builder.op("add", before, value)
        place = tuple(self.coordinates[axis] for axis in order)
        for component, total in zip(components, totals, strict=True):
            assert total is not None
            self.builder.effect("store", *place, *component, total, attr=target)
