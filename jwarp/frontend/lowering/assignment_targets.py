"""Assignment targets: elements of arrays and tiles, fields, components; how they are read and written."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.lowering import indexed_composites
from jwarp.frontend.lowering.names import assign, read_name
from jwarp.frontend.lowering.subscripts import element_or_view, selectors
from jwarp.frontend.lowering.tile_subscripts import indexed_place
from jwarp.frontend.tiles.subscripts import TilePlace
from jwarp.frontend.values import array_views, composites, structs
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    OneOf,
    Referenced,
    Stored,
    StructArray,
    StructValue,
    TileRef,
    describe,
    flatten,
    layout,
    way_to,
)
from jwarp.frontend.values.composites import Selector
from jwarp.ir.nodes import Const, Operand
from jwarp.types import CompositeType, has_arrays, int32


@dataclass(frozen=True)
class Place:
    """An assignment target: an element of an array or a variable, or a field, component or row of it."""

    name: str
    array: ArrayRef | StructArray | None
    value: Binding | None
    indices: tuple[Operand, ...] | None = None  # of the element of the array
    selectors: tuple[Selector, ...] = ()  # of components of the element or variable
    root: StructValue | None = None  # the variable, where what is changed is a field of it
    path: tuple[str, ...] = ()  # the field
    variable: str = ""  # the variable's name
    holder: Place | None = None  # of an array that is a field of an element: the place of its descriptor

    def element(self, indices: tuple[Operand, ...]) -> Place:
        """The element at `indices` of a place that is an array."""
        return dataclasses.replace(self, indices=indices)

    def field(self, ctx: Context, name: str, span: Span) -> Place:
        """The place of a field of a struct, or of a field of all elements of an array of structs."""
        if self.array is not None:
            assert isinstance(self.array, StructArray)
            found = structs.field(self.array, name, span)
            if self.indices is not None and has_arrays(self.array.type.struct.fields[name]):
                shown = structs.field(array_views.element(ctx, self.array, self.indices, span), name, span)
                if isinstance(shown, ArrayRef):
                    holder = Place(f"{self.name}.{name}", found, None, self.indices)  # type: ignore[arg-type]
                    return Place(f"{self.name}.{name}", shown, None, holder=holder)
                if isinstance(shown, StructArray):
                    return Place(f"{self.name}.{name}", shown, None)
            return Place(f"{self.name}.{name}", found, None, self.indices)  # type: ignore[arg-type]
        assert isinstance(self.value, StructValue)
        if name not in self.value.type.fields:
            structs.field(self.value, name, span)  # raises
        found, path, title = self.value.field(name), (*self.path, name), f"{self.name}.{name}"
        is_array = isinstance(found, (ArrayRef, StructArray))
        array, value = (found, None) if is_array else (None, found)
        variable = self.variable or self.name
        return Place(title, array, value, root=self.root or self.value, path=path, variable=variable)  # type: ignore[arg-type]

    @property
    def whole(self) -> Any:
        """The type of the element or variable."""
        if isinstance(self.array, StructArray):
            return self.array.type.struct
        if self.array is not None:
            return self.array.type.element
        return self.value.type  # type: ignore[union-attr]

    @property
    def kind(self) -> Any:
        """The type of what is changed."""
        whole = self.whole
        return composites.selected_type(whole, self.selectors) if isinstance(whole, CompositeType) else whole


# -- what is named on the left of an assignment


def place_of(ctx: Context, target: ast.expr) -> Place:
    """The place that an assignment changes, which is no whole array and in no tile."""
    place = _place(ctx, target)
    if place.array is not None and place.indices is None and not place.path:
        if place.holder is not None and not place.holder.array.is_local:  # type: ignore[union-attr]
            return place
        raise _row_error(place, ctx.span(target))
    return place


def _place(ctx: Context, target: ast.expr) -> Place:
    """Resolve the target `a[i]`, `v[i]`, `v.x`, `v[1:3]`, `m[i][j]` or `a[i][j].x`."""
    span = ctx.span(target)
    owned = ctx.frame.env.get(target.id) if isinstance(target, ast.Name) else None
    if isinstance(owned, Referenced) or (owned := indexed_composites.variable(ctx, target)) is not None:
        return Place(target.id, owned.array, None, ())  # type: ignore[attr-defined]
    if isinstance(target, ast.Name):
        binding = read_name(ctx, target.id, span)
        if isinstance(binding, (ArrayRef, StructArray)):
            return Place(target.id, binding, None)
        if isinstance(binding, (Composite, StructValue)):
            return Place(target.id, None, binding)
    if not isinstance(target, (ast.Subscript, ast.Attribute)):
        raise not_assignable(ctx, target)
    owner = _place(ctx, target.value)
    is_struct = isinstance(owner.array, StructArray) or isinstance(owner.value, StructValue)
    if isinstance(target, ast.Attribute) and is_struct:
        return owner.field(ctx, target.attr, span)
    if owner.array is not None and owner.indices is None:
        if isinstance(target, ast.Attribute):
            raise not_assignable(ctx, target)
        found = element_or_view(ctx, owner.array, target)
        return owner.element(found) if isinstance(found, tuple) else Place(owner.name, found, None)
    kind = owner.kind
    if not isinstance(kind, CompositeType):
        raise KernelTypeError(f"{kind} has no components to assign to", span)
    if any(isinstance(s, range) for s in owner.selectors):
        raise CompileError("a slice cannot be indexed where it is assigned to", span, "index the whole vector")
    return dataclasses.replace(owner, selectors=_components(ctx, owner.selectors, kind, target))


def tile_place(ctx: Context, target: ast.expr) -> TilePlace | None:
    """The place in a tile that `t[i]`, `t[i, j].x` or `t[1:3]` names; None if it is in no tile."""
    if isinstance(target, ast.Name):
        binding = ctx.frame.env.get(target.id)
        return TilePlace(target.id, binding, ctx.span(target)) if isinstance(binding, TileRef) else None
    owner = tile_place(ctx, target.value) if isinstance(target, (ast.Subscript, ast.Attribute)) else None
    if owner is None:
        return None
    assert isinstance(target, (ast.Subscript, ast.Attribute))
    if isinstance(target, ast.Subscript) and owner.ref.shape:
        return indexed_place(ctx, owner, target)
    kind, span = owner.kind, ctx.span(target)
    if not isinstance(kind, CompositeType) or any(isinstance(s, range) for s in owner.selectors):
        raise KernelTypeError(f"{kind} has no components to assign to", span, "index an element first: t[i]")
    return dataclasses.replace(owner, span=span, selectors=_components(ctx, owner.selectors, kind, target))


def _components(
    ctx: Context, earlier: tuple[Selector, ...], kind: CompositeType, target: ast.Subscript | ast.Attribute
) -> tuple[Selector, ...]:
    """The components that `target` names of a composite of type `kind`, which has been selected by `earlier`."""
    if isinstance(target, ast.Attribute):
        found: tuple[Selector, ...] = (composites.named(kind, target.attr, ctx.span(target)),)
    else:
        found = selectors(ctx, kind, target)
    if earlier and isinstance(earlier[-1], composites.Part):
        return (composites.within(ctx, earlier[-1], found[0], ctx.span(target)),)
    return (*earlier, *found)


def not_assignable(ctx: Context, target: ast.expr) -> CompileError:
    """The error for a target that is neither a name nor a place."""
    return CompileError(
        "this cannot be assigned to", ctx.span(target), "assign to a name, or to an element of an array: a[i]"
    )


def _row_error(place: Place, span: Span) -> CompileError:
    return CompileError(
        f"this is a slice or a whole row of `{place.name}`, whose elements can only be set one by one",
        span,
        "give an index for each dimension: a[i, j]",
    )


# -- what is there


def read(ctx: Context, place: Place, span: Span) -> Binding:
    """Read the current value of a target."""
    if isinstance(place.array, StructArray):
        assert place.indices is not None
        return array_views.element(ctx, place.array, place.indices, span)
    if place.array is not None:
        if place.indices is None:
            raise _row_error(place, span)
        if place.array.is_local and not place.array.type.dims and not place.array.axes:
            return indexed_composites.read(ctx, Stored(place.array), place.selectors, span)
        value = ctx.load(place.array, place.indices, span)
    else:
        assert place.value is not None
        value = place.value
    if not place.selectors:
        return value
    assert isinstance(value, Composite)
    return composites.read(ctx, value, place.selectors, span)


def change(ctx: Context, place: Place, operation: str, binding: Binding, span: Span) -> None:
    """Store to a place, or change it by an atomic operation."""
    if place.path and place.indices is None:
        return _change_field(ctx, place, binding, span)
    if isinstance(place.array, StructArray):
        return _store_struct(ctx, place, operation, binding, span)
    if place.holder is not None and place.indices is None:
        return _store_array(ctx, place.holder, place.array, operation, binding, span)  # type: ignore[arg-type]
    wanted = place.kind
    if layout(binding, span) is not wanted:
        text = f"`{place.name}` holds {wanted}, the value is {describe(binding)}"
        if place.selectors:
            text = (
                f"Composite slot assignment expects value of type {wanted} in `{place.name}`, got {describe(binding)}"
            )
        raise KernelTypeError(
            text,
            span,
            way_to(wanted, binding),
        )
    scalars = flatten(binding, span) or []
    if place.array is None:
        assert isinstance(place.value, Composite)
        return assign(ctx, place.name, composites.replace(ctx, place.value, place.selectors, scalars, span), span)
    if isinstance(place.array, OneOf):
        ctx.of_options(place.array, lambda one: _changed(ctx, place, one, operation, binding, span), span)
        return None
    if place.array.is_missing:
        return ctx.check_given(place.array, span)
    for indices, value in zip(_element_indices(ctx, place, span), scalars, strict=True):
        ctx.builder.effect(operation, *indices, value, attr=place.array.index)
    return None


def _changed(ctx: Context, place: Place, array: ArrayRef, operation: str, binding: Binding, span: Span) -> Binding:
    change(ctx, dataclasses.replace(place, array=array), operation, binding, span)
    return ()


def _change_field(ctx: Context, place: Place, binding: Binding, span: Span) -> None:
    """Let the variable be a struct with another value of a field."""
    assert place.root is not None
    wanted: Any = place.root.type
    for name in place.path:
        wanted = wanted.written.fields[name]
    if place.selectors:
        assert isinstance(place.value, Composite)
        if layout(binding, span) is not place.kind:
            what = f"value of type {place.kind} in `{place.name}`"
            text = f"Composite slot assignment expects {what}, got {describe(binding)}"
            raise KernelTypeError(text, span)
        parts = flatten(binding, span) or []
        binding = composites.replace(ctx, place.value, place.selectors, parts, span)
    binding = structs.fitted(ctx, binding, wanted, f"`{place.name}`", span)
    ctx.frame.env[place.variable] = place.root.with_field(place.path, binding)


def _store_array(ctx: Context, holder: Place, shown: ArrayRef, operation: str, binding: Binding, span: Span) -> None:
    """Let an element of an array of structs hold an array: its descriptor."""
    if not isinstance(binding, ArrayRef) or binding.type != shown.type or operation != "store":
        raise KernelTypeError(f"`{holder.name}` holds {shown.type!r}, the value is {describe(binding)}", span)
    change(ctx, holder, "store", ctx.words_of(binding, span), span)


def _store_struct(ctx: Context, place: Place, operation: str, binding: Binding, span: Span) -> None:
    """Store a struct to an element of an array of structs."""
    assert isinstance(place.array, StructArray) and place.indices is not None
    kind = place.array.type.struct
    if not isinstance(binding, StructValue) or binding.type is not kind or operation != "store":
        hint = "an element holds numbers: store the other fields one by one" if _holds_ids(binding) else ""
        raise KernelTypeError(f"`{place.name}` holds {kind!r}, the value is {describe(binding)}", span, hint)
    if place.array.first.is_local:
        structs.refuse_array_fields(kind, span)
    for array, part in structs.leaves(place.array, binding):
        held = ctx.words_of(part, span) if isinstance(part, ArrayRef) else part
        change(ctx, Place(array.name, array, None, place.indices), operation, held, span)


def _holds_ids(binding: Binding) -> bool:
    return isinstance(binding, StructValue) and binding.type.holds_handles


def _element_indices(ctx: Context, place: Place, span: Span) -> list[tuple[Operand, ...]]:
    """The indices of all components that a place in an array has."""
    assert isinstance(place.array, ArrayRef) and place.indices is not None
    axes: list[list[Operand]] = []
    for selector in composites.axes_of(place.array.type.components, place.selectors):
        if isinstance(selector, (range, int)):
            known = selector if isinstance(selector, range) else (selector,)
            axes.append([Const(int32, k) for k in known])
        else:
            axes.append([ctx.as_index(selector, place.array, span)])
    element = array_views.place(ctx, place.array, place.indices, span)
    return [
        array_views.component_place(ctx, place.array, element, component, span)
        for component in itertools.product(*axes)
    ]
