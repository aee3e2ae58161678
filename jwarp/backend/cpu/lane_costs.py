"""Estimate the cost of a vector of threads, by the launch dimension that its lanes are along."""

from __future__ import annotations

import dataclasses

from jwarp.analysis.uniformity import UNIFORM, Shape
from jwarp.analysis.vector_lanes import shapes_of
from jwarp.backend.cpu.access.descriptor import Space, expected
from jwarp.backend.cpu.access.strategies import choose
from jwarp.backend.cpu.target import host_target
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
        self.kernel, self.shapes, self.target = kernel, shapes_of(kernel), host_target()
        self.total, self.times = 0.0, 1.0
        self.remainders: set[Operand] = set()

    def shape(self, x: Operand) -> Shape:
        return UNIFORM if isinstance(x, Const) else self.shapes[x]

    def op(self, node: Op) -> None:
        if node.row.is_access:
            self.total += self.times * self.access(node)
        elif node.result is not None:
            if node.row.is_remainder and self.shape(node.args[1]).is_uniform:
                self.remainders.add(node.result)
            self.total += self.times * (_VECTOR if self.shapes[node.result].is_varying else _SCALAR)

    def access(self, node: Op) -> float:
        """The cost of the strategy that the table has for an access, with other components of its element if any."""
        array = self.kernel.array(node.array).type
        if not isinstance(array, ArrayType):
            return _VECTOR
        shapes = [self.shape(i) for i in node.indices]
        # A remainder is zero where all rows share what is loaded.
        same = all(s.is_uniform or i in self.remainders for i, s in zip(node.indices, shapes, strict=True))
        space = Space.LAUNCH if self.kernel.local(node.array) is None else Space.THREAD
        access = expected(node, array, space, shapes, same, self.target)
        strategy = choose(access) or choose(dataclasses.replace(access, nodes=(node,)))
        assert strategy is not None, "an operation by itself has a strategy"
        return strategy.cost(access)

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
