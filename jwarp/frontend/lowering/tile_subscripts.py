"""Lowers what stands in brackets after a tile, to be read or assigned to."""

from __future__ import annotations

import ast
import dataclasses

from jwarp.errors import CompileError
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.rules import lower
from jwarp.frontend.tiles.subscripts import Entry, TilePlace, component_selectors, indexed
from jwarp.frontend.values import composites
from jwarp.frontend.values.bindings import Binding, Composite, TileRef
from jwarp.types import CompositeType


def read(ctx: Context, ref: TileRef, node: ast.Subscript) -> Binding:
    """`t[…]`: an element, a component of one, or a view."""
    span = ctx.span(node)
    given = _entries(ctx, ref, node)
    if extra := given[len(ref.shape) :]:
        element = ctx.tiles.element(indexed(ctx, ref, given[: len(ref.shape)], span), span)
        if not isinstance(element, Composite):
            indexed(ctx, ref, given, span)  # raises
        assert isinstance(element, Composite)
        return composites.read(ctx, element, component_selectors(element.type, extra, span), span)
    found = indexed(ctx, ref, given, span)
    return found if found.shape else ctx.tiles.element(found, span)


def _entries(ctx: Context, ref: TileRef, node: ast.Subscript) -> list[Entry]:
    """The indices and slices in the brackets after a tile. Constant ones are checked."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    found: list[Entry] = []
    for axis, item in enumerate(items):
        extent = ref.shape[axis] if axis < len(ref.shape) else None
        if isinstance(item, ast.Slice):
            found.append(slice(*(_bound(ctx, b) for b in (item.lower, item.upper, item.step))))
            continue
        binding, span = lower(ctx, item), ctx.span(item)
        if isinstance(binding, TileRef):
            found.append(binding)
            continue
        position = ctx.tiles.position(binding, "an index of a tile", span)
        if isinstance(position, int) and extent is not None:
            if not -extent <= position < extent:
                raise CompileError(f"index {position} is out of bounds: it is outside 0 to {extent - 1}", span)
            position %= extent
        found.append(position)
    return found


def _bound(ctx: Context, node: ast.expr | None) -> int | None:
    """A bound or the step of a slice."""
    if node is None:
        return None
    position = ctx.tiles.position(lower(ctx, node), "a bound of a slice", ctx.span(node))
    if not isinstance(position, int):
        raise CompileError(
            "the bounds of a slice of a tile must be constants",
            ctx.span(node),
            "wp.tile_view(t, offset, shape) takes computed offsets",
        )
    return position


def indexed_place(ctx: Context, owner: TilePlace, target: ast.Subscript) -> TilePlace:
    """The place in a tile that the brackets of an assignment's target name."""
    span, ref = ctx.span(target), owner.ref
    given = _entries(ctx, ref, target)
    if any(isinstance(x, TileRef) for x in given):
        raise CompileError(
            "rows that a tile of indices names cannot be assigned to",
            span,
            "wp.tile_scatter_masked and wp.tile_scatter_add change elements by computed indices",
        )
    extra = given[len(ref.shape) :]
    if extra and not isinstance(ref.dtype, CompositeType):
        indexed(ctx, ref, given, span)  # raises
    found = dataclasses.replace(owner, span=span, ref=indexed(ctx, ref, given[: len(ref.shape)], span))
    if not extra:
        return found
    assert isinstance(ref.dtype, CompositeType)
    return dataclasses.replace(found, selectors=component_selectors(ref.dtype, extra, span))
