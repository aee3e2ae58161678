"""The functions that move tiles between arrays and tiles: one row each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from jwarp import types
from jwarp.errors import Span
from jwarp.frontend.builtins.signatures import indexed
from jwarp.frontend.builtins.tiles.calls import NO_INDEX, Given, define
from jwarp.frontend.tiles.operators import adds_up
from jwarp.frontend.tiles.subscripts import along_axis
from jwarp.frontend.values.axes import Located
from jwarp.frontend.values.bindings import ArrayRef, Binding, Chosen, OneOf, Part, StructArray, TileRef
from jwarp.frontend.values.composites import component_indices
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Block, Const, If, Operand, Value
from jwarp.ir.operation import NUMBER
from jwarp.types import StructType, int32, int64, tile_type


class _Whole:
    """The array argument `a`, of as many dimensions as the tile: an array for each field, if it is one of structs."""

    def __init__(self, given: Given, dims: int):
        array = given.values["a"]
        if not isinstance(array, (ArrayRef, StructArray)):
            raise given.type_error("a", "an array of numbers, vectors, matrices or structs")
        self.dtype = array.type.element if isinstance(array, ArrayRef) else array.type.struct
        given.scalars_of(self.dtype, "a")
        self.leaves = list(_leaves(array))
        self.first = self.leaves[0]  # with the extents of all
        self.name = array.name
        if any(isinstance(leaf, OneOf) for leaf in self.leaves):
            raise given.error(
                f"`{self.name}` is one of several arrays", "give the array to the function by its name", "a"
            )
        if any(leaf.located is not None for leaf in self.leaves):
            raise given.error(f"`{self.name}` is found by a number", "tiles are loaded from array parameters", "a")
        if self.first.is_local:
            raise given.error(f"`{self.name}` is a thread's own array", "tiles are loaded from array parameters", "a")
        if array.type.dims != dims:
            rows = "; a row of an array is a[i]" if array.type.dims > dims else ""
            raise given.error(
                f"a tile of {dims} dimension(s) does not fit `{self.name}`, which has {array.type.dims}{rows}", name="a"
            )


def _leaves(array: ArrayRef | StructArray) -> Iterator[ArrayRef]:
    if isinstance(array, ArrayRef):
        yield array
    else:
        for item in array.items:
            yield from _leaves(item)


def _places(given: Given, array: ArrayRef, shape: tuple[int, ...]) -> list[Operand]:
    """The indices of the elements of a tile of `shape` in an array, one tile for each dimension."""
    memory, span = given.memory, given.where("offset")
    found = []
    for axis, start in enumerate(given.offset(array.type.dims, f"`{array.name}`")):
        first = given.e.as_index(start, array, span)
        index = _shifted(given, memory.iota(shape, axis, span), first, shape, span)
        if isinstance(first, Const) and first.value >= 0:
            memory.not_negative.add(index)
        found.append(index)
    return found


def _shifted(given: Given, index: Operand, first: Operand, shape: tuple[int, ...], span: Span) -> Operand:
    memory = given.memory
    if first.type is int64:
        index = memory.op("cast", index, span=span, type=tile_type(int64, shape))
    return memory.op("add", index, memory.fill(first, shape, span), span=span)


def _gathered(given: Given, array: ArrayRef, shape: tuple[int, ...]) -> list[Operand]:
    """The same where a tile of indices stands for one dimension. There, negative indices are outside."""
    memory, axis, indices = given.memory, given.axis("axis", len(shape)), given.ref("indices")
    if len(indices.shape) != 1 or indices.dtype is not int32:
        raise given.type_error("indices", "a tile of int32 with one dimension")
    if indices.shape[0] != shape[axis]:
        raise given.error(
            f"{indices.shape[0]} indices do not fit the {shape[axis]} elements of axis {axis}", name="indices"
        )
    span = given.where("indices")
    found = []
    for k, start in enumerate(given.offset(array.type.dims, f"`{array.name}`")):
        first = given.e.as_index(start, array, given.where("offset"))
        index = along_axis(given.e, indices, shape, axis, span) if k == axis else memory.iota(shape, k, span)
        index = _shifted(given, index, first, shape, span)
        if k == axis or not isinstance(first, Const) or first.value < 0:
            negative = memory.op("lt", index, zero(index.type), span=span)
            outside = Const(index.type, NO_INDEX)
            index = memory.op("select", negative, outside, index, span=span)
        memory.not_negative.add(index)
        found.append(index)
    return found


def _indices(given: Given, array: ArrayRef, places: list[Operand], component: Sequence[Const]) -> tuple[Operand, ...]:
    """All indices of a component: those of the array's row, of the elements, of the component."""
    shape, memory = types.shape_of(places[0].type), given.memory
    span, left, first = given.where("a"), iter(places), []
    for axis in array.axes:
        assert not isinstance(axis, Located)  # which tiles are not loaded from
        if isinstance(axis, Chosen):
            raise given.error(
                f"`{array.name}` is an indexed array, of which there are no tiles",
                "wp.tile_load_indexed and wp.tile_store_indexed take a tile of indices",
                "a",
            )
        if isinstance(axis, Part):
            first.append(_in_part(given, axis, next(left)))
        else:
            first.append(next(left) if axis is None else memory.fill(axis, shape, span))
    return (*first, *left, *(memory.fill_const(k.value, shape) for k in component))


def _in_part(given: Given, part: Part, place: Operand) -> Operand:
    """The indices in an array of elements of a slice of it, outside of the array where they are outside of that."""
    memory, span, shape = given.memory, given.where("a"), types.shape_of(place.type)

    def each(x: Operand) -> Operand:
        same = memory.op("cast", x, span=span, type=types.scalar_of(place.type))
        return memory.fill(same, shape, span)

    at = memory.op("add", each(part.start), memory.op("mul", place, each(part.step), span=span), span=span)
    if part.limit is None:
        holds = memory.op("lt", place, each(part.count), span=span)
    elif part.limit != NO_INDEX:
        holds = memory.op("lt", at, each(Const(int32, part.limit)), span=span)
    else:
        return at
    return memory.op("select", holds, at, Const(place.type, NO_INDEX), span=span)


def _loaded(given: Given, whole: _Whole, places: list[Operand], shape: tuple[int, ...]) -> TileRef:
    memory, holds = given.memory, _none_negative(given, places)
    items: list[Operand] = []
    for array in whole.leaves:
        kind = tile_type(array.type.dtype, shape)
        for component in component_indices(array.type.components):
            item = memory.append("load", _indices(given, array, places, component), array.index, kind, given.span)
            if holds is not None:
                item = memory.op("select", holds, item, zero(kind), span=given.span)
            items.append(item)
    return memory.made(whole.dtype, shape, items, given.span)


def _none_negative(given: Given, places: list[Operand]) -> Operand | None:
    """The test that no index of an element is negative; None if that is certain for all.

    What is in front of an array is outside of it: indices of tiles do not count from the end.
    """
    found = None
    for place in places:
        if place in given.memory.not_negative:
            continue
        holds = given.memory.op("ge", place, zero(place.type), span=given.span)
        given.memory.sign_tests.add(holds)
        found = holds if found is None else given.memory.op("and", found, holds, span=given.span)
    return found


def _load(given: Given) -> TileRef:
    shape = given.shape()
    whole = _Whole(given, len(shape))
    return _loaded(given, whole, _places(given, whole.first, shape), shape)


def _load_indexed(given: Given) -> TileRef:
    shape = given.shape()
    whole = _Whole(given, len(shape))
    return _loaded(given, whole, _gathered(given, whole.first, shape), shape)


Written = tuple[int, tuple[Operand, ...], Operand]


def _written(given: Given, places_of: Any) -> tuple[_Whole, list[Operand], list[Written]]:
    """The array that a tile `t` is written to, where, and for each component the array, the indices and the value."""
    kind, items = given.tile("t")
    assert kind.shape is not None
    whole = _Whole(given, len(kind.shape))
    if whole.dtype is not kind.dtype:
        raise given.error(
            f"`{whole.name}` holds {whole.dtype!r}, the tile {kind.dtype!r}", "wp.tile_astype converts a tile", "t"
        )
    places = places_of(given, whole.first, kind.shape)
    parts, values = [], iter(items)
    for array in whole.leaves:
        for component in component_indices(array.type.components):
            parts.append((array.index, _indices(given, array, places, component), next(values)))
    return whole, places, parts


@contextlib.contextmanager
def _where_inside(given: Given, places: list[Operand], results: list[Operand]) -> Iterator[None]:
    """Guard the nodes that are built inside: they run where no index is negative; elsewhere `results` are zero."""
    holds = _none_negative(given, places)
    if holds is None:
        yield
        return
    with given.e.builder.block() as nodes:
        yield
    found = tuple(Value(x.type) for x in results)
    zeros = tuple(zero(x.type) for x in results)
    given.e.builder.append(If(holds, Block(tuple(nodes), tuple(results)), Block((), zeros), found, given.span))
    results[:] = found


def _store(given: Given, places_of: Any = _places) -> Binding:
    _, places, parts = _written(given, places_of)
    with _where_inside(given, places, []):
        for array, indices, value in parts:
            given.memory.append("store", (*indices, value), array, None, given.span)
    return ()


def _atomic_add(given: Given, places_of: Any = _places) -> Binding:
    whole, places, parts = _written(given, places_of)
    is_struct = isinstance(whole.dtype, StructType)
    if not is_struct and whole.first.type.dtype.kind not in NUMBER:
        raise given.error(f"does not take {whole.first.type.dtype}", name="a")
    items: list[Operand] = []
    with _where_inside(given, places, items):
        for array, indices, value in parts:
            stays = is_struct and not adds_up(types.scalar_of(value.type))
            name, args = ("load", indices) if stays else ("atomic_add", (*indices, value))
            items.append(given.memory.append(name, args, array, value.type, given.span))
    shape = types.shape_of(items[0].type)
    return given.memory.made(whole.dtype, shape, items, given.span)


# -- rows

tile_load = define(
    indexed(
        "tile_load(a: array[T], shape: Shape, offset: Offset = None, storage: str = 'register',"
        " bounds_check: bool = True, aligned: bool = False) -> tile[T]"
    ),
    """The part of an array of `shape` from `offset` on; elements outside of the array are zero.

    The array has as many dimensions as the tile; a[i] is the row of one. What `bounds_check`, `aligned` and `storage`
    promise changes no result.""",
    _load,
)
tile_load_indexed = define(
    indexed(
        "tile_load_indexed(a: array[T], indices: tile[int], shape: Shape, offset: Offset = None, axis: int = 0,"
        " storage: str = 'register') -> tile[T]"
    ),
    """Like `tile_load`, with the int32 indices in the tile `indices` along `axis`.

    An index that is negative or too large stands for zeros.""",
    _load_indexed,
)
tile_store = define(
    indexed(
        "tile_store(a: array[T], t: tile[T], offset: Offset = None, bounds_check: bool = True,"
        " aligned: bool = False) -> None"
    ),
    "Write a tile to the part of an array from `offset` on; elements outside of the array are dropped.",
    _store,
)
tile_store_indexed = define(
    indexed(
        "tile_store_indexed(a: array[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0) -> None"
    ),
    """Like `tile_store`, with the int32 indices in the tile `indices` along `axis`.

    What has an index that is negative or too large is dropped.""",
    lambda given: _store(given, _gathered),
)
tile_atomic_add = define(
    indexed("tile_atomic_add(a: array[T], t: tile[T], offset: Offset = None, bounds_check: bool = True) -> tile[T]"),
    """Add a tile to the part of an array from `offset` on, each element in one indivisible step.

    Gives the tile of what the elements held before; those outside of the array are dropped, and zero.""",
    _atomic_add,
)
tile_atomic_add_indexed = define(
    indexed(
        "tile_atomic_add_indexed(a: array[T], indices: tile[int], t: tile[T], offset: Offset = None, axis: int = 0)"
        " -> tile[T]"
    ),
    "Like `tile_atomic_add`, with the int32 indices in the tile `indices` along `axis`.",
    lambda given: _atomic_add(given, _gathered),
)
