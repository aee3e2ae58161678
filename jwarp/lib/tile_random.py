"""Tiles of random numbers, as Warp makes them: each thread of the block has a sequence of its own."""

from __future__ import annotations

import functools
import math
from typing import Any

from jwarp.frontend.builtins.tiles.calls import Given, define
from jwarp.frontend.builtins.tiles.creation import collect
from jwarp.frontend.builtins.tiles.map_reduce import elementwise
from jwarp.frontend.func import Func
from jwarp.frontend.values.bindings import PythonRef, TileRef
from jwarp.ir.attributes import Strided
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import Const, For, Operand, Value
from jwarp.ir.tile_types import dense_strides
from jwarp.lib.random import hashed, randf, randi
from jwarp.types import ScalarType, float32, int32, tile_type, uint32


def _random(given: Given, function: Func, dtype: ScalarType) -> TileRef:
    """Element k is number k // B of thread k % B of a block of B threads."""
    shape, memory, span, width = given.shape(), given.memory, given.span, given.e.block_dim
    size = math.prod(shape)
    state = given.e.scalar(given.values["rng"], given.where("rng"), "`rng`")
    if state.type is not uint32:
        raise given.type_error("rng", "a state of uint32, which wp.rand_init makes")
    limits = [(name, given.values[name]) for name in ("min", "max") if name in given.values]
    bounds = [given.e.convert(value, dtype, given.where(name)) for name, value in limits]
    lanes = memory.iota((width,), 0, span)
    numbers = memory.op("cast", lanes, span=span, type=tile_type(uint32, (width,)))

    def applied(f: Func, x: Operand, more: list[Any]) -> Operand:
        _, (made,) = elementwise(given, PythonRef(f), [(uint32, (x,)), *more], (width,), [span] * (1 + len(more)))
        return made

    started = applied(hashed, memory.op("add", numbers, collect(given, state, span), span=span), [])
    number, states, drawn = Value(int32), Value(tile_type(uint32, (width,))), Value(tile_type(dtype, (size,)))
    with given.e.builder.block() as nodes:
        first = memory.op("mul", number, Const(int32, width), span=span)
        places = memory.op("add", memory.fill(first, (width,), span), lanes, span=span)
        changed = memory.op("put", drawn, places, applied(function, states, bounds), span=span)
        following = applied(hashed, states, [])
    ends = Const(int32, 0), Const(int32, -(size // -width))
    left = Value(states.type), Value(drawn.type)
    body = make_block(nodes, (following, changed))
    init = (started, zero(drawn.type))
    given.e.builder.append(For(number, *ends, 1, (states, drawn), init, body, left, span))
    item = memory.op("view", left[1], attr=Strided(shape, 0, dense_strides(shape)), span=span)
    return memory.made(dtype, shape, (item,), span)


_SAME = """`rng` does not change: a tile of other numbers needs another state. The numbers depend on
    the number of threads in a block."""

tile_randi = define(
    """
    tile_randi(shape: Shape, rng: uint32, storage: str = 'register') -> tile[int]
    tile_randi(shape: Shape, rng: uint32, min: int, max: int, storage: str = 'register') -> tile[int]""",
    f"""A tile of random int32, or of those from `min` up to, and without, `max`.

    {_SAME}""",
    functools.partial(_random, function=randi, dtype=int32),
)
tile_randf = define(
    """
    tile_randf(shape: Shape, rng: uint32, storage: str = 'register') -> tile[float]
    tile_randf(shape: Shape, rng: uint32, min: float, max: float, storage: str = 'register') -> tile[float]""",
    f"""A tile of random floats from 0 to 1, or from `min` to `max`.

    {_SAME}""",
    functools.partial(_random, function=randf, dtype=float32),
)
