"""Cells: the contents of a kernel's tiles while it is read, shared by views of tiles and function arguments.

A tile in the IR is a value. One in the kernel language is a place: `a[j] = v`, `a += b` and the functions that change
an argument change what every name of the place shows. So a name stands for a cell and a view of it, and what the
cell holds is a value like any other, which branches and loops join and carry.

Where it depends on a condition whether two cells are one place to Python, a change of either makes the other unusable.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.values.bindings import Binding, Tile, TileRef, TileStack, Unusable, as_operand, describe, rebuild
from jwarp.frontend.values.structs import nothing
from jwarp.frontend.values.views import Along, View, by_axes, whole
from jwarp.ir.attributes import Attribute, Iota, Strided
from jwarp.ir.builder import FALSE, TRUE, Builder
from jwarp.ir.nodes import Const, Op, Operand, Value
from jwarp.ir.ops import OPS
from jwarp.ir.tile_types import Misfit, dense_strides
from jwarp.types import (
    ElementType,
    TileKind,
    ValueType,
    int32,
    int64,
    scalar_of,
    shape_of,
    tile_type,
    uint32,
    uint64,
    with_shape,
)

# The bytes that one tile may take. All tiles of a block are in the memory of one worker.
MAX_TILE_BYTES = 1 << 20

# Changes of elements by a bitwise operation, which every thread that makes one takes part in; not in the finished IR.
COMBINING = {name: row.combines for name, row in OPS.items() if row.changes_tile and row.is_logical}

_AMBIGUOUS = Unusable(
    "this tile may be the same as one that was changed since, depending on a condition",
    "copy it before that, `b = a`, or use one name for it",
)

Cells = dict[int, Tile | Unusable]


class TileMemory:
    """The cells, and what reads and changes them."""

    def __init__(self, builder: Builder, debug: bool):
        self.builder, self.debug = builder, debug
        self.cells: Cells = {}
        self.count = 0
        # Cells that may be the same place, each with all of those.
        self.groups: dict[int, set[int]] = {}
        self.filled: dict[Operand, Operand] = {}  # what tiles are filled with
        self.not_negative: set[Operand] = set()  # indices of elements that are certainly not
        self.sign_tests: set[Operand] = set()  # of those that may be; the program itself asks none of them

    # -- operations

    def op(
        self, name: str, *args: Operand, span: Span, attr: Attribute | None = None, type: ValueType | None = None
    ) -> Operand:
        """Append an operation."""
        builder = self.builder
        before, builder.span = builder.span, span
        try:
            return builder.op(name, *args, attr=attr, type=type)
        except Misfit as reason:
            raise KernelTypeError(str(reason), span) from None
        finally:
            builder.span = before

    def append(
        self, name: str, args: tuple[Operand, ...], attr: Attribute | None, type: ValueType | None, span: Span
    ) -> Operand:
        """Append an operation that depends on more than its arguments, or is not one of the finished IR."""
        result = None if type is None else Value(type)
        self.builder.append(Op(name, args, attr, result, span))
        return result if result is not None else TRUE

    def fill(self, x: Operand, shape: tuple[int, ...], span: Span) -> Operand:
        """`x` as a tile of `shape`; for () as it is."""
        if shape_of(x.type) == shape:
            return x
        filled = self.op("fill", x, attr=shape, span=span)
        self.filled[filled] = x
        return filled

    def iota(self, shape: tuple[int, ...], axis: int, span: Span) -> Operand:
        if shape[axis] == 1:
            return Const(tile_type(int32, shape), 0)
        return self.op("iota", attr=Iota(shape, axis), span=span)

    def linear(
        self, shape: tuple[int, ...], first: int, start: Operand | None, dim: int | None, step: int, span: Span
    ) -> Operand:
        """first + start + step * (index along axis `dim`): a scalar without a `dim`, else a tile."""
        index: Operand = Const(int32, first)
        if start is not None:
            index = self.op("add", start, index, span=span)
        if dim is None:
            return index
        steps = self.op("mul", self.iota(shape, dim, span), Const(tile_type(int32, shape), step), span=span)
        return self.op("add", steps, self.fill(index, shape, span), span=span)

    # -- indices

    def position(self, binding: Binding, what: str, span: Span) -> int | Operand:
        """An index or offset: a number where it is constant, else int32."""
        operand = as_operand(binding, span)
        if operand is None or not operand.type.is_int:
            raise KernelTypeError(
                f"{what} must be an integer, not {describe(binding)}: they must be integers or slices", span
            )
        if isinstance(operand, Const):
            return int(operand.value)
        if operand.type in (int64, uint32, uint64):  # what does not fit int32 is outside any tile
            if operand.type is int64:
                operand = self.op("max", operand, Const(int64, int32.min), span=span)
            operand = self.op("min", operand, Const(operand.type, int32.max), span=span)
        return self.op("cast", operand, span=span, type=int32)

    def check_index(self, index: int | Operand, extent: int, count: int, span: Span, unless: Operand = FALSE) -> None:
        """Debug mode: `count` elements from an index of an axis on must be there, `unless` a condition holds."""
        if not self.debug or not isinstance(index, Value):
            return
        low = self.op("ge", index, Const(int32, -extent if count == 1 else 0), span=span)
        high = self.op("le", index, Const(int32, extent - count), span=span)
        holds = self.op("or", unless, self.op("and", low, high, span=span), span=span)
        before, self.builder.span = self.builder.span, span
        self.builder.check(holds, f"index outside of the {extent} elements along an axis of a tile")
        self.builder.span = before

    def from_start(self, index: Operand, extent: int) -> Operand:
        span = self.builder.span
        negative = self.op("lt", index, Const(int32, 0), span=span)
        return self.op("select", negative, self.op("add", index, Const(int32, extent), span=span), index, span=span)

    def along(self, start: Operand, step: int, index: Operand) -> Operand:
        span = self.builder.span
        return self.op("add", start, self.op("mul", index, Const(int32, step), span=span), span=span)

    def indices(self, view: View, shape: tuple[int, ...], span: Span) -> tuple[bool, tuple[Operand, ...]]:
        """The indices of a view's elements in a tile of `shape`; and whether they are those of the flattened tile."""
        axes = by_axes(view, shape)
        if axes is None:
            return True, (self._flat(view, math.prod(shape), span),)

        def index(axis: Along) -> Operand:
            found = self.linear(view.shape, axis.first, axis.start, axis.dim, axis.step, span)
            return self.fill(found, view.shape, span) if view.shape else found

        return False, tuple(map(index, axes))

    def _flat(self, view: View, size: int, span: Span) -> Operand:
        shape = view.shape
        total: Operand = self.fill_const(view.offset, shape)
        for dim, stride in enumerate(view.strides):
            step = self.linear(shape, 0, None, dim, stride, span)
            total = self.op("add", total, step, span=span)
        holds: Operand = Const(with_shape(TRUE.type, shape), True)
        for m in view.moving:
            index = self.linear(shape, m.shift, m.start, m.dim, m.step, span)
            index = self.fill(index, shape, span) if shape else index
            zero, extent = (self.fill_const(n, shape) for n in (0, m.extent))
            wrapped = self.op("add", index, extent, span=span)
            index = self.op("select", self.op("lt", index, zero, span=span), wrapped, index, span=span)
            for name, bound in (("ge", zero), ("lt", extent)):
                holds = self.op("and", holds, self.op(name, index, bound, span=span), span=span)
            offset = self.op("mul", index, self.fill_const(m.stride, shape), span=span)
            total = self.op("add", total, offset, span=span)
        return self.op("select", holds, total, self.fill_const(size, shape), span=span)

    def fill_const(self, number: int, shape: tuple[int, ...]) -> Const:
        return Const(with_shape(int32, shape), number)

    # -- cells

    def new(self, tile: Tile, span: Span) -> TileRef:
        """A new place that holds `tile`."""
        kind = tile.type
        assert kind.dtype is not None and kind.shape is not None
        size = math.prod(kind.shape) * sum(item.type.bits for item in tile.items) // 8
        if size > MAX_TILE_BYTES:
            raise CompileError(
                f"{kind} has {size} bytes, a tile may have {MAX_TILE_BYTES}", span, "work on smaller tiles, in a loop"
            )
        self.count += 1
        self.cells[self.count] = dataclasses.replace(tile, origins=frozenset())
        if tile.origins:
            group = set().union({self.count}, *(self.groups.get(c, {c}) for c in tile.origins))
            self.groups |= dict.fromkeys(group, group)
        return TileRef(kind.dtype, self.count, whole(kind.shape))

    def made(self, dtype: ElementType, shape: tuple[int, ...], items: Iterable[Operand], span: Span) -> TileRef:
        """A new tile with the given components."""
        return self.new(Tile(TileKind(dtype, shape), tuple(items)), span)

    def content(self, cell: int, span: Span) -> Tile:
        found = self.cells[cell]
        if isinstance(found, Unusable):
            raise found.error(span)
        return found

    def read(self, ref: TileRef, span: Span) -> tuple[Operand, ...]:
        """The components of a tile, or of one element."""
        content, view = self.content(ref.cell, span), ref.view
        shape = content.type.shape
        assert shape is not None
        if view.is_whole(math.prod(shape)) and view.shape == shape:
            return content.items
        if not view.moving and view.shape:
            attr = Strided(view.shape, view.offset, view.strides)
            return tuple(self.op("view", item, attr=attr, span=span) for item in content.items)
        if not view.moving and all(isinstance(item, Const) or item in self.filled for item in content.items):
            return tuple(self._one_of(item) for item in content.items)
        flat, indices = self.indices(view, shape, span)
        sources = (self._flattened(item, span) if flat else item for item in content.items)
        return tuple(self.op("take", source, *indices, span=span) for source in sources)

    def _one_of(self, item: Operand) -> Operand:
        """An element of a tile, all of whose elements are the same."""
        return Const(scalar_of(item.type), item.value) if isinstance(item, Const) else self.filled[item]

    def element(self, ref: TileRef, span: Span) -> Binding:
        """The one element that a view shows."""
        return self.composed(ref.dtype, self.read(ref, span))

    def composed(self, dtype: ElementType, items: Iterable[Operand]) -> Binding:
        """The element of a type that is made of scalars."""
        return rebuild(nothing(dtype, ""), list(items))

    def value(self, ref: TileRef, span: Span) -> Tile:
        """The current value of a tile."""
        return Tile(ref.type, self.read(ref, span), frozenset({ref.cell}))

    def write(self, ref: TileRef, items: Sequence[Operand | None], span: Span, name: str = "put") -> None:
        """Change components of the elements that a view shows; None stays as it is."""
        content, view = self.content(ref.cell, span), ref.view
        if view.repeats and name == "put":
            raise CompileError(
                "a broadcast tile cannot be changed: it has elements more than once",
                span,
                "copy it first: `b = a` makes a tile of its own",
            )
        shape = content.type.shape
        assert shape is not None
        changed = tuple(
            old if new is None else self._changed(old, view, shape, new, name, span)
            for old, new in zip(content.items, items, strict=True)
        )
        self.cells[ref.cell] = dataclasses.replace(content, items=changed)
        for other in self.groups.get(ref.cell, set()) - {ref.cell}:
            if other in self.cells:
                self.cells[other] = _AMBIGUOUS

    def _changed(
        self, old: Operand, view: View, shape: tuple[int, ...], new: Operand, name: str, span: Span
    ) -> Operand:
        """A component of a cell of `shape` with the elements of `view` replaced by `new`, or by what `name` makes."""
        if name == "put" and view.is_whole(math.prod(shape)):
            if view.shape == shape:
                return new
            return self.op("view", new, attr=Strided(shape, 0, dense_strides(shape)), span=span)
        flat, indices = self.indices(view, shape, span)
        source = self._flattened(old, span) if flat else old
        if name in COMBINING:
            changed = self.append(name, (source, *indices, new), None, source.type, span)
        else:
            changed = self.op(name, source, *indices, new, span=span)
        if shape_of(changed.type) == shape:
            return changed
        return self.op("view", changed, attr=Strided(shape, 0, dense_strides(shape)), span=span)

    def _flattened(self, tile: Operand, span: Span) -> Operand:
        shape = shape_of(tile.type)
        return tile if len(shape) == 1 else self.op("view", tile, attr=Strided((math.prod(shape),), 0, (1,)), span=span)

    # -- bindings across branches, loops and calls

    def loose(self, binding: Any, span: Span) -> Any:
        """`binding` with what tiles hold in place of the places."""
        if isinstance(binding, TileRef):
            return self.value(binding, span)
        if isinstance(binding, tuple):
            return tuple(self.loose(item, span) for item in binding)
        if isinstance(binding, TileStack):
            return dataclasses.replace(binding, items=self.loose(binding.items, span))
        return binding

    def settled(self, binding: Any, span: Span) -> Any:
        """`binding` with new places for what tiles hold."""
        if isinstance(binding, Tile):
            return self.new(binding, span)
        if isinstance(binding, tuple):
            return tuple(self.settled(item, span) for item in binding)
        if isinstance(binding, TileStack):
            return dataclasses.replace(binding, items=self.settled(binding.items, span))
        return binding

    def copied(self, binding: Any, span: Span) -> Any:
        """`binding` with copies of the tiles in it, as an assignment of a name makes; a stack stays the same one."""
        if isinstance(binding, TileRef):
            return self.new(dataclasses.replace(self.value(binding, span), origins=frozenset()), span)
        if isinstance(binding, tuple):
            return tuple(self.copied(item, span) for item in binding)
        return binding


def holds_tile(binding: Any) -> bool:
    """True if `binding` is a tile in a cell or a stack, or a tuple with one in it."""
    return isinstance(binding, (TileRef, TileStack)) or (isinstance(binding, tuple) and any(map(holds_tile, binding)))


def cells_of(binding: Any) -> set[int]:
    """The cells that `binding` shows."""
    if isinstance(binding, TileRef):
        return {binding.cell}
    if isinstance(binding, TileStack):
        return cells_of(binding.items)
    return set().union(*map(cells_of, binding)) if isinstance(binding, tuple) else set()


def with_origins(shape: Any, *sources: Any) -> Any:
    """`shape`, whose tiles may be the same as those at that place in each of the `sources`."""
    if isinstance(shape, Tile):
        origins = frozenset().union(*(s.origins for s in sources if isinstance(s, Tile)))
        return dataclasses.replace(shape, origins=origins)
    if isinstance(shape, TileStack):
        columns = [s.items for s in sources if isinstance(s, TileStack)]
        return dataclasses.replace(shape, items=with_origins(shape.items, *columns))
    if isinstance(shape, tuple):
        columns = [s for s in sources if isinstance(s, tuple) and len(s) == len(shape)]
        return tuple(with_origins(item, *(s[k] for s in columns)) for k, item in enumerate(shape))
    return shape
