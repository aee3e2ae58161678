"""Reads statements of C++, and makes the functions of the kernel language that stand for texts on processors."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jwarp.caches import PerOwner
from jwarp.frontend.func import Func
from jwarp.frontend.func_grad import adjoint
from jwarp.frontend.native import NativeFunc
from jwarp.frontend.native_texts.cpp_functions import TYPES
from jwarp.frontend.native_texts.expressions import OPERATORS, Expressions, Typed, constant, converted
from jwarp.frontend.native_texts.words import NotPlain, words_for_processors
from jwarp.frontend.syntax.source import Source
from jwarp.ir.attributes import NativeCall
from jwarp.ir.native import element_of
from jwarp.types import ArrayType, Reference, ScalarType, bool_, int32

Results = tuple[ScalarType | None, ...]  # none or one

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
    manners = {"value": "", "reference": "reference", "read": "array", "changed": "array"}
    params = {p.name: _parameter(_number(p.element), manners[p.kind]) for p in call.params}
    result = (_number(call.result),) if call.result else ()
    derivative = call.adjoint[0] if call.adjoint else None
    try:
        read_texts(call.text, derivative, params, result, has_replay=bool(call.replay))
    except NotPlain as reason:
        return str(reason)
    return "an array of several dimensions"


def _number(spelt: str) -> ScalarType | None:
    kind = element_of(spelt)
    return None if kind.kind or kind.scalar not in _KINDS else kind.scalar


@dataclass(frozen=True)
class Parameter:
    """A parameter of a text: a number, by value or a place of the caller's, or an array of one dimension of numbers."""

    type: ScalarType
    manner: str = ""  # "reference", "array", or by value


def _parameter(kind: ScalarType | None, manner: str) -> Parameter | None:
    return None if kind is None else Parameter(kind, manner)


def _read(function: NativeFunc) -> Func | str:
    def parameter(name: str) -> Parameter | None:
        kind = function.declared(name)
        manner = "reference" if name in function.references else ""
        if isinstance(kind, ArrayType) and kind.dims == 1:
            kind, manner = kind.dtype, "array"
        return Parameter(kind, manner) if kind in _KINDS else None

    params = {name: parameter(name) for name in function.signature.parameters}
    kind = function.declared("return")
    result = () if kind in (None, ()) else (kind if kind in _KINDS else None,)
    has_replay = function.replay_snippet is not None
    try:
        body, gradient = read_texts(function.snippet, function.adj_snippet, params, result, has_replay=has_replay)
    except NotPlain as reason:
        return str(reason)
    made = TextFunc(function, body)
    if gradient is not None:
        made.gradient = TextGradient(function, gradient, _cotangents(params, result))
    return made


class _OfText(Func):
    """A function of the kernel language whose body was read from a text in C++, of a native function."""

    def __init__(self, native: NativeFunc, body: list[ast.stmt]):
        super().__init__(native.python, definition=native.definition)
        self._native, self._body = native, body

    @property
    def annotations(self) -> dict[str, Any]:
        """Those of the native function; references are values here, which come back after the result."""
        written = self._native.annotations
        if not self._native.references:
            return written
        kinds = {name: kind.value if isinstance(kind, Reference) else kind for name, kind in written.items()}
        kinds.pop("return", None)
        return kinds

    @functools.cached_property
    def source(self) -> Source:
        """The syntax tree: all of it stands where the function is defined."""
        written = self._native.source
        made = copy.copy(written.tree)
        made.body = [ast.fix_missing_locations(ast.copy_location(node, written.tree)) for node in self._body]
        for node in ast.walk(made):
            if isinstance(node, (ast.expr, ast.stmt)):
                ast.copy_location(node, written.tree)
        captured = {**written.captured, _ADJOINT: adjoint}
        return Source(written.function, made, written.file, written.lines, written.first_line, captured)


class TextFunc(_OfText):
    """The counterpart of a native function on processors."""


class TextGradient(_OfText):
    """The gradient function of such a counterpart, read from the text of the adjoint."""

    def __init__(self, native: NativeFunc, body: list[ast.stmt], cotangents: list[str]):
        super().__init__(native, body)
        self._cotangents = cotangents

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters of the function, and the cotangents of its results."""
        names = [*self._native.signature.parameters, *self._cotangents]
        return inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])


# The name of `wp.adjoint` in gradients that are read from texts: no name of the user's has a space.
_ADJOINT = "wp adjoint"


def _cotangents(params: Mapping[str, Parameter | None], result: Results) -> list[str]:
    """The names of the cotangents in the text of an adjoint."""
    references = [f"adj_{name}" for name, p in params.items() if p is not None and p.manner == "reference"]
    return [*(["adj_ret"] if result else []), *references]


def read_texts(
    text: str,
    derivative: str | None,
    params: Mapping[str, Parameter | None],
    result: Results,
    *,
    has_replay: bool = False,
) -> tuple[list[ast.stmt], list[ast.stmt] | None]:
    """The statements of a function and of its gradient, in the kernel language.

    `params` are its parameters, None for what is no number or array of them; `result` has the type of what it gives, if
    it gives something. References come back after the result.

    Raises:
        NotPlain: a text has what there is no counterpart for.
    """
    words = words_for_processors(text)
    if has_replay:
        raise NotPlain("a replay that is written for GPUs")
    known: dict[str, Parameter] = {}
    for name, param in params.items():
        if param is None:
            raise NotPlain(
                f"the parameter `{name}`, which is neither a number nor an array of numbers in one dimension"
            )
        known[name] = param
    if result == (None,):
        raise NotPlain("a result that is no number")
    reader = _Statements(words, [{}], next(iter(result), None))
    for name, param in known.items():
        reader.declare(name, param.type, is_array=param.manner == "array")
    reader.left = [name for name, param in known.items() if param.manner == "reference"]
    made = reader.rest()
    if result and not any(isinstance(node, ast.Return) for each in made for node in ast.walk(each)):
        raise NotPlain("no `return`")
    if reader.left and not result and not (made and isinstance(made[-1], ast.Return)):
        made.append(reader.given())
    return made or [ast.Pass()], None if derivative is None else _gradient_of(derivative, known, result)


def _gradient_of(text: str, params: Mapping[str, Parameter], result: Results) -> list[ast.stmt]:
    """The statements of the gradient function that the text of an adjoint is."""
    array = next((name for name, param in params.items() if param.manner == "array"), None)
    if array is not None:
        raise NotPlain(f"a derivative with the array `{array}`, which is written for GPUs")
    reader = _Statements(words_for_processors(text), [{}], None)
    made: list[ast.stmt] = []
    for name, param in params.items():
        if param.manner != "reference":
            reader.declare(name, param.type)
        if param.type.is_float:
            variable = reader.declare(f"adj_{name}", param.type)
            if param.manner != "reference":
                made.append(ast.Assign([variable], constant(param.type, 0).node))
    for kind in result:
        assert kind is not None
        reader.declare("adj_ret", kind)
    made += reader.rest()
    if any(isinstance(node, ast.Return) for each in made for node in ast.walk(each)):
        raise NotPlain("a derivative with a `return`")
    for name, param in params.items():
        if param.type.is_float:
            target = ast.Subscript(ast.Name(_ADJOINT, ast.Load()), ast.Name(name, ast.Load()), ast.Store())
            made.append(ast.AugAssign(target, ast.Add(), ast.Name(f"adj_{name}", ast.Load())))
    return made or [ast.Pass()]


class _Statements(Expressions):
    """Reads statements; `steps` are those that the loops around end their iterations with."""

    def __init__(self, words: list[str], scopes: list[dict[str, Typed]], result: ScalarType | None):
        super().__init__(words, scopes)
        self.result = result
        self.steps: list[list[ast.stmt]] = []
        self.declared: list[str] = []
        self.left: list[str] = []  # the references, which come back

    def rest(self) -> list[ast.stmt]:
        """All statements that are left."""
        made: list[ast.stmt] = []
        while self.peek():
            made += self.statement()
        return made

    def given(self, *values: ast.expr) -> ast.stmt:
        """The end of the function, with what comes back: a result, and what references are then."""
        if not self.left:
            return ast.Return(*values) if values else ast.Return(None)
        return ast.Return(ast.Tuple([*values, *(ast.Name(name, ast.Load()) for name in self.left)], ast.Load()))

    def declare(self, name: str, kind: ScalarType, *, is_array: bool = False) -> ast.Name:
        """A new variable, under a name that no other one has had: each may have a type of its own."""
        if not name.isidentifier():
            raise NotPlain(f"`{name}`")
        if name in self.scopes[-1]:
            raise NotPlain(f"`{name}`, declared twice")
        # No name of the user's has a space.
        own = f"{name} {len(self.declared)}" if name in self.declared else name
        self.declared.append(name)
        self.scopes[-1][name] = Typed(ast.Name(own, ast.Load()), kind, is_array)
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
        if isinstance(target.node, ast.Name):
            place: ast.expr = ast.Name(target.node.id, ast.Store())
        elif isinstance(target.node, ast.Subscript) and isinstance(target.node.value, ast.Name):
            place = ast.Subscript(target.node.value, target.node.slice, ast.Store())
        else:
            raise NotPlain(f"a change of `{name}`")
        return ast.Assign([place], converted(value, target.type).node)

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
            return [self.given()]
        value = converted(self.expression(), self.result)
        self.take(";")
        return [self.given(value.node)]


# Statements that begin with a keyword.
_STATEMENTS: dict[str, Callable[[_Statements], list[ast.stmt]]] = {
    "if": _Statements.branch,
    "while": _Statements.loop,
    "for": _Statements.counted,
    "break": lambda reader: reader.leave(ast.Break()),
    "continue": lambda reader: reader.leave(ast.Continue()),
    "return": _Statements.give,
}
