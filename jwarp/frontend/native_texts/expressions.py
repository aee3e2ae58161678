"""Reads expressions of C++: what the kernel language has for them, converted as C++ converts numbers in silence."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jwarp.frontend.builtins import scalar
from jwarp.frontend.native_texts.cpp_functions import CONSTANTS, FUNCTIONS, QUALIFIERS, TYPES, Row
from jwarp.frontend.native_texts.words import NotPlain, number
from jwarp.frontend.syntax.source import Known
from jwarp.types import ScalarType, bool_, float32, float64, int32, int64, uint32, uint64

_TYPE_WORDS = frozenset(word for name in TYPES for word in name.split())
# The result types of two integers, from the narrowest to the widest.
_PROMOTED = (int32, uint32, int64, uint64)


@dataclass(frozen=True)
class Typed:
    """An expression of the kernel language and the type of its value; that of the elements of an array."""

    node: ast.expr
    type: ScalarType
    is_array: bool = False


def call(function: Any, *args: ast.expr) -> ast.expr:
    """A call of an object."""
    return ast.Call(Known(function), list(args), [])


def constant(kind: ScalarType, value: Any) -> Typed:
    """A number of a type."""
    return Typed(Known(kind.dtype.type(value)) if kind is not bool_ else ast.Constant(bool(value)), kind)


def converted(x: Typed, kind: ScalarType) -> Typed:
    """The value as another type."""
    if x.type is kind:
        return x
    if kind is bool_:
        return Typed(ast.Compare(x.node, [ast.NotEq()], [constant(x.type, 0).node]), bool_)
    return Typed(call(kind, x.node), kind)


def _promoted(kind: ScalarType) -> ScalarType:
    """The type after C++'s integral promotion: small integers become int32."""
    return kind if kind.is_float or kind in _PROMOTED else int32


def _common(x: Typed, y: Typed) -> ScalarType:
    kinds = [_promoted(x.type), _promoted(y.type)]
    for wide in (float64, float32):
        if wide in kinds:
            return wide
    return max(kinds, key=_PROMOTED.index)


# -- operators, a row each: how strongly it binds, and what it makes of its two sides


@dataclass(frozen=True)
class _Operator:
    strength: int
    made: Callable[[Typed, Typed], Typed]


def _arithmetic(op: type[ast.operator], *, floats: bool = True) -> Callable[[Typed, Typed], Typed]:
    def made(x: Typed, y: Typed) -> Typed:
        kind = _common(x, y)
        if kind.is_float and not floats:
            raise NotPlain(f"an operator of integers on {kind.name}")
        return Typed(ast.BinOp(converted(x, kind).node, op(), converted(y, kind).node), kind)

    return made


def _quotient(function: Any, *, floats: bool) -> Callable[[Typed, Typed], Typed]:
    def made(x: Typed, y: Typed) -> Typed:
        kind = _common(x, y)
        if kind.is_float and not floats:
            raise NotPlain(f"an operator of integers on {kind.name}")
        return Typed(call(function, converted(x, kind).node, converted(y, kind).node), kind)

    return made


def _shift(op: type[ast.operator]) -> Callable[[Typed, Typed], Typed]:
    def made(x: Typed, y: Typed) -> Typed:
        if x.type.is_float or y.type.is_float:
            raise NotPlain("a shift of floats")
        kind = _promoted(x.type)
        return Typed(ast.BinOp(converted(x, kind).node, op(), converted(y, kind).node), kind)

    return made


def _comparison(op: type[ast.cmpop]) -> Callable[[Typed, Typed], Typed]:
    def made(x: Typed, y: Typed) -> Typed:
        kind = _common(x, y)
        return Typed(ast.Compare(converted(x, kind).node, [op()], [converted(y, kind).node]), bool_)

    return made


def _connected(op: type[ast.boolop]) -> Callable[[Typed, Typed], Typed]:
    return lambda x, y: Typed(ast.BoolOp(op(), [converted(x, bool_).node, converted(y, bool_).node]), bool_)


OPERATORS: dict[str, _Operator] = {
    "||": _Operator(1, _connected(ast.Or)),
    "&&": _Operator(2, _connected(ast.And)),
    "|": _Operator(3, _arithmetic(ast.BitOr, floats=False)),
    "^": _Operator(4, _arithmetic(ast.BitXor, floats=False)),
    "&": _Operator(5, _arithmetic(ast.BitAnd, floats=False)),
    "==": _Operator(6, _comparison(ast.Eq)),
    "!=": _Operator(6, _comparison(ast.NotEq)),
    "<": _Operator(7, _comparison(ast.Lt)),
    "<=": _Operator(7, _comparison(ast.LtE)),
    ">": _Operator(7, _comparison(ast.Gt)),
    ">=": _Operator(7, _comparison(ast.GtE)),
    "<<": _Operator(8, _shift(ast.LShift)),
    ">>": _Operator(8, _shift(ast.RShift)),
    "+": _Operator(9, _arithmetic(ast.Add)),
    "-": _Operator(9, _arithmetic(ast.Sub)),
    "*": _Operator(10, _arithmetic(ast.Mult)),
    "/": _Operator(10, _quotient(scalar.div, floats=True)),
    "%": _Operator(10, _quotient(scalar.mod, floats=False)),
}


@dataclass
class Expressions:
    """Reads expressions from the words at `at` on; `scopes` say what variables are called, the innermost one last."""

    words: list[str]
    scopes: list[dict[str, Typed]]
    at: int = field(default=0)

    def peek(self, ahead: int = 0) -> str:
        """A word that is still to be read, "" after the last one."""
        return self.words[self.at + ahead] if self.at + ahead < len(self.words) else ""

    def take(self, *wanted: str) -> str:
        """The next word, which is one of those wanted."""
        word = self.peek()
        if not word or (wanted and word not in wanted):
            raise NotPlain(f"`{word}`" if word else "an end before its time")
        self.at += 1
        return word

    def took(self, *wanted: str) -> bool:
        """Consume these words if they come next, and return True if they did."""
        found = tuple(self.words[self.at : self.at + len(wanted)]) == wanted
        self.at += len(wanted) if found else 0
        return found

    def type(self) -> ScalarType | None:
        """The type whose name comes next; None, and nothing is read, where another word does, or `auto`."""
        words = list[str]()
        while self.peek() in QUALIFIERS or self.peek() in _TYPE_WORDS:
            words.append(self.take())
        while self.peek() in QUALIFIERS:
            words.append(self.take())
        name = " ".join(sorted(word for word in words if word not in QUALIFIERS))
        if name in TYPES:
            return TYPES[name]
        if name or words:
            raise NotPlain(f"`{name or self.peek()}`")
        return None

    def variable(self, name: str) -> Typed:
        """The variable of this name, or the element of an array, whose index comes next, or its extent."""
        for scope in reversed(self.scopes):
            if name in scope:
                found = scope[name]
                return self.element(name, found) if found.is_array else found
        raise NotPlain(f"`{name}`")

    def element(self, name: str, array: Typed) -> Typed:
        """After the name of an array of one dimension: `[i]`, `.data[i]` or `.shape[0]`."""
        if self.took(".", "shape", "[", "0", "]"):
            extents = ast.Attribute(array.node, "shape", ast.Load())
            return Typed(ast.Subscript(extents, ast.Constant(0), ast.Load()), int32)
        self.took(".", "data")
        if not self.took("["):
            raise NotPlain(f"`{name}`, an array as a whole")
        index = self.expression()
        self.take("]")
        if index.type.is_float:
            raise NotPlain(f"an index of `{name}` of {index.type.name}")
        place = converted(index, _promoted(index.type))
        return Typed(ast.Subscript(array.node, place.node, ast.Load()), array.type)

    def is_array(self, name: str) -> bool:
        """True if the innermost variable of this name is an array."""
        return next((scope[name].is_array for scope in reversed(self.scopes) if name in scope), False)

    def expression(self) -> Typed:
        """An expression, which may choose between two."""
        test = self.operation(1)
        if not self.took("?"):
            return test
        x = self.expression()
        self.take(":")
        y = self.expression()
        kind = x.type if x.type is y.type else _common(x, y)
        return Typed(ast.IfExp(converted(test, bool_).node, converted(x, kind).node, converted(y, kind).node), kind)

    def operation(self, strength: int) -> Typed:
        """Operators that bind at least so strongly, from left to right."""
        x = self.operand()
        while (row := OPERATORS.get(self.peek())) is not None and row.strength >= strength:
            self.take()
            x = row.made(x, self.operation(row.strength + 1))
        return x

    def operand(self) -> Typed:
        """One side of an operator."""
        word = self.take()
        if word == "+":
            x = self.operand()
            return converted(x, _promoted(x.type))
        if word == "-":
            x = self.operand()
            kind = _promoted(x.type)
            return Typed(ast.UnaryOp(ast.USub(), converted(x, kind).node), kind)
        if word == "!":
            return Typed(ast.UnaryOp(ast.Not(), converted(self.operand(), bool_).node), bool_)
        if word == "~":
            x = self.operand()
            kind = _promoted(x.type)
            if kind.is_float:
                raise NotPlain("`~` of a float")
            return Typed(ast.UnaryOp(ast.Invert(), converted(x, kind).node), kind)
        if word == "(":
            if (kind_named := self.type()) is not None:
                self.take(")")
                return converted(self.operand(), kind_named)
            x = self.expression()
            self.take(")")
            return x
        if (found := number(word)) is not None:
            return constant(*found)
        if word in CONSTANTS:
            return constant(*CONSTANTS[word])
        if word in ("static_cast", "reinterpret_cast"):
            return self.cast(word)
        if self.peek() == "(" and word in FUNCTIONS:
            return self.call(word)
        if self.peek() == "(" and word in TYPES:
            (x,) = self.arguments()
            return converted(x, TYPES[word])
        if self.peek() in ("(", "[", ".", "::", "++", "--") and not self.is_array(word):
            raise NotPlain(f"`{word}{self.peek()}`" if self.peek() != "(" else f"`{word}`")
        return self.variable(word)

    def cast(self, word: str) -> Typed:
        """A conversion by name: of a value, or of the bits of a variable."""
        self.take("<")
        kind = self.type()
        is_reference = self.took("&")
        self.take(">")
        if kind is None or is_reference is not (word == "reinterpret_cast"):
            raise NotPlain(f"`{word}`")
        self.take("(")
        x = self.variable(self.take()) if is_reference else self.expression()
        self.take(")")
        if not is_reference:
            return converted(x, kind)
        if kind.bits != x.type.bits or bool_ in (kind, x.type):
            raise NotPlain(f"`{word}` between types of two sizes")
        return x if kind is x.type else Typed(call(scalar.cast, x.node, Known(kind)), kind)

    def arguments(self) -> list[Typed]:
        """The arguments in the parentheses after a name."""
        self.take("(")
        found: list[Typed] = []
        while not self.took(")"):
            if found:
                self.take(",")
            found.append(self.expression())
        return found

    def call(self, name: str) -> Typed:
        """A call of a function."""
        row, given = FUNCTIONS[name], self.arguments()
        if len(given) != (row.arguments or len(row.parameters)):
            raise NotPlain(f"`{name}` of {len(given)} arguments")
        kinds = row.parameters or (_kind_of(row, given),) * len(given)
        made = call(row.function, *(converted(x, kind).node for x, kind in zip(given, kinds, strict=True)))
        return Typed(made, row.result or kinds[0])


def _kind_of(row: Row, given: list[Typed]) -> ScalarType:
    """The common type of arguments; integers become double where floats are wanted."""
    kind = _promoted(given[0].type)
    for x in given[1:]:
        kind = _common(Typed(x.node, kind), x)
    return float64 if row.floats and not kind.is_float else kind
