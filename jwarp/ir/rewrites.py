"""The table of algebraic simplifications, such as `x + 0 → x`, and the matcher for its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jwarp.ir.nodes import Const, Operand
from jwarp.ir.operation import ANY, BITS, BOOL, FLOAT, INT, NUMBER, Kinds
from jwarp.types import ValueType


@dataclass(frozen=True)
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


def _by_operation(rows: Iterable[Rewrite]) -> dict[str, tuple[Rewrite, ...]]:
    found: dict[str, tuple[Rewrite, ...]] = {}
    for row in rows:
        found[row.operation] = (*found.get(row.operation, ()), row)
    return found


# Most operations have no constant among their operands, and few rows match those.
_ON_CONSTANTS = _by_operation(REWRITES)
_ON_VALUES = _by_operation(row for row in REWRITES if all(isinstance(term, Variable) for term in row.pattern))


def rewritten(name: str, args: tuple[Operand, ...], type: ValueType, has_constant: bool) -> Operand | None:
    """The operand that an operation with a result of this type equals, by the first row that matches; or None."""
    for row in (_ON_CONSTANTS if has_constant else _ON_VALUES).get(name, ()):
        if type.kind in row.kinds:
            found = _match(row, args, type)
            if found is not None:
                return found
    return None


def _match(row: Rewrite, args: tuple[Operand, ...], type: ValueType) -> Operand | None:
    bound: dict[Variable, Operand] = {}
    for term, arg in zip(row.pattern, args, strict=True):
        if not isinstance(term, Variable):
            if not (isinstance(arg, Const) and equals(arg, term)):
                return None
        elif (other := bound.setdefault(term, arg)) is not arg and other != arg:
            return None
    if isinstance(row.result, Variable):
        result = bound[row.result]
        return result if result.type == type else None
    return Const(type, constant_of(type, row.result))


def equals(constant: Const, term: Any) -> bool:
    """True if a constant is the number of a pattern: of floats, the sign of zero counts."""
    value = constant.value
    if constant.type.is_float:
        return bool(value == term) and math.copysign(1.0, value) == math.copysign(1.0, term)
    return bool(value == constant_of(constant.type, term))


def constant_of(type: ValueType, term: Any) -> Any:
    """The number of a pattern as a value of a type."""
    if type.kind in BOOL:
        return bool(term)
    if type.kind in FLOAT:
        return float(term)
    return term % (1 << type.bits) if type.kind == "uint" else term
