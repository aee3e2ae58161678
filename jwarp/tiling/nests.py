"""Writes the loop nests of operations on tiles: what is done for one element, and the loops around it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from jwarp.analysis.intervals import Interval
from jwarp.ir.attributes import RecordField, Reduction, Strided
from jwarp.ir.builder import make_block
from jwarp.ir.evaluate import neutral
from jwarp.ir.evaluate_tiles import places
from jwarp.ir.nodes import Block, Const, For, If, Node, Op, Operand, Value, While, operands, results, walk_node
from jwarp.tiling.elements import Elements
from jwarp.tiling.parts import Nest, free_operands
from jwarp.tiling.symbolic_tiles import Computed, Counted, Filled, Form, Viewed, result_of, row_major
from jwarp.types import int32, scalar_of, shape_of

# With less than so many elements along its last axis, a tile may better be walked along another one.
SHORT = 8

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Axis:
    """Neighbouring axes of a tile that one index runs over; `member` is the last of them."""

    extent: int
    member: int
    reduced: bool


@dataclass(frozen=True)
class Loop:
    """A loop along `axes`, the last of which runs fastest; with `lanes`, its iterations may run together."""

    axes: tuple[Axis, ...]
    lanes: bool

    @property
    def extent(self) -> int:
        return math.prod(axis.extent for axis in self.axes)


def merged_axes(shape: tuple[int, ...], reduced: tuple[int, ...], accesses: Iterable[Strides]) -> list[Axis]:
    """The axes of `shape`, neighbours as one where all accesses go from one to the next without a jump."""
    found: list[Axis] = []
    accesses = list(accesses)
    for k, extent in enumerate(shape):
        if extent == 1:
            continue
        axis = Axis(extent, k, k in reduced)
        before = found[-1] if found else None
        if before and before.reduced == axis.reduced and all(s[before.member] == s[k] * extent for s in accesses):
            found[-1] = Axis(before.extent * extent, k, axis.reduced)
        else:
            found.append(axis)
    return found


def loops_over(axes: Sequence[Axis], lanes: int, any_order: bool) -> list[Loop]:
    """The loops of a nest, outermost first: those over reduced axes are inside.

    With `lanes`, elements are spread over so many, in one loop.
    """
    kept, reduced = (tuple(a for a in axes if a.reduced is which) for which in (False, True))
    if lanes:
        outside = not reduced or 2 * math.prod(a.extent for a in kept) >= lanes
        if not outside or not kept:
            return [*(Loop((a,), False) for a in kept), Loop(reduced, True)]
        return [Loop(kept, True), *(Loop((a,), False) for a in reduced)]
    last = axes[-1]
    if any_order and not reduced and last.extent < SHORT:
        last = max(axes, key=lambda a: a.extent)
        kept = (*(a for a in kept if a is not last), last)
    if not last.reduced:
        last = kept[-1]
    return [Loop((a,), a is last) for a in (*kept, *reduced)]


class NestWriter:
    """Writes one nest. `written` are the results that are needed in memory.

    With `lanes`, one loop spreads the elements over so many.
    """

    def __init__(self, elements: Elements, nest: Nest, written: Iterable[Value], lanes: int = 0):
        self.memory, self.builder, self.forms = elements, elements.builder, elements.forms
        self.nest, self.shape = nest, nest.shape
        self.reductions = [n for n in nest.nodes if isinstance(n, Op) and n.row.is_reduction]
        partial = [n for n in self.reductions if shape_of(result_of(n).type)]
        self.partial = partial
        self.whole = [n for n in self.reductions if n not in partial]
        self.inside = frozenset(r for n in nest.nodes for r in results(n))
        self.written = [v for v in written if v not in {n.result for n in partial}]
        self.position: dict[Axis, Operand] = {}
        self.counters: list[tuple[Loop, Operand]] = []
        self.env: dict[Value, Operand] = {}
        self.loaded: dict[Form, Operand] = {}
        inner = (inner for n in nest.nodes for inner in walk_node(n))
        in_order = any(isinstance(n, Op) and n.row.in_order for n in inner)
        effects = any(n for n in nest.nodes if not isinstance(n, Op) or n.result is None or n.row.is_atomic)
        accesses = list(self.accesses())
        if in_order:
            # Code that pushes records and code that pops them must walk alike, whatever else they do.
            accesses += [tuple(int(k == axis) for k in range(len(self.shape))) for axis in range(len(self.shape))]
        axes = merged_axes(self.shape, nest.reduced, accesses)
        self.loops: list[Loop] = []
        if axes:
            self.loops = loops_over(axes, lanes, not (effects or in_order))
        self.split = sum(1 for loop in self.loops if not loop.axes[0].reduced)

    def accesses(self) -> Iterable[Strides]:
        """The strides by which the nest walks through memory, and through what counts."""
        for node in self.nest.nodes:
            for leaf in self.leaves(node):
                if isinstance(leaf, (Counted, Viewed)):
                    yield leaf.strides
            if isinstance(node, Op) and node.result is None and isinstance(node.attr, Strided):
                yield self.spread_strides(node)
            if isinstance(node, Op) and node in self.partial:
                yield self.kept_strides()
        if self.written:
            yield row_major(self.shape)

    def leaves(self, node: Node) -> Iterable[Form]:
        """The tiles that a node reads, except for those that the nest computes and those that are indexed."""
        # Of the tile in memory that an operation takes elements of, or changes in place, it uses any element.
        indexed = isinstance(node, Op) and node.row.is_tile and (node.row.indices is not None or node.result is None)
        skipped = operands(node)[:1] if indexed else ()
        if isinstance(node, Op) and node.result in self.forms.sources:
            yield from self.forms.leaves_of(self.forms.sources[node.result])
            return
        for x in free_operands(node):
            if shape_of(x.type) and x not in skipped and x not in self.inside:
                for leaf in self.forms.leaves(x):
                    if not (isinstance(leaf, Viewed) and leaf.base in self.inside):
                        yield leaf

    def kept_strides(self) -> Strides:
        """The strides of what is left of the shape after reductions in part."""
        kept = [k for k in range(len(self.shape)) if k not in self.nest.reduced]
        strides = dict(zip(kept, row_major(tuple(self.shape[k] for k in kept)), strict=True))
        return tuple(strides.get(k, 0) for k in range(len(self.shape)))

    def spread_strides(self, node: Op) -> Strides:
        return tuple(s if n > 1 else 0 for s, n in zip(node.attr_as(Strided).strides, self.shape, strict=True))

    # -- loops

    def write(self) -> None:
        done = self.level(
            0, {n: neutral(n.attr_as(Reduction).operation, scalar_of(result_of(n).type)) for n in self.whole}
        )
        for node, total in done.items():
            assert node.result is not None
            self.memory.known[node.result] = total

    def level(self, k: int, carried: dict[Op, Operand]) -> dict[Op, Operand]:
        """The loops from number k on; what is carried through them, before and after."""
        if k != self.split or not self.partial:
            return self.loop(k, carried)
        started: dict[Op, Operand] = {
            n: neutral(n.attr_as(Reduction).operation, scalar_of(result_of(n).type)) for n in self.partial
        }
        done = self.loop(k, {**carried, **started})
        for node in self.partial:
            assert node.result is not None
            self.memory.store(node.result, self.number(0, self.kept_strides()), done.pop(node))
        return done

    def loop(self, k: int, carried: dict[Op, Operand]) -> dict[Op, Operand]:
        if k == len(self.loops):
            return self.element_body(carried)
        loop, last = self.loops[k], self.loops[k].extent - 1
        index = Value(int32)
        lo, hi, step = (last, -1, -1) if self.nest.reversed else (0, last + 1, 1)
        self.memory.counters[index] = Interval(0, last)
        params, made = (tuple(Value(x.type) for x in carried.values()) for _ in range(2))
        outer = dict(self.position)
        with self.builder.block() as nodes:
            self.enter(loop, index)
            after = self.level(k + 1, dict(zip(carried, params, strict=True)))
        self.position = outer
        self.counters.pop()
        lanes = tuple(n.attr_as(Reduction).operation for n in carried) if loop.lanes else None
        bounds = Const(int32, lo), Const(int32, hi)
        body = make_block(nodes, after.values())
        self.builder.append(
            For(index, *bounds, step, params, tuple(carried.values()), body, made, self.builder.span, lanes)
        )
        return dict(zip(carried, made, strict=True))

    def enter(self, loop: Loop, index: Value) -> None:
        """Find the place along each axis from the counter of a loop."""
        self.counters.append((loop, index))
        rest: Operand = index
        for k, axis in enumerate(reversed(loop.axes)):
            is_first = k == len(loop.axes) - 1
            extent = Const(int32, axis.extent)
            self.position[axis] = rest if is_first else self.builder.op("mod", rest, extent)
            rest = rest if is_first else self.builder.op("div", rest, extent)

    def number(self, offset: int, strides: Strides) -> Operand:
        """offset + the place along each axis times a stride."""
        do = self.builder.op
        total: Operand = Const(int32, offset)
        for loop, index in self.counters:
            inner = 1
            for axis in reversed(loop.axes):
                steady = strides[axis.member] == strides[loop.axes[-1].member] * inner
                inner *= axis.extent
                if not steady:
                    break
            else:
                if strides[loop.axes[-1].member]:
                    total = do("add", total, do("mul", index, Const(int32, strides[loop.axes[-1].member])))
                continue
            for axis in loop.axes:
                stride = strides[axis.member]
                if stride:
                    total = do("add", total, do("mul", self.position[axis], Const(int32, stride)))
        return total

    # -- one element

    def element_body(self, carried: dict[Op, Operand]) -> dict[Op, Operand]:
        """Emit the body for one element: read memory, compute, write memory."""
        self.env, self.loaded = {}, {}
        for node in self.nest.nodes:
            for leaf in self.leaves(node):
                self.of_form(leaf)
            if not isinstance(node, Op):
                self.compute_before(node)
        after = dict(carried)
        for node in self.nest.nodes:
            self.builder.span = node.span
            if isinstance(node, Op) and node.row.is_reduction:
                after[node] = self.builder.op(
                    node.attr_as(Reduction).operation, carried[node], self.element(node.args[0])
                )
                continue
            if not isinstance(node, Op):
                self.compute_before(node)
            self.node(node)
        if self.written:
            place = self.number(0, row_major(self.shape))
            for value in self.written:
                self.memory.store(value, place, self.env[value])
        return after

    def compute_before(self, node: Node) -> None:
        """Compute what control flow uses before it, so that it is there after it, too."""
        for x in free_operands(node):
            form = self.forms.of(x) if shape_of(x.type) and x not in self.inside else None
            if isinstance(form, Computed) and all(map(self.is_there, self.forms.leaves_of(form))):
                self.of_form(form)

    def is_there(self, leaf: Form) -> bool:
        """True if a leaf is not a result of the nest, or is computed already."""
        return not isinstance(leaf, Viewed) or leaf.base not in self.inside or leaf.base in self.env

    def element(self, x: Operand) -> Operand:
        """The element of a tile at hand; a scalar itself."""
        if isinstance(x, Value) and x in self.env:
            return self.env[x]
        if not shape_of(x.type):
            return self.memory.operand(x)
        made = self.of_form(self.forms.of(x))
        if isinstance(x, Value):
            self.env[x] = made
        return made

    def elements(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(self.element(x) for x in xs)

    def of_form(self, form: Form) -> Operand:
        match form:
            case Filled():
                return self.memory.operand(form.value)
            case Viewed() if form.base in self.inside:
                return self.env[form.base]
        if form not in self.loaded:
            self.loaded[form] = self.made(form)
        return self.loaded[form]

    def made(self, form: Form) -> Operand:
        match form:
            case Counted():
                return self.number(form.offset, form.strides)
            case Viewed():
                return self.memory.load(form.base, self.number(form.offset, form.strides))
            case Computed():
                node = form.node
                assert node.result is not None
                args = self.elements(node.args)
                if node.row.threads.is_common and isinstance(args[0], Const):
                    return args[0]
                return self.builder.op(node.name, *args, attr=node.attr, type=scalar_of(node.result.type))
            case _:
                raise AssertionError(form)

    def fresh(self, value: Value) -> Value:
        made = Value(scalar_of(value.type), value.name)
        self.env[value] = made
        return made

    def fresh_all(self, values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(self.fresh(v) for v in values)

    def block(self, block: Block) -> Block:
        env, loaded = dict(self.env), dict(self.loaded)
        with self.builder.block() as nodes:
            for node in block.nodes:
                self.node(node)
            made = make_block(nodes, self.elements(block.yields))
        # A value that is computed at its first use is not there after the block.
        self.env, self.loaded = env, loaded
        return made

    def node(self, node: Node) -> None:
        match node:
            case Op():
                self.op(node)
            case If():
                cond = self.element(node.cond)
                then, orelse = self.block(node.then), self.block(node.orelse)
                self.builder.append(If(cond, then, orelse, self.fresh_all(node.results), node.span))
            case For():
                lo, hi, init = self.element(node.lo), self.element(node.hi), self.elements(node.init)
                index, params = self.fresh(node.index), self.fresh_all(node.params)
                body = self.block(node.body)
                made = self.fresh_all(node.results)
                self.builder.append(For(index, lo, hi, node.step, params, init, body, made, node.span))
            case While():
                init, params = self.elements(node.init), self.fresh_all(node.params)
                test, body = self.block(node.cond), self.block(node.body)
                self.builder.append(While(params, init, test, body, self.fresh_all(node.results), node.span))

    def op(self, node: Op) -> None:
        result = node.result
        if result is not None and result in self.forms.sources:
            self.env[result] = self.of_form(self.forms.sources[result])
            return
        rule = _RULES.get(node.name)
        if rule is not None:
            rule(self, node)
        elif not node.row.is_rule:
            args = self.elements(node.args)
            made = None if result is None else self.fresh(result)
            self.builder.append(dataclasses.replace(node, args=args, result=made))

    def copy(self, node: Op) -> None:
        self.env[result_of(node)] = self.element(node.args[0])

    def take(self, node: Op) -> None:
        self.env[result_of(node)] = self.memory.take(node.args[0], self.elements(node.args[1:]))

    def put(self, node: Op) -> None:
        self.memory.put(node, self.elements(node.args[1:]), atomic=True)

    def retrieve(self, node: Op) -> None:
        """Read the record that is taken away."""
        field = RecordField(node.number, 0)
        self.builder.append(Op("top", (), field, self.fresh(result_of(node)), node.span))
        self.builder.append(Op("pop", (), node.attr, None, node.span))

    def spread(self, node: Op) -> None:
        """Add to the element that a view would take, which is another one for each element at hand."""
        target, x = node.args
        assert isinstance(target, Value)
        view = node.attr_as(Strided)
        place = self.number(view.offset, self.spread_strides(node))
        numbers = places(self.shape, view.offset, view.strides)
        if np.unique(numbers).size == numbers.size:
            value = self.element(x)
            if node.row.adds_to_tile:
                value = self.builder.op("add", self.memory.load(target, place), value)
            self.memory.store(target, place, value)
        else:
            self.memory.builder.effect("atomic_add", place, self.element(x), attr=self.memory.array(target))


_RULES: dict[str, Callable[[NestWriter, Op], None]] = {
    "copy": NestWriter.copy,
    "take": NestWriter.take,
    "put": NestWriter.put,
    "put_add": NestWriter.put,
    "spread": NestWriter.spread,
    "spread_add": NestWriter.spread,
    "retrieve": NestWriter.retrieve,
}
