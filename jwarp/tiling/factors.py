"""Writes factors of matrices and systems of equations by a few rows at a time, for blocks that each run in one lane.

What is loaded of a row that is known is used for all of these rows, and their sums do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jwarp.ir.attributes import Triangle
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.tiling.elements import Elements
from jwarp.tiling.parts import Whole
from jwarp.tiling.writer import Writer
from jwarp.types import int32, scalar_of, shape_of

# Rows that are made at a time: their sums, and the products in the square where they meet, have registers.
ROWS = 4


class _Factor:
    """The lower triangle L of L @ L.T == source, where the target is."""

    def __init__(self, elements: Elements, part: Whole):
        self.w, (self.source,), self.target = Writer(elements), part.reads, part.target
        self.n = shape_of(part.target.type)[0]
        self.type = scalar_of(part.target.type)
        self.memory = elements

    def load(self, row: Operand | int, column: Operand | int) -> Value:
        return self.memory.load(self.target, self.w.at(row, column, self.n))

    def store(self, row: Operand | int, column: Operand | int, value: Operand) -> None:
        self.memory.store(self.target, self.w.at(row, column, self.n), value)

    def given(self, row: Operand | int, column: Operand | int) -> Value:
        return self.memory.load(self.source, self.w.at(row, column, self.n))

    def write(self) -> None:
        self.clear_above()
        _by_rows(self.w, self.n, self.rows)

    def clear_above(self) -> None:
        w, n = self.w, self.n

        def row(i: Value) -> None:
            def column(j: Value, carried: Sequence[Value]) -> list[Operand]:
                self.store(i, j, zero(self.type))
                return []

            w.loop(w.do("add", i, _int(1)), n, column)

        w.one_by_one(0, n, row)

    def rows(self, first: Operand | int, count: int) -> None:
        """Rows `first` and after it: what they have left of the square on the diagonal, and then that square."""
        w, load = self.w, self.load
        numbers = [_plus(w, first, r) for r in range(count)]

        def column(j: Value) -> None:
            def minus(k: Value, sums: Sequence[Value]) -> list[Operand]:
                other = load(j, k)
                return [_minus(w, total, load(i, k), other) for i, total in zip(numbers, sums, strict=True)]

            sums = w.loop(0, j, minus, [self.given(i, j) for i in numbers])
            factor = _inverse(w, load(j, j))
            for i, total in zip(numbers, sums, strict=True):
                self.store(i, j, w.do("mul", total, factor))

        w.one_by_one(0, first, column)
        places = [(r, c) for r in range(count) for c in range(r + 1)]

        def square(k: Value, sums: Sequence[Value]) -> list[Operand]:
            known = [load(i, k) for i in numbers]
            return [_minus(w, total, known[r], known[c]) for (r, c), total in zip(places, sums, strict=True)]

        left: dict[tuple[int, int], Operand] = dict(
            zip(places, w.loop(0, first, square, [self.given(numbers[r], numbers[c]) for r, c in places]), strict=True)
        )
        for c in range(count):
            root = w.do("sqrt", left[c, c])
            self.store(numbers[c], numbers[c], root)
            factor = _inverse(w, root)
            for r in range(c + 1, count):
                left[r, c] = w.do("mul", left[r, c], factor)
                self.store(numbers[r], numbers[c], left[r, c])
            for r in range(c + 1, count):
                for other in range(c + 1, r + 1):
                    left[r, other] = _minus(w, left[r, other], left[r, c], left[other, c])


class _Solution:
    """Row after row, in place of the right-hand side, which the target holds."""

    def __init__(self, elements: Elements, part: Whole):
        self.w, (self.triangle,), self.target = Writer(elements), part.reads, part.target
        triangle = part.node.attr_as(Triangle)
        self.transposed, self.forward = triangle.transposed, triangle.lower != triangle.transposed
        self.n, *rest = shape_of(part.target.type)
        self.columns = rest[0] if rest else 1
        self.column: Operand | int = 0
        self.memory = elements

    def entry(self, i: Operand | int, k: Operand | int) -> Value:
        return self.memory.load(self.triangle, self.w.at(*((k, i) if self.transposed else (i, k)), self.n))

    def write(self) -> None:
        def column(j: Value) -> None:
            self.column = j
            self.one()

        if self.columns == 1:
            self.one()
        else:
            self.w.one_by_one(0, self.columns, column)

    def one(self) -> None:
        """The equations of one right-hand side."""
        _by_rows(self.w, self.n, self.rows, down=not self.forward)

    def place(self, i: Operand | int) -> Operand:
        return self.w.at(i, self.column, self.columns) if self.columns > 1 else _int(i) if isinstance(i, int) else i

    def rows(self, first: Operand | int, count: int) -> None:
        """Rows `first` and after it: what those that are known leave of them, and then these few equations."""
        w, load, target = self.w, self.memory.load, self.target
        numbers = [_plus(w, first, r) for r in range(count)]

        def minus(k: Value, sums: Sequence[Value]) -> list[Operand]:
            other = load(target, self.place(k))
            return [_minus(w, total, self.entry(i, k), other) for i, total in zip(numbers, sums, strict=True)]

        lo: Operand | int = 0 if self.forward else _plus(w, first, count)
        hi: Operand | int = first if self.forward else self.n
        left: list[Operand] = list(w.loop(lo, hi, minus, [load(target, self.place(i)) for i in numbers]))
        order = range(count) if self.forward else range(count - 1, -1, -1)
        for r in order:
            solved = w.do("div", left[r], self.entry(numbers[r], numbers[r]))
            self.memory.store(target, self.place(numbers[r]), solved)
            for later in range(r + 1, count) if self.forward else range(r):
                left[later] = _minus(w, left[later], self.entry(numbers[later], numbers[r]), solved)


def factor_by_rows(elements: Elements, part: Whole) -> None:
    """Write the factor L of L @ L.T."""
    _Factor(elements, part).write()


def solve_by_rows(elements: Elements, part: Whole) -> None:
    """Write the solution of a system of equations with a triangle."""
    _Solution(elements, part).write()


def _by_rows(w: Writer, n: int, write: Callable[[Operand | int, int], None], down: bool = False) -> None:
    """`ROWS` rows at a time from the first one on, or from the last one `down`, and then those that are left."""
    whole, rest = divmod(n, ROWS)

    def several(first: int) -> Callable[[Value], None]:
        def iteration(k: Value) -> None:
            write(_plus(w, w.do("mul", k, _int(ROWS)), first), ROWS)

        return iteration

    if down:
        w.one_by_one(whole - 1, -1, several(rest), step=-1)
        if rest:
            write(0, rest)
    else:
        w.one_by_one(0, whole, several(0))
        if rest:
            write(n - rest, rest)


def _plus(w: Writer, x: Operand | int, y: int) -> Operand:
    return _int(x + y) if isinstance(x, int) else w.do("add", x, _int(y)) if y else x


def _minus(w: Writer, total: Operand, x: Operand, y: Operand) -> Operand:
    return w.do("sub", total, w.do("mul", x, y))


def _inverse(w: Writer, x: Operand) -> Operand:
    return w.do("div", Const(scalar_of(x.type), 1.0), x)


def _int(number: int) -> Const:
    return Const(int32, number)
