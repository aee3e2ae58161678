"""Estimate the cost of a vector of threads, by the launch dimension that its lanes are along."""

from __future__ import annotations

from jwarp.analysis.uniformity import UNIFORM, Shape
from jwarp.analysis.vector_lanes import shapes_of
from jwarp.backend.cpu.access import costs
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Op, Operand, While
from jwarp.ir.visit import Visitor
from jwarp.types import ArrayType

# Of an operation on vectors, and of one on scalars.
_VECTOR, _SCALAR = 1.0, 0.25
# The assumed trip count of a loop, and how much longer the last lane runs than all do on average.
_ITERATIONS, _MAX_ITERATIONS = 8, 64
_LAST_LANE = 2.0


def vector_cost(kernel: Kernel) -> float:
    """A rough estimate of the work of a full vector of threads, in operations."""
    cost = _Cost(kernel)
    cost.block(kernel.body)
    return cost.total


class _Cost(Visitor):
    def __init__(self, kernel: Kernel):
        self.kernel, self.shapes = kernel, shapes_of(kernel)
        self.total, self.times = 0.0, 1.0
        self.remainders: set[Operand] = set()

    def shape(self, x: Operand) -> Shape:
        return UNIFORM if isinstance(x, Const) else self.shapes[x]

    def op(self, node: Op) -> None:
        if node.row.is_access:
            self.total += self.times * self.access(node)
        elif node.result is not None:
            if node.name == "mod" and self.shape(node.args[1]).is_uniform:
                self.remainders.add(node.result)
            self.total += self.times * (_VECTOR if self.shapes[node.result].is_varying else _SCALAR)

    def access(self, node: Op) -> float:
        array = self.kernel.array(node.array).type
        if not isinstance(array, ArrayType) or self.kernel.local(node.array) is not None:
            return _VECTOR
        shapes = [self.shape(i) for i in node.indices]
        if node.row.is_atomic:
            return costs.ATOMIC
        if all(s.is_uniform or i in self.remainders for i, s in zip(node.indices, shapes, strict=True)):
            return costs.ONE  # a remainder is zero where all rows share what is loaded
        leading, components = shapes[: array.dims], shapes[array.dims :]
        if array.dtype.bits != 32 or not all(s.is_uniform for s in components):
            return costs.ANY
        if any(s.is_varying for s in leading):
            in_row = node.name == "load" and leading[0].is_uniform
            return costs.ROW if in_row else costs.COLLECTED if components and node.name == "load" else costs.ANY
        if leading and leading[-1].stride == 1 and all(s.is_uniform for s in leading[:-1]):
            return costs.SHUFFLED if components else costs.CONTIGUOUS
        return costs.TRANSPOSED if components else costs.STRIDED

    def branch(self, node: If) -> None:
        self.repeated([node.then, node.orelse], 0.5 if self.shape(node.cond).is_uniform else 1.0)

    def counted(self, node: For) -> None:
        count = float(_ITERATIONS)
        if isinstance(node.lo, Const) and isinstance(node.hi, Const):
            count = min(_MAX_ITERATIONS, len(range(node.lo.value, node.hi.value, node.step)))
        uniform = self.shape(node.lo).is_uniform and self.shape(node.hi).is_uniform
        self.repeated([node.body], count if uniform else count * _LAST_LANE)

    def conditional(self, node: While) -> None:
        uniform = self.shape(node.cond.yields[0]).is_uniform
        self.repeated([node.cond, node.body], _ITERATIONS if uniform else _ITERATIONS * _LAST_LANE)

    def repeated(self, blocks: list[Block], times: float) -> None:
        before, self.times = self.times, self.times * times
        for block in blocks:
            self.block(block)
        self.times = before
