"""The table of algebraic simplifications, such as `x + 0 → x`, and the matcher for its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from jwarp.ir.nodes import Const, Operand
from jwarp.ir.operation import ANY, BITS, BOOL, FLOAT, INT, NUMBER, Kinds
from jwarp.types import ValueType


@dataclass(frozen=True, eq=False)
class Variable:
    """An operand of any kind; where a pattern has one twice, both operands are the same."""

    name: str


X, Y, Z, C = Variable("x"), Variable("y"), Variable("z"), Variable("c")
ALL_BITS = -1  # of an integer: the largest one where it has no sign

# An operand in a pattern, and the replacement of the operation: an operand or a constant of its type.
Term = Variable | bool | int | float


@dataclass(frozen=True)
class Rewrite:
    """An operation on operands that fit `pattern` is `result`, for results of these `kinds`.

    The result has the type of the operation: a row that would change the type does not match.
    """

    operation: str
    pattern: tuple[Term, ...]
    result: Term
    kinds: Kinds = ANY


# Floats: x + 0.0 is no row, as -0.0 + 0.0 is 0.0; nor is x * 0.0, x - x or x == x, which NaN and infinities spoil.
REWRITES: tuple[Rewrite, ...] = (
    Rewrite("add", (X, 0), X, INT),
    Rewrite("add", (0, X), X, INT),
    Rewrite("add", (X, -0.0), X, FLOAT),
    Rewrite("add", (-0.0, X), X, FLOAT),
    Rewrite("sub", (X, 0), X, NUMBER),
    Rewrite("sub", (X, X), 0, INT),
    Rewrite("mul", (X, 1), X, NUMBER),
    Rewrite("mul", (1, X), X, NUMBER),
    Rewrite("mul", (X, 0), 0, INT),
    Rewrite("mul", (0, X), 0, INT),
    Rewrite("div", (X, 1), X, NUMBER),
    Rewrite("floordiv", (X, 1), X, INT),
    Rewrite("min", (X, X), X, NUMBER),
    Rewrite("max", (X, X), X, NUMBER),
    Rewrite("and", (X, X), X, BITS),
    Rewrite("and", (X, True), X, BOOL),
    Rewrite("and", (True, X), X, BOOL),
    Rewrite("and", (X, False), False, BOOL),
    Rewrite("and", (False, X), False, BOOL),
    Rewrite("and", (X, ALL_BITS), X, INT),
    Rewrite("and", (X, 0), 0, INT),
    Rewrite("or", (X, X), X, BITS),
    Rewrite("or", (X, True), True, BOOL),
    Rewrite("or", (True, X), True, BOOL),
    Rewrite("or", (X, False), X, BOOL),
    Rewrite("or", (False, X), X, BOOL),
    Rewrite("or", (X, 0), X, INT),
    Rewrite("xor", (X, X), 0, BITS),
    Rewrite("xor", (X, 0), X, BITS),
    Rewrite("shl", (X, 0), X, INT),
    Rewrite("shr", (X, 0), X, INT),
    Rewrite("select", (True, X, Y), X),
    Rewrite("select", (False, X, Y), Y),
    Rewrite("select", (C, X, X), X),
    Rewrite("select", (C, True, False), C, BOOL),
    Rewrite("cast", (X,), X),
    Rewrite("bitcast", (X,), X),
)

# Rows that hold as well where all floats are finite and the sign of a zero does not matter.
FINITE_REWRITES: tuple[Rewrite, ...] = (
    Rewrite("add", (X, 0), X, FLOAT),
    Rewrite("add", (0, X), X, FLOAT),
    Rewrite("sub", (X, 0), X, FLOAT),
    Rewrite("mul", (X, 0), 0, FLOAT),
    Rewrite("mul", (0, X), 0, FLOAT),
    Rewrite("fma", (X, 0, Z), Z, FLOAT),
    Rewrite("fma", (0, Y, Z), Z, FLOAT),
    Rewrite("neg", (0,), 0, FLOAT),
    Rewrite("cast", (0,), 0),
    Rewrite("select", (C, X, X), X),
)


class _Matcher(NamedTuple):
    """A row as positions: of its constants, of two operands that are the same, and of the result among the operands."""

    constants: tuple[tuple[int, Term], ...]
    same: tuple[int, int] | None
    result: int | None  # None for the constant of the row
    row: Rewrite

    def match(self, args: tuple[Operand, ...], type: ValueType) -> Operand | None:
        """The operand that stands for the operation, if the operands fit and it has the type."""
        if self.same is not None:
            x, y = args[self.same[0]], args[self.same[1]]
            if x is not y and x != y:
                return None
        for k, term in self.constants:
            arg = args[k]
            if not (isinstance(arg, Const) and equals(arg, term)):
                return None
        if self.result is None:
            return Const(type, constant_of(type, self.row.result))
        result = args[self.result]
        return result if result.type is type else None


def _matcher(row: Rewrite) -> _Matcher:
    places: dict[Variable, list[int]] = {}
    for k, term in enumerate(row.pattern):
        if isinstance(term, Variable):
            places.setdefault(term, []).append(k)
    pairs = [tuple(found) for found in places.values() if len(found) > 1]
    assert all(len(pair) == 2 for pair in pairs) and len(pairs) <= 1, "operands that are the same are a pair"
    constants = tuple((k, term) for k, term in enumerate(row.pattern) if not isinstance(term, Variable))
    result = places[row.result][0] if isinstance(row.result, Variable) else None
    return _Matcher(constants, (pairs[0][0], pairs[0][1]) if pairs else None, result, row)


class RewriteTable:
    """Rows by operation and kind of the result.

    Those without a constant, and the others by their first constant and its position, as most operations fit no row and
    most constants are in none.
    """

    def __init__(self, rows: tuple[Rewrite, ...]):
        self.on_values: dict[tuple[str, str], list[_Matcher]] = {}
        self.on_constants: dict[tuple[str, str], dict[tuple[int, Any], list[_Matcher]]] = {}
        for row in rows:
            for kind in row.kinds:
                self._add(_matcher(row), row.operation, kind)

    def _add(self, made: _Matcher, operation: str, kind: str) -> None:
        if not made.constants:
            self.on_values.setdefault((operation, kind), []).append(made)
            return
        place, term = made.constants[0]
        numbers = [(1 << bits) - 1 for bits in (8, 16, 32, 64)] if term == ALL_BITS and kind == "uint" else [term]
        table = self.on_constants.setdefault((operation, kind), {})
        for number in numbers:
            table.setdefault((place, number), []).append(made)

    def rewritten(
        self, name: str, args: tuple[Operand, ...], type: ValueType, has_constant: bool = True
    ) -> Operand | None:
        """The operand that an operation with a result of this type equals, by a row that matches; or None."""
        key = name, type.kind
        if has_constant and (table := self.on_constants.get(key)) is not None:
            for k, arg in enumerate(args):
                if arg.__class__ is Const:
                    for row in table.get((k, arg.value), ()):
                        if (found := row.match(args, type)) is not None:
                            return found
        for row in self.on_values.get(key, ()):
            if row.same is not None and args[row.same[0]] is not args[row.same[1]] and not has_constant:
                continue  # as nearly always
            if (found := row.match(args, type)) is not None:
                return found
        return None


def equals(constant: Const, term: Any) -> bool:
    """True if a constant is the number of a pattern: of floats, the sign of zero counts."""
    value, type = constant.value, constant.type
    if value != term:
        return term == ALL_BITS and type.kind == "uint" and bool(value == type.max)
    return bool(value) or not type.is_float or math.copysign(1.0, value) == math.copysign(1.0, term)


def constant_of(type: ValueType, term: Any) -> Any:
    """The number of a pattern as a value of a type."""
    if type.kind in BOOL:
        return bool(term)
    if type.kind in FLOAT:
        return float(term)
    return term % (1 << type.bits) if type.kind == "uint" else term


ALWAYS, OF_FINITE = RewriteTable(REWRITES), RewriteTable(FINITE_REWRITES)
rewritten = ALWAYS.rewritten
