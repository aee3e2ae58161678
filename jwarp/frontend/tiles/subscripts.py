"""Subscripts of tiles: elements, rows, slices and gathered rows, to be read or changed."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.tiles.operators import BITS as BITWISE
from jwarp.frontend.tiles.operators import IN_PLACE, change
from jwarp.frontend.values import composites, views
from jwarp.frontend.values.bindings import Binding, Composite, TileRef, describe, flatten
from jwarp.ir.nodes import Operand
from jwarp.ir.operation import BITS, NUMBER
from jwarp.ir.tile_types import dense_strides
from jwarp.types import CompositeType, ScalarType

if TYPE_CHECKING:
    from jwarp.frontend.lowering.subscripts import SubscriptLowering

# What stands in brackets for one axis: an index, a slice, or a tile of indices.
Entry = int | Operand | slice | TileRef


@dataclass(frozen=True)
class TilePlace:
    """What an assignment changes: a tile, one element, or components of an element."""

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


def entries(e: SubscriptLowering, ref: TileRef, node: ast.Subscript) -> list[Entry]:
    """What stands in the brackets after a tile. Constant indices and slices are checked."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    found: list[Entry] = []
    for axis, item in enumerate(items):
        extent = ref.shape[axis] if axis < len(ref.shape) else None
        if isinstance(item, ast.Slice):
            found.append(slice(*(_bound(e, b) for b in (item.lower, item.upper, item.step))))
            continue
        binding, span = e.expression(item), e.span(item)
        if isinstance(binding, TileRef):
            found.append(binding)
            continue
        position = e.tiles.position(binding, "an index of a tile", span)
        if isinstance(position, int) and extent is not None:
            if not -extent <= position < extent:
                raise CompileError(f"index {position} is outside 0 to {extent - 1}", span)
            position %= extent
        found.append(position)
    return found


def _bound(e: SubscriptLowering, node: ast.expr | None) -> int | None:
    """A bound or the step of a slice."""
    position = None if node is None else e.tiles.position(e.expression(node), "a bound of a slice", e.span(node))
    if node is not None and not isinstance(position, int):
        raise CompileError(
            "the bounds of a slice of a tile must be constants",
            e.span(node),
            "wp.tile_view(t, offset, shape) takes computed offsets",
        )
    return position if isinstance(position, int) else None


def indexed(e: Context, ref: TileRef, given: Sequence[Entry], span: Span) -> TileRef:
    """The view that indices and slices select; one of shape () is an element."""
    if len(given) > len(ref.shape):
        text = f"a tile of shape {ref.shape} has {len(ref.shape)} dimension(s), {len(given)} index(es) given"
        raise KernelTypeError(text, span)
    if any(isinstance(x, TileRef) for x in given):
        return gathered(e, ref, given, span)
    view, axis = ref.view, 0
    before, e.builder.span = e.builder.span, span
    for entry in given:
        if isinstance(entry, slice):
            view = sliced(view, axis, entry, span)
            axis += 1
        elif isinstance(entry, int):
            view = views.without_axis(views.sliced(view, axis, entry, 1, 1), axis)
        else:
            assert not isinstance(entry, TileRef)
            e.tiles.check_index(entry, view.shape[axis], 1, span)
            view = views.moved(view, axis, entry, None, e.tiles)
    e.builder.span = before
    return dataclasses.replace(ref, view=view)


def sliced(view: views.View, axis: int, part: slice, span: Span) -> views.View:
    """The view of the elements of a slice along an axis."""
    if part.step == 0:
        raise CompileError("the step of a slice must not be zero", span)
    chosen = range(view.shape[axis])[part]
    if not chosen:
        raise CompileError(f"this slice of {view.shape[axis]} elements is empty", span, "a tile has elements")
    return views.sliced(view, axis, chosen.start, chosen.step, len(chosen))


def gathered(e: Context, ref: TileRef, given: Sequence[Entry], span: Span) -> TileRef:
    """`t[indices, :]`: a new tile of the rows that a tile of indices names."""
    others = [x for x in given if not isinstance(x, TileRef)]
    if len(others) != len(given) - 1 or any(x != slice(None) for x in others):
        raise KernelTypeError(
            "one tile of indices selects along one axis, all others are taken whole",
            span,
            "write t[indices, :], and index or slice the result",
        )
    axis = next(k for k, x in enumerate(given) if isinstance(x, TileRef))
    indices = given[axis]
    assert isinstance(indices, TileRef)
    if len(indices.shape) != 1 or not isinstance(indices.dtype, ScalarType) or not indices.dtype.is_int:
        raise KernelTypeError(f"the indices must be a tile of integers with one axis, not {describe(indices)}", span)
    shape = (*ref.shape[:axis], indices.shape[0], *ref.shape[axis + 1 :])
    places = [
        along_axis(e, indices, shape, axis, span) if k == axis else e.tiles.iota(shape, k, span)
        for k in range(len(shape))
    ]
    items = [e.tiles.op("take", item, *places, span=span) for item in e.tiles.read(ref, span)]
    return e.tiles.made(ref.dtype, shape, items, span)


def along_axis(e: Context, tile: TileRef, shape: tuple[int, ...], axis: int, span: Span) -> Operand:
    """A tile of one axis repeated over the other axes of `shape`."""
    (item,) = e.tiles.read(tile, span)
    strides = tuple(int(k == axis) for k in range(len(shape)))
    return item if len(shape) == 1 else e.tiles.op("view", item, attr=(shape, 0, strides), span=span)


def read(e: SubscriptLowering, ref: TileRef, node: ast.Subscript) -> Binding:
    """`t[…]`: an element, a component of one, or a view."""
    span = e.span(node)
    given = entries(e, ref, node)
    if extra := given[len(ref.shape) :]:
        element = e.tiles.element(indexed(e, ref, given[: len(ref.shape)], span), span)
        if not isinstance(element, Composite):
            indexed(e, ref, given, span)  # raises
        assert isinstance(element, Composite)
        return composites.read(e, element, component_selectors(element.type, extra, span), span)
    found = indexed(e, ref, given, span)
    return found if found.shape else e.tiles.element(found, span)


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


# -- assignments


def place(e: SubscriptLowering, target: ast.expr) -> TilePlace | None:
    """The place in a tile that `t[i]`, `t[i, j].x` or `t[1:3]` names; None if it is in no tile."""
    if isinstance(target, ast.Name):
        binding = e.frame.env.get(target.id)
        return TilePlace(target.id, binding, e.span(target)) if isinstance(binding, TileRef) else None
    if not isinstance(target, (ast.Subscript, ast.Attribute)):
        return None
    owner = place(e, target.value)
    if owner is None:
        return None
    span = e.span(target)
    if isinstance(target, ast.Subscript) and owner.ref.shape:
        return _indexed_place(e, owner, target)
    kind = owner.kind
    if not isinstance(kind, CompositeType) or any(isinstance(s, range) for s in owner.selectors):
        raise KernelTypeError(f"{kind} has no components to assign to", span, "index an element first: t[i]")
    if isinstance(target, ast.Attribute):
        selectors: tuple[composites.Selector, ...] = (composites.named(kind, target.attr, span),)
    else:
        selectors = e.selectors(kind, target)
    return dataclasses.replace(owner, span=span, selectors=(*owner.selectors, *selectors))


def _indexed_place(e: SubscriptLowering, owner: TilePlace, target: ast.Subscript) -> TilePlace:
    span, ref = e.span(target), owner.ref
    given = entries(e, ref, target)
    if any(isinstance(x, TileRef) for x in given):
        raise CompileError(
            "rows that a tile of indices names cannot be assigned to",
            span,
            "wp.tile_scatter_masked and wp.tile_scatter_add change elements by computed indices",
        )
    extra = given[len(ref.shape) :]
    if extra and not isinstance(ref.dtype, CompositeType):
        indexed(e, ref, given, span)  # raises
    found = dataclasses.replace(owner, span=span, ref=indexed(e, ref, given[: len(ref.shape)], span))
    if not extra:
        return found
    assert isinstance(ref.dtype, CompositeType)
    return dataclasses.replace(found, selectors=component_selectors(ref.dtype, extra, span))


def assign(e: Context, target: TilePlace, value: Binding, span: Span) -> None:
    """`target = value`."""
    if target.ref.shape:
        if not isinstance(value, TileRef) or value.type != target.kind:
            raise KernelTypeError(
                f"`{target.name}` is {target.kind!r} there, the value is {describe(value)}",
                span,
                "give a tile of that shape" if not isinstance(value, TileRef) else "",
            )
        return e.tiles.write(target.ref, e.tiles.read(value, span), target.span)
    _check(target, value, span)
    return e.tiles.write(target.ref, _replaced(e, target, value, span), target.span)


def _check(target: TilePlace, value: Binding, span: Span) -> None:
    if getattr(value, "type", None) is not target.kind:
        there = " there" if target.selectors else ""
        raise KernelTypeError(
            f"`{target.name}` holds {target.kind}{there}, the value is {describe(value)}",
            span,
            f"convert it: wp.{target.kind}(…)" if isinstance(target.kind, ScalarType) else "",
        )


def _replaced(e: Context, target: TilePlace, value: Binding, span: Span) -> list[Operand | None]:
    """The components of an element after an assignment, None where one stays as it is."""
    scalars = flatten(value, span) or []
    if not target.selectors:
        return list(scalars)
    kind = target.ref.dtype
    assert isinstance(kind, CompositeType)
    if all(isinstance(s, (int, range)) for s in target.selectors):
        # Only what is assigned is written: other lanes may write the rest.
        return _spread_out(scalars, kind.shape, composites.axes_of(kind.shape, target.selectors))
    element = e.tiles.element(target.ref, span)
    assert isinstance(element, Composite)
    return list(composites.replace(e, element, target.selectors, scalars, span).items)


def _spread_out(
    scalars: Sequence[Operand], shape: tuple[int, ...], axes: Sequence[composites.Selector]
) -> list[Operand | None]:
    """The components that known indices and slices select, each at its place."""
    found: list[Operand | None] = [None] * math.prod(shape)
    known = [axis if isinstance(axis, range) else (axis,) for axis in axes if isinstance(axis, (int, range))]
    for position, scalar in zip(itertools.product(*known), scalars, strict=True):
        found[sum(k * s for k, s in zip(position, dense_strides(shape), strict=True))] = scalar
    return found


def augment(e: SubscriptLowering, target: TilePlace, operator: str, symbol: str, node: ast.AugAssign) -> None:
    """`target op= value`."""
    span = e.span(node)
    value = e.expression(node.value)
    if target.ref.shape:
        if operator not in IN_PLACE:
            raise CompileError(
                f"`{symbol}=` does not change a part of a tile",
                span,
                "read the part, compute, and assign it: t[0:2] = t[0:2] * x",
            )
        return change(e, symbol, operator, target.ref, value, span)
    known = all(isinstance(s, (int, range)) for s in target.selectors)
    if operator in IN_PLACE and known and target.ref.type.scalar.kind in (BITS if operator in BITWISE else NUMBER):
        _check(target, value, e.span(node.value))
        if operator == "sub":
            value = composites.negated(e, value, span)
        name = f"put_{'add' if operator == 'sub' else operator}"
        return e.tiles.write(target.ref, _replaced(e, target, value, span), target.span, name)
    element = e.tiles.element(target.ref, span)
    if target.selectors:
        assert isinstance(element, Composite)
        element = composites.read(e, element, target.selectors, span)
    result = e.binary(node.op, element, value, node)
    return assign(e, target, result, span)
