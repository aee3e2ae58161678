"""The interval analysis: the numbers that an integer value may be, as its definition shows.

The lattice is that of closed intervals. Its top for a value is the interval of the value's type, and nothing is at its
bottom: the analysis starts from constants, coordinates and counters of loops, and needs no iteration, because what
loops carry has the top. `INTERVALS` has a row for each operation whose interval follows from those of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from jwarp.ir.nodes import Block, Const, For, Node, Op, Operand, Value, walk
from jwarp.types import int32


class Interval(NamedTuple):
    """All numbers from `low` to `high`, both included."""

    low: int
    high: int

    def join(self, other: Interval) -> Interval:
        """The least interval that has the numbers of both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def has(self, other: Interval) -> bool:
        """True if all numbers of the other interval are in this one."""
        return self.low <= other.low and other.high <= self.high


BOOLS = Interval(0, 1)
MAX_DEPTH = 64


class Intervals:
    """The intervals of the integers of a body.

    `definitions` are the nodes that define values, and `loops` those that count them. `known` are intervals of values
    that the caller knows. An operation whose exact result may leave its type may have wrapped, and has any value of the
    type; with `assumes_exact`, integers are taken not to wrap, as launches whose indices did would leave their arrays.
    """

    def __init__(
        self,
        definitions: Mapping[Value, Node],
        loops: Mapping[Value, For] | None = None,
        known: Mapping[Value, Interval] | None = None,
        *,
        assumes_exact: bool = False,
    ):
        self.definitions, self.loops, self.known = definitions, loops or {}, known or {}
        self.assumes_exact = assumes_exact
        self.found: dict[Value, Interval] = {}

    def of(self, x: Operand) -> Interval:
        """The interval of an integer (or of a bool, as 0 and 1)."""
        return self.find(x) or top(x)

    def within(self, x: Operand, low: int, high: int | None = None) -> bool:
        """True if `x` is provably at least `low`, and at most `high`."""
        found = self.of(x)
        return low <= found.low and (high is None or found.high <= high)

    def is_count(self, x: Operand) -> bool:
        """True if `x` is an integer that is certain not to be negative."""
        return x.type.is_int and self.of(x).low >= 0

    def unknown(self, x: Value) -> Interval | None:
        """The interval of a value without a definition that says one, or that may have wrapped; None for no answer."""
        return top(x)

    def find(self, x: Operand, depth: int = 0) -> Interval | None:
        """The interval of `x`; None where `unknown` has no answer."""
        if isinstance(x, Const):
            return Interval(x.value, x.value)
        found = self.known.get(x) or self.found.get(x)
        if found is None:
            found = (self.derived(x, depth) if depth < MAX_DEPTH else None) or self.unknown(x)
            if found is not None:
                self.found[x] = found
        return found

    def derived(self, x: Value, depth: int) -> Interval | None:
        """The interval that the definition of a value says, if it says one."""
        if x in self.loops:
            return self.counter(self.loops[x], depth)
        node = self.definitions.get(x)
        if not isinstance(node, Op) or not x.type.is_int:
            return None
        rule = INTERVALS.get(node.name)
        if rule is None:
            return Interval(0, x.type.max) if node.row.numeric.is_count else None
        args = []
        for arg in node.args:
            found = BOOLS if arg.type.kind == "bool" else self.find(arg, depth + 1) if arg.type.is_int else None
            if found is None:
                return None
            args.append(found)
        exact = rule(*args)
        return None if exact is None else self.fitted(exact, node, x)

    def fitted(self, exact: Interval, node: Op, x: Value) -> Interval | None:
        """The interval of a result of a type, whose exact value is in an interval."""
        whole = top(x)
        if whole.has(exact):
            return exact
        narrows = any(a.type.bits > x.type.bits for a in node.args)
        if not self.assumes_exact or narrows or exact.low > whole.high or exact.high < whole.low:
            return None
        return Interval(max(exact.low, whole.low), min(exact.high, whole.high))

    def counter(self, loop: For, depth: int) -> Interval | None:
        """The interval of a loop's index, where the body runs."""
        lo, hi = self.find(loop.lo, depth + 1), self.find(loop.hi, depth + 1)
        if lo is None or hi is None:
            return None
        low, high = (lo.low, hi.high - 1) if loop.step > 0 else (hi.low + 1, lo.high)
        return Interval(low, max(low, high))


def upward_loops(body: Block) -> dict[Value, For]:
    """The loops of a body that count upward, by their indices."""
    return {n.index: n for n in walk(body) if isinstance(n, For) and n.step > 0}


def top(x: Operand) -> Interval:
    """The interval of all values of an operand's type."""
    return Interval(x.type.min, x.type.max) if x.type.is_int else BOOLS


def _corners(operation: Callable[[int, int], int], x: Interval, y: Interval) -> Interval:
    """The interval of an operation that is monotone in each operand."""
    ends = [operation(a, b) for a in x for b in y]
    return Interval(min(ends), max(ends))


def _truncated(x: int, y: int) -> int:
    return x // y if x >= 0 else -(-x // y)


def _remainder(x: Interval, y: Interval) -> Interval | None:
    """The remainder has the sign of x; x % 0 is x."""
    if y.low >= 1:
        low = 0 if x.low >= 0 else max(x.low, 1 - y.high)
        return Interval(low, max(0, min(x.high, y.high - 1)))
    return Interval(0, x.high) if x.low >= 0 else None


def _bitwise_and(x: Interval, y: Interval) -> Interval | None:
    """An operand that is not negative has all the bits that the result may have."""
    ends = [a.high for a in (x, y) if a.low >= 0]
    return Interval(0, min(ends)) if ends else None


def _right_shift(x: Interval, y: Interval) -> Interval | None:
    return Interval(x.low >> y.high, x.high >> y.low) if x.low >= 0 and y.low >= 0 and y.high <= 64 else None


def _absolute(x: Interval) -> Interval:
    return x if x.low >= 0 else Interval(0, max(-x.low, x.high))


# The interval of the exact result, from those of the operands; None for any value.
INTERVALS: Mapping[str, Callable[..., Interval | None]] = {
    "tid": lambda: Interval(0, int32.max - 1),
    "add": lambda x, y: Interval(x.low + y.low, x.high + y.high),
    "sub": lambda x, y: Interval(x.low - y.high, x.high - y.low),
    "mul": lambda x, y: _corners(int.__mul__, x, y),
    "neg": lambda x: Interval(-x.high, -x.low),
    "abs": _absolute,
    "min": lambda x, y: Interval(min(x.low, y.low), min(x.high, y.high)),
    "max": lambda x, y: Interval(max(x.low, y.low), max(x.high, y.high)),
    "div": lambda x, y: _corners(_truncated, x, y) if y.low >= 1 else None,
    "floordiv": lambda x, y: _corners(int.__floordiv__, x, y) if y.low >= 1 else None,
    "mod": _remainder,
    "and": _bitwise_and,
    "shr": _right_shift,
    "select": lambda condition, x, y: x.join(y),
    "cast": lambda x: x,
    "fill": lambda x: x,
    "view": lambda x: x,
}
