"""The tokens of the text of a kernel, and the names, types and constants that they make."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from jwarp.ir.nodes import Const
from jwarp.types import (
    KINDS,
    NAMED,
    SCALARS,
    ArrayType,
    ScalarType,
    Type,
    ValueType,
    bool_,
    composite,
    float32,
    int32,
    tile_type,
)

T = TypeVar("T")


class IRSyntaxError(ValueError):
    """Text that is no kernel; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int):
        super().__init__(f"line {line}, column {column}: {message}")
        self.line, self.column = line, column


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text: its kind is that of the pattern that it matches, or for punctuation its text."""

    kind: str
    text: str
    line: int
    column: int


_PATTERNS = re.compile(
    r"""(?P<space>[ \t]+|\#.*)|(?P<newline>\n)|(?P<value>%\d+)|(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|-inf|-nan)|(?P<name>[^\W\d][\w.]*)|(?P<mark>->|\.\.|[{}()\[\],:;=@])""",
    re.VERBOSE,
)


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of a text; empty lines, spaces and comments are left out."""
    line, start, position, last = 1, 0, 0, "newline"
    while position < len(text):
        match = _PATTERNS.match(text, position)
        if match is None:
            raise IRSyntaxError(f"unexpected {text[position]!r}", line, position - start + 1)
        kind, found = str(match.lastgroup), match.group()
        if kind != "space" and not kind == last == "newline":
            yield Token(found if kind == "mark" else kind, found, line, position - start + 1)
            last = kind
        position = match.end()
        if kind == "newline":
            line, start = line + 1, position
    if last != "newline":
        yield Token("newline", "\n", line, position - start + 1)
    yield Token("end", "", line, position - start + 1)


class Tokens:
    """The tokens of a text, taken one by one from `position` on."""

    def __init__(self, tokens: list[Token], position: int = 0):
        self.tokens = tokens
        self.position = position

    @property
    def next(self) -> Token:
        return self.tokens[self.position]

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        token = token or self.next
        raise IRSyntaxError(message, token.line, token.column)

    def take(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def expect(self, kind: str, what: str = "") -> Token:
        """The next word, which is of a kind."""
        if self.next.kind != kind:
            found = {"newline": "the end of the line", "end": "the end"}.get(self.next.kind, f"`{self.next.text}`")
            self.fail(f"expected {what or f'`{kind}`'}, found {found}")
        return self.take()

    def has(self, kind: str) -> bool:
        """True if the next word is of a kind; it is taken then."""
        found = self.next.kind == kind
        self.position += found
        return found

    def has_word(self, *words: str) -> bool:
        """True if the next words are these; they are taken then."""
        ahead = self.tokens[self.position : self.position + len(words)]
        found = tuple(token.text for token in ahead) == words and all(token.kind == "name" for token in ahead)
        self.position += len(words) * found
        return found

    def word(self, word: str) -> None:
        if not self.has_word(word):
            self.fail(f"expected `{word}`, found `{self.next.text.strip()}`")

    def name(self, what: str = "a name") -> str:
        """A name, in quotes where it is no identifier."""
        return self.string() if self.next.kind == "string" else self.expect("name", what).text

    def string(self) -> str:
        token = self.expect("string", "a text in quotes")
        try:
            return str(json.loads(token.text))
        except ValueError:
            self.fail("a text in quotes is spelt as in JSON", token)

    def integer(self) -> int:
        token = self.expect("number", "a number")
        if not token.text.removeprefix("-").isdigit():
            self.fail(f"expected an integer, found `{token.text}`", token)
        return int(token.text)

    def listed(self, item: Callable[[], T], end: str, separator: str = ",") -> tuple[T, ...]:
        """Items up to the mark `end`, which is taken."""
        found: list[T] = []
        while not self.has(end):
            if found:
                self.expect(separator)
            found.append(item())
        return tuple(found)

    # Types and constants

    def value_type(self) -> ValueType:
        """The type of a value: `float32`, or `float32[4x8]` for a tile."""
        token = self.expect("name", "a type")
        if token.text not in SCALARS:
            self.fail(f"there is no type `{token.text}`", token)
        scalar = SCALARS[token.text]
        if not self.has("["):
            return scalar
        extents = ""
        while not self.has("]"):
            if self.next.kind not in ("number", "name"):
                self.fail("expected the extents of a tile, as 4x8")
            extents += self.take().text
        if not re.fullmatch(r"[1-9]\d{0,8}(x[1-9]\d{0,8}){0,3}", extents):
            self.fail(f"`{extents}` is no shape of a tile", token)
        return tile_type(scalar, tuple(map(int, extents.split("x"))))

    def element_type(self) -> Any:
        """The type of an element: a scalar, `vec3`, or a composite without a name as `vector(5, float32)`."""
        token = self.expect("name", "a type")
        found: Any = SCALARS.get(token.text) or NAMED.get(token.text)
        if found is not None:
            return found
        if token.text not in KINDS:
            self.fail(f"there is no type `{token.text}`", token)
        kind = KINDS[token.text]
        self.expect("(")
        shape = kind.shape
        if shape is None:
            shape = self.listed(self.integer, ")") if self.has("(") else (self.integer(),)
            self.expect(",")
        scalar = self.value_type()
        self.expect(")")
        if len(shape) != kind.rank or min(shape) < 1:
            self.fail(f"{shape} is no shape of {kind.name}", token)
        return composite(kind, shape, scalar)

    def param_type(self) -> Type:
        """The type of a parameter: a scalar, a composite by value, or `array2d[vec3]`."""
        match = re.fullmatch(r"array([1-4]d)?", self.next.text)
        if match is None:
            found = self.element_type()
            return found if found in SCALARS.values() else ArrayType(found, 0)
        self.take()
        self.expect("[")
        element = self.element_type()
        self.expect("]")
        return ArrayType(element, int(match[1][0]) if match[1] else 1)

    def is_constant(self) -> bool:
        return self.next.kind == "number" or self.next.text in ("inf", "nan", "True", "False")

    def constant(self) -> Const:
        token = self.take()
        if token.text in ("True", "False"):
            return Const(self.value_type() if self.has(":") else bool_, token.text == "True")
        is_whole = token.text.removeprefix("-").isdigit()
        bare: ValueType = int32 if is_whole else float32
        kind = self.value_type() if self.has(":") else bare
        if kind.is_float:
            return Const(kind, float(kind.dtype.type(float(token.text))))
        if not is_whole or not kind.is_int:
            self.fail(f"`{token.text}` is no {kind}", token)
        return Const(kind, int(token.text))

    def number(self, kind: ScalarType) -> Any:
        """A Python number as the type has them, without the type behind it."""
        token = self.take()
        if kind is bool_ and token.text in ("True", "False"):
            return token.text == "True"
        is_number = token.kind == "number" or token.text in ("inf", "nan")
        if not is_number or not (kind.is_float or token.text.removeprefix("-").isdigit()):
            self.fail(f"`{token.text.strip()}` is no {kind}", token)
        return float(token.text) if kind.is_float else int(token.text)
