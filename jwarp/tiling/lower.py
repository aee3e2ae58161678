"""Writes what was scheduled for a kernel with tiles: operations on scalars, and on the memory that tiles have."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping

import numpy as np

from jwarp.analysis.intervals import Interval
from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Local, Op, Value, While, results
from jwarp.tiling.allocation import Buffer, assign
from jwarp.tiling.elements import Elements
from jwarp.tiling.nests import NestWriter
from jwarp.tiling.parts import Control, Move, Nest, Part, Schedule, Step, Whole
from jwarp.tiling.schedule import Scheduler
from jwarp.tiling.symbolic_tiles import Forms, Viewed
from jwarp.tiling.whole import write_whole
from jwarp.types import ArrayType, scalar_of, shape_of


class Lowering:
    """Writes one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        routines: Container[str],
        flat: bool,
        alone: bool = False,
        tables: Mapping[Value, np.ndarray] | None = None,
    ):
        """`tables` are tiles that nothing in the kernel computes, and what they hold."""
        self.kernel, self.routines, self.flat, self.alone = kernel, routines, flat, alone
        self.forms = Forms(kernel)
        self.scheduler = Scheduler(kernel, self.forms)
        schedule = self.scheduler.schedule(kernel.body)
        self.buffers, buffer_of = assign(schedule, self.scheduler)
        for tile, content in (tables or {}).items():
            buffer_of[tile] = len(self.buffers)
            self.buffers.append(Buffer(scalar_of(tile.type), content.size, tuple(content.ravel().tolist())))
        self.elements = Elements(kernel, self.forms, buffer_of, flat)
        self.builder = self.elements.builder
        self.body = self.block(schedule)

    def lowered(self) -> Kernel:
        """The kernel without tiles."""
        locals_ = tuple(_local(buffer, k) for k, buffer in enumerate(self.buffers))
        return dataclasses.replace(self.kernel, body=self.body, locals=(*self.kernel.locals, *locals_))

    # -- parts of schedules

    def block(self, schedule: Schedule) -> Block:
        """The block that does what was scheduled; it yields the scalars alone."""
        with self.builder.block() as nodes:
            for part, before in zip([*schedule.parts, None], schedule.before, strict=True):
                for op in before:
                    self.scalar(op)
                if part is not None:
                    self.part(part)
            return make_block(nodes, self.elements.operands(y for y in schedule.yields if not shape_of(y.type)))

    def part(self, part: Part) -> None:
        match part:
            case Nest():
                self.nest(part)
            case Step():
                self.scalar(part.node)
            case Move():
                self.move(part)
            case Whole():
                self.builder.span = part.node.span
                write_whole(self.elements, self.routines, part, self.alone)
            case Control():
                self.control(part)

    def nest(self, nest: Nest) -> None:
        self.builder.span = nest.nodes[0].span
        made = (r for n in nest.nodes for r in results(n))
        self.write_nest(nest, [v for v in made if v in self.scheduler.stored and shape_of(v.type)])

    def write_nest(self, nest: Nest, written: Iterable[Value]) -> None:
        NestWriter(self.elements, nest, written, self.kernel.block_dim if self.flat else 0).write()

    def scalar(self, node: Op) -> None:
        """Write an operation on scalars, or one that takes or puts a single element of a tile."""
        self.builder.span = node.span
        if node.row.takes_element:
            assert node.result is not None
            self.elements.known[node.result] = self.elements.take(node.args[0], self.elements.operands(node.args[1:]))
        elif node.row.is_tile:  # an element is put there
            self.elements.put(node, self.elements.operands(node.args[1:]), atomic=False)
        else:
            self.builder.append(dataclasses.replace(node, args=self.elements.operands(node.args)))

    def move(self, part: Move) -> None:
        """Copy a tile, unless both share memory."""
        form, shape = self.forms.of(part.source), shape_of(part.target.type)
        if (
            isinstance(form, Viewed)
            and form.is_whole(shape)
            and self.elements.array(form.base) == self.elements.array(part.target)
        ):
            return
        copy = Op("copy", (part.source,), None, part.target, self.builder.span)
        self.write_nest(Nest(shape, [copy]), [part.target])

    def control(self, part: Control) -> None:
        """Write control flow: tiles that go through it are in memory, and no longer carried or yielded."""
        node, span = part.node, part.node.span
        made = tuple(r for r in node.results if not shape_of(r.type))
        if isinstance(node, If):
            cond = self.elements.operand(node.cond)
            then, orelse = (self.block(schedule) for schedule in part.schedules)
            self.builder.append(If(cond, then, orelse, made, span))
            return
        scalars = [k for k, p in enumerate(node.params) if not shape_of(p.type)]
        params, init = tuple(node.params[k] for k in scalars), self.elements.operands(node.init[k] for k in scalars)
        if isinstance(node, For):
            lo, hi = self.elements.operand(node.lo), self.elements.operand(node.hi)
            if isinstance(lo, Const) and isinstance(hi, Const):
                ends = (lo.value, hi.value - 1) if node.step > 0 else (hi.value + 1, lo.value)
                self.elements.counters[node.index] = Interval(*ends)
            (body,) = (self.block(schedule) for schedule in part.schedules)
            lanes = None if node.lanes is None else tuple(node.lanes[k] for k in scalars)
            self.builder.append(For(node.index, lo, hi, node.step, params, init, body, made, span, lanes))
            return
        cond_block, body = (self.block(schedule) for schedule in part.schedules)
        self.builder.append(While(params, init, cond_block, body, made, span))


def _local(buffer: Buffer, number: int) -> Local:
    return Local(f"tile{number}", ArrayType(buffer.dtype, 1), (buffer.size,), shared=True, values=buffer.values)
