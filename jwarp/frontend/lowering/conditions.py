"""Lowers comparisons, `and`, `or` and `x if condition else y`, of which a part may be skipped."""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Callable, Iterator

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.control_flow import State, merge, restore, state_of
from jwarp.frontend.lowering.rules import expression, lower, lower_condition, unsupported
from jwarp.frontend.syntax.python_operators import COMPARISONS
from jwarp.frontend.values import operator_table
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    StructArray,
    Unusable,
    describe,
    holds_array,
    is_id,
    layout,
    rebuild,
)
from jwarp.frontend.values.cells import with_origins
from jwarp.ir.builder import FALSE, TRUE, make_block
from jwarp.ir.nodes import Const, If, Node, Op, Operand, Value
from jwarp.types import ScalarType, bool_, int32

# A branch of at most this many pure operations is computed without a branch.
MAX_EAGER_OPS = 8

# The value of an expression that a condition chooses, the operations it takes, and the variables that it leaves.
Side = tuple[Binding, list[Node], State]
_VALUE = "$value"  # that value, as if it were a variable


@expression(ast.Compare)
def comparison(ctx: Context, node: ast.Compare) -> Binding:
    """`a < b < c`."""
    if len(node.ops) == 1 and (absent := _compared_with_none(ctx, node)) is not None:
        return absent
    for operator in node.ops:
        if type(operator) not in COMPARISONS:
            raise unsupported(ctx, node, type(operator))
    return _chain(ctx, node, lower(ctx, node.left), 0)


def _compared_with_none(ctx: Context, node: ast.Compare) -> Operand | None:
    """`a == None` of an array, and `!=`, `is`, `is not`: whether it has no elements; None if it is nothing such."""
    is_equal = isinstance(node.ops[0], (ast.Eq, ast.Is))
    if not (is_equal or isinstance(node.ops[0], (ast.NotEq, ast.IsNot))):
        return None
    sides = node.left, node.comparators[0]
    arrays = [side for side in sides if not (isinstance(side, ast.Constant) and side.value is None)]
    if len(arrays) != 1:
        return None
    array, span = lower(ctx, arrays[0]), ctx.span(node)
    if not isinstance(array, (ArrayRef, StructArray)):
        raise KernelTypeError(f"{describe(array)} is compared with None, which only an array can be", span)
    holds = ctx.condition(array, span)
    return ctx.emit("not", holds, span=span) if is_equal else holds


def _chain(ctx: Context, node: ast.Compare, left: Binding, position: int) -> Operand:
    """The comparisons of `node` from `position` on; a later operand counts only where those before hold."""
    right = lower(ctx, node.comparators[position])
    holds = _compared(ctx, node.ops[position], left, right, node)
    if position == len(node.ops) - 1:
        return holds
    return _logical(ctx, True, holds, lambda: _chain(ctx, node, right, position + 1), ctx.span(node))


def _compared(ctx: Context, operator: ast.cmpop, left: Binding, right: Binding, node: ast.Compare) -> Operand:
    span, (symbol, name) = ctx.span(node), COMPARISONS[type(operator)]
    if isinstance(left, Composite) or isinstance(right, Composite):
        same = operator_table.equal(ctx, symbol, left, right, span)
        return same if name == "eq" else ctx.emit("not", same, span=span)
    if name in ("eq", "ne") and is_id(left) + is_id(right) == 1 and _is_zero(left) + _is_zero(right) == 1:
        return FALSE if name == "eq" else TRUE
    left, right = _literal_as(left, right, span), _literal_as(right, left, span)
    x, y = ctx.scalar(left, ctx.span(node.left)), ctx.scalar(right, span)
    if x.type is y.type is bool_ and name not in ("eq", "ne"):  # False is less than True
        x, y = (ctx.emit("cast", operand, span=span, type=int32) for operand in (x, y))
        return ctx.emit(name, x, y, span=span)
    common = _common_type(x.type, y.type)
    if common is None:
        return ctx.emit(name, x, y, span=span)
    return ctx.emit(name, ctx.convert(left, common, span), ctx.convert(right, common, span), span=span)


def _is_zero(binding: Binding) -> bool:
    return isinstance(binding, (Number, Const)) and binding.value == 0


def _literal_as(binding: Binding, other: Binding, span: Span) -> Binding:
    """An integer that is written out, in the type of the integer that it is compared with if that has it."""
    value = binding.value if isinstance(binding, Number) else None
    kind = other.type if isinstance(other, (Value, Const)) else None
    if not isinstance(value, int) or isinstance(value, bool) or not isinstance(kind, ScalarType) or not kind.is_int:
        return binding
    return Const(kind, value) if kind.min <= value <= kind.max else binding


def _common_type(x: ScalarType, y: ScalarType) -> ScalarType | None:
    """The type in which numbers of two types are compared, as in C++; None where that could change an integer."""
    floats = [t for t in (x, y) if t.is_float]
    if (x is bool_) != (y is bool_):
        return y if x is bool_ else x
    if x is bool_ or (len(floats) == 2 and x.bits == y.bits):
        return None
    if len(floats) == 1:
        return floats[0]
    narrow, wide = sorted((x, y), key=lambda t: t.bits)
    return wide if narrow.kind in (wide.kind, "uint") and (narrow.bits < wide.bits) else None


@expression(ast.BoolOp)
def logical(ctx: Context, node: ast.BoolOp) -> Binding:
    """`a and b`, `a or b`."""
    is_and, result = isinstance(node.op, ast.And), lower_condition(ctx, node.values[0])
    for item in node.values[1:]:
        result = _logical(ctx, is_and, result, functools.partial(lower_condition, ctx, item), ctx.span(node))
    return result


def _logical(ctx: Context, is_and: bool, first: Operand, second: Callable[[], Operand], span: Span) -> Operand:
    """`first and second()` (or `or`), where the second is evaluated only if the first leaves it open."""
    if isinstance(first, Const) and first.value is not is_and:
        return first
    before = state_of(ctx)
    with unchanged_tiles(ctx, span), ctx.builder.block() as nodes:
        operand = second()
    if has_changed(ctx, before):
        evaluated: Side = (operand, nodes, state_of(ctx))
        skipped: Side = (FALSE if is_and else TRUE, [], before)
        then, orelse = (evaluated, skipped) if is_and else (skipped, evaluated)
        return ctx.scalar(_joined(ctx, first, then, orelse, span), span)
    if is_eager(ctx, nodes):
        ctx.builder.extend(nodes)
        return ctx.emit("and" if is_and else "or", first, operand, span=span)
    run, skip = make_block(nodes, (operand,)), make_block([], (FALSE if is_and else TRUE,))
    merged = Value(bool_)
    ctx.builder.append(If(first, *((run, skip) if is_and else (skip, run)), (merged,), span))
    return merged


def is_eager(ctx: Context, nodes: list[Node]) -> bool:
    """True if evaluating `nodes` speculatively is cheap and has no effect."""
    pure = all(isinstance(n, Op) and n.row.is_pure for n in nodes)
    return pure and len(nodes) <= (0 if ctx.debug else MAX_EAGER_OPS)


@expression(ast.IfExp)
def choice(ctx: Context, node: ast.IfExp) -> Binding:
    """`x if condition else y`; both are computed where that costs little."""
    cond, span, tiles = lower_condition(ctx, node.test), ctx.span(node), ctx.tiles
    if isinstance(cond, Const):
        chosen = tiles.loose(lower(ctx, node.body if cond.value else node.orelse), span)
        return tiles.settled(chosen, span)
    before = state_of(ctx)
    with unchanged_tiles(ctx, span):
        with ctx.builder.block() as then:
            x = tiles.loose(lower(ctx, node.body), span)
            xs = ctx.scalars(x, ctx.span(node.body))
        after, changes = state_of(ctx), has_changed(ctx, before)
        restore(ctx, before)
        with ctx.builder.block() as orelse:
            y = tiles.loose(lower(ctx, node.orelse), span)
            ys = ctx.scalars(y, ctx.span(node.orelse))
    if layout(x, span) != layout(y, span):
        if holds_array(x) and holds_array(y):
            value = _joined(ctx, cond, (x, then, after), (y, orelse, state_of(ctx)), span)
            if not isinstance(value, Unusable):
                return value
        raise KernelTypeError(
            f"the two values have types {describe(x)} and {describe(y)}",
            span,
            "write an if statement that uses each array" if holds_array(x) else "convert one of them",
        )
    if changes or has_changed(ctx, before):
        return _joined(ctx, cond, (x, then, after), (y, orelse, state_of(ctx)), span)
    if not then and not orelse:
        merged = [ctx.emit("select", cond, *pair, span=span) for pair in zip(xs, ys, strict=True)]
    else:
        results = tuple(Value(v.type) for v in xs)
        ctx.builder.append(If(cond, make_block(then, xs), make_block(orelse, ys), results, span))
        merged = list(results)
    return tiles.settled(with_origins(rebuild(x, merged), x, y), span)


def has_changed(ctx: Context, before: State) -> bool:
    """True if a part of the current expression has assigned a variable since `before`."""
    return any(value is not before.env.get(name) for name, value in ctx.frame.env.items())


def _joined(ctx: Context, cond: Operand, then: Side, orelse: Side, span: Span) -> Binding:
    """The value of one of two sides."""
    for value, _, state in (then, orelse):
        state.env[_VALUE] = value
    merge(ctx, cond, (then[1], orelse[1]), (then[2], orelse[2]), span)
    return ctx.frame.env.pop(_VALUE)


@contextlib.contextmanager
def unchanged_tiles(ctx: Context, span: Span) -> Iterator[None]:
    """Refuse changes of tiles in a part of an expression that a condition may skip."""
    before = dict(ctx.tiles.cells)
    yield
    if any(ctx.tiles.cells[cell] is not content for cell, content in before.items()):
        raise CompileError(
            "a tile is changed in a part of an expression that depends on a condition",
            span,
            "write an if statement",
        )
