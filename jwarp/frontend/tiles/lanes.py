"""Rewrites what a thread does for the lanes of its block, which run in step: scalars that differ become tiles."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jwarp.analysis.uniformity import VARYING
from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.tiles.early_exits import last_branches, stays
from jwarp.frontend.tiles.gradients import extent_in, extents, lifted
from jwarp.frontend.tiles.lane_arrays import with_lane
from jwarp.frontend.tiles.lift import Lifter, Variation
from jwarp.frontend.values.cells import COMBINING
from jwarp.ir.attributes import Attribute, Detached, Extent, Iota, Reduction, Rule
from jwarp.ir.builder import zero
from jwarp.ir.formats import BlockText
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Node, Op, Operand, Value, results, walk_node
from jwarp.types import ScalarType, TileType, bool_, int32, tile_type

# The constant with which a bitwise operation leaves a number unchanged.
_NEUTRAL: dict[str, Callable[[ScalarType], int | bool]] = {
    "and": lambda kind: True if kind is bool_ else -1 if kind.kind == "int" else kind.max,
    "or": lambda kind: False if kind is bool_ else 0,
    "xor": lambda kind: False if kind is bool_ else 0,
}

_TOGETHER = "the threads of a block must reach a tile operation together"
_WAY_OUT = "move it out of the condition, or make that one the same for the whole block"
_AGREE = "wp.tile(x) makes a tile of the values of all threads, wp.tile_from_thread one of the value of a single thread"


class LaneVariation(Variation):
    """The divergence analysis for the lanes of a block."""

    def __init__(self, kernel: Kernel, lane_axis: int | None, block_dim: int):
        super().__init__()
        self.kernel, self.lane_axis, self.block_dim = kernel, lane_axis, block_dim
        self.tids: set[Value] = set()  # the numbers of the threads
        self.numbers: set[Value] = set()  # those within the block
        self.arrays: set[int] = set()  # local arrays of which each lane has another one
        self.last = last_branches(kernel)
        self.rules: set[int] = set()  # calls of functions with a gradient of their own that lanes make each

    @property
    def known(self) -> int:
        return super().known + len(self.arrays) + len(self.rules)

    def op(self, node: Op) -> None:
        if self.is_own(node) and self.differs(node):
            self.arrays.add(node.array)
        if isinstance(node.attr, Rule) and (
            self.differs(node) or not self.arrays.isdisjoint(self.arrays_of(node.attr))
        ):
            self.rules.add(node.attr.gradient)
        super().op(node)

    def differs(self, node: Op) -> bool:
        """True if an operation is divergent: lanes execute it apart, or on divergent operands."""
        return self.is_divergent or self.any(node.args)

    def arrays_of(self, rule: Rule) -> set[int]:
        """The arrays that a call of a function with a gradient of its own is about."""
        feeds = self.kernel.gradients[rule.gradient].feeds
        return {number for kind, number, _ in feeds if kind == "array"} | set(rule.arrays)

    def remaining(self, node: Node) -> bool | None:
        """Which side of a branch is for lanes that stay while others leave the block; None if none do."""
        if self.is_divergent or not isinstance(node, If) or node not in self.last or not self.of(node.cond):
            return None
        return stays(node)

    def branch(self, node: If) -> None:
        stay = self.remaining(node)
        if stay is None:
            return super().branch(node)
        self.block(node.then if stay else node.orelse)
        self.is_divergent = True
        self.block(node.orelse if stay else node.then)
        self.is_divergent = False
        return None

    def is_own(self, node: Op) -> bool:
        """True if an operation accesses a local array."""
        row = node.row
        return (row.reads_elements or row.changes_elements) and self.kernel.local(node.array) is not None

    def counts(self, x: Operand) -> bool:
        """True if a number is a multiple of the block size."""
        return isinstance(x, Const) and x.value > 0 and x.value % self.block_dim == 0

    def varies(self, node: Op) -> bool:
        if node.row.is_coordinate:
            if node.attr == self.lane_axis and node.result is not None:
                self.tids.add(node.result)
            return node.attr == self.lane_axis
        rule = _OF_BLOCK.get(node.name)
        if rule is not None and rule(self, node):
            return False
        if node.row.is_element_of_thread:
            return True
        if isinstance(node.attr, Detached) and node.attr.rule in self.rules:
            return True
        if self.is_own(node) and node.array in self.arrays:
            return True
        if is_tile(node.result):  # tiles are the block's; those of lanes come from `collect`
            return False
        return self.is_each(node) or super().varies(node)

    def is_once(self, node: Op) -> bool:
        """True if an operation is one print for the whole block, of uniform values."""
        return isinstance(node.attr, BlockText) and not self.any(node.args)

    def is_each(self, node: Op) -> bool:
        """True if every lane executes an operation, even where its operands are uniform."""
        row = node.row
        if row.prints:
            return not self.is_once(node)
        return row.is_atomic and self.kernel.local(node.array) is None


def _of_quotient(v: LaneVariation, node: Op) -> bool:
    """The number of a thread divided by that of threads in a block is the block's."""
    x, y = node.args
    return x in v.tids and v.counts(y)


def _of_remainder(v: LaneVariation, node: Op) -> bool:
    x, y = node.args
    if x in v.tids and isinstance(y, Const) and y.value == v.block_dim:
        assert node.result is not None
        v.numbers.add(node.result)
    return False


def _of_difference(v: LaneVariation, node: Op) -> bool:
    """The number of a thread without that within its block is the block's."""
    return node.args[0] in v.tids and node.args[1] in v.numbers


# True if a value made of thread numbers is the same for all threads of a block.
_OF_BLOCK: Mapping[str, Callable[[LaneVariation, Op], bool]] = {
    "div": _of_quotient,
    "floordiv": _of_quotient,
    "mod": _of_remainder,
    "sub": _of_difference,
}


def is_tile(x: Operand | None) -> bool:
    """True if an operand is a tile."""
    return x is not None and isinstance(x.type, TileType)


class Lanes(Lifter):
    """Rewrites the code of a thread, but for branches that must be cut into pieces."""

    def __init__(self, kernel: Kernel, block_dim: int, lane_axis: int | None, variation: LaneVariation):
        super().__init__((block_dim,), variation)
        self.lane_variation = variation
        self.kernel, self.block_dim, self.lane_axis = kernel, block_dim, lane_axis
        self.gradients = list(kernel.gradients)
        # The number of the lane, which is an index of arrays that each lane has for itself.
        self.number = Value(int32)
        variation.shapes[self.number] = VARYING
        self.lanes[self.number] = Value(tile_type(int32, self.shape))
        self.active: Value | None = None  # which lanes there are, where some are missing
        # In the mapped control flow at hand: what is computed in it, and what is known before.
        self.inside: dict[Value, Op] = {}
        self.outside: set[Value] = set()
        self.is_unplaced = False  # whether an element of a tile was met whose index is not known there

    # -- what must be the same for all lanes

    def together(self, span: Span) -> CompileError:
        """The error for a tile operation that some lanes only would reach."""
        assert self.control is not None
        return CompileError(
            f"{_TOGETHER}; here they may not, for the condition at line {self.control.line} differs between them",
            span,
            _WAY_OUT,
        )

    def same(self, x: Operand, span: Span) -> Operand:
        """The value of `x`, which must be the same for all lanes."""
        if self.variation.of(x):
            raise KernelTypeError(
                "this differs between the threads of a block, where a tile operation needs one value", span, _AGREE
            )
        return self.plain(x)

    def changes(self, node: Node) -> CompileError:
        """The error for a tile that some lanes only would change."""
        self.control = self.control or node.span
        for inside in walk_node(node):
            if isinstance(inside, Op) and is_tile(inside.result) and not inside.row.is_element_of_thread:
                return self.together(inside.span)
        return CompileError(
            f"a tile changes under a condition that differs between the threads of a block: {_TOGETHER}",
            node.span,
            _WAY_OUT,
        )

    @contextlib.contextmanager
    def diverging(self, mapped: bool, span: Span, out: list[Node]) -> Iterator[None]:
        if mapped and not self.mapped:
            self.inside, self.outside = {}, set(self.lanes)
        outer = self.control
        with super().diverging(mapped, span, out):
            yield
        self.control = outer

    def op(self, node: Op, out: list[Node]) -> None:
        rule = _RULES.get(node.name)
        if rule is not None:
            rule(self, node, out)
        elif node.name in _OF_BLOCK and not self.variation.any(results(node)) and self.variation.any(node.args):
            self.of_block(node, out)
        elif node.row.is_tile or any(map(is_tile, (*node.args, node.result))):
            self.tile_op(node, out)
        else:
            if self.lane_variation.is_own(node) and node.array in self.lane_variation.arrays:
                node = with_lane(self.kernel, node, self.number)
            if self.mapped and node.result is not None:
                self.inside[node.result] = node
            super().op(node, out)

    def tile_op(self, node: Op, out: list[Node]) -> None:
        """Append an operation on tiles, which is made once for the block."""
        if self.mapped:
            raise self.together(node.span)
        args = tuple(self.same(a, node.span) for a in node.args)
        out.append(dataclasses.replace(node, args=args))

    # -- lanes

    def is_each(self, node: Op) -> bool:
        return self.lane_variation.is_each(node)

    def op_tid(self, node: Op, out: list[Node]) -> None:
        """The coordinate along which lanes lie becomes a tile; the others are the block's."""
        place = out if self.before is None else self.before
        if node.attr != self.lane_axis:
            place.append(node)
            return
        assert node.result is not None

        def add(name: str, *args: Operand, attr: Attribute | None = None, type: object = int32) -> Value:
            made = Value(type)  # type: ignore[arg-type]
            place.append(Op(name, args, attr, made, node.span))
            return made

        kind = tile_type(int32, self.shape)
        first = add("mul", add("tid", attr=node.attr), Const(int32, self.block_dim))
        lanes = add("iota", attr=Iota(self.shape, 0), type=kind)
        self.outside.add(node.result)
        self.lanes[node.result] = add("add", add("fill", first, attr=self.shape, type=kind), lanes, type=kind)

    def of_block(self, node: Op, out: list[Node]) -> None:
        """Compute a block-uniform value, such as tid minus lane, from the tid of the first lane."""
        place, first = out if self.before is None else self.before, Value(int32)
        block = Value(int32)
        place.append(Op("tid", (), self.lane_axis, block, node.span))
        place.append(Op("mul", (block, Const(int32, self.block_dim)), None, first, node.span))
        assert node.result is not None
        number = node.args[1]
        rest = number if isinstance(number, Const) else Const(int32, 0)  # the first one is number 0 of its block
        place.append(dataclasses.replace(node, args=(first, rest)))

    def op_collect(self, node: Op, out: list[Node]) -> None:
        """Collect the lanes' scalars into a tile of the block, with zeros for missing lanes."""
        if self.mapped:
            raise self.together(node.span)
        assert node.result is not None
        lanes = self.lane(node.args[0], out, node.span)
        if self.active is not None:
            there = Value(lanes.type)
            out.append(Op("select", (self.active, lanes, zero(lanes.type)), None, there, node.span))
            lanes = there
        self.replaced[node.result] = lanes

    def lift(self, node: Op, out: list[Node]) -> None:
        """Append the mapped form of an operation, for the lanes that there are."""
        super().lift(node, out)
        row = node.row
        if (row.is_lasting or row.reads_elements) and not row.is_rule and not self.lane_variation.is_own(node):
            self.for_active(out)

    def for_active(self, out: list[Node]) -> None:
        """Let the last of the nodes, a mapped one, be for the lanes that there are; the others have zeros."""
        if self.active is None or self.mapped:
            return
        node = out.pop()
        made = results(node)
        inner = tuple(Value(r.type) for r in made)
        if isinstance(node, Op):
            node = dataclasses.replace(node, result=inner[0] if inner else None)
        else:
            node = dataclasses.replace(node, results=inner)
        zeros = tuple(zero(r.type) for r in made)
        out.append(If(self.active, Block((node,), inner), Block((), zeros), made, node.span))

    def present(self, index: Operand, out: list[Node], span: Span) -> Operand:
        """The indices that lanes have, outside of any tile for lanes that are missing."""
        if self.active is None:
            return index
        made = Value(index.type)
        out.append(Op("select", (self.active, index, Const(index.type, int32.max)), None, made, span))
        return made

    def op_own(self, node: Op, out: list[Node]) -> None:
        """A tile of the block becomes what each lane has."""
        assert node.result is not None
        self.outside.add(node.result)
        self.lanes[node.result] = self.plain(node.args[0])

    def op_barrier(self, node: Op, out: list[Node]) -> None:
        """Lanes run in step: what each stored before is seen by all after it, without a trace in the code."""
        if self.mapped:
            raise self.together(node.span)

    def op_print(self, node: Op, out: list[Node]) -> None:
        """Each lane prints its line, but a tile is printed once."""
        is_once = self.lane_variation.is_once(node)
        node = dataclasses.replace(node, attr=str(node.attr))
        if is_once and not self.mapped:
            out.append(dataclasses.replace(node, args=tuple(map(self.plain, node.args))))
            return
        if not node.args:  # each lane prints, for which there must be something to map
            node = dataclasses.replace(node, args=(Const(bool_, True),), attr=f"{node.attr}%.0s")
        self.lift(node, out)

    def op_rule(self, node: Op, out: list[Node]) -> None:
        """Note a call of a function with a gradient of its own, which lanes make each if anything differs."""
        rule = node.attr_as(Rule)
        if rule.gradient not in self.lane_variation.rules:
            out.append(dataclasses.replace(node, args=tuple(map(self.plain, node.args))))
            return
        gradient = self.kernel.gradients[rule.gradient]
        if self.lane_variation.arrays_of(rule) & self.lane_variation.arrays or not node.args:
            raise CompileError(
                "a function with a gradient of its own is called here for each thread of a block, with a local array "
                "of the thread or without a number",
                node.span,
                "give it the numbers that it needs, or arrays of the kernel",
            )
        self.gradients[rule.gradient] = lifted(gradient, self.block_dim, len(node.args))
        asked = [self.extent(extent_in(self.kernel, gradient, extent), out, node.span) for extent in extents(gradient)]
        out.append(dataclasses.replace(node, args=self.lanes_of((*node.args, *asked), out, node.span)))

    def extent(self, extent: Extent | Const, out: list[Node], span: Span) -> Operand:
        """Append what reads an extent of an array, which is the same for all lanes."""
        if isinstance(extent, Const):
            return extent
        found = Value(int32)
        (out if self.before is None else self.before).append(Op("shape", (), extent, found, span))
        return found

    # -- elements of tiles

    def op_take(self, node: Op, out: list[Node]) -> None:
        """An element of a tile, at an index that may differ between lanes."""
        tile, *indices = node.args
        assert node.result is not None
        place = out
        if self.before is not None:
            # Reading a tile has no effect: it may happen earlier, if the indices are known there.
            place = self.before
            if not all(self.hoisted(i) for i in indices):
                self.is_unplaced = True
                raise CompileError(
                    "an element of a tile is read under a condition that differs between the threads of a block, at an "
                    "index that is computed there",
                    node.span,
                    "read the element before the condition",
                )
            self.outside.add(node.result)
        if not self.variation.any(indices):
            place.append(dataclasses.replace(node, args=tuple(map(self.plain, node.args))))
            return
        lanes = self.lanes_of(indices, place, node.span)
        place.append(dataclasses.replace(node, args=(self.plain(tile), *lanes), result=self.fresh(node.result)))

    def hoisted(self, x: Operand) -> bool:
        """Let a value be known before the mapped control flow at hand, if that can be."""
        if not isinstance(x, Value) or not self.variation.of(x) or x in self.outside:
            return True
        node = self.inside.get(x)
        if node is None or not node.row.is_pure or not all(self.hoisted(a) for a in node.args):
            return False
        assert self.before is not None
        self.lift(node, self.before)
        self.outside.add(x)
        return True

    def put(self, node: Op, out: list[Node]) -> None:
        """Change an element of a tile, at an index that may differ between lanes."""
        if self.mapped:
            raise self.together(node.span)
        tile, *rest = node.args
        if not self.variation.any(rest):
            out.append(dataclasses.replace(node, args=tuple(map(self.plain, node.args))))
            return
        if any(map(is_tile, rest)):
            rest = [self.same(x, node.span) for x in rest]
        first, *others = self.lanes_of(rest, out, node.span)
        first = self.present(first, out, node.span)
        out.append(dataclasses.replace(node, args=(self.plain(tile), first, *others)))

    def combine(self, node: Op, out: list[Node], mask: Operand | None = None) -> None:
        """Change an element by a bitwise operation: by all lanes, or those of the mask, one after the other."""
        if self.mapped:
            raise self.together(node.span)
        tile, *indices, value = node.args
        name, kind, span = COMBINING[node.name], value.type, node.span
        assert node.result is not None
        if mask is None and self.variation.any((*indices, value)):
            mask = self.active

        def add(
            name: str, *args: Operand, attr: Attribute | None = None, to: Any = kind, nodes: list[Node] = out
        ) -> Value:
            made = Value(to)
            nodes.append(Op(name, args, attr, made, span))
            return made

        if any(map(is_tile, (*indices, value))):
            indices, value = [self.same(x, span) for x in indices], self.same(value, span)
        elif mask is not None or self.variation.any((*indices, value)):
            value = self.lane(value, out, span)
            if mask is not None:  # a lane that is not among them changes no bit
                nothing = Const(value.type, _NEUTRAL[name](kind))
                value = add("select", mask, value, nothing, to=value.type)
            if self.variation.any(indices):
                return self.one_by_one(node, indices, value, out)
            value = add("reduce", value, attr=Reduction(name, (0,)))
        indices = [self.plain(i) for i in indices]
        base = self.plain(tile)
        combined = add(name, add("take", base, *indices, to=value.type), value, to=value.type)
        out.append(Op("put", (base, *indices, combined), None, node.result, span))
        return None

    def one_by_one(self, node: Op, indices: list[Operand], values: Operand, out: list[Node]) -> None:
        """Let lane after lane combine its value with the element that it names."""
        kind, name, span = node.args[-1].type, COMBINING[node.name], node.span
        tile = self.plain(node.args[0])
        number, param = Value(int32), Value(tile.type)
        inner: list[Node] = []

        def add(name: str, *args: Operand, to: Any = kind) -> Value:
            made = Value(to)
            inner.append(Op(name, args, None, made, span))
            return made

        columns = [self.lane(i, out, span) for i in indices]
        places = [add("take", column, number, to=i.type) for column, i in zip(columns, indices, strict=True)]
        combined = add(name, add("take", param, *places), add("take", values, number))
        following = add("put", param, *places, combined, to=tile.type)
        assert node.result is not None
        bounds = (Const(int32, 0), Const(int32, self.block_dim))
        body = Block(tuple(inner), (following,))
        out.append(For(number, *bounds, 1, (param,), (tile,), body, (node.result,), span))


# The operations that are more than scalar ones.
_RULES: Mapping[str, Callable[[Lanes, Op, list[Node]], None]] = {
    "tid": Lanes.op_tid,
    "collect": Lanes.op_collect,
    "own": Lanes.op_own,
    "barrier": Lanes.op_barrier,
    "print": Lanes.op_print,
    "rule": Lanes.op_rule,
    "take": Lanes.op_take,
    "put": Lanes.put,
    "put_add": Lanes.put,
    **dict.fromkeys(COMBINING, Lanes.combine),
}
