"""Lowers what stands in brackets: elements of arrays and tiles, components of vectors and matrices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context, scalar_hint
from jwarp.frontend.lowering import indexed_composites, tile_subscripts
from jwarp.frontend.lowering.rules import expression, lower
from jwarp.frontend.values import array_views, composites
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    Number,
    OneOf,
    PythonRef,
    Referenced,
    Shape,
    Stored,
    StructArray,
    TileRef,
    bind_python,
    describe,
)
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.types import MAX_DIMS, CompositeType, int32


@expression(ast.Subscript)
def subscript(ctx: Context, node: ast.Subscript) -> Binding:
    """`x[…]`."""
    owner = indexed_composites.variable(ctx, node.value) or lower(ctx, node.value)
    rule = _SUBSCRIPTS.get(type(owner))
    if rule is None:
        raise KernelTypeError(f"{describe(owner)} cannot be indexed", ctx.span(node), scalar_hint(owner))
    return rule(ctx, owner, node)


def _of_array(ctx: Context, owner: ArrayRef, node: ast.Subscript) -> Binding:
    found = element_or_view(ctx, owner, node)
    return ctx.load(owner, found, ctx.span(node)) if isinstance(found, tuple) else found


def _of_struct_array(ctx: Context, owner: StructArray, node: ast.Subscript) -> Binding:
    found = element_or_view(ctx, owner, node)
    return array_views.element(ctx, owner, found, ctx.span(node)) if isinstance(found, tuple) else found


def _of_composite(ctx: Context, owner: Composite, node: ast.Subscript) -> Binding:
    return composites.read(ctx, owner, selectors(ctx, owner.type, node), ctx.span(node))


def _of_stored(ctx: Context, owner: Stored, node: ast.Subscript) -> Binding:
    return indexed_composites.read(ctx, owner, selectors(ctx, owner.type, node), ctx.span(node))


def _of_shape(ctx: Context, owner: Shape, node: ast.Subscript) -> Binding:
    dims = owner.array.type.dims
    if dims <= (axis := _constant_integer(ctx, node.slice)) < MAX_DIMS:
        return zero(int32)  # every array has four extents, those beyond its own are zero
    return ctx.extent(owner.array, _within(axis, dims, ctx.span(node.slice)), ctx.span(node))


def _of_python(ctx: Context, owner: PythonRef, node: ast.Subscript) -> Binding:
    """A function or type out of a list or dict, by an index or key that is known."""
    table, span = owner.object, ctx.span(node)
    if not isinstance(table, (list, Mapping)):
        raise KernelTypeError(f"{describe(owner)} cannot be indexed", span, scalar_hint(owner))
    key = _known(ctx, node.slice)
    try:
        found = bind_python(table[key], ast.unparse(node), span)
    except (KeyError, IndexError, TypeError):
        what = f"no entry {key!r}" if isinstance(table, Mapping) else f"{len(table)} entries, of which {key!r} is none"
        raise CompileError(f"`{ast.unparse(node.value)}` has {what}", ctx.span(node.slice)) from None
    if not isinstance(found, PythonRef):
        hint = "take the number out in Python, where its value is that of now: wp.static(a[k])"
        raise KernelTypeError(f"{describe(owner)} cannot be indexed for {describe(found)}", span, hint)
    return found


def _known(ctx: Context, node: ast.expr) -> Any:
    """The number, text or other Python object that an index is."""
    if isinstance(node, ast.Constant):
        return node.value
    binding = lower(ctx, node)
    if isinstance(binding, (Number, Const)):
        return binding.value
    if isinstance(binding, PythonRef):
        return binding.object
    raise CompileError("which function it is must be known when the kernel is built", ctx.span(node), "wp.static(…)")


def _of_tuple(ctx: Context, owner: tuple, node: ast.Subscript) -> Binding:
    return owner[_within(_constant_integer(ctx, node.slice), len(owner), ctx.span(node.slice))]


_SUBSCRIPTS: dict[type, Callable[[Context, Any, ast.Subscript], Binding]] = {
    ArrayRef: _of_array,
    OneOf: _of_array,
    StructArray: _of_struct_array,
    TileRef: tile_subscripts.read,
    Composite: _of_composite,
    **dict.fromkeys((Stored, Referenced), _of_stored),
    Shape: _of_shape,
    tuple: _of_tuple,
    PythonRef: _of_python,
}


# -- components


def selectors(ctx: Context, type: CompositeType, node: ast.Subscript) -> tuple[composites.Selector, ...]:
    """The selectors of the indices and slices in `v[…]` or `m[…]`."""
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
    if bounds[2] == 0:
        raise CompileError("Slice step cannot be zero", ctx.span(node))
    return range(extent)[slice(*bounds)]


def _check_component(ctx: Context, index: Value, extent: int) -> None:
    """Debug mode: an index of a vector or matrix must be one of its components."""
    builder = ctx.builder
    holds = builder.op("lt", index, Const(index.type, extent))
    if index.type.kind == "int":
        holds = builder.op("and", holds, builder.op("ge", index, Const(index.type, -extent)))
    builder.check(holds, f"index outside of the {extent} components of an axis")


def _within(index: int, length: int, span: Span) -> int:
    """The position that an index means, counted from the end if it is negative."""
    if not -length <= index < length:
        raise CompileError(f"index {index} is outside 0 to {length - 1}", span)
    return index % length


def _constant_integer(ctx: Context, node: ast.expr) -> int:
    binding = lower(ctx, node)
    value = binding.value if isinstance(binding, (Number, Const)) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise CompileError(
            "this index must be a constant integer", ctx.span(node), "for an index that varies, use an array"
        )
    return value


# -- arrays


def element_or_view(
    ctx: Context, array: ArrayRef | StructArray, node: ast.Subscript
) -> tuple[Operand, ...] | ArrayRef | StructArray:
    """The indices of an element, as int32 or int64; of fewer axes, or with slices, what they show."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(items) > array.type.dims:
        raise KernelTypeError(
            f"`{array.name}` has {array.type.dims} dimension(s), {len(items)} index(es) given: "
            "Incorrect number of indices specified for array indexing",
            ctx.span(node),
            "give one index for each dimension: a[i], b[i, j]",
        )
    _check_unambiguous(ctx, array, node)
    whole = array.first if isinstance(array, StructArray) else array
    selected = [_selected(ctx, whole, item) for item in items]
    indices = tuple(x for x in selected if not isinstance(x, array_views.Slice))
    if len(indices) == array.type.dims:
        return indices
    span = ctx.span(node)
    if isinstance(array, StructArray):
        return array_views.struct_view(ctx, array, selected, span)
    return array_views.view(ctx, array, selected, span)


def _selected(ctx: Context, array: ArrayRef, item: ast.expr) -> array_views.Selector:
    """An index or a slice of an array."""
    if not isinstance(item, ast.Slice):
        return ctx.as_index(lower(ctx, item), array, ctx.span(item))
    parts = (item.lower, item.upper, item.step)
    start, stop, step = (None if part is None else _slice_bound(ctx, array, part) for part in parts)
    if isinstance(step, Const) and step.value == 0:
        raise CompileError("Slice step cannot be zero", ctx.span(item))
    return array_views.Slice(start, stop, step or array_views.ONE)


def _slice_bound(ctx: Context, array: ArrayRef, node: ast.expr) -> Operand:
    """A bound of a slice as int32; one that does not fit is brought to the nearest that does."""
    span, bound = ctx.span(node), ctx.as_index(lower(ctx, node), array, ctx.span(node))
    if bound.type is int32:
        return bound
    ends = (Const(bound.type, int32.max), Const(bound.type, -int32.max))
    within = ctx.emit("max", ctx.emit("min", bound, ends[0], span=span), ends[1], span=span)
    return ctx.emit("cast", within, span=span, type=int32)


def _check_unambiguous(ctx: Context, array: ArrayRef | StructArray, node: ast.Subscript) -> None:
    """Refuse `x[1:5][2]` of a matrix, which is row 3 in Python and in Warp column 2 of four rows."""
    inner = node.value
    if not isinstance(inner, ast.Subscript):
        return
    before = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
    slices = sum(isinstance(item, ast.Slice) for item in before)
    if slices and slices < array.type.dims:
        shown, last = ast.unparse(inner.value), ast.unparse(node.slice)
        first, rest = ast.unparse(inner.slice), ", :" * (array.type.dims - slices)
        raise CompileError(
            f"brackets behind a slice of some dimensions only: in Warp they are `{shown}[{first}, {last}]`, in Python "
            f"they index `{shown}[{first}]`",
            ctx.span(node),
            f"write `{shown}[{first}, {last}]` or `{shown}[{first}{rest}][{last}]`",
        )
