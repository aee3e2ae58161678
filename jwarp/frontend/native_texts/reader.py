"""Reads statements of C++, and makes the function of the kernel language that stands for a text on processors."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Any

from jwarp.caches import PerOwner
from jwarp.frontend.func import Func
from jwarp.frontend.native import NativeFunc
from jwarp.frontend.native_texts.cpp_functions import TYPES
from jwarp.frontend.native_texts.expressions import OPERATORS, Expressions, Typed, constant, converted
from jwarp.frontend.native_texts.words import NotPlain, words_for_processors
from jwarp.frontend.syntax.source import Source
from jwarp.ir.attributes import NativeCall
from jwarp.ir.native import element_of
from jwarp.types import ScalarType, bool_, int32

# The numbers that texts compute with: C++ has no arithmetic of its own on other ones.
_KINDS = frozenset(TYPES.values())
_ASSIGNMENTS = frozenset(f"{op}=" for op in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"))
_READ: PerOwner[NativeFunc, str, Func | str] = PerOwner("functions read from texts", "one for each text")


def for_processors(function: NativeFunc) -> Func | None:
    """The processor's counterpart of a native function: the author's, or the text itself if it is plain C++."""
    if function.cpu is not None:
        return function.cpu
    found = _READ.of(function).made("", lambda: _read(function))
    return found if isinstance(found, Func) else None


def why_not(function: NativeFunc) -> str:
    """The reason why the text of a function cannot be read."""
    found = _READ.of(function).made("", lambda: _read(function))
    assert isinstance(found, str)
    return found


def hindrance(call: NativeCall) -> str:
    """The reason why the text of a call that has no counterpart cannot be read."""
    numbers = {p.name: _number(p.element) if p.kind == "value" else None for p in call.params}
    result = (_number(call.result),) if call.result else ()
    try:
        body_of(call.text, numbers, result, has_derivative=bool(call.adjoint or call.replay))
    except NotPlain as reason:
        return str(reason)
    raise AssertionError("a text that can be read stands for itself")


def _number(spelt: str) -> ScalarType | None:
    kind = element_of(spelt)
    return None if kind.kind or kind.scalar not in _KINDS else kind.scalar


def _read(function: NativeFunc) -> Func | str:
    def kind_of(name: str) -> ScalarType | None:
        kind = function.declared(name)
        return kind if kind in _KINDS and name not in function.references else None

    numbers = {name: kind_of(name) for name in function.signature.parameters}
    result = () if function.declared("return") in (None, ()) else (kind_of("return"),)
    has_derivative = function.adj_snippet is not None or function.replay_snippet is not None
    try:
        return TextFunc(function, body_of(function.snippet, numbers, result, has_derivative=has_derivative))
    except NotPlain as reason:
        return str(reason)


class TextFunc(Func):
    """A function of the kernel language whose body was read from a text in C++."""

    def __init__(self, native: NativeFunc, body: list[ast.stmt]):
        super().__init__(native.python, definition=native.definition)
        self._native, self._body = native, body

    @property
    def annotations(self) -> dict[str, Any]:
        return self._native.annotations

    @property
    def source(self) -> Source:
        """The syntax tree: all of it stands where the function is defined."""
        written = self._native.source
        made = copy.copy(written.tree)
        made.body = [ast.fix_missing_locations(ast.copy_location(node, written.tree)) for node in self._body]
        for node in ast.walk(made):
            if isinstance(node, (ast.expr, ast.stmt)):
                ast.copy_location(node, written.tree)
        return Source(written.function, made, written.file, written.lines, written.first_line, written.captured)


def body_of(
    text: str,
    numbers: Mapping[str, ScalarType | None],
    result: tuple[ScalarType | None, ...],
    *,
    has_derivative: bool = False,
) -> list[ast.stmt]:
    """The statements of a function, in the kernel language.

    `numbers` has the types of its parameters, None for what is no number by value; `result` that of what it gives, if
    it gives something. One that `has_derivative` of its own would get another one here.

    Raises:
        NotPlain: the text has what there is no counterpart for.
    """
    words = words_for_processors(text)
    if has_derivative:
        raise NotPlain("a derivative that is written for GPUs")
    reader = _Statements(words, [{}], next(iter(result), None))
    for name, kind in numbers.items():
        if kind is None:
            raise NotPlain(f"the parameter `{name}`, which is no number by value")
        reader.declare(name, kind)
    if result == (None,):
        raise NotPlain("a result that is no number")
    made: list[ast.stmt] = []
    while reader.peek():
        made += reader.statement()
    if result and not any(isinstance(node, ast.Return) for each in made for node in ast.walk(each)):
        raise NotPlain("no `return`")
    return made or [ast.Pass()]


class _Statements(Expressions):
    """Reads statements; `steps` are those that the loops around end their iterations with."""

    def __init__(self, words: list[str], scopes: list[dict[str, Typed]], result: ScalarType | None):
        super().__init__(words, scopes)
        self.result = result
        self.steps: list[list[ast.stmt]] = []
        self.declared: list[str] = []

    def declare(self, name: str, kind: ScalarType) -> ast.Name:
        """A new variable, under a name that no other one has had: each may have a type of its own."""
        if not name.isidentifier():
            raise NotPlain(f"`{name}`")
        if name in self.scopes[-1]:
            raise NotPlain(f"`{name}`, declared twice")
        # No name of the user's has a space.
        own = f"{name} {len(self.declared)}" if name in self.declared else name
        self.declared.append(name)
        self.scopes[-1][name] = Typed(ast.Name(own, ast.Load()), kind)
        return ast.Name(own, ast.Store())

    def statement(self) -> list[ast.stmt]:
        """The next statement."""
        word = self.peek()
        if self.took(";"):
            return []
        if word == "{":
            return self.block()
        if (rule := _STATEMENTS.get(word)) is not None:
            self.take()
            return rule(self)
        made = self.simple()
        self.take(";")
        return made

    def block(self) -> list[ast.stmt]:
        """Statements in braces."""
        self.take("{")
        self.scopes.append({})
        made: list[ast.stmt] = []
        while not self.took("}"):
            made += self.statement()
        self.scopes.pop()
        return made

    def inner(self) -> list[ast.stmt]:
        """One statement with a scope of its own, as `if` and loops have."""
        self.scopes.append({})
        made = self.statement()
        self.scopes.pop()
        return made or [ast.Pass()]

    def simple(self) -> list[ast.stmt]:
        """A declaration or assignments, without what ends them."""
        if self.took("auto") or self.took("const", "auto"):
            return self.declarations(None)
        if (kind := self.type()) is not None:
            return self.declarations(kind)
        made = [self.assignment()]
        while self.took(","):
            made.append(self.assignment())
        return made

    def declarations(self, kind: ScalarType | None) -> list[ast.stmt]:
        """Variables of a type, or of that of the value which follows."""
        made: list[ast.stmt] = []
        while True:
            name = self.take()
            value = self.expression() if self.took("=") else None
            if kind is None and value is None:
                raise NotPlain("`auto`")
            own = kind or (value.type if value is not None else int32)
            # A variable that is not set has any value in C++.
            start = constant(own, 0) if value is None else converted(value, own)
            made.append(ast.Assign([self.declare(name, own)], start.node))
            if not self.took(","):
                return made

    def assignment(self) -> ast.stmt:
        """A change of a variable."""
        word = self.take()
        before = word in ("++", "--")
        name = self.take() if before else word
        target = self.variable(name)
        operator = word if before else self.take("=", *_ASSIGNMENTS, "++", "--")
        if operator == "=":
            value = self.expression()
        elif operator in ("++", "--"):
            value = OPERATORS[operator[0]].made(target, constant(int32, 1))
        else:
            value = OPERATORS[operator[:-1]].made(target, self.expression())
        assert isinstance(target.node, ast.Name)
        return ast.Assign([ast.Name(target.node.id, ast.Store())], converted(value, target.type).node)

    def condition(self) -> ast.expr:
        """Parse a condition in parentheses."""
        self.take("(")
        made = converted(self.expression(), bool_).node
        self.take(")")
        return made

    def branch(self) -> list[ast.stmt]:
        """After `if`."""
        test = self.condition()
        then = self.inner()
        orelse = self.inner() if self.took("else") else []
        return [ast.If(test, then, orelse)]

    def loop(self) -> list[ast.stmt]:
        """After `while`."""
        test = self.condition()
        self.steps.append([])
        body = self.inner()
        self.steps.pop()
        return [ast.While(test, body, [])]

    def counted(self) -> list[ast.stmt]:
        """After `for`."""
        self.take("(")
        self.scopes.append({})
        start = [] if self.peek() == ";" else self.simple()
        self.take(";")
        test = ast.Constant(True) if self.peek() == ";" else converted(self.expression(), bool_).node
        self.take(";")
        step = [] if self.peek() == ")" else self.simple()
        self.take(")")
        self.steps.append(step)
        body = self.inner()
        self.steps.pop()
        self.scopes.pop()
        return [*start, ast.While(test, [*body, *step], [])]

    def leave(self, made: ast.stmt) -> list[ast.stmt]:
        """A jump out of the iteration of a loop."""
        self.take(";")
        if not self.steps:
            raise NotPlain("a jump outside of loops")
        return [*(self.steps[-1] if isinstance(made, ast.Continue) else []), made]

    def give(self) -> list[ast.stmt]:
        """After `return`."""
        if self.result is None:
            self.take(";")
            return [ast.Return(None)]
        value = converted(self.expression(), self.result)
        self.take(";")
        return [ast.Return(value.node)]


# Statements that begin with a keyword.
_STATEMENTS: dict[str, Callable[[_Statements], list[ast.stmt]]] = {
    "if": _Statements.branch,
    "while": _Statements.loop,
    "for": _Statements.counted,
    "break": lambda reader: reader.leave(ast.Break()),
    "continue": lambda reader: reader.leave(ast.Continue()),
    "return": _Statements.give,
}
