"""Views of tiles by indices: elements, rows, slices and gathered rows, to be read or changed."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.tiles.operators import BITS as BITWISE
from jwarp.frontend.tiles.operators import IN_PLACE, SUMS, adds_up, change
from jwarp.frontend.values import composites, operator_table, views
from jwarp.frontend.values.bindings import Binding, Composite, TileRef, describe, flatten, way_to
from jwarp.ir.attributes import Strided
from jwarp.ir.nodes import Operand
from jwarp.ir.operation import BITS, NUMBER
from jwarp.ir.tile_types import dense_strides
from jwarp.types import CompositeType, ScalarType, StructType

# The subscript of one axis: an index, a slice, or a tile of indices.
Entry = int | Operand | slice | TileRef


@dataclass(frozen=True)
class TilePlace:
    """An assignment target in a tile: the whole tile, one element, or components of an element."""

    name: str
    ref: TileRef
    span: Span
    selectors: tuple[composites.Selector, ...] = ()

    @property
    def kind(self) -> Any:
        """The type of what is changed."""
        if self.ref.shape:
            return self.ref.type
        dtype = self.ref.dtype
        return composites.selected_type(dtype, self.selectors) if isinstance(dtype, CompositeType) else dtype


def indexed(ctx: Context, ref: TileRef, given: Sequence[Entry], span: Span) -> TileRef:
    """The view that indices and slices select; one of shape () is an element."""
    if len(given) > len(ref.shape):
        text = f"a tile of shape {ref.shape} has {len(ref.shape)} dimension(s), {len(given)} index(es) given"
        raise KernelTypeError(text, span)
    if any(isinstance(x, TileRef) for x in given):
        return gathered(ctx, ref, given, span)
    view, axis = ref.view, 0
    before, ctx.builder.span = ctx.builder.span, span
    for entry in given:
        if isinstance(entry, slice):
            view = sliced(view, axis, entry, span)
            axis += 1
        elif isinstance(entry, int):
            view = views.without_axis(views.sliced(view, axis, entry, 1, 1), axis)
        else:
            assert not isinstance(entry, TileRef)
            ctx.tiles.check_index(entry, view.shape[axis], 1, span)
            view = views.moved(view, axis, entry, None, ctx.tiles)
    ctx.builder.span = before
    return dataclasses.replace(ref, view=view)


def sliced(view: views.View, axis: int, part: slice, span: Span) -> views.View:
    """The view of the elements of a slice along an axis."""
    if part.step == 0:
        raise CompileError("Slice step cannot be zero", span)
    chosen = range(view.shape[axis])[part]
    if not chosen:
        raise CompileError(
            f"this slice of {view.shape[axis]} elements is empty: no zero-length axis", span, "a tile has elements"
        )
    return views.sliced(view, axis, chosen.start, chosen.step, len(chosen))


def gathered(ctx: Context, ref: TileRef, given: Sequence[Entry], span: Span) -> TileRef:
    """`t[indices, :]`: a new tile of the rows that a tile of indices names."""
    others = [x for x in given if not isinstance(x, TileRef)]
    if len(others) != len(given) - 1 or any(x != slice(None) for x in others):
        raise KernelTypeError(
            "one tile of indices selects along one axis and requires ':' on all other axes",
            span,
            "write t[indices, :], and index or slice the result",
        )
    axis = next(k for k, x in enumerate(given) if isinstance(x, TileRef))
    indices = given[axis]
    assert isinstance(indices, TileRef)
    if len(indices.shape) != 1 or not isinstance(indices.dtype, ScalarType) or not indices.dtype.is_int:
        raise KernelTypeError(f"the indices must be an integer index tile with one axis, not {describe(indices)}", span)
    shape = (*ref.shape[:axis], indices.shape[0], *ref.shape[axis + 1 :])
    places = [
        along_axis(ctx, indices, shape, axis, span) if k == axis else ctx.tiles.iota(shape, k, span)
        for k in range(len(shape))
    ]
    items = [ctx.tiles.op("take", item, *places, span=span) for item in ctx.tiles.read(ref, span)]
    return ctx.tiles.made(ref.dtype, shape, items, span)


def along_axis(ctx: Context, tile: TileRef, shape: tuple[int, ...], axis: int, span: Span) -> Operand:
    """A tile of one axis repeated over the other axes of `shape`."""
    (item,) = ctx.tiles.read(tile, span)
    strides = tuple(int(k == axis) for k in range(len(shape)))
    return item if len(shape) == 1 else ctx.tiles.op("view", item, attr=Strided(shape, 0, strides), span=span)


def component_selectors(type: CompositeType, given: Sequence[Entry], span: Span) -> tuple[composites.Selector, ...]:
    """Indices after those of a tile's axes select components of a vector or matrix."""
    if len(given) > len(type.shape) or any(isinstance(x, (slice, TileRef)) for x in given):
        raise KernelTypeError(f"{type} takes {len(type.shape)} index(es) here", span)
    found: list[composites.Selector] = []
    for entry, extent in zip(given, type.shape, strict=False):
        if isinstance(entry, int) and not -extent <= entry < extent:
            raise CompileError(f"index {entry} is outside 0 to {extent - 1}", span)
        found.append(entry % extent if isinstance(entry, int) else entry)  # type: ignore[arg-type]
    return tuple(found)


def assign(ctx: Context, target: TilePlace, value: Binding, span: Span) -> None:
    """`target = value`."""
    if target.ref.shape:
        if not isinstance(value, TileRef) or value.type != target.kind:
            raise KernelTypeError(
                f"`{target.name}` is {target.kind!r} there, and requires a tile of matching shape: "
                f"{describe(value)} does not fit",
                span,
                "give a tile of that shape" if not isinstance(value, TileRef) else "",
            )
        return ctx.tiles.write(target.ref, ctx.tiles.read(value, span), target.span)
    _check(target, value, span)
    return ctx.tiles.write(target.ref, _replaced(ctx, target, value, span), target.span)


def _check(target: TilePlace, value: Binding, span: Span) -> None:
    if getattr(value, "type", None) is not target.kind:
        there = " there" if target.selectors else ""
        raise KernelTypeError(
            f"`{target.name}` holds {target.kind}{there}, the value is {describe(value)}",
            span,
            way_to(target.kind, value),
        )


def _replaced(ctx: Context, target: TilePlace, value: Binding, span: Span) -> list[Operand | None]:
    """The components of an element after an assignment, None where one stays as it is."""
    scalars = flatten(value, span) or []
    if not target.selectors:
        return list(scalars)
    kind = target.ref.dtype
    assert isinstance(kind, CompositeType)
    if all(isinstance(s, (int, range, composites.Part)) for s in target.selectors):
        # Only what is assigned is written: other lanes may write the rest.
        return _spread_out(scalars, kind.shape, composites.axes_of(kind.shape, target.selectors))
    element = ctx.tiles.element(target.ref, span)
    assert isinstance(element, Composite)
    return list(composites.replace(ctx, element, target.selectors, scalars, span).items)


def _spread_out(
    scalars: Sequence[Operand], shape: tuple[int, ...], axes: Sequence[composites.Selector]
) -> list[Operand | None]:
    """The components that known indices and slices select, each at its place."""
    found: list[Operand | None] = [None] * math.prod(shape)
    known = [axis if isinstance(axis, range) else (axis,) for axis in axes if isinstance(axis, (int, range))]
    for position, scalar in zip(itertools.product(*known), scalars, strict=True):
        found[sum(k * s for k, s in zip(position, dense_strides(shape), strict=True))] = scalar
    return found


def change_in_place(
    ctx: Context, target: TilePlace, operation: str, symbol: str, value: Binding, span: Span, value_span: Span
) -> bool:
    """Make `target op= value` without reading it, where that can be; whether it was made."""
    if target.ref.shape:
        if operation not in IN_PLACE:
            raise CompileError(
                f"`{symbol}=` does not change a part of a tile",
                span,
                "read the part, compute, and assign it: t[0:2] = t[0:2] * x",
            )
        change(ctx, symbol, operation, target.ref, value, span)
        return True
    if isinstance(target.kind, StructType):
        _change_struct(ctx, target, operation, symbol, value, span, value_span)
        return True
    known = all(isinstance(s, (int, range, composites.Part)) for s in target.selectors)
    takes = BITS if operation in BITWISE else NUMBER
    if operation not in IN_PLACE or not known or target.ref.type.scalar.kind not in takes:
        return False
    if isinstance(target.kind, CompositeType) and not operator_table.by_component(operation, target.kind.kind):
        return False
    _check(target, value, value_span)
    if operation == "sub":
        value = operator_table.negated(ctx, value, span)
    name = f"put_{'add' if operation == 'sub' else operation}"
    ctx.tiles.write(target.ref, _replaced(ctx, target, value, span), target.span, name)
    return True


def _change_struct(
    ctx: Context, target: TilePlace, operation: str, symbol: str, value: Binding, span: Span, value_span: Span
) -> None:
    """Add a struct to an element, or subtract it: the fields that add up."""
    if operation not in SUMS:
        kind = "bitwise inplace operation" if symbol in ("&", "|", "^") else "inplace operation"
        hint = "read the element, and assign one: t[0] = s"
        raise KernelTypeError(f"`{symbol}=` does not take structs: no {kind} takes a Warp struct", span, hint)
    _check(target, value, value_span)
    items: list[Operand | None] = []
    for scalar in flatten(value, value_span) or ():
        if not adds_up(scalar.type):
            items.append(None)
        else:
            items.append(ctx.emit("neg", scalar, span=span) if operation == "sub" else scalar)
    ctx.tiles.write(target.ref, items, target.span, "put_add")


def current(ctx: Context, target: TilePlace, span: Span) -> Binding:
    """The current value of an element, or of its components, at a place."""
    element = ctx.tiles.element(target.ref, span)
    if not target.selectors:
        return element
    assert isinstance(element, Composite)
    return composites.read(ctx, element, target.selectors, span)
