"""Divides by square roots as GPUs do fast, where results may be rounded otherwise: by a product with 1 / sqrt(x)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from jwarp.analysis.ownership import Definitions, definitions_of
from jwarp.ir.builder import Builder
from jwarp.ir.nodes import Const, Kernel, Node, Op, Operand, Value
from jwarp.ir.visit import Rewriter
from jwarp.types import float32

MOST = 1e30


@dataclass(frozen=True)
class _Power:
    """A constant times the square root of something, to a power."""

    root: Value
    power: int
    constant: float


def by_reciprocal_roots(kernel: Kernel) -> Kernel:
    """x / sqrt(y), and x / (y * sqrt(y)), of float32 and with constant factors below, by 1 / sqrt(y).

    That is one instruction of GPUs, where a root and a quotient are two or more.
    """
    return dataclasses.replace(kernel, body=_Divider(kernel).block(kernel.body))


def inverse_root(node: Op, definitions: Definitions) -> Operand | None:
    """The y of 1 / sqrt(y), of float32; None of anything else."""
    if node.name != "div" or node.args[0] != Const(float32, 1.0) or not isinstance(node.args[1], Value):
        return None
    root = definitions.get(node.args[1])
    return root.args[0] if root is not None and root.name == "sqrt" else None


class _Divider(Rewriter):
    def __init__(self, kernel: Kernel):
        self.definitions = definitions_of(kernel.body)

    def nodes(self, node: Node) -> Iterable[Node]:
        if not isinstance(node, Op) or node.name != "div" or node.result is None or node.result.type is not float32:
            return super().nodes(node)
        numerator, divisor = node.args
        found = self.power(divisor)
        if found is None or inverse_root(node, self.definitions) is not None:
            return (node,)
        return self.product(node, numerator, found)

    def product(self, node: Op, numerator: Operand, divisor: _Power) -> list[Node]:
        builder = Builder()
        builder.span = node.span
        with builder.block() as nodes:
            inverse = builder.op("div", Const(float32, 1.0), divisor.root)
            if divisor.constant != 1.0:
                numerator = builder.op("mul", numerator, Const(float32, float(np.float32(1.0 / divisor.constant))))
            if divisor.power == 3:  # in this order it only overflows where the square does, or the result
                numerator, inverse = builder.op("mul", numerator, inverse), builder.op("mul", inverse, inverse)
        return [*nodes, dataclasses.replace(node, name="mul", args=(numerator, inverse))]

    def power(self, x: Operand) -> _Power | None:
        """The operand as a power of a square root, the first or third one."""
        node = self.definitions.get(x) if isinstance(x, Value) else None
        if node is not None and node.name == "sqrt" and node.result is not None:
            return _Power(node.result, 1, 1.0)
        if node is None or node.name != "mul":
            return None
        for one, other in (node.args, node.args[::-1]):
            if isinstance(other, Const):
                inner = self.power(one)
                constant = 0.0 if inner is None else inner.constant * other.value
                # A float has to hold its inverse.
                within = MOST > abs(constant) > 1.0 / MOST
                return dataclasses.replace(inner, constant=constant) if inner is not None and within else None
            found = self.power(other)
            if found is not None and found.power == 1 and self.definitions[found.root].args[0] is one:
                return dataclasses.replace(found, power=3)
        return None
