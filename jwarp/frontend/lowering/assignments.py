"""Lowers assignments: of names, tuples of names, and places, as `=` and as `+=`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any, get_args, get_origin

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.context import Context
from jwarp.frontend.lowering import assignment_targets, indexed_composites
from jwarp.frontend.lowering.local_array_copies import copied_if_own
from jwarp.frontend.lowering.names import assign, read_name, refuse_rebound
from jwarp.frontend.lowering.operators import combined, overloaded, own_operator
from jwarp.frontend.lowering.rules import lower, statement, unsupported
from jwarp.frontend.syntax.python_operators import BINARY_OPERATORS
from jwarp.frontend.syntax.source import Source
from jwarp.frontend.tiles import operators, subscripts
from jwarp.frontend.values import array_views, composites, operator_table
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    PythonRef,
    Shape,
    TileRef,
    describe,
    layout,
    type_of,
)
from jwarp.frontend.values.cells import holds_tile
from jwarp.ir.nodes import Const
from jwarp.ir.ops import OPS
from jwarp.types import CompositeType, ScalarType, as_type, bool_, int32, user_type

# The augmented assignments that are atomic on elements of arrays, where threads may share one.
ATOMIC_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "add",  # of the negated value
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}


# -- a = b


@statement(ast.Assign)
def assignment(ctx: Context, node: ast.Assign) -> None:
    """`a = b = value`."""
    targets, value = node.targets, node.value
    if len(targets) == 1 and isinstance(targets[0], ast.Tuple) and _is_tid(ctx, value):
        with ctx.at(value):
            binding = ctx.tid(len(targets[0].elts), ctx.span(value))
    else:
        first = targets[0]
        ctx.assigned_name = first.id if isinstance(first, ast.Name) else ""
        ctx.borrowed = indexed_composites.borrowed_by_assignment(ctx, targets, value)
        binding = lower(ctx, value)
        ctx.assigned_name, ctx.borrowed = "", frozenset()
        binding = indexed_composites.assigned(ctx, targets, binding, ctx.span(value))
        if holds_tile(binding):
            binding = _assigned_tile(ctx, targets, value, binding)
    named = all(isinstance(target, ast.Name) for target in targets)
    for target in targets:
        copied = copied_if_own(ctx, value, binding) if named else binding
        _store_to(ctx, target, copied, ctx.span(value))


def _is_tid(ctx: Context, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return False
    callee = lower(ctx, node.func)
    return isinstance(callee, PythonRef) and callee.object is tid


def _assigned_tile(ctx: Context, targets: list[ast.expr], value: ast.expr, binding: Binding) -> Binding:
    """The tile that a name is assigned: a copy where the right side is a name, else the tile itself."""
    if len(targets) > 1:
        raise CompileError("a tile is assigned to one name at a time", ctx.span(targets[1]), "write b = a after it")
    return ctx.tiles.copied(binding, ctx.span(value)) if isinstance(value, (ast.Name, ast.Tuple)) else binding


def _store_to(ctx: Context, target: ast.expr, binding: Binding, span: Span) -> None:
    """Let a target stand for, or hold, a value that is written at `span`."""
    rule = _TARGETS.get(type(target))
    if rule is None:
        raise assignment_targets.not_assignable(ctx, target)
    rule(ctx, target, binding, span)


def _to_name(ctx: Context, target: ast.Name, binding: Binding, span: Span) -> None:
    assign(ctx, target.id, binding, ctx.span(target))


def _to_items(ctx: Context, target: ast.Tuple | ast.List, binding: Binding, span: Span) -> None:
    parts = _unpacked(ctx, binding, len(target.elts), ctx.span(target))
    for item, part in zip(target.elts, parts, strict=True):
        _store_to(ctx, item, part, span)


def _to_place(ctx: Context, target: ast.expr, binding: Binding, span: Span) -> None:
    if tile := assignment_targets.tile_place(ctx, target):
        subscripts.assign(ctx, tile, binding, span)
    else:
        assignment_targets.change(ctx, assignment_targets.place_of(ctx, target), "store", binding, span)


def _to_rest(ctx: Context, target: ast.Starred, binding: Binding, span: Span) -> None:
    raise unsupported(ctx, target)


_TARGETS: dict[type[ast.expr], Callable[[Context, Any, Binding, Span], None]] = {
    ast.Name: _to_name,
    ast.Tuple: _to_items,
    ast.List: _to_items,
    ast.Subscript: _to_place,
    ast.Attribute: _to_place,
    ast.Starred: _to_rest,
}


def _unpacked(ctx: Context, binding: Binding, count: int, span: Span) -> tuple:
    """The `count` parts of a tuple, a shape, a vector or a matrix."""
    if isinstance(binding, Shape):
        ref = binding.array
        binding = tuple(ctx.extent(ref, axis, span) for axis in range(ref.type.dims))
    if isinstance(binding, Composite):
        binding = tuple(composites.read(ctx, binding, (k,), span) for k in range(binding.type.shape[0]))
    if isinstance(binding, ArrayRef) and (length := array_views.known_length(binding)) is not None:
        binding = tuple(ctx.load(binding, (Const(int32, k),), span) for k in range(length))
    if not isinstance(binding, tuple):
        raise KernelTypeError(f"{describe(binding)} cannot be unpacked into {count} names", span)
    if len(binding) != count:
        raise CompileError(f"{len(binding)} values cannot be unpacked into {count} names", span)
    return binding


# -- a: T = b


@statement(ast.AnnAssign)
def annotated_assignment(ctx: Context, node: ast.AnnAssign) -> None:
    """`a: T = value`, where numbers that are written out get the type T; without a value it does nothing."""
    if node.value is None:
        return
    source, span = ctx.frame.source, ctx.span(node.value)
    # The code of a function has no names of such annotations.
    ctx.is_counted &= all(_is_counted(source, part) for part in ast.walk(node.annotation))
    try:
        annotation = eval(compile(ast.Expression(node.annotation), source.file, "eval"), source.namespace)
    except Exception as error:
        raise CompileError(f"this annotation cannot be evaluated: {error}", ctx.span(node.annotation)) from None
    wanted = _wanted(annotation)
    if wanted is None:
        raise CompileError(
            f"the annotation {annotation!r} is no type of the kernel language",
            ctx.span(node.annotation),
            "use int, float, bool, a wp scalar, vector, matrix or struct type, an array, or a tuple of such",
        )
    binding = _typed(ctx, lower(ctx, node.value), wanted, span)
    if type_of(binding, span) != wanted:
        raise KernelTypeError(
            f"the value is {describe(binding)}, not {ast.unparse(node.annotation)}", span, "convert the value"
        )
    _store_to(ctx, node.target, binding, span)


def _is_counted(source: Source, part: ast.AST) -> bool:
    """True if a part of an annotation refers to names of the function's code or of libraries."""
    if isinstance(part, ast.Name):
        return part.id in {"int", "float", "bool", "tuple", *source.function.__code__.co_names}
    if isinstance(part, ast.Attribute):
        owner = source.namespace.get(part.value.id) if isinstance(part.value, ast.Name) else None
        of_library = inspect.ismodule(owner) and owner.__name__ in ("jwarp", "warp", "numpy")
        return of_library or part.attr in source.function.__code__.co_names
    if isinstance(part, ast.Constant):
        return not isinstance(part.value, str)
    return isinstance(part, (ast.Subscript, ast.Tuple, ast.BinOp, ast.operator, ast.expr_context))


def _wanted(annotation: Any) -> Any:
    """The type that an annotation asks for, a tuple of such; None if it is neither."""
    if get_origin(annotation) is tuple:
        parts = tuple(_wanted(part) for part in get_args(annotation))
        return None if None in parts else parts
    kind = as_type(annotation)
    return None if kind is None else user_type(kind)


def _typed(ctx: Context, binding: Binding, wanted: Any, span: Span) -> Binding:
    """A value with the numbers in it that have no type yet as the annotation wants them."""
    if isinstance(binding, Number) and isinstance(wanted, ScalarType):
        fits = binding.type is wanted or (wanted.is_float if isinstance(binding.value, float) else wanted is not bool_)
        return ctx.convert(binding, wanted, span) if fits else binding
    if isinstance(binding, tuple) and isinstance(wanted, tuple) and len(binding) == len(wanted):
        return tuple(_typed(ctx, *pair, span) for pair in zip(binding, wanted, strict=True))
    return binding


# -- a += b


@statement(ast.AugAssign)
def augmented_assignment(ctx: Context, node: ast.AugAssign) -> None:
    """`a += value`; atomic on elements of arrays, for the operators that have such an operation."""
    target = node.target
    if isinstance(target, ast.Name):
        return _augment_name(ctx, target, node)
    if tile := assignment_targets.tile_place(ctx, target):
        return _augment_tile(ctx, tile, node)
    operator, span, value_span = node.op, ctx.span(node), ctx.span(node.value)
    place = assignment_targets.place_of(ctx, target)
    value = lower(ctx, node.value)
    atomic = _atomic_operation(place, operator, span)
    if atomic and (isinstance(target, ast.Attribute) or place.selectors):
        own = _by_own_operator(ctx, place, value, node)
        if own is not None:
            return assignment_targets.change(ctx, place, "store", own, value_span)
    if atomic:
        if isinstance(operator, ast.Sub) and layout(value, value_span) is place.kind:
            value = operator_table.negated(ctx, value, span)
        return assignment_targets.change(ctx, place, atomic, value, value_span)
    result = combined(ctx, operator, assignment_targets.read(ctx, place, span), value, node)
    return assignment_targets.change(ctx, place, "store", result, value_span)


def _by_own_operator(
    ctx: Context, place: assignment_targets.Place, value: Binding, node: ast.AugAssign
) -> Binding | None:
    """The result of a user's operator on a field or component in an array; None if none takes it.

    On whole elements, an operator is the atomic operation even where the user has one, as in Warp.
    """
    name, span = BINARY_OPERATORS[type(node.op)][1], ctx.span(node)
    if own_operator(ctx, name) is None:
        return None
    current = assignment_targets.read(ctx, place, span)
    return overloaded(ctx, name, [current, value], [ctx.span(node.target), ctx.span(node.value)], span)


def _augment_name(ctx: Context, target: ast.Name, node: ast.AugAssign) -> None:
    current = read_name(ctx, target.id, ctx.span(target))
    refuse_rebound(target.id, current, ctx.span(target))
    value, (symbol, name) = lower(ctx, node.value), BINARY_OPERATORS[type(node.op)]
    if isinstance(current, TileRef) and name in operators.IN_PLACE:
        operators.change(ctx, symbol, name, current, value, ctx.span(node))
    else:
        assign(ctx, target.id, combined(ctx, node.op, current, value, node), ctx.span(target))


def _augment_tile(ctx: Context, place: subscripts.TilePlace, node: ast.AugAssign) -> None:
    span, (symbol, name) = ctx.span(node), BINARY_OPERATORS[type(node.op)]
    value = lower(ctx, node.value)
    if not subscripts.change_in_place(ctx, place, name, symbol, value, span, ctx.span(node.value)):
        result = combined(ctx, node.op, subscripts.current(ctx, place, span), value, node)
        subscripts.assign(ctx, place, result, span)


def _atomic_operation(place: assignment_targets.Place, operator: ast.operator, span: Span) -> str:
    """The atomic operation that `place operator= …` is; empty where it reads, computes and stores."""
    if not isinstance(place.array, ArrayRef) or place.indices is None or type(operator) not in ATOMIC_OPERATORS:
        return ""
    if isinstance(place.kind, CompositeType) and not operator_table.by_component(
        BINARY_OPERATORS[type(operator)][1], place.kind.kind
    ):
        return ""
    dtype, name = place.array.type.dtype, f"atomic_{ATOMIC_OPERATORS[type(operator)]}"
    if dtype.kind in OPS[name].kinds:
        return name
    if dtype is bool_ and name == "atomic_add":
        hint = "use an int array; on bool there are |=, &= and ^=, which are not atomic"
        raise KernelTypeError(f"`{place.name}` holds bool, which has no arithmetic", span, hint)
    return ""
