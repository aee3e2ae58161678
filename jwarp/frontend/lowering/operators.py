"""Lowers unary and binary operators."""

from __future__ import annotations

import ast

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.lowering.inlining import call_function, takes
from jwarp.frontend.lowering.rules import expression, lower
from jwarp.frontend.syntax.python_operators import BINARY_OPERATORS, OVERLOADS, UNARY_OPERATORS
from jwarp.frontend.tiles import operators as tiles
from jwarp.frontend.values import addresses, operator_table
from jwarp.frontend.values.bindings import Address, Binding, Composite, Number, TileRef
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
    own = UNARY_OPERATORS.get(type(node.op))
    if own and (found := overloaded(ctx, own, [operand], [ctx.span(node.operand)], span)) is not None:
        return found
    if isinstance(operand, Composite):
        if isinstance(node.op, ast.UAdd):
            return operand
        return operator_table.unary(ctx, *_UNARY[type(node.op)], operand, span)
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
    """`x + y` and the like. A sum of hundreds of terms nests as deep on its left, too deep to call oneself for each."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    made = lower(ctx, chain[-1].left)
    for step in reversed(chain):
        with ctx.at(step):
            made = combined(ctx, step.op, made, lower(ctx, step.right), step)
    return made


def combined(
    ctx: Context, operator: ast.operator, left: Binding, right: Binding, node: ast.BinOp | ast.AugAssign
) -> Binding:
    """Apply a binary operator to two values, whose expressions are the sides of `node`."""
    span = ctx.span(node)
    symbol, name = BINARY_OPERATORS[type(operator)]
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    places = [ctx.span(side) for side in sides]
    if (found := overloaded(ctx, name, [left, right], places, span)) is not None:
        return found
    if isinstance(left, TileRef) or isinstance(right, TileRef):
        return tiles.binary(ctx, symbol, name, left, right, span)
    if isinstance(left, Composite) or isinstance(right, Composite):
        return operator_table.binary(ctx, symbol, name, left, right, span)
    if isinstance(left, Address) or isinstance(right, Address):
        return addresses.moved(symbol, left, right, span)
    x = ctx.scalar(left, places[0], "left operand")
    y = ctx.scalar(right, places[1], "right operand")
    if name == "matmul":
        raise KernelTypeError(f"`@` does not take ({x.type}, {y.type})", span, "use `*` for numbers")
    return ctx.emit(name, x, y, span=span)


def own_operator(ctx: Context, name: str) -> Func | None:
    """The user's function with the name of an operator, which is called in its place where it takes the operands."""
    source = ctx.frame.source
    known = OVERLOADS[name]
    found = source.captured.get(known) or source.function.__globals__.get(known)
    if found is None:  # as for almost every operator
        return None
    function = canonical(found)
    return function if isinstance(function, Func) else None


def overloaded(ctx: Context, name: str, values: list[Binding], places: list[Span], span: Span) -> Binding | None:
    """The result of a user function with the operator's name; None if none takes the operands.

    Such a function says the types of all its parameters, and is not being read itself.
    """
    function = own_operator(ctx, name)
    if function is None:
        return None
    given = Arguments(values, places, {}, {}, span, span, [None] * len(values), {})
    fitting = [
        f for f in function.overloads if f.annotations.keys() >= f.signature.parameters.keys() and takes(f, given)
    ]
    if not fitting or any(f in ctx.stack for f in fitting):
        return None
    return call_function(ctx, function, given)
