"""The lifter of scalar code to mapped code: a divergent scalar becomes a tile with one element for each lane.

A lane is a thread of a block, or an element of a tile that a function is applied to. Values that are the same for
all lanes stay scalars, and are filled into tiles where an operand is divergent. Control flow that lanes do not take
together becomes mapped control flow. Inside it everything is mapped, so what is the same for all stands before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from jwarp.analysis.uniformity import UNIFORM, VARYING, Shape, Uniformity
from jwarp.errors import NO_SPAN, Span
from jwarp.ir.nodes import Block, Const, For, If, Node, Op, Operand, Value, While
from jwarp.types import shape_of, with_shape


class Variation(Uniformity):
    """The scope of the lanes of a block: scalars that differ between them become tiles.

    In divergent control flow everything is mapped, so what it gives, and what operations there find in memory, differs.
    """

    carries_divergence = True

    def __init__(self, varying: Iterable[Value] = ()):
        super().__init__(dict.fromkeys(varying, VARYING))

    def find(self, block: Block) -> None:
        """Find what varies in a block, until nothing is left to add."""
        before = -1
        while before != self.known:
            before = self.known
            self.block(block)

    @property
    def known(self) -> int:
        """How much has been found to vary so far."""
        return len(self.divergent)

    def is_scalar(self, value: Value) -> bool:
        return not shape_of(value.type)

    def result(self, node: Op) -> Shape:
        return VARYING if self.varies(node) else UNIFORM

    def varies(self, node: Op) -> bool:
        """True if the result of an operation varies."""
        return self.any(node.args) or (self.is_divergent and not node.row.is_movable)


class Lifter:
    """Rewrites blocks. Subclasses say what becomes of operations that are more than scalar ones."""

    def __init__(self, shape: tuple[int, ...], variation: Variation, lanes: dict[Value, Operand] | None = None):
        """`lanes` says what tiles some of the values that vary are."""
        self.shape = shape
        self.variation = variation
        self.lanes: dict[Value, Operand] = dict(lanes or {})
        self.replaced: dict[Value, Operand] = {}  # values that are the same for all lanes, and now called otherwise
        self.before: list[Node] | None = None  # what stands before the mapped control flow at hand; None outside
        self.control: Span | None = None  # where that begins
        self.fills: dict[Value, Value] = {}  # there

    @property
    def mapped(self) -> bool:
        """True where control flow is divergent."""
        return self.before is not None

    # -- operands

    def plain(self, x: Operand) -> Operand:
        """The operand that a uniform value is now."""
        return self.replaced.get(x, x) if isinstance(x, Value) else x

    def lane(self, x: Operand, out: list[Node], span: Span) -> Operand:
        """The tile of what the lanes have for `x`."""
        if isinstance(x, Const):
            return Const(with_shape(x.type, self.shape), x.value)
        if self.variation.of(x):
            return self.lanes[x]
        if self.before is None:
            return self._fill(self.plain(x), out, span)
        if x not in self.fills:
            filled = self._fill(self.plain(x), self.before, span)
            assert isinstance(filled, Value)
            self.fills[x] = filled
        return self.fills[x]

    def _fill(self, x: Operand, out: list[Node], span: Span) -> Operand:
        if isinstance(x, Const):
            return Const(with_shape(x.type, self.shape), x.value)
        filled = Value(with_shape(x.type, self.shape), x.name)
        out.append(Op("fill", (x,), self.shape, filled, span))
        return filled

    def lanes_of(self, xs: Iterable[Operand], out: list[Node], span: Span) -> tuple[Operand, ...]:
        return tuple(self.lane(x, out, span) for x in xs)

    def fresh(self, value: Value) -> Value:
        """The tile that stands for a value from now on, if it varies; else the value itself."""
        if not self.variation.of(value):
            return value
        made = Value(with_shape(value.type, self.shape), value.name)
        self.lanes[value] = made
        return made

    # -- nodes

    def block(self, block: Block, varying: Sequence[bool]) -> Block:
        """A block whose yields are tiles where `varying` says so."""
        out: list[Node] = []
        self.nodes(block.nodes, out)
        span = block.nodes[-1].span if block.nodes else NO_SPAN
        pairs = zip(block.yields, varying, strict=True)
        yields = tuple(self.lane(y, out, span) if is_tile else self.plain(y) for y, is_tile in pairs)
        return Block(tuple(out), yields)

    def nodes(self, nodes: Iterable[Node], out: list[Node]) -> None:
        for node in nodes:
            self.node(node, out)

    def node(self, node: Node, out: list[Node]) -> None:
        match node:
            case Op():
                self.op(node, out)
            case If():
                self.branch(node, out)
            case For():
                self.counted(node, out)
            case While():
                self.conditional(node, out)

    def op(self, node: Op, out: list[Node]) -> None:
        varies = self.variation.any(node.args) or (node.result is not None and self.variation.of(node.result))
        if not varies and not self.is_each(node):
            args = tuple(self.plain(a) for a in node.args)
            place = self.before if self.before is not None and node.row.is_movable else out
            if place is not out or not self.mapped:
                place.append(dataclasses.replace(node, args=args))
                return
        self.lift(node, out)

    def is_each(self, node: Op) -> bool:
        """True if every lane executes the operation, also where they all execute the same."""
        return False

    def lift(self, node: Op, out: list[Node]) -> None:
        """Append the mapped form of an operation on scalars."""
        args = self.lanes_of(node.args, out, node.span)
        condition = node.args[0] if node.row.transfer.chooses else None
        if condition is not None and not self.variation.of(condition):
            args = (self.plain(condition), *args[1:])
        result = None if node.result is None else self.fresh(node.result)
        out.append(dataclasses.replace(node, args=args, result=result))

    @contextlib.contextmanager
    def diverging(self, mapped: bool, span: Span, out: list[Node]) -> Iterator[None]:
        """Inside, lanes go their own ways if `mapped`; what belongs before comes to `out` afterwards."""
        if not mapped or self.mapped:
            yield
            return
        self.before, self.fills, self.control = [], {}, span
        yield
        out.extend(self.before)
        self.before, self.fills, self.control = None, {}, None

    def branch(self, node: If, out: list[Node]) -> None:
        mapped = self.mapped or self.variation.splits(node)
        varying = [self.variation.of(r) for r in node.results]
        with self.diverging(mapped, node.span, out):
            cond = self.lane(node.cond, out, node.span) if mapped else self.plain(node.cond)
            then, orelse = self.block(node.then, varying), self.block(node.orelse, varying)
        out.append(If(cond, then, orelse, tuple(map(self.fresh, node.results)), node.span))

    def counted(self, node: For, out: list[Node]) -> None:
        mapped = self.mapped or self.variation.splits(node)
        varying = [self.variation.of(p) for p in node.params]
        with self.diverging(mapped, node.span, out):
            bounds = [self.lane(x, out, node.span) if mapped else self.plain(x) for x in (node.lo, node.hi)]
            init = self.initial(node, out)
            index, params = self.fresh(node.index), tuple(map(self.fresh, node.params))
            body = self.block(node.body, varying)
        results = tuple(map(self.fresh, node.results))
        out.append(For(index, bounds[0], bounds[1], node.step, params, init, body, results, node.span))

    def conditional(self, node: While, out: list[Node]) -> None:
        mapped = self.mapped or self.variation.splits(node)
        varying = [self.variation.of(p) for p in node.params]
        with self.diverging(mapped, node.span, out):
            init = self.initial(node, out)
            params = tuple(map(self.fresh, node.params))
            cond = self.block(node.cond, [mapped])
            body = self.block(node.body, varying)
        out.append(While(params, init, cond, body, tuple(map(self.fresh, node.results)), node.span))

    def initial(self, node: For | While, out: list[Node]) -> tuple[Operand, ...]:
        pairs = zip(node.params, node.init, strict=True)
        return tuple(self.lane(x, out, node.span) if self.variation.of(p) else self.plain(x) for p, x in pairs)


def lift(block: Block, shape: tuple[int, ...], lanes: dict[Value, Operand]) -> Block:
    """Scalar code applied to tiles of `shape`, element by element; it yields tiles.

    `lanes` says which tiles some of its values are; other values from outside are the same for all elements.
    """
    variation = Variation(lanes)
    variation.find(block)
    return Lifter(shape, variation, lanes).block(block, [True] * len(block.yields))
