"""Writes the Fourier transform of a tile: in place, factor by factor of its length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from jwarp.ir.attributes import Fourier
from jwarp.ir.builder import nearest
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.ir.tile_types import factors
from jwarp.tiling.elements import Elements
from jwarp.tiling.parts import Whole
from jwarp.tiling.writer import Writer
from jwarp.types import int32, scalar_of, shape_of

# With so many neighbouring elements that are treated alike, a loop over these is the inner one.
NEIGHBOURS = 16

# Transforms of so many elements are in registers at first, if there are enough of them.
FIRST = 16

Complex = tuple[Operand, Operand]


def transform(elements: Elements, part: Whole) -> None:
    """Let the target hold the transform of each row (Cooley and Tukey 1965, decimation in time, mixed radix)."""
    _Transform(elements, part).write()


class _Transform:
    def __init__(self, elements: Elements, part: Whole):
        self.w, self.elements = Writer(elements), elements
        self.do = self.w.do
        (self.source, self.circle), self.target = part.reads, part.target
        _, self.rows, self.length = shape_of(self.target.type)
        self.type = scalar_of(self.target.type)
        self.sign = 1.0 if part.node.attr_as(Fourier).inverse else -1.0
        self.size = self.rows * self.length  # where the imaginary parts begin
        self.factors = factors(self.length) or [1]
        if not elements.flat and self.length % FIRST == 0 and 2 * self.length >= FIRST * NEIGHBOURS:
            self.factors = [FIRST, *factors(self.length // FIRST)]

    def write(self) -> None:
        if self.elements.flat:  # a thread reads few elements, as there are enough of them
            self.w.together(self.size, self.permuted)
            self.step(self.factors[0], 1)
        else:
            self.begin()
        known = self.factors[0]
        for factor in self.factors[1:]:
            self.step(factor, known)
            known *= factor

    def begin(self) -> None:
        """The first step, which takes the elements as they lie in the source: neighbours are loaded together."""
        factor, *others = self.factors
        count = self.length // factor

        def group(row: Operand, place: Operand) -> None:
            first = self.do("add", self.do("mul", row, _number(self.length)), place)
            rest, target, weight = place, self.do("mul", row, _number(self.length)), self.length
            for other in reversed(others):  # the digits of the place, in the opposite order
                weight //= other
                target = self.do("add", target, self.do("mul", self.do("mod", rest, _number(other)), _number(weight)))
                rest = self.do("div", rest, _number(other))
            values = [self.given(self.do("add", first, _number(k * count))) for k in range(factor)]
            for k, value in enumerate(self.rule(factor)(values)):
                self.store(self.do("add", target, _number(k)), value)

        if self.rows == 1:
            self.w.together(count, lambda place: group(_number(0), place))
        elif count >= NEIGHBOURS:
            self.w.one_by_one(0, self.rows, lambda row: self.w.together(count, lambda place: group(row, place)))
        else:
            self.w.together(
                self.rows * count,
                lambda n: group(self.do("div", n, _number(count)), self.do("mod", n, _number(count))),
            )

    # -- elements

    def load(self, place: Operand) -> Complex:
        return self.elements.load(self.target, place), self.elements.load(self.target, self.imaginary(place))

    def given(self, place: Operand) -> Complex:
        return self.elements.load(self.source, place), self.elements.load(self.source, self.imaginary(place))

    def store(self, place: Operand, value: Complex) -> None:
        self.elements.store(self.target, place, value[0])
        self.elements.store(self.target, self.imaginary(place), value[1])

    def imaginary(self, place: Operand) -> Operand:
        return self.do("add", place, _number(self.size))

    def permuted(self, place: Value) -> None:
        """Bring the element whose number has the same digits in the opposite order to a place of its row."""
        rest: Operand = place
        digits = []
        for factor in self.factors:
            digits.append(self.do("mod", rest, _number(factor)))
            rest = self.do("div", rest, _number(factor))
        found, weight = self.do("mul", rest, _number(self.length)), 1  # what is left over is the row
        for factor, digit in zip(reversed(self.factors), reversed(digits), strict=True):
            found = self.do("add", found, self.do("mul", digit, _number(weight)))
            weight *= factor
        for offset in (0, self.size):
            value = self.elements.load(self.source, self.do("add", found, _number(offset)))
            self.elements.store(self.target, self.do("add", place, _number(offset)), value)

    # -- steps

    def step(self, factor: int, known: int) -> None:
        """Make of `factor` transforms of `known` elements each one of them all."""
        groups = self.size // (known * factor)
        if known < NEIGHBOURS or self.elements.flat:

            def alone(number: Value) -> None:
                group, place = self.do("div", number, _number(known)), self.do("mod", number, _number(known))
                self.butterfly(factor, known, group, place)

            self.w.together(groups * known, alone)
        else:
            self.w.one_by_one(
                0, groups, lambda group: self.w.together(known, lambda p: self.butterfly(factor, known, group, p))
            )

    def butterfly(self, factor: int, known: int, group: Operand, place: Operand) -> None:
        first = self.do("add", self.do("mul", group, _number(known * factor)), place)
        places = [self.do("add", first, _number(k * known)) for k in range(factor)]
        values = [self.load(p) for p in places]
        if known > 1:
            angle = self.do("mul", place, _number(self.length // (known * factor)))
            values = [x if k == 0 else self.turned(x, angle, k) for k, x in enumerate(values)]
        for p, value in zip(places, self.rule(factor)(values), strict=True):
            self.store(p, value)

    def rule(self, factor: int) -> Callable[[Sequence[Complex]], list[Complex]]:
        """The transform of `factor` elements."""
        rules: dict[int, Callable[[Sequence[Complex]], list[Complex]]]
        rules = {1: list, 2: self.of_two, 4: self.of_four, FIRST: self.of_first}
        return rules.get(factor, self.of_odd)

    def turned(self, x: Complex, angle: Operand, times: int) -> Complex:
        """`x` turned by so many times the angle, which is counted in parts of the circle that the length says."""
        place = self.do("mul", angle, _number(times))
        cosine = self.elements.load(self.circle, place)
        sine: Operand = self.elements.load(self.circle, self.do("add", place, _number(self.length)))
        if self.sign < 0:
            sine = self.do("neg", sine)
        do, (re, im) = self.do, x
        along = do("sub", do("mul", re, cosine), do("mul", im, sine))
        return along, do("add", do("mul", re, sine), do("mul", im, cosine))

    def add(self, x: Complex, y: Complex) -> Complex:
        return self.do("add", x[0], y[0]), self.do("add", x[1], y[1])

    def sub(self, x: Complex, y: Complex) -> Complex:
        return self.do("sub", x[0], y[0]), self.do("sub", x[1], y[1])

    def quarter(self, x: Complex) -> Complex:
        """`x` turned by a quarter of the circle."""
        re, im = x
        return (self.do("neg", im), re) if self.sign > 0 else (im, self.do("neg", re))

    # -- transforms of few elements

    def of_two(self, x: Sequence[Complex]) -> list[Complex]:
        return [self.add(x[0], x[1]), self.sub(x[0], x[1])]

    def of_four(self, x: Sequence[Complex]) -> list[Complex]:
        even, odd = self.of_two((x[0], x[2])), self.of_two((x[1], x[3]))
        across = self.quarter(odd[1])
        return [self.add(even[0], odd[0]), self.add(even[1], across), self.sub(even[0], odd[0]),
                self.sub(even[1], across)]  # fmt: skip

    def of_first(self, x: Sequence[Complex]) -> list[Complex]:
        """Four by four: of each fourth element first, and then of what comes of these, turned."""
        parts = [self.of_four(x[n::4]) for n in range(4)]
        found = [x[0]] * FIRST
        for k in range(4):
            found[k::4] = self.of_four([self.turned_by(parts[n][k], n * k) for n in range(4)])
        return found

    def turned_by(self, x: Complex, sixteenths: int) -> Complex:
        """`x` turned by so many parts of the circle, at most 9 of 16."""
        if sixteenths == 0:
            return x
        if sixteenths == FIRST // 4:
            return self.quarter(x)
        angle = 2.0 * math.pi * sixteenths / FIRST
        cosine, sine = (nearest(self.type, v) for v in (math.cos(angle), self.sign * math.sin(angle)))
        do, (re, im) = self.do, x
        along = do("sub", do("mul", re, cosine), do("mul", im, sine))
        return along, do("add", do("mul", re, sine), do("mul", im, cosine))

    def of_odd(self, x: Sequence[Complex]) -> list[Complex]:
        """Of a prime number of elements: those that lie opposite share their products."""
        n = len(x)
        pairs = [(self.add(x[m], x[n - m]), self.quarter(self.sub(x[m], x[n - m]))) for m in range(1, (n + 1) // 2)]
        whole = x[0]
        for total, _ in pairs:
            whole = self.add(whole, total)
        found = [whole] * n
        for k in range(1, (n + 1) // 2):
            along, across = x[0], None
            for m, (total, difference) in enumerate(pairs, start=1):
                angle = 2.0 * math.pi * (k * m % n) / n
                along = self.add(along, self.scaled(total, math.cos(angle)))
                part = self.scaled(difference, math.sin(angle))
                across = part if across is None else self.add(across, part)
            assert across is not None
            found[k], found[n - k] = self.add(along, across), self.sub(along, across)
        return found

    def scaled(self, x: Complex, by: float) -> Complex:
        factor = nearest(self.type, by)
        return self.do("mul", x[0], factor), self.do("mul", x[1], factor)


def _number(x: int) -> Const:
    return Const(int32, x)
