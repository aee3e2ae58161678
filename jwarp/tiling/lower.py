"""Writes what was planned for a kernel with tiles: operations on scalars, and on the memory that tiles have."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Sequence

from jwarp.analysis.limits import Limits
from jwarp.ir.attributes import Attribute
from jwarp.ir.builder import Builder, make_block, zero
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Local, Node, Op, Operand, Value, While, results
from jwarp.tiling.forms import Forms, Viewed, size_of
from jwarp.tiling.memory import Buffer, assign
from jwarp.tiling.nests import NestWriter
from jwarp.tiling.plan import Control, Move, Nest, Part, Plan, Planner, Step, Unit
from jwarp.tiling.units import write_unit
from jwarp.types import ArrayType, int32, int64, scalar_of, shape_of, uint32, uint64


class _Recorder(Builder):
    """A builder that remembers what defines each value."""

    def __init__(self) -> None:
        super().__init__()
        self.definitions: dict[Value, Op] = {}

    def append(self, node: Node) -> None:
        super().append(node)
        if isinstance(node, Op) and node.result is not None:
            self.definitions[node.result] = node


class Lowering:
    """Writes one kernel. `known` maps scalars that reductions give to what they have become."""

    def __init__(self, kernel: Kernel, units: Container[str], flat: bool):
        self.kernel, self.units, self.flat = kernel, units, flat
        self.builder = _Recorder()
        self.limits: dict[Value, tuple[int, int]] = {}  # of the counters of loops
        self.known: dict[Value, Operand] = {}
        self.forms = Forms(kernel)
        self.planner = Planner(kernel, self.forms)
        plan = self.planner.plan(kernel.body)
        self.buffers, self.buffer_of = assign(plan, self.planner)
        self.body = self.block(plan)

    def lowered(self) -> Kernel:
        """The kernel without tiles."""
        locals_ = tuple(_local(buffer, k) for k, buffer in enumerate(self.buffers))
        return dataclasses.replace(self.kernel, body=self.body, locals=(*self.kernel.locals, *locals_))

    # -- parts of plans

    def block(self, plan: Plan) -> Block:
        with self.builder.block() as nodes:
            for part, before in zip([*plan.parts, None], plan.before, strict=True):
                for op in before:
                    self.scalar(op)
                if part is not None:
                    self.part(part)
            return make_block(nodes, self.operands(y for y in plan.yields if not shape_of(y.type)))

    def part(self, part: Part) -> None:
        match part:
            case Nest():
                self.nest(part)
            case Step():
                self.scalar(part.node)
            case Move():
                self.move(part)
            case Unit():
                self.builder.span = part.node.span
                write_unit(self, part)
            case Control():
                self.control(part)

    def nest(self, nest: Nest) -> None:
        self.builder.span = nest.nodes[0].span
        made = (r for n in nest.nodes for r in results(n))
        NestWriter(self, nest, [v for v in made if v in self.planner.stored and shape_of(v.type)]).write()

    def scalar(self, node: Op) -> None:
        self.builder.span = node.span
        if node.name == "take":
            assert node.result is not None
            self.known[node.result] = self.take(node.args[0], self.operands(node.args[1:]))
        elif node.name in ("put", "put_add"):
            self.put(node, self.operands(node.args[1:]), atomic=False)
        else:
            self.builder.append(dataclasses.replace(node, args=self.operands(node.args)))

    def move(self, part: Move) -> None:
        form, shape = self.forms.of(part.source), shape_of(part.target.type)
        if isinstance(form, Viewed) and form.is_whole(shape) and self.array(form.base) == self.array(part.target):
            return
        copy = Op("copy", (part.source,), None, part.target, self.builder.span)
        NestWriter(self, Nest(shape, [copy]), [part.target]).write()

    def control(self, part: Control) -> None:
        node, span = part.node, part.node.span
        made = tuple(r for r in node.results if not shape_of(r.type))
        if isinstance(node, If):
            cond = self.operand(node.cond)
            then, orelse = (self.block(plan) for plan in part.plans)
            self.builder.append(If(cond, then, orelse, made, span))
            return
        scalars = [k for k, p in enumerate(node.params) if not shape_of(p.type)]
        params, init = tuple(node.params[k] for k in scalars), self.operands(node.init[k] for k in scalars)
        if isinstance(node, For):
            lo, hi = self.operand(node.lo), self.operand(node.hi)
            if isinstance(lo, Const) and isinstance(hi, Const):
                ends = (lo.value, hi.value - 1) if node.step > 0 else (hi.value + 1, lo.value)
                self.limits[node.index] = ends
            (body,) = (self.block(plan) for plan in part.plans)
            lanes = None if node.lanes is None else tuple(node.lanes[k] for k in scalars)
            self.builder.append(For(node.index, lo, hi, node.step, params, init, body, made, span, lanes))
            return
        cond_block, body = (self.block(plan) for plan in part.plans)
        self.builder.append(While(params, init, cond_block, body, made, span))

    # -- scalars

    def operand(self, x: Operand) -> Operand:
        return self.known.get(x, x) if isinstance(x, Value) else x

    def operands(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(self.operand(x) for x in xs)

    def effect(self, name: str, *args: Operand, attr: Attribute | None) -> None:
        self.builder.effect(name, *args, attr=attr)

    # -- tiles in memory

    def array(self, tile: Value) -> int:
        """The number of the array that holds a tile."""
        return len(self.kernel.params) + len(self.kernel.locals) + self.buffer_of[tile]

    def load(self, tile: Value, place: Operand) -> Value:
        made = Value(scalar_of(tile.type))
        self.builder.append(Op("load", (place,), self.array(tile), made, self.builder.span))
        return made

    def store(self, tile: Value, place: Operand, value: Operand) -> None:
        self.effect("store", place, value, attr=self.array(tile))

    def take(self, tile: Operand, indices: Sequence[Operand]) -> Operand:
        """The element of a tile at indices, zero outside."""
        form = self.forms.of(tile)
        assert isinstance(form, Viewed)
        base = form.base
        place = self.place(shape_of(tile.type), form.offset, form.strides, indices, size_of(base.type))
        return self.load(base, place)

    def put(self, node: Op, args: Sequence[Operand], atomic: bool) -> None:
        """Change the element of a tile at indices, or add to it."""
        tile, (*indices, value) = node.args[0], args
        assert isinstance(tile, Value)
        whole = self.forms.of(tile)
        assert isinstance(whole, Viewed)
        place = self.place(shape_of(tile.type), 0, whole.strides, indices, size_of(tile.type))
        if node.name == "put_add" and atomic:
            self.effect("atomic_add", place, value, attr=self.array(tile))
            return
        if node.name == "put_add":
            value = self.builder.op("add", self.load(tile, place), value)
        self.store(tile, place, value)

    def place(
        self, shape: tuple[int, ...], offset: int, strides: tuple[int, ...], indices: Sequence[Operand], size: int
    ) -> Operand:
        """The number of the element at indices in an array of `size` elements; `size` itself outside `shape`."""
        do = self.builder.op
        limits = Limits(self.builder.definitions, self.limits)
        is_inside = [limits.within(x, 0, n - 1) for x, n in zip(indices, shape, strict=True)]
        if shape == (size,) and strides == (1,) and not offset:
            return indices[0]  # as arrays do it
        kind = int64 if any(x.type in (int64, uint32, uint64) for x in indices) else int32
        total: Operand = Const(kind, offset)
        fits: Operand | None = None
        for x, extent, stride, known in zip(indices, shape, strides, is_inside, strict=True):
            index = do("min", x, Const(uint64, int64.max)) if x.type is uint64 else x
            index = do("cast", index, type=kind)
            if not known:
                if not limits.within(x, 0, None):
                    from_end = do("add", index, Const(kind, extent))
                    index = do("select", do("lt", index, zero(kind)), from_end, index)
                here = do("and", do("ge", index, zero(kind)), do("lt", index, Const(kind, extent)))
                fits = here if fits is None else do("and", fits, here)
            if stride:
                total = do("add", total, do("mul", index, Const(kind, stride)))
        return total if fits is None else do("select", fits, total, Const(kind, size))


def _local(buffer: Buffer, number: int) -> Local:
    return Local(f"tile{number}", ArrayType(buffer.dtype, 1), (buffer.size,), shared=True)
