"""The table of algebraic simplifications, such as `x + 0 → x`, and the matcher for its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jwarp.ir.nodes import Const, Operand
from jwarp.ir.operation import ANY, BITS, BOOL, FLOAT, INT, NUMBER, Kinds
from jwarp.types import ValueType


@dataclass(frozen=True, eq=False)
class Variable:
    """An operand of any kind; where a pattern has one twice, both operands are the same."""

    name: str


X, Y, C = Variable("x"), Variable("y"), Variable("c")
ALL_BITS = -1  # of an integer: the largest one where it has no sign

# What a pattern has for an operand, and what stands for the operation: an operand or a constant of its type.
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


class _Matcher(NamedTuple):
    """A row as positions: of constants in the pattern, of operands that are the same, and of the result."""

    constants: tuple[tuple[int, Term], ...]
    same: tuple[tuple[int, int], ...]
    result: int  # the position of an operand, or -1 for the constant of the row
    row: Rewrite


def _matcher(row: Rewrite) -> _Matcher:
    first = {term: k for k, term in reversed(list(enumerate(row.pattern))) if isinstance(term, Variable)}
    constants = tuple((k, term) for k, term in enumerate(row.pattern) if not isinstance(term, Variable))
    pairs = ((first[term], k) for k, term in enumerate(row.pattern) if isinstance(term, Variable))
    result = first[row.result] if isinstance(row.result, Variable) else -1
    return _Matcher(constants, tuple((i, k) for i, k in pairs if i != k), result, row)


Key = tuple[str, str]  # an operation, and the kind of its result


def _by_key(rows: Iterable[Rewrite]) -> dict[Key, tuple[_Matcher, ...]]:
    found: dict[Key, tuple[_Matcher, ...]] = {}
    for row in rows:
        for kind in row.kinds:
            found[row.operation, kind] = (*found.get((row.operation, kind), ()), _matcher(row))
    return found


# Most operations have no constant among their operands, and few rows match those.
_ON_CONSTANTS = _by_key(REWRITES)
_ON_VALUES = _by_key(row for row in REWRITES if all(isinstance(term, Variable) for term in row.pattern))


def rewritten(name: str, args: tuple[Operand, ...], type: ValueType, has_constant: bool) -> Operand | None:
    """The operand that an operation with a result of this type equals, by the first row that matches; or None."""
    for constants, same, result, row in (_ON_CONSTANTS if has_constant else _ON_VALUES).get((name, type.kind), ()):
        for k, term in constants:
            arg = args[k]
            if arg.__class__ is not Const or (arg.value != term and term is not ALL_BITS) or not equals(arg, term):
                break
        else:
            if not same or all(args[i] is args[k] or args[i] == args[k] for i, k in same):
                if result < 0:
                    return Const(type, constant_of(type, row.result))
                if args[result].type is type:
                    return args[result]
    return None


def equals(constant: Const, term: Any) -> bool:
    """True if a constant is the number of a pattern: of floats, the sign of zero counts."""
    value, type = constant.value, constant.type
    if value != term:
        return term is ALL_BITS and type.kind == "uint" and bool(value == type.max)
    return bool(value) or not type.is_float or math.copysign(1.0, value) == math.copysign(1.0, term)


def constant_of(type: ValueType, term: Any) -> Any:
    """The number of a pattern as a value of a type."""
    if type.kind in BOOL:
        return bool(term)
    if type.kind in FLOAT:
        return float(term)
    return term % (1 << type.bits) if type.kind == "uint" else term
