"""Unroll loops four times where lanes load along rows: each loads the next number of its own row.

The numbers of four iterations are next to each other in each row: a run, which is one access where the rows are at
equal distances (`access/grouping.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from jwarp.analysis.uniformity import Shape
from jwarp.analysis.vector_lanes import shapes_of
from jwarp.backend.cpu.access.grouping import RUN
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Const, For, Kernel, Node, Op, Operand, Value, walk
from jwarp.ir.visit import Rewriter
from jwarp.types import ArrayType, int32

# A body of more operations is not written four times.
MAX_NODES = 24


def with_unrolled_runs(kernel: Kernel) -> Kernel:
    """The kernel with such loops; the same one, if it has none."""
    if not any(isinstance(n, For) and _may_run(kernel, n) for n in walk(kernel.body)):
        return kernel
    body = _Runs(kernel, shapes_of(kernel)).block(kernel.body)
    return kernel if body is kernel.body else dataclasses.replace(kernel, body=body)


def _may_run(kernel: Kernel, loop: For) -> bool:
    """True if iterations of a loop may be interleaved, and load along rows at the number of the iteration."""
    if loop.lanes is not None or loop.step != 1 or loop.index.type is not int32:
        return False
    if not isinstance(loop.lo, Const) or loop.lo.value < 0 or len(loop.body.nodes) > MAX_NODES:
        return False
    if isinstance(loop.hi, Const) and loop.hi.value - loop.lo.value < RUN:
        return False
    ops = [n for n in loop.body.nodes if isinstance(n, Op)]
    if len(ops) < len(loop.body.nodes) or not any(_is_along(kernel, op, loop.index) for op in ops):
        return False
    stored = {op.array for op in ops if op.row.is_store}
    return all(
        op.row.is_pure or op.row.is_load or (op.row.is_store and kernel.local(op.array) is not None) for op in ops
    ) and not any(op.row.is_load and op.array in stored for op in ops)


def _is_along(kernel: Kernel, op: Op, index: Value) -> bool:
    """True if an operation loads a number at `index` of a row."""
    if not op.row.is_load or kernel.local(op.array) is not None or op.args[-1] is not index:
        return False
    array = kernel.array(op.array).type
    return isinstance(array, ArrayType) and array.dims > 1 and not array.components and array.dtype.bits == 32


class _Runs(Rewriter):
    def __init__(self, kernel: Kernel, shapes: Mapping[Value, Shape]):
        self.kernel, self.shapes = kernel, shapes

    def nodes(self, node: Node) -> Iterable[Node]:
        if isinstance(node, For) and _may_run(self.kernel, node) and self.is_strided(node):
            return _several(node)
        return super().nodes(node)

    def shape(self, x: Operand) -> Shape:
        return Shape(0) if isinstance(x, Const) else self.shapes[x]

    def is_strided(self, loop: For) -> bool:
        """True if the rows are at equal distances from each other, and the iterations are uniform."""
        loads = (op for op in loop.body.nodes if isinstance(op, Op) and _is_along(self.kernel, op, loop.index))
        rows = [[self.shape(i) for i in op.args[:-1]] for op in loads]
        steady = self.shape(loop.hi).is_uniform and self.shape(loop.index).is_uniform
        return steady and any(any(s.stride for s in row) and not any(s.is_varying for s in row) for row in rows)


def _several(loop: For) -> list[Node]:
    """The unrolled loop, and one for the iterations that are left."""
    builder, kind = Builder(), int32
    builder.span = loop.span
    assert isinstance(loop.lo, Const)
    if isinstance(loop.hi, Const):
        end: Operand = Const(kind, loop.hi.value - (RUN - 1))
    else:
        end = builder.op("sub", builder.op("max", loop.hi, Const(kind, RUN - 1)), Const(kind, RUN - 1))
    index = Value(kind)
    params, made = (tuple(Value(p.type, p.name) for p in loop.params) for _ in range(2))
    with builder.block() as nodes:
        numbers: list[Operand] = [index, *(builder.op("add", index, Const(kind, k)) for k in range(1, RUN))]
        copies = [Cloner({loop.index: number}) for number in numbers]
        carried: Sequence[Operand] = params
        written = [n for n in loop.body.nodes if isinstance(n, Op)]
        # First what needs nothing of the iteration before, of all; then the rest, of one iteration after the other.
        waits = _waiting(written, loop.params)
        for op in written:
            if op not in waits:
                for copy in copies:
                    builder.append(copy.node(op))
        for copy in copies:
            copy.known.update(zip(loop.params, carried, strict=True))
            for op in written:
                if op in waits:
                    builder.append(copy.node(op))
            carried = copy.operands(loop.body.yields)
        after = builder.op("add", index, Const(kind, RUN))
        body = make_block(nodes, (*carried, after))
    start, reached = Value(kind), Value(kind)
    builder.append(
        For(index, loop.lo, end, RUN, (*params, start), (*loop.init, loop.lo), body, (*made, reached), loop.span)
    )
    first = builder.op("max", reached, loop.lo)
    builder.append(dataclasses.replace(loop, lo=first, init=made))
    return builder.nodes


def _waiting(ops: Sequence[Op], params: Iterable[Value]) -> list[Op]:
    """The operations that need results of the iteration before, and stores."""
    later: set[Operand] = set(params)
    found = []
    for op in ops:
        if op.result is None or any(x in later for x in op.args):
            found.append(op)
            later.add(op.result) if op.result is not None else None
    return found
