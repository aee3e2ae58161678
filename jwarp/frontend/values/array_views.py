"""Views of arrays: what rows and slices show, and which element of the array one of a view is.

An index counts within the view, from its end where it is negative. One that is outside of it is outside of the
array, too, so that it reads zero and stores nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jwarp.errors import Span
from jwarp.frontend.values import located
from jwarp.frontend.values.axes import Located
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Axis,
    Binding,
    Chosen,
    OneOf,
    Part,
    StructArray,
    StructValue,
)
from jwarp.frontend.values.cells import TileMemory
from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import AnyType, ArrayType, ScalarType, StructArrayType, StructType, int32
from jwarp.types.all_memory import DESCRIPTOR

# An index that no array has, and a limit that none is above.
OUTSIDE = int32.max
ONE = Const(int32, 1)


class Emitter(Protocol):
    """The operations of the lowering that the rules below use."""

    builder: Builder
    tiles: TileMemory

    def emit(self, name: str, *args: Operand, span: Span, type: ScalarType | None = None) -> Operand: ...
    def extent(self, array: ArrayRef, axis: int, span: Span) -> Operand: ...
    def described(self, array: ArrayRef, indices: tuple[Operand, ...], kind: Any, span: Span) -> ArrayRef: ...
    def load(self, array: ArrayRef, indices: tuple[Operand, ...], span: Span) -> Binding: ...


@dataclass(frozen=True)
class Slice:
    """`start:stop:step` in brackets, as int32; what is left out is None."""

    start: Operand | None = None
    stop: Operand | None = None
    step: Operand = ONE

    @property
    def is_whole(self) -> bool:
        """True if the slice selects everything."""
        return self.start is None and self.stop is None and self.step == ONE


Selector = Operand | Slice


# -- the element that an index names


def place(e: Emitter, array: ArrayRef, indices: tuple[Operand, ...], span: Span) -> tuple[Operand, ...]:
    """The indices, in the array that `array` shows a part of, of its element at `indices`, one for each dimension."""
    if array.located is not None:
        return (located.scalar_at(e, array.located, indices, span),)
    left = iter(indices)
    found: list[Operand] = []
    for number, axis in enumerate((*array.axes, *(None,) * len(indices))):
        if axis is None or isinstance(axis, (Part, Chosen)):
            index = next(left, None)
            if index is None:
                break
            axis = _index(e, array, number, axis, index, span)
        assert not isinstance(axis, Located)
        found.append(axis)
    return tuple(found)


def component_place(
    e: Emitter, array: ArrayRef, element: tuple[Operand, ...], component: Sequence[Operand], span: Span
) -> tuple[Operand, ...]:
    """The indices, in the array that `array` shows a part of, of a component of the element at `element`."""
    if array.located is None or not component:
        return (*element, *component)
    return (located.component_at(e, element[0], component, array.type.components, span),)


def _index(e: Emitter, array: ArrayRef, number: int, axis: Axis, index: Operand, span: Span) -> Operand:
    """The index in the array along its axis `number` that `index` stands for."""
    if isinstance(axis, Part):
        return _in_part(e, axis, index, span)
    if isinstance(axis, Chosen):
        return _in_chosen(e, axis.indices, index, span)
    if array.extents is not None and isinstance(index, Const) and -array.extents[number] <= index.value < 0:
        return Const(index.type, index.value + array.extents[number])
    return index


def _in_part(e: Emitter, part: Part, index: Operand, span: Span) -> Operand:
    kind = index.type

    def do(name: str, *args: Operand) -> Operand:
        return e.emit(name, *(_as(e, x, kind, span) for x in args), span=span)

    outside = Const(kind, OUTSIDE)
    if isinstance(index, Const) and index.value >= 0:
        counted: Operand = index
        tests: list[Operand] = []
    else:
        plain = _not_negative(e, index, span)
        counted = e.emit("select", plain, index, do("add", index, part.count), span=span)
        tests = [_not_negative(e, counted, span)]
    at = do("add", part.start, do("mul", counted, part.step))
    if part.limit is None or (part.limit != OUTSIDE and not isinstance(at, Const)):
        tests.append(do("lt", counted, part.count))
        e.tiles.sign_tests.add(tests[-1])
    elif part.limit != OUTSIDE:
        tests.append(do("lt", at, Const(kind, part.limit)))
    for test in tests:
        at = e.emit("select", test, at, outside, span=span)
    return at


def _in_chosen(e: Emitter, indices: ArrayRef, index: Operand, span: Span) -> Operand:
    known = place(e, indices, (index,), span)
    before, e.builder.span = e.builder.span, span
    if indices.located is None:
        holds = e.builder.op("inside", *known, attr=indices.index)
    else:
        holds = e.builder.op("lt", known[0], Const(known[0].type, located.NOWHERE))
    e.builder.span = before
    found = e.load(indices, (index,), span)
    assert isinstance(found, Operand)
    return e.emit("select", holds, found, Const(found.type, OUTSIDE), span=span)


def _not_negative(e: Emitter, index: Operand, span: Span) -> Operand:
    """The test that an index is not negative. It is dropped later where that is proved."""
    test = e.emit("ge", index, zero(index.type), span=span)
    e.tiles.sign_tests.add(test)
    return test


def _as(e: Emitter, x: Operand, kind: ScalarType, span: Span) -> Operand:
    """An int32 converted to the type of another index."""
    return e.emit("cast", x, span=span, type=kind) if x.type is int32 else x


# -- what brackets show


def view(e: Emitter, array: ArrayRef, selectors: Sequence[Selector], span: Span) -> ArrayRef:
    """The view `array[…]`; one selector at least is a slice, or there are fewer selectors than dimensions."""
    if isinstance(array, OneOf):
        return array.with_options([view(e, option, selectors, span) for option in array.options])
    if array.located is not None:
        return _located_view(e, array, selectors, span)
    axes = [*array.axes, *(None,) * (array.type.dims - sum(not isinstance(x, Operand) for x in array.axes))]
    for axis, (selector, (number, shown)) in enumerate(zip(selectors, array.shown, strict=False)):
        if not isinstance(selector, Slice):
            axes[number] = _index(e, array, number, shown, selector, span)
        elif not selector.is_whole:
            axes[number] = _narrowed(e, array, axis, shown, selector, span)
    while axes and axes[-1] is None:
        axes.pop()
    kind = ArrayType(array.type.element, array.type.dims - _taken(selectors))
    return dataclasses.replace(array, type=kind, axes=tuple(axes))


def _located_view(e: Emitter, array: ArrayRef, selectors: Sequence[Selector], span: Span) -> ArrayRef:
    found, axis = array.located, 0
    assert found is not None
    for selector in selectors:
        if not isinstance(selector, Slice):
            found = located.row(e, found, axis, selector, span)
            continue
        if not selector.is_whole:
            shown = _part(e, selector, found.sizes[axis], span)
            found = located.part(e, found, axis, shown.start, shown.count, shown.step, span)
        axis += 1
    kind = ArrayType(array.type.element, array.type.dims - _taken(selectors))
    return dataclasses.replace(array, type=kind, axes=(found,))


def struct_view(e: Emitter, array: StructArray, selectors: Sequence[Selector], span: Span) -> StructArray:
    """The same of an array of structs."""
    items = tuple(
        struct_view(e, item, selectors, span) if isinstance(item, StructArray) else view(e, item, selectors, span)
        for item in array.items
    )
    return StructArray(StructArrayType(array.type.struct, array.type.dims - _taken(selectors)), array.name, items)


def element(e: Emitter, array: StructArray, indices: tuple[Operand, ...], span: Span) -> StructValue:
    """The element of an array of structs. Where a field is an array, that is what follows the axes of the elements."""
    kinds = array.type.struct.fields.values()
    items = tuple(_element_field(e, item, kind, indices, span) for item, kind in zip(array.items, kinds, strict=True))
    return StructValue(array.type.struct, items)


def _element_field(
    e: Emitter, item: ArrayRef | StructArray, kind: AnyType, indices: tuple[Operand, ...], span: Span
) -> Binding:
    if isinstance(item, ArrayRef):
        is_array = isinstance(kind, ArrayType) and kind.dims
        if is_array and item.type.element is DESCRIPTOR:
            return e.described(item, indices, kind, span)
        return view(e, item, indices, span) if is_array else e.load(item, indices, span)
    if isinstance(kind, StructArrayType):
        return struct_view(e, item, indices, span)
    if isinstance(kind, StructType) and kind.indexed is not None:
        data, *rows = (view(e, x, indices, span) for x in item.items if isinstance(x, ArrayRef))
        return indexed(data, rows)
    return element(e, item, indices, span)


def indexed(array: ArrayRef, indices: Sequence[ArrayRef]) -> ArrayRef:
    """The elements of `array` that arrays of indices name, one for each axis that it shows."""
    shown = [number for number, _ in array.shown]
    axes = [*array.axes, *(None,) * (max(shown) + 1 - len(array.axes))]
    for number, rows in zip(shown, indices, strict=True):
        axes[number] = Chosen(rows)
    return dataclasses.replace(array, axes=tuple(axes))


def _taken(selectors: Sequence[Selector]) -> int:
    """How many dimensions selectors take away."""
    return sum(not isinstance(s, Slice) for s in selectors)


def _narrowed(e: Emitter, array: ArrayRef, axis: int, shown: Axis, given: Slice, span: Span) -> Axis:
    """The part of a view's axis that a slice selects."""
    if isinstance(shown, Chosen):
        return Chosen(view(e, shown.indices, (given,), span))
    part = _part(e, given, e.extent(array, axis, span), span)
    if not isinstance(shown, Part):
        return part
    # A slice of a slice: what the outer one counts are elements of the inner one.
    first = Part(part.start, part.count, part.step)
    start = e.emit("add", shown.start, e.emit("mul", first.start, shown.step, span=span), span=span)
    return Part(start, first.count, e.emit("mul", first.step, shown.step, span=span))


def _part(e: Emitter, given: Slice, extent: Operand, span: Span) -> Part:
    """The part of an axis that `start:stop:step` means in Python."""

    def do(name: str, *args: Operand) -> Operand:
        return e.emit(name, *args, span=span)

    nothing, last = zero(int32), do("sub", extent, ONE)

    def bound(x: Operand | None, lowest: Operand, highest: Operand, default: Operand) -> Operand:
        """A bound that may count from the end, brought into the axis."""
        if x is None:
            return default
        counted = x
        if not (isinstance(x, Const) and x.value >= 0):
            counted = do("select", do("lt", x, nothing), do("add", x, extent), x)
        return do("max", do("min", counted, highest), lowest)

    def forwards(step: Operand) -> tuple[Operand, Operand]:
        start, stop = bound(given.start, nothing, extent, nothing), bound(given.stop, nothing, extent, extent)
        return start, _quotient(do, do("max", do("sub", stop, start), nothing), step)

    def backwards(step: Operand) -> tuple[Operand, Operand]:
        before = Const(int32, -1)
        start, stop = bound(given.start, before, last, last), bound(given.stop, before, last, before)
        return start, _quotient(do, do("max", do("sub", start, stop), nothing), do("neg", step))

    step = given.step
    if isinstance(step, Const):
        start, count = forwards(step) if step.value > 0 else backwards(step)
        ends = (given.start or nothing, given.stop or Const(int32, OUTSIDE))
        if step.value > 0 and all(isinstance(x, Const) and x.value >= 0 for x in ends):
            return Part(ends[0], count, step, int(ends[1].value))  # type: ignore[union-attr]
        return Part(start, count, step)
    up = do("gt", step, nothing)
    pairs = zip(forwards(do("max", step, ONE)), backwards(do("min", step, Const(int32, -1))), strict=True)
    start, count = (do("select", up, x, y) for x, y in pairs)
    return Part(start, do("select", do("eq", step, nothing), nothing, count), step)


def _quotient(do: Callable[..., Operand], length: Operand, step: Operand) -> Operand:
    """How many elements lie within a length, `step` apart; rounded up."""
    if step == ONE:
        return length
    less = do("sub", step, ONE)
    return do("div", do("add", length, less), step)


def known_length(array: ArrayRef) -> int | None:
    """How many elements a slice of one dimension names, whatever the extent of the array; None if that is open."""
    part = next((x for x in array.axes if isinstance(x, Part)), None)
    if array.type.dims != 1 or part is None or part.limit in (None, OUTSIDE):
        return None
    assert isinstance(part.start, Const) and isinstance(part.step, Const) and part.limit is not None
    return len(range(part.start.value, part.limit, part.step.value))
