"""Reads and writes elements of tiles that are in memory, in code that is being built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jwarp.analysis.intervals import Interval, Intervals
from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import Const, Kernel, Node, Op, Operand, Value
from jwarp.tiling.symbolic_tiles import Forms, Viewed, size_of
from jwarp.types import int32, int64, scalar_of, shape_of, uint32, uint64


class _Recorder(Builder):
    """A builder that remembers what defines each value."""

    def __init__(self) -> None:
        super().__init__()
        self.definitions: dict[Value, Op] = {}

    def append(self, node: Node) -> None:
        super().append(node)
        if isinstance(node, Op) and node.result is not None:
            self.definitions[node.result] = node


class Elements:
    """The tiles of a kernel, and the builder of the code without them.

    `known` maps scalars that reductions give to what they have become, `counters` has the intervals of those of loops.
    """

    def __init__(self, kernel: Kernel, forms: Forms, buffer_of: Mapping[Value, int], flat: bool = False):
        """`buffer_of` has the number of the memory of each tile that is in memory; `flat`: threads share elements."""
        self.forms, self.buffer_of, self.flat = forms, buffer_of, flat
        self.first = len(kernel.params) + len(kernel.locals)
        self.builder = _Recorder()
        self.counters: dict[Value, Interval] = {}
        self.known: dict[Value, Operand] = {}

    # -- scalars

    def operand(self, x: Operand) -> Operand:
        """The operand that replaces a scalar."""
        return self.known.get(x, x) if isinstance(x, Value) else x

    def operands(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        """The operands that replace scalars."""
        return tuple(self.operand(x) for x in xs)

    # -- tiles in memory

    def array(self, tile: Value) -> int:
        """The number of the array that holds a tile."""
        return self.first + self.buffer_of[tile]

    def load(self, tile: Value, place: Operand) -> Value:
        """The element of a tile in memory that has the number `place`."""
        made = Value(scalar_of(tile.type))
        self.builder.append(Op("load", (place,), self.array(tile), made, self.builder.span))
        return made

    def store(self, tile: Value, place: Operand, value: Operand) -> None:
        """Store to the element of a tile in memory that has the number `place`."""
        self.builder.effect("store", place, value, attr=self.array(tile))

    def take(self, tile: Operand, indices: Sequence[Operand]) -> Operand:
        """The element of a tile at indices, zero outside."""
        form = self.forms.of(tile)
        assert isinstance(form, Viewed)
        base = form.base
        place = self.place(shape_of(tile.type), form.offset, form.strides, indices, size_of(base.type))
        return self.load(base, place)

    def put(self, node: Op, args: Sequence[Operand], atomic: bool) -> None:
        """Change the element of a tile at indices, or add to it."""
        tile, (*indices, value) = node.args[0], args
        assert isinstance(tile, Value)
        whole = self.forms.of(tile)
        assert isinstance(whole, Viewed)
        place = self.place(shape_of(tile.type), 0, whole.strides, indices, size_of(tile.type))
        if node.row.adds_to_tile and atomic:
            self.builder.effect("atomic_add", place, value, attr=self.array(tile))
            return
        if node.row.adds_to_tile:
            value = self.builder.op("add", self.load(tile, place), value)
        self.store(tile, place, value)

    def place(
        self, shape: tuple[int, ...], offset: int, strides: tuple[int, ...], indices: Sequence[Operand], size: int
    ) -> Operand:
        """The number of the element at indices in an array of `size` elements; `size` itself outside `shape`."""
        do = self.builder.op
        intervals = Intervals(self.builder.definitions, known=self.counters)
        is_inside = [intervals.within(x, 0, n - 1) for x, n in zip(indices, shape, strict=True)]
        if shape == (size,) and strides == (1,) and not offset:
            return indices[0]  # as arrays do it
        kind = int64 if any(x.type in (int64, uint32, uint64) for x in indices) else int32
        total: Operand = Const(kind, offset)
        fits: Operand | None = None
        for x, extent, stride, known in zip(indices, shape, strides, is_inside, strict=True):
            index = do("min", x, Const(uint64, int64.max)) if x.type is uint64 else x
            index = do("cast", index, type=kind)
            if not known:
                if not intervals.within(x, 0):
                    from_end = do("add", index, Const(kind, extent))
                    index = do("select", do("lt", index, zero(kind)), from_end, index)
                here = do("and", do("ge", index, zero(kind)), do("lt", index, Const(kind, extent)))
                fits = here if fits is None else do("and", fits, here)
            if stride:
                total = do("add", total, do("mul", index, Const(kind, stride)))
        return total if fits is None else do("select", fits, total, Const(kind, size))
