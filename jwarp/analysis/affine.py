"""Linear forms over launch symbols and kernel values, and conditions made of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from jwarp.ir.nodes import Kernel
from jwarp.types import MAX_DIMS, ArrayType, int32, int64, uint64

# Past this many clauses a condition is not worth evaluating, and counts as unknown. That of a whole kernel may have
# more, in proportion to the symbols: each array brings a few.
MAX_CLAUSES = 96
CLAUSES_OF_A_SYMBOL = 4
# Launches evaluate conditions whose numbers are int64.
MAX_NUMBER = int64.max


@dataclass(frozen=True)
class Symbol:
    """A number fixed for a whole launch: a launch dimension, an extent, a scalar argument.

    `index` is its place in the table that the native launcher fills.
    """

    index: int
    min: int
    max: int


@dataclass(frozen=True)
class Symbols:
    """The symbols of a kernel: four dims, then the extents or the integer value of each parameter."""

    dims: tuple[Symbol, ...]
    extents: Mapping[tuple[int, int], Symbol]
    scalars: Mapping[int, Symbol]
    count: int


def symbols_of(kernel: Kernel) -> Symbols:
    """Number the symbols of `kernel`."""
    dims = tuple(Symbol(k, 1, int32.max) for k in range(MAX_DIMS))
    extents: dict[tuple[int, int], Symbol] = {}
    scalars: dict[int, Symbol] = {}
    count = MAX_DIMS
    for p, param in enumerate(kernel.params):
        if isinstance(param.type, ArrayType):
            for axis in range(param.type.ndim):
                extents[p, axis] = Symbol(count, 0, int32.max)
                count += 1
        elif param.type.is_int and param.type is not uint64:
            scalars[p] = Symbol(count, param.type.min, param.type.max)
            count += 1
    return Symbols(dims, extents, scalars, count)


@dataclass(frozen=True)
class Affine:
    """`constant` + the sum of coefficient * atom. An atom is a Symbol or any key of a kernel value."""

    terms: tuple[tuple[Hashable, int], ...]
    constant: int

    @staticmethod
    def of(atom: Hashable) -> Affine:
        """The form that is one atom."""
        return Affine(((atom, 1),), 0)

    @staticmethod
    def number(constant: int) -> Affine:
        """The form that is a constant."""
        return Affine((), constant)

    @cached_property
    def coefficients(self) -> dict[Hashable, int]:
        """The coefficient of each atom."""
        return dict(self.terms)

    @property
    def is_number(self) -> bool:
        """True if the form has no atoms."""
        return not self.terms

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other)
        total = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) + c
        return Affine(tuple((a, c) for a, c in total.items() if c), self.constant + other.constant)

    def __mul__(self, factor: int) -> Affine:
        return Affine(tuple((a, c * factor) for a, c in self.terms if factor), self.constant * factor)

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.constant == other.constant and self.coefficients == other.coefficients

    def __hash__(self) -> int:
        return hash((frozenset(self.terms), self.constant))


# A condition is a conjunction of clauses; a clause is a set of alternatives; an alternative is a
# form over symbols that must not be negative. No clause: always true. An empty clause: unknown.
Clause = frozenset[Affine]
Condition = frozenset[Clause]
ALWAYS: Condition = frozenset()
UNKNOWN: Condition = frozenset({frozenset()})


# Launches have fewer threads along a dimension than this, and arrays fewer elements along an axis.
LIKELY_EXTENT = 1 << 30


def at_least_zero(form: Affine) -> Condition:
    """The condition that `form`, over symbols only, is not negative; unknown where no launch is likely to meet it.

    What is asked of any int32 would be asked of all launches, and none would run the code that needs it to hold.
    """
    lowest = highest = form.constant
    for symbol, c in form.terms:
        assert isinstance(symbol, Symbol)
        lowest += c * (symbol.min if c > 0 else symbol.max)
        most = symbol.max if symbol.min < 0 else min(symbol.max, LIKELY_EXTENT)
        highest += c * (most if c > 0 else symbol.min)
    if lowest >= 0:
        return ALWAYS
    too_large = any(abs(number) > MAX_NUMBER for number in (form.constant, *form.coefficients.values()))
    return UNKNOWN if highest < 0 or too_large else frozenset({frozenset({form})})


def both(*conditions: Condition) -> Condition:
    """All of the conditions."""
    clauses = frozenset().union(*conditions)
    if frozenset() in clauses or len(clauses) > MAX_CLAUSES:
        return UNKNOWN
    return clauses


def either(x: Condition, y: Condition) -> Condition:
    """One of two conditions; where writing that out gets long, just the first."""
    if not x or not y:
        return ALWAYS
    if x == UNKNOWN or y == UNKNOWN:
        return y if x == UNKNOWN else x
    if len(x) * len(y) > 6:
        return x
    return frozenset(a | b for a, b in product(x, y))


def evaluate(condition: Condition, symbols: Mapping[int, int | None]) -> bool | None:
    """Evaluate the condition; None where that depends on symbols without a value."""
    result: bool | None = True
    for clause in condition:
        holds: bool | None = False
        for form in clause:
            total: int | None = form.constant
            for symbol, c in form.terms:
                assert isinstance(symbol, Symbol)
                value = symbols.get(symbol.index)
                total = None if total is None or value is None else total + c * value
            if total is None:
                holds = None
            elif total >= 0:
                holds = True
                break
        if holds is False:
            return False
        if holds is None:
            result = None
    return result
