"""The functions that make tiles, and move them between arrays and tiles: one row each."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jwarp import types
from jwarp.errors import CompileError, Span
from jwarp.frontend.builtins.signatures import indexed
from jwarp.frontend.builtins.table import PYTHON_BUILTINS
from jwarp.frontend.builtins.tile.calls import Given, TileBuiltin, define
from jwarp.frontend.tiles.subscripts import along_axis
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Chosen,
    Composite,
    Number,
    Part,
    TileRef,
    describe,
    flatten,
)
from jwarp.frontend.values.composites import component_indices
from jwarp.frontend.values.views import moved
from jwarp.ir.attributes import Strided
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Block, Const, If, Operand, Value
from jwarp.ir.operation import NUMBER
from jwarp.types import CompositeType, ScalarType, int32, int64, tile_type

_NO_INDEX = int32.max  # outside of any array


# -- made of numbers


def _constant(given: Given, number: int) -> TileRef:
    dtype, shape = given.dtype(), given.shape()
    scalar = dtype.dtype if isinstance(dtype, CompositeType) else dtype
    count = dtype.size if isinstance(dtype, CompositeType) else 1
    one = Number(number).as_type(scalar, given.span).value
    return given.memory.made(dtype, shape, (Const(tile_type(scalar, shape), one),) * count, given.span)


def _full(given: Given) -> TileRef:
    shape, value, span = given.shape(), given.values["value"], given.where("value")
    if isinstance(value, Composite):
        dtype: Any = given.dtype(default=value.type)
        if dtype is not value.type:
            raise given.error(f"`value` is {value.type}, the tile is of {dtype}", name="value")
        items: Sequence[Operand] = value.items
    else:
        dtype = given.dtype(default=None)
        if isinstance(dtype, CompositeType):
            raise given.type_error("value", repr(dtype))
        scalar = given.e.scalar(value, span, "`value`") if dtype is None else given.e.convert(value, dtype, span)
        dtype, items = scalar.type, (scalar,)
    return given.memory.made(dtype, shape, (given.memory.fill(x, shape, span) for x in items), given.span)


def _arange(given: Given) -> TileRef:
    dtype = given.dtype()
    if isinstance(dtype, CompositeType) or dtype.kind not in NUMBER:
        raise given.type_error("dtype", "a numeric scalar type")
    numbers = [_bound(given, value, dtype) for value in given.values["args"]]
    if not 1 <= len(numbers) <= 3:
        raise given.error(f"takes 1 to 3 numbers, {len(numbers)} given", "wp.tile_arange(start, stop, step)")
    start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if step == 0:
        raise given.error("`step` must not be zero")
    if (stop - start) * step <= 0:
        raise given.error(f"the range from {start} to {stop} in steps of {step} is empty", "a tile has elements")
    if dtype.is_int:
        count = -((stop - start) // -step)
    else:  # counted from what the type can hold, the quotient too
        quotient = float(dtype.dtype.type((stop - start) / step))
        count = max(1, math.ceil(quotient)) if math.isfinite(quotient) else 0
    if not 1 <= count <= types.MAX_TILE_ELEMENTS:
        raise given.error(f"the range from {start} to {stop} in steps of {step} has too many elements")
    kind, span, memory = tile_type(dtype, (count,)), given.span, given.memory
    index = memory.op("cast", memory.iota((count,), 0, span), span=span, type=kind)
    items = memory.op("mul", index, Const(kind, _as(step, dtype)), span=span)
    items = memory.op("add", Const(kind, _as(start, dtype)), items, span=span)
    return memory.made(dtype, (count,), (items,), span)


def _as(number: float, dtype: ScalarType) -> int | float:
    return int(number) if dtype.is_int else float(number)


def _bound(given: Given, value: Binding, dtype: ScalarType) -> Any:
    """A bound of a range, as the type of the tile holds it."""
    number = value.value if isinstance(value, (Number, Const)) else None
    if number is None or isinstance(number, bool):
        raise CompileError(
            "wp.tile_arange takes constant numbers", given.where("args"), "write numbers or wp.static(…)"
        )
    if dtype.is_int and number != int(number):
        raise given.error(f"{number} is no {dtype}", "pass dtype=float for a range of floats")
    if dtype.is_int and not dtype.min <= number <= dtype.max:
        raise given.error(f"{number} does not fit {dtype}")
    return int(number) if dtype.is_int else float(np.asarray(number).astype(dtype.dtype))


# -- made of what the threads of a block have, and back


def collect(given: Given, x: Operand, span: Span) -> Operand:
    """The tile of every thread's value."""
    kind = tile_type(x.type, (given.e.block_dim,))
    return Const(kind, x.value) if isinstance(x, Const) else given.memory.append("collect", (x,), None, kind, span)


def _tile(given: Given) -> TileRef:
    value, span, width = given.values["x"], given.span, given.e.block_dim
    if isinstance(value, TileRef):
        raise given.type_error("x", "a number, vector or matrix of each thread")
    memory = given.memory
    if not isinstance(value, Composite):
        scalar = given.e.scalar(value, given.where("x"), "`x` of wp.tile")
        return memory.made(scalar.type, (width,), (collect(given, scalar, span),), given.span)
    columns = [collect(given, item, span) for item in value.items]
    if given.flag("preserve_type"):
        return memory.made(value.type, (width,), columns, given.span)
    shape = (*value.type.shape, width)
    whole: Operand = zero(tile_type(value.type.dtype, given.checked_shape(shape)))
    for component, column in zip(component_indices(value.type.shape), columns, strict=True):
        places = [memory.fill_const(k.value, (width,)) for k in component]
        whole = memory.op("put", whole, *places, memory.iota((width,), 0, span), column, span=span)
    return memory.made(value.type.dtype, shape, (whole,), given.span)


def _untile(given: Given) -> Binding:
    ref, span, memory = given.ref("a"), given.where("a"), given.memory
    *axes, width = ref.shape
    if width != given.e.block_dim:
        raise given.error(
            f"the last dimension of the tile is {width}, a block has {given.e.block_dim} threads",
            "launch with that block_dim, or read elements: t[i]",
            "a",
        )
    if len(axes) > 2 or (axes and isinstance(ref.dtype, CompositeType)):
        raise given.type_error("a", "a tile with one value, vector or matrix for each thread")
    items = memory.read(ref, span)
    if axes:
        shape, count = (width,), math.prod(axes)
        items = tuple(
            memory.op("view", items[0], attr=Strided(shape, k * width, (1,)), span=span) for k in range(count)
        )
    own = [memory.append("own", (item,), None, types.scalar_of(item.type), given.span) for item in items]
    if not axes:
        return memory.composed(ref.dtype, own)
    assert isinstance(ref.dtype, ScalarType)
    kind = types.vector(axes[0], ref.dtype) if len(axes) == 1 else types.matrix((axes[0], axes[1]), ref.dtype)
    return Composite(kind, tuple(own))


def _from_thread(given: Given) -> TileRef:
    shape, value, span, memory = given.shape(), given.values["value"], given.where("value"), given.memory
    thread = memory.position(given.values["thread_idx"], "`thread_idx`", given.where("thread_idx"))
    if isinstance(thread, int) and not 0 <= thread < given.e.block_dim:
        raise given.error(f"there is no thread {thread} of {given.e.block_dim}", name="thread_idx")
    index = Const(int32, thread) if isinstance(thread, int) else thread
    parts = value.items if isinstance(value, Composite) else (given.e.scalar(value, span, "`value`"),)
    dtype = value.type if isinstance(value, Composite) else parts[0].type
    items = []
    for part in parts:
        one = memory.op("take", collect(given, part, span), index, span=given.where("thread_idx"))
        items.append(memory.fill(one, shape, given.span))
    return memory.made(dtype, shape, items, given.span)


# -- arrays


def _array(given: Given, dims: int | None) -> ArrayRef:
    """The array argument `a`, of as many dimensions as the tile."""
    array = given.values["a"]
    if not isinstance(array, ArrayRef):
        raise given.type_error("a", "an array of numbers, vectors or matrices")
    if array.is_local:
        raise given.error(f"`{array.name}` is a thread's own array", "tiles are loaded from array parameters", "a")
    if dims is not None and array.type.dims != dims:
        rows = "; a row of an array is a[i]" if array.type.dims > dims else ""
        raise given.error(
            f"a tile of {dims} dimension(s) does not fit `{array.name}`, which has {array.type.dims}{rows}", name="a"
        )
    return array


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
            outside = Const(index.type, _NO_INDEX)
            index = memory.op("select", negative, outside, index, span=span)
        memory.not_negative.add(index)
        found.append(index)
    return found


def _indices(given: Given, array: ArrayRef, places: list[Operand], component: Sequence[Const]) -> tuple[Operand, ...]:
    """All indices of a component: those of the array's row, of the elements, of the component."""
    shape, memory = types.shape_of(places[0].type), given.memory
    left, first = iter(places), []
    for axis in array.axes:
        if isinstance(axis, (Part, Chosen)):
            raise given.error(
                f"`{array.name}` is a slice or indexed here; tiles are parts of whole arrays and of rows",
                "give the array itself, and an offset= in it",
                name="a",
            )
        first.append(next(left) if axis is None else memory.fill(axis, shape, given.where("a")))
    return (*first, *left, *(memory.fill_const(k.value, shape) for k in component))


def _loaded(given: Given, array: ArrayRef, places: list[Operand], shape: tuple[int, ...]) -> TileRef:
    kind, memory = tile_type(array.type.dtype, shape), given.memory
    holds = _none_negative(given, places)
    items: list[Operand] = []
    for component in component_indices(array.type.components):
        item = memory.append("load", _indices(given, array, places, component), array.index, kind, given.span)
        if holds is not None:
            item = memory.op("select", holds, item, zero(kind), span=given.span)
        items.append(item)
    return memory.made(array.type.element, shape, items, given.span)


def _none_negative(given: Given, places: list[Operand]) -> Operand | None:
    """Whether the indices of an element are not negative; None if that is certain for all.

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
    array = _array(given, len(shape))
    return _loaded(given, array, _places(given, array, shape), shape)


def _load_indexed(given: Given) -> TileRef:
    shape = given.shape()
    array = _array(given, len(shape))
    return _loaded(given, array, _gathered(given, array, shape), shape)


def _written(given: Given, places_of: Any) -> tuple[ArrayRef, list[Operand], list[tuple[tuple[Operand, ...], Operand]]]:
    """The array that a tile `t` is written to, where, and the indices and values for each component."""
    kind, items = given.tile("t")
    assert kind.shape is not None
    array = _array(given, len(kind.shape))
    if array.type.element is not kind.dtype:
        raise given.error(
            f"`{array.name}` holds {array.type.element}, the tile {kind.dtype}",
            "wp.tile_astype converts a tile",
            "t",
        )
    places = places_of(given, array, kind.shape)
    components = component_indices(array.type.components)
    return array, places, [(_indices(given, array, places, c), x) for c, x in zip(components, items, strict=True)]


@contextlib.contextmanager
def _where_inside(given: Given, places: list[Operand], results: list[Operand]) -> Iterator[None]:
    """What is built inside happens for elements with no negative index; for others, `results` become zero."""
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
    array, places, parts = _written(given, places_of)
    with _where_inside(given, places, []):
        for indices, value in parts:
            given.memory.append("store", (*indices, value), array.index, None, given.span)
    return ()


def _atomic_add(given: Given, places_of: Any = _places) -> Binding:
    array, places, parts = _written(given, places_of)
    if array.type.dtype.kind not in NUMBER:
        raise given.error(f"does not take {array.type.dtype}", name="a")
    items: list[Operand] = []
    with _where_inside(given, places, items):
        for indices, value in parts:
            items.append(given.memory.append("atomic_add", (*indices, value), array.index, value.type, given.span))
    shape = types.shape_of(items[0].type)
    return given.memory.made(array.type.element, shape, items, given.span)


# -- a thread's writes to a tile


def _by_rank(args: list[Binding], named: dict[str, Binding]) -> int:
    """The form of a function that takes a tile and an index for each of its axes."""
    tile = args[0] if args else named.get("a")
    return len(tile.shape) - 1 if isinstance(tile, TileRef) else 0


def _scatter(given: Given, operation: str) -> Binding:
    """Each thread that has a value puts it into a tile, or adds it."""
    ref, memory, e, span = given.ref("a"), given.memory, given.e, given.span
    value, place = given.values["value"], given.where("value")
    if getattr(value, "type", None) is not ref.dtype:
        raise given.error(f"the tile holds {ref.dtype}, the value is {describe(value)}", name="value")
    if operation == "put_add" and ref.type.scalar.kind not in NUMBER:
        raise given.error(f"does not take {ref.dtype}", name="a")
    has = e.condition(given.values["has_value"], given.where("has_value"))
    view, hasnt = ref.view, e.emit("not", has, span=span)
    for axis, name in enumerate("ijkl"[: len(ref.shape)]):
        position = memory.position(given.values[name], f"`{name}`", given.where(name))
        memory.check_index(position, ref.shape[axis], 1, given.where(name), unless=hasnt)
        index: Operand = Const(int32, position) if isinstance(position, int) else position
        if axis == 0 and has != Const(has.type, True):  # a thread without a value adds to no element
            index = e.emit("select", has, index, Const(int32, _NO_INDEX), span=span)
        view = moved(view, 0, _own(given, index, span), None, memory)
    items = [_own(given, x, place) for x in flatten(value, place) or ()]
    memory.write(TileRef(ref.dtype, ref.cell, view), items, span, operation)
    return ()


def _own(given: Given, x: Operand, span: Span) -> Operand:
    """`x` as something that every thread has for itself, also where all have the same."""
    return given.memory.append("own", (collect(given, x, span),), None, x.type, span)


# -- rows


def _of_shape(name: str, doc: str, number: int) -> TileBuiltin:
    return define(
        f"""
        {name}(shape: Shape, dtype: type[T], storage: str = 'register') -> tile[T]
        {name}(shape: Shape, dtype: type[float] = float, storage: str = 'register') -> tile[float]""",
        f"""{doc}

        `shape` is a constant integer, or a tuple of up to four; `dtype` a scalar, vector or matrix type.
        `storage` is "register" or "shared"; what is read more than once lies in shared memory either way.""",
        lambda given: _constant(given, number),
    )


tile_zeros = _of_shape("tile_zeros", "A tile of zeros.", 0)
tile_ones = _of_shape("tile_ones", "A tile of ones.", 1)
tile_empty = _of_shape("tile_empty", "A tile that is to be written; what is not holds zeros.", 0)
tile_full = define(
    """
    tile_full(shape: Shape, value: Any, dtype: type[T], storage: str = 'register') -> tile[T]
    tile_full(shape: Shape, value: T, dtype: None = None, storage: str = 'register') -> tile[T]""",
    """A tile of one value, a number, vector or matrix.

    `shape` is a constant integer, or a tuple of up to four. With a scalar type `dtype` a number is converted.""",
    _full,
)
tile_arange = define(
    """
    tile_arange(*args: float, dtype: type[T], storage: str = 'register') -> tile[T]
    tile_arange(*args: float, dtype: type[float] = float, storage: str = 'register') -> tile[float]""",
    """A tile of one dimension with the numbers of a range: (stop), (start, stop) or (start, stop, step), constants.

    Raises:
        KernelTypeError: the range is empty, or a number does not fit `dtype`.
        CompileError: a number is not constant.""",
    _arange,
)
tile_from_thread = define(
    "tile_from_thread(shape: Shape, value: T, thread_idx: Index, storage: str = 'register') -> tile[T]",
    "A tile of the value, a number, vector or matrix, that one thread of the block has.",
    _from_thread,
)
tile = define(
    "tile(x: T, preserve_type: bool = False) -> tile[T]",
    """The tile of the values that the threads of the block have, one for each thread along the last axis.

    The components of vectors and matrices are axes in front of it; with `preserve_type` they stay together as
    elements. Outside kernels `wp.tile(dtype=float, shape=(8, 8))` and `wp.tile[float]` are the types of parameters.""",
    _tile,
)
untile = define(
    "untile(a: tile[T]) -> T",
    "This thread's number, vector or matrix in a tile whose last axis has an element for each thread of the block.",
    _untile,
)
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
    """As `tile_load`, where the int32 in the tile `indices` are the indices along `axis`.

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
    """As `tile_store`, where the int32 in the tile `indices` are the indices along `axis`.

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
    "As `tile_atomic_add`, where the int32 in the tile `indices` are the indices along `axis`.",
    lambda given: _atomic_add(given, _gathered),
)
tile_scatter_add = define(
    indexed("tile_scatter_add(a: tile[T], *index, value: T, has_value: bool, atomic: bool = True) -> None"),
    "Each thread that has a value adds it to an element of a tile: one index for each dimension.",
    lambda given: _scatter(given, "put_add"),
    _by_rank,
)
tile_scatter_masked = define(
    indexed("tile_scatter_masked(a: tile[T], *index, value: T, has_value: bool) -> None"),
    "Each thread that has a value writes it to an element of a tile: one index for each dimension.",
    lambda given: _scatter(given, "put"),
    _by_rank,
)
block_dim = define(
    "block_dim() -> int", "How many threads a block of this launch has.", lambda given: Const(int32, given.e.block_dim)
)

# Outside kernels `wp.tile` says the type of a parameter.
PYTHON_BUILTINS[types.tile] = tile
