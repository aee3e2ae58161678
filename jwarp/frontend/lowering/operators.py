"""Lowers unary and binary operators."""

from __future__ import annotations

import ast

from jwarp.errors import KernelTypeError
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.rules import expression, lower
from jwarp.frontend.syntax.operators import BINARY_OPERATORS
from jwarp.frontend.tiles import operators as tiles
from jwarp.frontend.values import kinds
from jwarp.frontend.values.bindings import Binding, Composite, Number, TileRef
from jwarp.types import bool_

_UNARY: dict[type[ast.unaryop], tuple[str, str]] = {ast.USub: ("-", "neg"), ast.Invert: ("~", "not")}


@expression(ast.UnaryOp)
def unary(ctx: Context, node: ast.UnaryOp) -> Binding:
    """`-x`, `+x`, `~x`, `not x`."""
    span = ctx.span(node)
    operand = lower(ctx, node.operand)
    if isinstance(node.op, ast.Not):
        return ctx.emit("not", ctx.condition(operand, span), span=span)
    if isinstance(operand, Number) and not isinstance(operand.value, bool):
        if isinstance(node.op, ast.USub):
            return Number(-operand.value)  # keeps the full precision for a conversion around it
        if isinstance(node.op, ast.UAdd):
            return operand
    if isinstance(operand, Composite):
        if isinstance(node.op, ast.UAdd):
            return operand
        return kinds.unary(ctx, *_UNARY[type(node.op)], operand, span)
    if isinstance(operand, TileRef) and isinstance(node.op, ast.USub):
        return tiles.negated(ctx, operand, span)
    scalar = ctx.scalar(operand, span)
    if isinstance(node.op, ast.UAdd):
        return scalar
    if isinstance(node.op, ast.Invert) and scalar.type is bool_:
        raise KernelTypeError("`~` needs an integer, got bool", span, "write `not x`")
    return ctx.emit("neg" if isinstance(node.op, ast.USub) else "not", scalar, span=span)


@expression(ast.BinOp)
def binary(ctx: Context, node: ast.BinOp) -> Binding:
    """`x + y` and the like."""
    return combined(ctx, node.op, lower(ctx, node.left), lower(ctx, node.right), node)


def combined(
    ctx: Context, operator: ast.operator, left: Binding, right: Binding, node: ast.BinOp | ast.AugAssign
) -> Binding:
    """What a binary operator makes of two values, which stand on the sides of `node`."""
    span = ctx.span(node)
    symbol, name = BINARY_OPERATORS[type(operator)]
    if isinstance(left, TileRef) or isinstance(right, TileRef):
        return tiles.binary(ctx, symbol, name, left, right, span)
    if isinstance(left, Composite) or isinstance(right, Composite):
        return kinds.binary(ctx, symbol, name, left, right, span)
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    x = ctx.scalar(left, ctx.span(sides[0]), "left operand")
    y = ctx.scalar(right, ctx.span(sides[1]), "right operand")
    if name == "matmul":
        raise KernelTypeError(f"`@` does not take ({x.type}, {y.type})", span, "use `*` for numbers")
    return ctx.emit(name, x, y, span=span)
