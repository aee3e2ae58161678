"""Reads the arguments of a call."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins.table import Reading
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.rules import lower
from jwarp.frontend.values import array_views, composites
from jwarp.frontend.values.bindings import ArrayRef, Binding, Composite, Number, PythonRef, StructArray, describe
from jwarp.ir.nodes import Const
from jwarp.types import int32


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call in order and by name, and where they and the call itself are written."""

    values: list[Binding]
    spans: list[Span]
    named: dict[str, Binding]
    named_spans: dict[str, Span]
    keyword_span: Span  # of the first that has a name, with it
    span: Span
    nodes: list[ast.expr | None]  # what is written for each value
    named_nodes: dict[str, ast.expr]

    def after(self, first: Binding) -> Arguments:
        """The arguments after a first one, which is what a method is called on."""
        values, spans, nodes = [first, *self.values], [self.span, *self.spans], [None, *self.nodes]
        return dataclasses.replace(self, values=values, spans=spans, nodes=nodes)


def read_arguments(ctx: Context, node: ast.Call, reading: Reading) -> Arguments:
    """The arguments of a call, read in this way. `*v` is one for each component of a vector or tuple."""
    constants = reading.constants
    values: list[Binding] = []
    spans: list[Span] = []
    nodes: list[ast.expr | None] = []
    for position, arg in enumerate(node.args):
        span = ctx.span(arg)
        items: Sequence[Binding]
        if position < reading.texts:
            items = (PythonRef(_constant_text(ctx, arg)),)
        elif isinstance(arg, ast.Starred):
            items = _items(ctx, _argument(ctx, arg.value, constants), arg.value, span)
        else:
            items = (_argument(ctx, arg, constants),)
        values += items
        spans += [span] * len(items)
        nodes += [arg] * len(items)
    named = {str(k.arg): _argument(ctx, k.value, constants) for k in node.keywords}
    named_spans = {str(k.arg): ctx.span(k.value) for k in node.keywords}
    keyword_span = ctx.span(node.keywords[0] if node.keywords else node)
    named_nodes = {str(k.arg): k.value for k in node.keywords}
    return Arguments(values, spans, named, named_spans, keyword_span, ctx.span(node), nodes, named_nodes)


def _constant_text(ctx: Context, node: ast.expr) -> str | None:
    """The constant text that `node` is, written out or by name; else None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    found = lower(ctx, node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    return found.object if isinstance(found, PythonRef) and isinstance(found.object, str) else None


def _argument(ctx: Context, node: ast.expr, constants: tuple[type, ...]) -> Binding:
    if isinstance(node, ast.Constant) and isinstance(node.value, constants):
        return PythonRef(node.value)
    if isinstance(node, ast.Name) and node in ctx.borrowed:
        return ctx.frame.env[node.id]
    return lower(ctx, node)


def _items(ctx: Context, value: Binding, node: ast.expr, span: Span) -> Sequence[Binding]:
    """The values that `*value` expands to, which is written as `node`."""
    if isinstance(value, Composite):
        return tuple(composites.read(ctx, value, (k,), span) for k in range(value.type.shape[0]))
    if isinstance(value, tuple):
        return value
    if isinstance(value, ArrayRef) and (length := array_views.known_length(value)) is not None:
        return tuple(ctx.load(value, (Const(int32, k),), span) for k in range(length))
    is_array = isinstance(value, (ArrayRef, StructArray))
    raise KernelTypeError(
        f"Starred expressions are only supported for vectors, matrices, tuples and slices of arrays, not "
        f"{describe(value)}{_open_bound(ctx, node) if is_array else ''}",
        span,
        "give the slice constant bounds: *a[0:3]" if is_array else "write the values one by one",
    )


def _number(ctx: Context, node: ast.expr) -> int | None:
    """The constant integer that `node` is; None if it is none."""
    found = lower(ctx, node)
    value = found.value if isinstance(found, (Number, Const)) else None
    return value if isinstance(value, int) else None


def _open_bound(ctx: Context, node: ast.expr) -> str:
    """Why the number of elements that a slice names is not known."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
        return ""
    written = {"start": node.slice.lower, "stop": node.slice.upper, "step": node.slice.step}
    for name, bound in written.items():
        if bound is not None and _number(ctx, bound) is None:
            return f": Slice component must be a compile-time constant, `{name}` is not"
    if node.slice.upper is None:
        return ", which requires explicit upper bound"
    if node.slice.step is not None and (_number(ctx, node.slice.step) or 0) <= 0:
        return ", whose step cannot be negative or zero"
    return ", whose bounds cannot be negative for arrays, as their extent is open"
