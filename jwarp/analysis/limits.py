"""Finds between which numbers an integer lies, as far as its definition shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jwarp.ir.nodes import Const, Op, Operand, Value

Range = tuple[int, int]

MAX_DEPTH = 12


class Limits:
    """`definitions` are the operations that define values, `counters` the limits of the counters of loops."""

    def __init__(self, definitions: Mapping[Value, Op], counters: Mapping[Value, Range]):
        self.definitions, self.counters = definitions, counters

    def of(self, x: Operand, depth: int = 0) -> Range:
        """The least and greatest number that `x` may be."""
        if isinstance(x, Const):
            return x.value, x.value
        anything = x.type.min, x.type.max
        if x in self.counters:
            return self.counters[x]
        node = self.definitions.get(x)
        if node is None or depth == MAX_DEPTH or not all(a.type.is_int for a in node.args):
            return anything
        rule = _RULES.get(node.name)
        if rule is None:
            return anything
        found = rule(*(self.of(a, depth + 1) for a in node.args))
        return found if found and anything[0] <= found[0] and found[1] <= anything[1] else anything

    def within(self, x: Operand, low: int, high: int | None) -> bool:
        """Whether `x` is certain to be at least `low`, and at most `high`."""
        least, most = self.of(x)
        return low <= least and (high is None or most <= high)


def _product(x: Range, y: Range) -> Range:
    ends = [a * b for a in x for b in y]
    return min(ends), max(ends)


def _quotient(x: Range, y: Range) -> Range | None:
    return (x[0] // y[1], x[1] // y[0]) if x[0] >= 0 and y[0] >= 1 else None


def _remainder(x: Range, y: Range) -> Range | None:
    return (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] >= 1 else None


_RULES: Mapping[str, Callable[..., Range | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": _product,
    "neg": lambda x: (-x[1], -x[0]),
    "min": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "max": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "div": _quotient,
    "floordiv": _quotient,
    "mod": _remainder,
    "cast": lambda x: x,
}
