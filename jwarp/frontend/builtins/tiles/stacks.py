"""The functions on stacks that the threads of a block share: one row each.

A stack is made of tiles: one with the number of its elements, and one for each scalar that an element is made of.
So loops and branches carry it as they carry tiles, and its values have derivatives.
"""

from __future__ import annotations

from typing import Any

from jwarp import types
from jwarp.frontend.builtins.table import PYTHON_BUILTINS
from jwarp.frontend.builtins.tiles.calls import Given, define
from jwarp.frontend.builtins.tiles.creation import collect
from jwarp.frontend.values.bindings import Binding, TileRef, TileStack, describe, flatten
from jwarp.ir.attributes import Reduction, Scan
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import MAX_TILE_ELEMENTS, StackKind, int32, tile_type


def _stack(given: Given) -> TileStack:
    capacity = given.constant("capacity", given.values["capacity"])
    if not 1 <= capacity <= MAX_TILE_ELEMENTS:
        raise given.error(
            f"`capacity` must be a positive integer up to {MAX_TILE_ELEMENTS}, not {capacity}", name="capacity"
        )
    dtype, memory, span = given.dtype(), given.memory, given.span
    kinds = [tile_type(scalar, (capacity,)) for scalar in given.scalars_of(dtype, "dtype")]
    size = memory.made(int32, (1,), (zero(tile_type(int32, (1,))),), span)
    return TileStack(StackKind(dtype, capacity), (size, memory.made(dtype, (capacity,), map(zero, kinds), span)))


class _Call:
    """A call of a function on a stack: the stack, its tiles, and the block's lanes."""

    def __init__(self, given: Given):
        stack = given.values["s"]
        if not isinstance(stack, TileStack):
            raise given.type_error("s", "a stack, which wp.tile_stack makes")
        self.given, self.stack, self.memory = given, stack, given.memory
        self.size, self.elements = (ref for ref in stack.items if isinstance(ref, TileRef))
        self.capacity, self.width = stack.type.capacity, given.e.block_dim

    def op(self, name: str, *args: Operand, attr: Any = None, type: Any = None) -> Operand:
        return self.memory.op(name, *args, attr=attr, type=type, span=self.given.span)

    def fill(self, x: Operand | int) -> Operand:
        """A number for each lane."""
        return self.memory.fill(Const(int32, x) if isinstance(x, int) else x, (self.width,), self.given.span)

    def columns(self) -> tuple[Operand, ...]:
        """The tiles of the scalars of all elements."""
        return self.memory.read(self.elements, self.given.span)

    def count(self) -> Operand:
        return self.op("take", self.memory.read(self.size, self.given.span)[0], Const(int32, 0))

    def set_count(self, count: Operand) -> None:
        self.memory.write(self.size, (self.memory.fill(count, (1,), self.given.span),), self.given.span)

    def own(self, tile: Operand) -> Operand:
        """Each lane's own element of a tile."""
        if isinstance(tile, Const):
            return Const(tile.type.scalar, tile.value)  # type: ignore[attr-defined]
        kind = tile.type.scalar  # type: ignore[attr-defined]
        return self.memory.append("own", (tile,), None, kind, self.given.span)


def _push(given: Given) -> Binding:
    call = _Call(given)
    value, dtype, span = given.values["value"], call.stack.type.dtype, given.where("value")
    if getattr(value, "type", None) is not dtype:
        raise given.error(
            f"the stack holds {dtype!r}, which {describe(value)} does not match",
            "convert it",
            "value",
        )
    has = given.e.condition(given.values["has_value"], given.where("has_value"))
    offered = collect(given, call.op("cast", has, type=int32), span)
    first, op = call.count(), call.op
    slot = op("add", call.fill(first), op("scan", offered, attr=Scan("add", False, True)))
    fits = op("and", op("ne", offered, call.fill(0)), op("lt", slot, call.fill(call.capacity)))
    place = op("select", fits, slot, call.fill(call.capacity))  # outside
    pairs = zip(call.columns(), flatten(value, span) or (), strict=True)
    changed = [op("put", column, place, collect(given, scalar, span)) for column, scalar in pairs]
    call.memory.write(call.elements, changed, given.span)
    total = op("add", first, op("reduce", offered, attr=Reduction("add", (0,))))
    call.set_count(op("min", total, Const(int32, call.capacity)))
    return call.own(op("select", fits, slot, call.fill(-1)))


def _pop(given: Given) -> Binding:
    call = _Call(given)
    op, count = call.op, call.count()
    lane = call.memory.iota((call.width,), 0, given.span)
    slot = op("sub", call.fill(op("sub", count, Const(int32, 1))), lane)
    found = op("ge", slot, call.fill(0))
    place = op("select", found, slot, call.fill(call.capacity))  # outside, where there are zeros
    scalars = [call.own(op("take", column, place)) for column in call.columns()]
    asking = collect(given, Const(int32, 1), given.span)  # by those that there are
    taken = op("reduce", asking, attr=Reduction("add", (0,)))
    call.set_count(op("max", op("sub", count, taken), Const(int32, 0)))
    return call.memory.composed(call.stack.type.dtype, scalars), call.own(op("select", found, slot, call.fill(-1)))


def _clear(given: Given) -> Binding:
    _Call(given).set_count(Const(int32, 0))
    return ()


# -- rows

tile_stack = define(
    "tile_stack(capacity: int, dtype: type[T]) -> tile_stack[T]",
    """An empty stack that the threads of the block share, of at most `capacity` elements.

    The elements are numbers, vectors, matrices or structs of these. Threads push and pop in
    their order: of one `tile_stack_push`, the first threads come first; of one `tile_stack_pop`, the first thread gets
    the last element.""",
    _stack,
)
tile_stack_push = define(
    "tile_stack_push(s: tile_stack[T], value: T, has_value: bool) -> int",
    """Push the value of each thread that has one, in the order of the threads.

    Returns the slot of this thread's value; -1 if it has none, or if the stack was full and the value was dropped.""",
    _push,
)
tile_stack_pop = define(
    "tile_stack_pop(s: tile_stack[T]) -> tuple[T, int]",
    """Pop one element for each thread, in the order of the threads.

    Returns the element and its slot; zeros and -1 if no element was left for this thread.""",
    _pop,
)
tile_stack_clear = define("tile_stack_clear(s: tile_stack[Any]) -> None", "Remove all elements of a stack.", _clear)
tile_stack_count = define(
    "tile_stack_count(s: tile_stack[Any]) -> int",
    "The number of elements of a stack.",
    lambda given: _Call(given).count(),
)

# Outside kernels `wp.tile_stack` says the type of a parameter.
PYTHON_BUILTINS[types.tile_stack] = tile_stack
