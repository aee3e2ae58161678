"""Lowers what stands in brackets: elements of arrays and tiles, components of vectors and matrices."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from jwarp.errors import CompileError, KernelTypeError
from jwarp.frontend.context import Context, from_start, scalar_hint
from jwarp.frontend.lowering import tile_subscripts
from jwarp.frontend.lowering.rules import expression, lower
from jwarp.frontend.values import composites, structs
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    Shape,
    StructArray,
    TileRef,
    describe,
)
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.types import CompositeType


@expression(ast.Subscript)
def subscript(ctx: Context, node: ast.Subscript) -> Binding:
    """`x[…]`."""
    owner = lower(ctx, node.value)
    rule = _SUBSCRIPTS.get(type(owner))
    if rule is None:
        raise KernelTypeError(f"{describe(owner)} cannot be indexed", ctx.span(node), scalar_hint(owner))
    return rule(ctx, owner, node)


def _of_array(ctx: Context, owner: ArrayRef, node: ast.Subscript) -> Binding:
    found = element_or_row(ctx, owner, node)
    return ctx.load(owner, found, ctx.span(node)) if isinstance(found, tuple) else found


def _of_struct_array(ctx: Context, owner: StructArray, node: ast.Subscript) -> Binding:
    found = element_or_row(ctx, owner, node)
    return structs.element(ctx, owner, found, ctx.span(node)) if isinstance(found, tuple) else found


def _of_composite(ctx: Context, owner: Composite, node: ast.Subscript) -> Binding:
    return composites.read(ctx, owner, selectors(ctx, owner.type, node), ctx.span(node))


def _of_shape(ctx: Context, owner: Shape, node: ast.Subscript) -> Binding:
    return ctx.extent(owner.array, _static_index(ctx, node.slice, owner.array.type.dims), ctx.span(node))


def _of_tuple(ctx: Context, owner: tuple, node: ast.Subscript) -> Binding:
    return owner[_static_index(ctx, node.slice, len(owner))]


_SUBSCRIPTS: dict[type, Callable[[Context, Any, ast.Subscript], Binding]] = {
    ArrayRef: _of_array,
    StructArray: _of_struct_array,
    TileRef: tile_subscripts.read,
    Composite: _of_composite,
    Shape: _of_shape,
    tuple: _of_tuple,
}


# -- components


def selectors(ctx: Context, type: CompositeType, node: ast.Subscript) -> tuple[composites.Selector, ...]:
    """What the indices and slices of `v[…]` or `m[…]` select."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(items) > len(type.shape):
        raise KernelTypeError(f"{type} takes {len(type.shape)} index(es), {len(items)} given", ctx.span(node))
    return tuple(_selector(ctx, item, extent) for item, extent in zip(items, type.shape, strict=False))


def _selector(ctx: Context, node: ast.expr, extent: int) -> composites.Selector:
    if not isinstance(node, ast.Slice):
        index = composites.index_of(lower(ctx, node), extent, ctx.span(node))
        if ctx.debug and isinstance(index, Value):
            _check_component(ctx, index, extent)
        return index
    parts = (node.lower, node.upper, node.step)
    bounds = [None if part is None else _constant_integer(ctx, part) for part in parts]
    positions = range(extent)[slice(*bounds)] if bounds[2] != 0 else ()
    if not isinstance(positions, range) or not positions:
        raise CompileError("this slice has no components", ctx.span(node))
    return positions


def _check_component(ctx: Context, index: Value, extent: int) -> None:
    """Debug mode: an index of a vector or matrix must be one of its components."""
    builder = ctx.builder
    holds = builder.op("lt", index, Const(index.type, extent))
    if index.type.kind == "int":
        holds = builder.op("and", holds, builder.op("ge", index, Const(index.type, -extent)))
    builder.check(holds, f"index outside of the {extent} components of an axis")


def _static_index(ctx: Context, node: ast.expr, length: int) -> int:
    """An index that must be known when the kernel is built."""
    value = _constant_integer(ctx, node)
    if not -length <= value < length:
        raise CompileError(f"index {value} is outside 0 to {length - 1}", ctx.span(node))
    return value % length


def _constant_integer(ctx: Context, node: ast.expr) -> int:
    binding = lower(ctx, node)
    value = binding.value if isinstance(binding, (Number, Const)) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise CompileError(
            "this index must be a constant integer", ctx.span(node), "for an index that varies, use an array"
        )
    return value


# -- arrays


def element_or_row(
    ctx: Context, array: ArrayRef | StructArray, node: ast.Subscript
) -> tuple[Operand, ...] | ArrayRef | StructArray:
    """The indices of an element, as int32 or int64; of fewer axes, a row.

    Those of an element of a plain array start with those of its row.
    """
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    while items and _is_whole(items[-1]):  # a[i, :] is a[i]
        items = items[:-1]
    for item in items:
        if not isinstance(item, ast.Slice):
            continue
        raise CompileError(
            "array slices are not part of the kernel language, but for whole rows: a[i], a[i, :]",
            ctx.span(item),
            "loop over the elements and index each",
        )
    if len(items) > array.type.dims:
        raise KernelTypeError(
            f"`{array.name}` has {array.type.dims} dimension(s), {len(items)} index(es) given",
            ctx.span(node),
            "give one index for each dimension: a[i], b[i, j]",
        )
    whole = array.first if isinstance(array, StructArray) else array
    indices = tuple(ctx.as_index(lower(ctx, item), whole, ctx.span(item)) for item in items)
    if isinstance(array, StructArray):
        return indices if len(items) == array.type.dims else array.row(indices)
    indices = from_start(array, indices)
    return (*array.prefix, *indices) if len(items) == array.type.dims else array.row(indices)


def _is_whole(node: ast.expr) -> bool:
    """Whether `node` is a bare `:`."""
    return isinstance(node, ast.Slice) and not (node.lower or node.upper or node.step)
