"""The functions that make tiles of numbers, and of what the threads of a block have: one row each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jwarp import types
from jwarp.errors import CompileError, Span
from jwarp.frontend.builtins.signatures import indexed
from jwarp.frontend.builtins.table import PYTHON_BUILTINS
from jwarp.frontend.builtins.tiles.calls import NO_INDEX, Given, TileBuiltin, define
from jwarp.frontend.tiles.operators import adds_up
from jwarp.frontend.values.bindings import Binding, Composite, Number, StructValue, TileRef, describe, flatten
from jwarp.frontend.values.composites import component_indices
from jwarp.frontend.values.views import moved
from jwarp.ir.attributes import Strided
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand
from jwarp.ir.operation import NUMBER
from jwarp.types import CompositeType, ScalarType, StructType, int32, tile_type

# -- made of numbers


def _constant(given: Given, number: int) -> TileRef:
    dtype, shape = given.dtype(), given.shape()
    if number and isinstance(dtype, StructType):
        raise given.type_error("dtype", "a scalar, vector or matrix type", "wp.tile_full makes a tile of one struct")
    ones = [Number(number).as_type(scalar, given.span) for scalar in given.scalars_of(dtype, "dtype")]
    items = (Const(tile_type(one.type, shape), one.value) for one in ones)
    return given.memory.made(dtype, shape, items, given.span)


def _full(given: Given) -> TileRef:
    shape, value, span = given.shape(), given.values["value"], given.where("value")
    if isinstance(value, (Composite, StructValue)):
        dtype: Any = given.dtype(default=value.type)
        if dtype is not value.type:
            raise given.error(f"`value` is {value.type!r}, the tile is of {dtype!r}", name="value")
        given.scalars_of(dtype, "value")
        items: Sequence[Operand] = flatten(value, span) or ()
    else:
        dtype = given.dtype(default=None)
        if isinstance(dtype, (CompositeType, StructType)):
            raise given.type_error("value", repr(dtype))
        scalar = given.e.scalar(value, span, "`value`") if dtype is None else given.e.convert(value, dtype, span)
        dtype, items = scalar.type, (scalar,)
    return given.memory.made(dtype, shape, (given.memory.fill(x, shape, span) for x in items), given.span)


def _arange(given: Given) -> TileRef:
    dtype = given.dtype()
    if not isinstance(dtype, ScalarType) or dtype.kind not in NUMBER:
        raise given.type_error("dtype", "a numeric scalar type: tile_arange() requires a numeric scalar dtype")
    bounds = given.values["args"]
    names = (
        ("stop",) if len(bounds) == 1 else ("start", "stop", "step", *(f"number {k}" for k in range(3, len(bounds))))
    )
    numbers = [_bound(given, name, value, dtype) for name, value in zip(names, bounds, strict=False)]
    if not 1 <= len(numbers) <= 3:
        raise given.error(
            f"takes 1 to 3 numbers: tile_arange() accepts at most 3 positional arguments, got {len(numbers)}",
            "wp.tile_arange(start, stop, step)",
        )
    start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if step == 0:
        raise given.error("the step cannot be zero")
    if (stop - start) * step <= 0:
        raise given.error(
            f"the range from {start} to {stop} in steps of {step} is empty: a tile needs a non-empty range",
            "a tile has elements",
        )
    if dtype.is_int:
        count = -((stop - start) // -step)
    else:  # counted from what the type can hold, the quotient too
        quotient = float(dtype.dtype.type((stop - start) / step))
        count = max(1, math.ceil(quotient)) if math.isfinite(quotient) else 0
    if not 1 <= count <= types.MAX_TILE_ELEMENTS:
        raise given.error(
            f"the range from {start} to {stop} in steps of {step} spans more elements than can be counted"
        )
    kind, span, memory = tile_type(dtype, (count,)), given.span, given.memory
    index = memory.op("cast", memory.iota((count,), 0, span), span=span, type=kind)
    items = memory.op("mul", index, Const(kind, _as(step, dtype)), span=span)
    items = memory.op("add", Const(kind, _as(start, dtype)), items, span=span)
    return memory.made(dtype, (count,), (items,), span)


def _as(number: float, dtype: ScalarType) -> int | float:
    return int(number) if dtype.is_int else float(number)


def _bound(given: Given, name: str, value: Binding, dtype: ScalarType) -> Any:
    """The number `name` of a range, as the type of the tile holds it."""
    number = value.value if isinstance(value, (Number, Const)) else None
    if number is None or isinstance(number, bool):
        raise CompileError(
            f"tile_arange() arguments must be compile time constants, but {name} is not",
            given.where("args"),
            "write numbers or wp.static(…)",
        )
    if dtype.is_int and number != int(number):
        fault = f"{name}={number} has a fractional part, and {dtype} has none"
        raise given.error(fault, "pass dtype=float for a range of floats", also=ValueError)
    if dtype.is_int and not dtype.min <= number <= dtype.max:
        raise given.error(f"{name}={number} is out of range for {dtype}", also=ValueError)
    if dtype.is_int:
        return int(number)
    with np.errstate(over="ignore"):
        held = float(np.asarray(number).astype(dtype.dtype))
    if math.isinf(held) and not math.isinf(number):
        raise given.error(f"{name}={number} is out of range for {dtype}", also=ValueError)
    return held


# -- made of what the threads of a block have, and back


def collect(given: Given, x: Operand, span: Span) -> Operand:
    """The tile of every thread's value; of a constant, too, as some threads may not be there."""
    return given.memory.append("collect", (x,), None, tile_type(x.type, (given.e.block_dim,)), span)


def _tile(given: Given) -> TileRef:
    value, span, width = given.values["x"], given.span, given.e.block_dim
    if isinstance(value, TileRef):
        raise given.type_error("x", "a number, vector, matrix or struct of each thread")
    memory = given.memory
    if isinstance(value, StructValue):
        given.scalars_of(value.type, "x")
        return memory.made(value.type, (width,), (collect(given, x, span) for x in flatten(value, span) or ()), span)
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
    if len(axes) > 2 or (axes and not isinstance(ref.dtype, ScalarType)):
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
    if given.e.block_dim == 1 and not (isinstance(thread, int) and thread < 0):
        thread = 0  # of blocks of one thread, as launches on processors have, it is that one
    if isinstance(thread, int) and not 0 <= thread < given.e.block_dim:
        raise given.error(f"there is no thread {thread} of {given.e.block_dim}", name="thread_idx")
    index = Const(int32, thread) if isinstance(thread, int) else thread
    is_made = isinstance(value, (Composite, StructValue))
    parts = (flatten(value, span) or []) if is_made else [given.e.scalar(value, span, "`value`")]
    dtype = value.type if is_made else parts[0].type
    given.scalars_of(dtype, "value")
    items = []
    for part in parts:
        one = memory.op("take", collect(given, part, span), index, span=given.where("thread_idx"))
        items.append(memory.fill(one, shape, given.span))
    return memory.made(dtype, shape, items, given.span)


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
    is_struct = isinstance(ref.dtype, StructType)
    if operation == "put_add" and not is_struct and ref.type.scalar.kind not in NUMBER:
        raise given.error(f"does not take {ref.dtype}", name="a")
    has = e.condition(given.values["has_value"], given.where("has_value"))
    view, hasnt = ref.view, e.emit("not", has, span=span)
    for axis, name in enumerate("ijkl"[: len(ref.shape)]):
        position = memory.position(given.values[name], f"`{name}`", given.where(name))
        memory.check_index(position, ref.shape[axis], 1, given.where(name), unless=hasnt)
        index: Operand = Const(int32, position) if isinstance(position, int) else position
        if axis == 0 and has != Const(has.type, True):  # a thread without a value adds to no element
            index = e.emit("select", has, index, Const(int32, NO_INDEX), span=span)
        view = moved(view, 0, _own(given, index, span), None, memory)
    items = [
        None if is_struct and operation == "put_add" and not adds_up(x.type) else _own(given, x, place)
        for x in flatten(value, place) or ()
    ]
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
        `storage` is "register" or "shared"; tiles that are read more than once are in shared memory in any case.""",
        lambda given: _constant(given, number),
    )


tile_zeros = _of_shape("tile_zeros", "A tile of zeros.", 0)
tile_ones = _of_shape("tile_ones", "A tile of ones.", 1)
tile_empty = _of_shape("tile_empty", "A tile to be written; elements that are not written are zeros.", 0)
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
    "The element of this thread in a tile whose last axis has one element for each thread of the block.",
    _untile,
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
    "block_dim() -> int", "The number of threads in a block.", lambda given: Const(int32, given.e.block_dim)
)

# Outside kernels `wp.tile` says the type of a parameter.
PYTHON_BUILTINS[types.tile] = tile
