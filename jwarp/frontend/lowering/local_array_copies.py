"""Assignments between local arrays: the target is a copy, as for a value."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable

from jwarp.errors import NO_SPAN, Span
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.control_flow import lower_statements
from jwarp.frontend.syntax.source import Known
from jwarp.frontend.values.bindings import ArrayRef, Binding, OneOf, StructArray, StructValue, type_of
from jwarp.types import ArrayType

Own = ArrayRef | StructArray


def copied_if_own(ctx: Context, value: ast.expr, binding: Binding) -> Binding:
    """The value to assign: a copy, if a name or a conditional expression gives a local array; else the value itself.

    What a function was given stays its caller's array, whatever name it has there, and so do rows and slices.
    """
    if not isinstance(value, (ast.Name, ast.IfExp)) or not isinstance(binding, (ArrayRef, StructArray)):
        return binding
    extents = _extents(ctx, binding)
    if extents is None:
        return binding
    span = ctx.span(value)
    made = _alike(ctx, binding, extents, span)
    _copy(ctx, binding, made, extents, value)
    return made


def changed_to(ctx: Context, target: Binding, source: Binding, place: ast.stmt) -> bool:
    """Copy one local array to another, at the end of an iteration of the loop `place`; False if that is impossible.

    Both are whole local arrays of one shape, or one of several such.
    """
    if not isinstance(target, (ArrayRef, StructArray)) or type_of(target, NO_SPAN) != type_of(source, NO_SPAN):
        return False
    assert isinstance(source, (ArrayRef, StructArray))
    extents = _extents(ctx, target)
    if extents is None or extents != _extents(ctx, source):
        return False
    _copy(ctx, source, target, extents, place)
    return True


def _copy(ctx: Context, binding: Own, made: Own, extents: tuple[int, ...], value: ast.expr | ast.stmt) -> None:
    """Copy all elements of one array to another one."""
    # No name of the user's has a space.
    source, target = (f" {what} {value.lineno}.{value.col_offset}" for what in ("source", "copy"))
    ctx.frame.env |= {source: binding, target: made}
    place = ast.Tuple([_name(f" {axis} {target}") for axis in range(len(extents))], ast.Load())
    to = ast.Subscript(_name(target), place, ast.Store())
    body: ast.stmt = ast.Assign([to], ast.Subscript(_name(source), place, ast.Load()))
    for axis in reversed(range(len(extents))):
        iterations = ast.Call(Known(range), [ast.Constant(extents[axis])], [])
        body = ast.For(ast.Name(f" {axis} {target}", ast.Store()), iterations, [body], [])
    for node in ast.walk(body):
        ast.copy_location(node, value)
    lower_statements(ctx, [body])
    for name in (source, target, *(f" {axis} {target}" for axis in range(len(extents)))):
        ctx.frame.env.pop(name, None)


def arrays_of(bindings: Iterable[Binding]) -> frozenset[int]:
    """The numbers of the arrays among arguments, or inside of them."""
    found: set[int] = set()
    for binding in bindings:
        if isinstance(binding, OneOf):
            found |= arrays_of(binding.options)
        elif isinstance(binding, ArrayRef):
            found.add(binding.index)
        elif isinstance(binding, (StructArray, StructValue)):
            found |= arrays_of(binding.items)
        elif isinstance(binding, tuple):
            found |= arrays_of(binding)
    return frozenset(found)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _extents(ctx: Context, array: Own) -> tuple[int, ...] | None:
    """The extents of a whole local array of the function at hand; None of others."""
    if isinstance(array, StructArray):
        found = {_extents(ctx, item) for item in array.items}
    elif isinstance(array, OneOf):
        found = {_extents(ctx, option) for option in array.options}
    else:
        is_own = array.is_local and array.row == () and array.index not in ctx.frame.given
        found = {array.extents if is_own else None}
    return found.pop() if len(found) == 1 else None


def _alike(ctx: Context, array: Own, extents: tuple[int, ...], span: Span) -> Own:
    """A new local array, or one of structs, like another."""
    if isinstance(array, StructArray):
        return dataclasses.replace(array, items=tuple(_alike(ctx, item, extents, span) for item in array.items))
    made = ctx.local_array(ArrayType(array.type.element, len(extents)), extents, span)
    return dataclasses.replace(made, name=array.name)
