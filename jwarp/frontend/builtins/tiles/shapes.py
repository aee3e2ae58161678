"""The functions that give a tile another shape, or change a part of one: one row each."""

from __future__ import annotations

import dataclasses
import math
from types import NoneType
from typing import Any

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins.signatures import indexed
from jwarp.frontend.builtins.table import BUILTINS, PYTHON_BUILTINS, Builtin, Reading
from jwarp.frontend.builtins.tiles.calls import Given, define
from jwarp.frontend.tiles import subscripts
from jwarp.frontend.values import views
from jwarp.frontend.values.bindings import Binding, Composite, PythonRef, TileRef, describe
from jwarp.frontend.values.composites import read as read_components
from jwarp.frontend.values.views import View
from jwarp.types import ScalarType, tile_type


def _viewed(ref: TileRef, view: View) -> TileRef:
    return dataclasses.replace(ref, view=view)


def _view(given: Given) -> TileRef:
    ref, offset = given.ref("t"), given.values["offset"]
    parts = offset if isinstance(offset, tuple) else (offset,)
    if "shape" in given:
        return _window(given, ref, parts)
    entries = [_entry(given, part) for part in parts]
    for entry, extent in zip(entries, ref.shape, strict=False):
        if isinstance(entry, int) and not 0 <= entry < extent:
            raise given.error(
                f"offset {entry} is out of bounds: it is outside 0 to {extent - 1}",
                "t[-1] counts from the end",
                "offset",
            )
    found = subscripts.indexed(given.e, ref, entries, given.where("offset"))
    if not found.shape:
        raise given.error("this is one element, and no tile", "write t[i, j] or wp.tile_extract(t, i, j)")
    return found


def _entry(given: Given, part: Binding) -> Any:
    if isinstance(part, PythonRef) and isinstance(part.object, slice):
        return part.object
    return given.memory.position(part, "`offset` of wp.tile_view", given.where("offset"))


def _window(given: Given, ref: TileRef, offset: tuple[Binding, ...]) -> TileRef:
    """The view of `shape` elements from `offset` on."""
    shape, view, place = given.shape(), ref.view, given.where("offset")
    if any(isinstance(p, PythonRef) for p in offset):
        raise given.error("no 'shape' together with a slice: it needs an `offset` of integers", name="offset")
    if len(shape) != len(ref.shape) or len(offset) > len(ref.shape):
        raise given.error(f"`shape` and `offset` do not fit a tile of shape {ref.shape}", name="shape")
    for axis, count in enumerate(shape):
        start = given.memory.position(offset[axis], "`offset`", place) if axis < len(offset) else 0
        first = start if isinstance(start, int) else 0
        if first < 0 or first + count > ref.shape[axis]:
            raise given.error(f"{count} elements from {first} on do not fit axis {axis} of a tile of {ref.shape}")
        if isinstance(start, int):
            view = views.sliced(view, axis, start, 1, count)
        else:
            given.memory.check_index(start, ref.shape[axis], count, place)
            view = views.moved(view, axis, start, count, given.memory)
    return _viewed(ref, view)


def _slice_indexed(given: Given) -> TileRef:
    ref, indices = given.ref("t"), given.values["indices"]
    parts = indices if isinstance(indices, tuple) else (indices,)
    entries = [part if isinstance(part, TileRef) else _entry(given, part) for part in parts]
    if not any(isinstance(entry, TileRef) for entry in entries):
        raise given.type_error("indices", "a tuple with one tile of indices, and slices")
    return subscripts.indexed(given.e, ref, entries, given.where("indices"))


def _squeeze(given: Given) -> TileRef:
    ref = given.ref("t")
    dims = len(ref.shape)
    if "axis" in given:
        value = given.values["axis"]
        axes = {given.constant("axis", a) for a in (value if isinstance(value, tuple) else (value,))}
        for axis in axes:
            if not -dims <= axis < dims:
                out = f"tile_squeeze() axis {axis} is out of bounds for tile with {dims} dimensions"
                raise given.error(out, name="axis", also=ValueError)
            if ref.shape[axis] != 1:
                raise given.error(f"axis {axis} of a tile of shape {ref.shape} is none of extent 1", name="axis")
        axes = {axis % dims for axis in axes}
    else:
        axes = {axis for axis, extent in enumerate(ref.shape) if extent == 1}
    if len(axes) == dims:
        raise given.error(f"no dimension of a tile of shape {ref.shape} would be left", "read the element: t[0]")
    return _viewed(ref, views.permuted(ref.view, [axis for axis in range(dims) if axis not in axes]))


def _reshape(given: Given) -> TileRef:
    ref, value = given.ref("t"), given.values["shape"]
    shape = [given.constant("shape", n) for n in (value if isinstance(value, tuple) else (value,))]
    if shape.count(-1) == 1:
        rest = -math.prod(shape)
        shape[shape.index(-1)] = ref.view.size // rest if rest > 0 else 0
    if math.prod(shape) != ref.view.size:
        raise given.error(f"a tile of shape {ref.shape} has {ref.view.size} elements, not those of {tuple(shape)}")
    extents = given.checked_shape(tuple(shape))
    if not ref.view.is_dense:
        raise given.error(
            f"the elements of this view of shape {ref.shape} do not lie one after the other: "
            "it requires a contiguous tile",
            "copy it first: `b = a` makes a tile of its own",
            "t",
        )
    return _viewed(ref, views.reshaped(ref.view, extents))


def _transpose(given: Given) -> TileRef:
    ref = given.ref("a")
    if len(ref.shape) != 2:
        raise given.type_error("a", "a tile of two dimensions")
    return _viewed(ref, views.permuted(ref.view, (1, 0)))


def _broadcast(given: Given) -> TileRef:
    ref, shape = given.ref("a"), given.shape()
    pairs = zip(reversed(ref.shape), reversed(shape), strict=False)
    if len(shape) < len(ref.shape) or any(n not in (1, m) for n, m in pairs):
        raise given.error(f"a tile of shape {ref.shape} is not broadcast to {shape}", name="shape")
    return _viewed(ref, views.broadcast(ref.view, shape))


def _astype(given: Given) -> TileRef:
    kind, item = given.scalar_tile("t")
    dtype = given.dtype()
    if not isinstance(dtype, ScalarType):
        raise given.type_error("dtype", "a scalar type")
    assert kind.shape is not None
    made = given.memory.op("cast", item, span=given.span, type=tile_type(dtype, kind.shape))
    return given.memory.made(dtype, kind.shape, (made,), given.span)


def _assign(given: Given) -> Binding:
    """Copy a tile into a part of another one, with the elements converted."""
    target, memory = given.ref("dst"), given.memory
    source, items = given.tile("src")
    kind = target.type
    assert source.shape is not None and kind.shape is not None
    if len(source.shape) != len(kind.shape):
        raise given.error(f"a tile of {len(source.shape)} dimension(s) is not assigned to one of {len(kind.shape)}")
    if source.dtype is not kind.dtype:
        if not isinstance(source.dtype, ScalarType) or not isinstance(kind.dtype, ScalarType):
            raise given.error(f"a tile of {source.dtype} is not assigned to one of {kind.dtype}", name="src")
        wanted = tile_type(kind.scalar, source.shape)
        items = tuple(memory.op("cast", item, span=given.where("src"), type=wanted) for item in items)
    view = target.view
    for axis, part in enumerate(given.offset(len(kind.shape), "`dst`")):
        start, count = memory.position(part, "`offset`", given.where("offset")), source.shape[axis]
        first = start if isinstance(start, int) else 0
        if first < 0 or first + count > kind.shape[axis]:
            raise given.error(f"{describe(given.ref('src'))} from {first} on along axis {axis} does not fit {kind}")
        if isinstance(start, int):
            view = views.sliced(view, axis, start, 1, count)
        else:
            memory.check_index(start, kind.shape[axis], count, given.where("offset"))
            view = views.moved(view, axis, start, count, memory)
    memory.write(_viewed(target, view), items, given.span)
    return ()


def _extract(given: Given) -> Binding:
    ref, memory = given.ref("a"), given.memory
    positions = [memory.position(given.values[n], f"`{n}`", given.where(n)) for n in list(given.values)[1:]]
    dims = len(ref.shape)
    if len(positions) < dims:
        raise given.error(f"a tile of shape {ref.shape} needs {dims} indices, {len(positions)} given")
    for position, extent in zip(positions, ref.shape, strict=False):
        if isinstance(position, int) and not 0 <= position < extent:
            raise given.error(f"index {position} is outside 0 to {extent - 1}")
    element = memory.element(subscripts.indexed(given.e, ref, positions[:dims], given.span), given.span)
    if len(positions) == dims:
        return element
    if not isinstance(element, Composite):
        raise given.error(f"a tile of shape {ref.shape} takes {dims} indices, {len(positions)} given")
    selectors = subscripts.component_selectors(element.type, positions[dims:], given.span)
    return read_components(given.e, element, selectors, given.span)


def _slice(ctx: Any, args: list[Any], spans: list[Span], span: Span) -> Binding:
    """Python's `slice(…)` of constants, for wp.tile_view."""
    bounds = []
    for value, place in zip(args, spans, strict=True):
        number = value.object if isinstance(value, PythonRef) else getattr(value, "value", value)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise KernelTypeError(f"slice() needs a compile-time constant integer, not {describe(value)}", place)
        bounds.append(number)
    if not 1 <= len(bounds) <= 3:
        raise KernelTypeError(f"slice() takes 1 to 3 numbers, {len(bounds)} given", span)
    return PythonRef(slice(*bounds))


tile_view = define(
    "tile_view(t: tile[T], offset: Any, shape: Shape | None = None) -> tile[T]",
    """A view of a part of a tile.

    With `shape`, as many elements from `offset` on; without, t[offset]: integers leave their axes out, slices keep
    them.""",
    _view,
)
tile_slice_indexed = define(
    "tile_slice_indexed(t: tile[T], indices: Any) -> tile[T]",
    "t[indices]: the rows that a tile of int32 among the indices names, as a new tile.",
    _slice_indexed,
)
tile_squeeze = define(
    "tile_squeeze(t: tile[T], axis: Shape | None = None) -> tile[T]",
    "A view without the dimensions of extent 1, all or those given; one dimension stays.",
    _squeeze,
)
tile_reshape = define(
    "tile_reshape(t: tile[T], shape: Shape) -> tile[T]",
    "A view of another shape with as many elements, row by row; one extent may be -1.",
    _reshape,
)
tile_transpose = define(
    "tile_transpose(a: tile[T]) -> tile[T]",
    "A view of a tile of two dimensions with rows and columns exchanged.",
    _transpose,
)
tile_broadcast = define(
    "tile_broadcast(a: tile[T], shape: Shape) -> tile[T]",
    "A view of another shape that repeats dimensions of extent 1, and has new ones in front.",
    _broadcast,
)
tile_astype = define(
    "tile_astype(t: tile[Any], dtype: type[T]) -> tile[T]",
    "A new tile with the elements of a tile of scalars converted to a scalar type.",
    _astype,
)
tile_assign = define(
    "tile_assign(dst: tile[Any], src: tile[Any], offset: Offset = None) -> None",
    "Copy a tile into a part of another one, from `offset` on, with the elements converted.",
    _assign,
)
tile_extract = define(
    indexed("tile_extract(a: tile[Any], *index) -> Any", ranks=range(1, 7), letters="ijklmn"),
    "An element of a tile, with one index for each dimension; with more, a component of it: a[i, j].",
    _extract,
)

PYTHON_BUILTINS[slice] = Builtin(
    "slice(*bounds: int) -> slice",
    "A slice of constants, for `tile_view`.",
    _slice,
    reading=Reading(constants=(NoneType,)),
)
assert "slice" not in BUILTINS
