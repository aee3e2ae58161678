"""Writes some operations on tiles as simpler ones, and sums of a tile and a few elements as additions to these.

Systems of equations with the transpose of a matrix become systems with the matrix itself, which needs no copy.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp.ir.attributes import Iota, Reduction, Strided, Triangle
from jwarp.ir.builder import Builder, zero
from jwarp.ir.clone import Cloner
from jwarp.ir.evaluate_tiles import places
from jwarp.ir.nodes import Const, Kernel, Node, Op, Operand, Value, blocks, operands, walk
from jwarp.tiling.symbolic_tiles import result_of, row_major, size_of
from jwarp.types import int32, scalar_of, shape_of, tile_type


def simpler(kernel: Kernel) -> Kernel:
    """`kernel` without `arg`, and without a `spread` of several elements to one place along an axis.

    It may have an operation that others do not have: `spread_add`, of a tile and of what a `spread` adds to it.
    """
    return dataclasses.replace(kernel, body=_Simpler(kernel).block(kernel.body))


class _Simpler(Cloner):
    """Rewrites; all other values stay what they are."""

    def __init__(self, kernel: Kernel):
        super().__init__()
        self.additions = _additions(kernel)
        self.gone = {addend for _, addend in self.additions.values()}
        self.transposes: dict[Operand, Operand] = {
            result_of(n): n.args[0] for n in walk(kernel.body) if isinstance(n, Op) and _is_transpose(n)
        }

    def fresh(self, value: Value) -> Value:
        return value

    def nodes(self, node: Node) -> list[Node]:
        builder = Builder()
        builder.span = node.span
        if node in self.gone:
            return []
        if not isinstance(node, Op):
            return super().nodes(node)
        if node in self.additions:
            return [self.addition(node)]
        matrix = self.transposes.get(node.args[0]) if node.row.attribute is Triangle else None
        if matrix is not None:
            triangle = node.attr_as(Triangle)
            flipped = Triangle(not triangle.lower, not triangle.transposed)
            return [dataclasses.replace(node, args=self.operands((matrix, node.args[1])), attr=flipped)]
        rule = _CANONICAL.get(node.name)
        if rule is None:
            return super().nodes(node)
        self.known[result_of(node)] = rule(builder, self.operand(node.args[0]), node.attr)
        return builder.nodes

    def addition(self, node: Op) -> Op:
        """Add the few elements to the tile itself."""
        tile, addend = self.additions[node]
        name, rest = ("put_add", addend.args[1:]) if addend.row.adds_to_tile else ("spread_add", addend.args)
        return Op(name, self.operands((tile, *rest)), addend.attr, node.result, node.span)


def _is_transpose(node: Op) -> bool:
    """True if an operation gives the transpose of a square matrix."""
    if not node.row.is_view or len(shape := shape_of(node.args[0].type)) != 2 or shape[0] != shape[1] or shape[0] == 1:
        return False
    return node.attr_as(Strided) == Strided(shape, 0, (1, shape[0]))


def _additions(kernel: Kernel) -> dict[Op, tuple[Operand, Op]]:
    """Sums of a tile and of one that is mostly zero: both, by the id of the addition."""
    ops = [n for n in walk(kernel.body) if isinstance(n, Op)]
    uses: Counter[Operand] = Counter(x for n in walk(kernel.body) for x in operands(n))
    uses.update(y for n in walk(kernel.body) for block in blocks(n) for y in block.yields)
    few = {n.result: n for n in ops if n.result is not None and uses[n.result] == 1 and _is_mostly_zero(n)}
    found: dict[Op, tuple[Operand, Op]] = {}
    taken: set[Op] = set()
    for node in ops:
        if node.row.numeric.signs != (1, 1) or not shape_of(result_of(node).type):
            continue
        for tile, addend in (node.args, node.args[::-1]):
            made = few.get(addend) if isinstance(addend, Value) else None
            if made is not None and made not in taken:
                found[node] = tile, made
                taken.add(made)
                break
    return found


def _is_mostly_zero(node: Op) -> bool:
    if node.row.adds_to_tile:
        return node.args[0] == zero(node.args[0].type)
    if not node.row.spreads:
        return False
    # A spread of all elements, each to its own place, is a view, which costs nothing.
    view = node.attr_as(Strided)
    numbers = places(shape_of(node.args[0].type), view.offset, view.strides)
    return np.unique(numbers).size == numbers.size < size_of(result_of(node).type)


def _first(builder: Builder, x: Operand, kind: Any) -> Operand:
    """The number of the first element that is the minimum or maximum; of the first NaN, if there is one."""
    shape = shape_of(x.type)
    best = builder.op("reduce", x, attr=Reduction(kind, tuple(range(len(shape)))))
    number = builder.op("iota", attr=Iota((size_of(x.type),), 0))
    number = builder.op("view", number, attr=Strided(shape, 0, row_major(shape)))
    filled = builder.op("fill", best, attr=shape)
    hit = builder.op("eq", x, filled)
    if x.type.is_float:
        is_nan = builder.op("ne", filled, filled)
        hit = builder.op("or", hit, builder.op("and", is_nan, builder.op("ne", x, x)))
    found = builder.op("select", hit, number, Const(tile_type(int32, shape), int32.max))
    return builder.op("reduce", found, attr=Reduction("min", tuple(range(len(shape)))))


def _spread(builder: Builder, x: Operand, view: Any) -> Operand:
    """Elements with one place are added up first."""
    shape, strides = view.shape, view.strides
    extents = shape_of(x.type)
    alike = tuple(k for k, (n, s) in enumerate(zip(extents, strides, strict=True)) if s == 0 and n > 1)
    if not alike:
        return builder.op("spread", x, attr=view)
    total = builder.op("reduce", x, attr=Reduction("add", alike))
    kept = tuple(s for k, s in enumerate(strides) if k not in alike)
    if kept:
        return builder.op("spread", total, attr=Strided(shape, view.offset, kept))
    rest = view.offset
    indices: list[Operand] = []
    for extent in reversed(shape):
        indices.insert(0, Const(int32, rest % extent))
        rest //= extent
    return builder.op("put", zero(tile_type(scalar_of(total.type), shape)), *indices, total)


# The operations that are written as others: from the builder, the operand and the attribute.
_CANONICAL: dict[str, Callable[[Builder, Operand, Any], Operand]] = {"arg": _first, "spread": _spread}
