"""Writes some operations on tiles as simpler ones."""

from __future__ import annotations

import dataclasses

from jwarp.ir.builder import Builder, zero
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, Const, Kernel, Node, Op, Operand, Value
from jwarp.transform.tiles_forms import row_major, size_of
from jwarp.types import int32, shape_of, tile_type


def simpler(kernel: Kernel) -> Kernel:
    """`kernel` without `arg`, and without a `spread` of several elements to one place along an axis."""
    return dataclasses.replace(kernel, body=_Simpler().block(kernel.body))


class _Simpler(Cloner):
    """Rewrites; all other values stay what they are."""

    def fresh(self, value: Value) -> Value:
        return value

    def nodes(self, node: Node) -> list[Node]:
        builder = Builder()
        builder.span = node.span
        match node:
            case Op(name="arg"):
                made = _first(builder, self.operands(node.args)[0], node.attr)
            case Op(name="spread"):
                made = _spread(builder, self.operands(node.args)[0], node.attr)
            case _:
                return super().nodes(node)
        assert node.result is not None
        self.known[node.result] = made
        return builder.nodes

    def block(self, block: Block) -> Block:
        nodes = tuple(made for n in block.nodes for made in self.nodes(n))
        return Block(nodes, self.operands(block.yields))


def _first(builder: Builder, x: Operand, kind: str) -> Operand:
    """The number of the first element that is the minimum or maximum; of the first NaN, if there is one."""
    shape = shape_of(x.type)
    best = builder.op("reduce", x, attr=(kind, tuple(range(len(shape)))))
    number = builder.op("iota", attr=((size_of(x.type),), 0))
    number = builder.op("view", number, attr=(shape, 0, row_major(shape)))
    filled = builder.op("fill", best, attr=shape)
    hit = builder.op("eq", x, filled)
    if x.type.is_float:
        is_nan = builder.op("ne", filled, filled)
        hit = builder.op("or", hit, builder.op("and", is_nan, builder.op("ne", x, x)))
    found = builder.op("select", hit, number, Const(tile_type(int32, shape), int32.max))
    return builder.op("reduce", found, attr=("min", tuple(range(len(shape)))))


def _spread(builder: Builder, x: Operand, attr: tuple) -> Operand:
    """Elements with one place are added up first."""
    shape, offset, strides = attr
    extents = shape_of(x.type)
    alike = tuple(k for k, (n, s) in enumerate(zip(extents, strides, strict=True)) if s == 0 and n > 1)
    if not alike:
        return builder.op("spread", x, attr=attr)
    total = builder.op("reduce", x, attr=("add", alike))
    kept = tuple(s for k, s in enumerate(strides) if k not in alike)
    if kept:
        return builder.op("spread", total, attr=(shape, offset, kept))
    rest = offset
    indices: list[Operand] = []
    for extent in reversed(shape):
        indices.insert(0, Const(int32, rest % extent))
        rest //= extent
    scalar = tile_type(total.type, shape)
    return builder.op("put", zero(scalar), *indices, total)
