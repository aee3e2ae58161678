"""Short names for what the loops of operations on whole tiles are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Const, For, Operand, Value
from jwarp.tiling.elements import Elements
from jwarp.types import int32


class Writer:
    """Writes loops, and integers."""

    def __init__(self, elements: Elements):
        self.elements, self.builder = elements, elements.builder
        self.do = elements.builder.op

    def loop(
        self,
        lo: Operand | int,
        hi: Operand | int,
        body: Callable[[Value, Sequence[Value]], Sequence[Operand]],
        init: Sequence[Operand] = (),
        step: int = 1,
        lanes: tuple[str, ...] | None = None,
    ) -> tuple[Value, ...]:
        """A counted loop; `body` makes the next of the carried values from the index and these."""
        index = Value(int32)
        params, made = (tuple(Value(x.type) for x in init) for _ in range(2))
        with self.builder.block() as nodes:
            yields = body(index, params)
        ends = (number(lo), number(hi))
        span = self.builder.span
        self.builder.append(For(index, *ends, step, params, tuple(init), make_block(nodes, yields), made, span, lanes))
        return made

    def together(self, count: int, body: Callable[[Value], None]) -> None:
        """A loop whose iterations need nothing of each other."""

        def iteration(index: Value, carried: Sequence[Value]) -> Sequence[Operand]:
            body(index)
            return ()

        self.loop(0, count, iteration, lanes=())

    def one_by_one(self, lo: int, hi: Operand | int, body: Callable[[Value], None], step: int = 1) -> None:
        """A loop whose iterations follow each other, and carry nothing but what is in memory."""

        def iteration(index: Value, carried: Sequence[Value]) -> Sequence[Operand]:
            body(index)
            return ()

        self.loop(lo, hi, iteration, step=step)

    def at(self, row: Operand | int, column: Operand | int, width: int) -> Operand:
        """The number of an element of a matrix with rows of `width` elements."""
        return self.do("add", self.do("mul", number(row), Const(int32, width)), number(column))


def number(x: Operand | int) -> Operand:
    """An int32, which may be known."""
    return Const(int32, x) if isinstance(x, int) else x
