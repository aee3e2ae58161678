"""Divides by square roots as GPUs do fast, where results may be rounded otherwise: by a product with 1 / sqrt(x)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from jwarp.ir.builder import Builder
from jwarp.ir.contents import Definitions, definitions_of
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
    quotient = _quotient(node)
    if quotient is None or quotient[0] != Const(float32, 1.0):
        return None
    root = definitions.get(quotient[1]) if isinstance(quotient[1], Value) else None
    return root.args[0] if root is not None and _POWERS.get(root.name) is _Divider.root else None


def _quotient(node: Op) -> tuple[Operand, Operand] | None:
    """The numerator and the divisor of a division of float32; None of anything else."""
    if node.name != "div" or node.result is None or node.result.type is not float32:
        return None
    return node.args[0], node.args[1]


class _Divider(Rewriter):
    def __init__(self, kernel: Kernel):
        self.definitions = definitions_of(kernel.body)

    def nodes(self, node: Node) -> Iterable[Node]:
        quotient = _quotient(node) if isinstance(node, Op) else None
        if not isinstance(node, Op) or quotient is None:
            return super().nodes(node)
        numerator, divisor = quotient
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
        rule = _POWERS.get(node.name) if node is not None else None
        return rule(self, node) if rule is not None and node is not None else None

    def root(self, node: Op) -> _Power | None:
        assert node.result is not None
        return _Power(node.result, 1, 1.0)

    def cube(self, node: Op) -> _Power | None:
        """The third power of a root as the product with its square, or a power with a constant factor."""
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


_POWERS: dict[str, Callable[[_Divider, Op], _Power | None]] = {"sqrt": _Divider.root, "mul": _Divider.cube}
