"""Lets derivatives go by float64, and by values that are apart, through symmetric uses of decompositions.

The derivative of U f(s) V^T by U and V, near equal values, is a difference of large numbers: what f makes of the two
values, over their distance. Where they are equal nothing is left of it. So values are moved apart a little, and what is
computed up to where it leaves the operations that are understood, a store for example, is computed in float64.
"""

from __future__ import annotations

import dataclasses

from jwarp.analysis.symmetry import Symmetry, depends_on_decompositions, symmetry
from jwarp.ir.attributes import Separation
from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Op, Operand, Value, While
from jwarp.ir.visit import Rebuilder, with_args
from jwarp.passes.simplify import has_finite_slopes, simplify
from jwarp.types import ScalarType, float64

# How far apart values are moved for first and for second derivatives, of float64 and of other types, relative to the
# greatest one, and to 1 where functions of them have a scale. The error is of that size, and rounding adds that of
# float64 over the distance, or over its square.
SEPARATIONS = {(1, True): 1.0e-8, (1, False): 1.0e-9, (2, True): 7.0e-6, (2, False): 7.0e-6}


def widened(kernel: Kernel, order: int) -> Kernel:
    """The kernel that derivatives of an `order` are made of, for the one that is written."""
    if not depends_on_decompositions(kernel):
        return kernel
    kernel = simplify(kernel, flatten=has_finite_slopes)
    widener = _Widener(symmetry(kernel), order)
    return simplify(dataclasses.replace(kernel, body=widener.block(kernel.body)))


class _Widener(Rebuilder):
    """`wide` has the float64 versions of values, `leaving` what is used where no such may be."""

    def __init__(self, found: Symmetry, order: int):
        super().__init__()
        self.found, self.order = found, order
        self.wide: dict[Value, Operand] = {}
        self.leaving: dict[Value, Operand] = {}

    def op(self, node: Op) -> None:
        if node.row.is_separation:
            assert node.result is not None
            attr, size = node.attr_as(Separation), self.operand(node.args[0])
            if attr.signed and self.found.has_scale:
                size = self.builder.op("max", size, Const(float64, 1.0))
            relative = Const(float64, SEPARATIONS[self.order, attr.bits == float64.bits])
            self.known[node.result] = self.builder.op("mul", size, relative)
        elif node.row.is_decomposed:
            assert node.result is not None
            self.known[node.result] = self.operand(node.args[0])
            self.wide[node.result] = self.operand(node.args[1])
            self.leave(node.result)
        elif self.goes_on(node):
            assert node.result is not None
            self.keep(node)
            self.widen(node)
            self.leave(node.result)
        else:
            self.keep(self.left(node))

    def goes_on(self, node: Op) -> bool:
        """True if the operation on symmetric values may be computed in float64."""
        result = node.result
        if result not in self.found.made or not isinstance(result.type, ScalarType) or not result.type.is_float:
            return False
        floats = [x for x in node.args if x.type.is_float]
        return all(x.type is result.type for x in floats) or node.row.has_target

    def widen(self, node: Op) -> None:
        assert node.result is not None
        if node.row.has_target:
            self.wide[node.result] = self.in_float64(node.args[0])
        else:
            args = [self.in_float64(x) if x.type.is_float else self.operand(x) for x in node.args]
            self.wide[node.result] = self.builder.op(node.name, *args, attr=node.attr)

    def in_float64(self, x: Operand) -> Operand:
        if isinstance(x, Value) and x in self.wide:
            return self.wide[x]
        return self.builder.op("cast", self.operand(x), type=float64)

    def leave(self, x: Value) -> None:
        """Where `x` is symmetric, the value that it has, with the derivative that it has in float64."""
        if x not in self.found.symmetric or not self.gains(x):
            return
        narrow = self.builder.op("cast", self.wide[x], type=x.type)
        self.leaving[x] = self.builder.op("follow", self.operand(x), narrow)

    def gains(self, x: Value) -> bool:
        """True if the derivative of a value made of parts gains precision by float64.

        To first order a sum over the values does not, nor, in float64, what no values go into.
        """
        if self.order > 1:
            return True
        return x in self.found.of_vectors and (x in self.found.of_values or x.type is not float64)

    def left(self, node: Op) -> Op:
        return with_args(node, tuple(self.leaves(x) for x in node.args))

    def leaves(self, x: Operand) -> Operand:
        return self.leaving.get(x, x) if isinstance(x, Value) else x

    def block(self, block: Block) -> Block:
        with self.builder.block() as nodes:
            self.nodes(block)
            return make_block(nodes, [self.operand(self.leaves(x)) for x in block.yields])

    def branch(self, node: If) -> None:
        self.keep(dataclasses.replace(node, cond=self.leaves(node.cond)))

    def loop(self, node: For | While) -> None:
        self.keep(dataclasses.replace(node, init=tuple(self.leaves(x) for x in node.init)))
