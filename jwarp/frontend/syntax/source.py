"""The source of a Python function: its syntax tree, its spans, and the names it captured."""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import functools
import inspect
import linecache
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jwarp.config import surface
from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.outputs import rewrite_output_arguments
from jwarp.types import CompositeValue

# Where an expression begins and ends: line and column, and those of its end.
Place = tuple[int, int, int, int]
Statics = Callable[[ast.FunctionDef], Mapping[Place, Any]]


def place_of(node: ast.expr) -> Place:
    """Where `node` stands in its tree, and no other expression of its kind does."""
    return (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


class Known(ast.expr):
    """An expression whose value, a Python object, is known."""

    def __init__(self, value: Any):
        super().__init__()
        self.value = value


@dataclass(frozen=True)
class Source:
    """A parsed function.

    `captured` holds what its outer names meant when it was defined, `statics` what calls of `wp.static` gave then,
    as far as that is known, by place.
    """

    function: Callable
    tree: ast.FunctionDef
    file: str
    lines: list[str]
    first_line: int
    captured: Mapping[str, Any]
    statics: Mapping[Place, Any] = field(default_factory=dict)
    _spans: dict[ast.AST, Span] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @functools.cached_property
    def returns_in_loops(self) -> bool:
        """True if the function returns from within a loop."""
        loops = (n for n in nodes_in(self.tree) if isinstance(n, (ast.For, ast.While)))
        return any(isinstance(n, ast.Return) for loop in loops for n in nodes_in(loop))

    @functools.cached_property
    def returns_values(self) -> bool:
        """True if the function returns something somewhere."""
        return any(map(returns_value, nodes_in(self.tree)))

    @functools.cached_property
    def names_static(self) -> bool:
        """True if something in the function is called `static`."""
        names = (getattr(n, "id", None) or getattr(n, "attr", None) for n in nodes_in(self.tree))
        return "static" in names

    def span(self, node: ast.AST) -> Span:
        """Where `node` stands in the user's file."""
        found = self._spans.get(node)  # asked for several times for most nodes
        if found is None:
            found = self._spans[node] = self._find_span(node)
        return found

    def _find_span(self, node: ast.AST) -> Span:
        if not isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.arg, ast.pattern)):
            return Span(self.file, self.first_line)
        text, start, end = self.lines[node.lineno - 1], node.col_offset, node.end_col_offset or 0
        if not text.isascii():  # the columns of a syntax tree count bytes
            start, end = (len(text.encode()[:column].decode(errors="replace")) for column in (start, end))
        if node.end_lineno != node.lineno:
            end = start + 1
        return Span(self.file, self.first_line + node.lineno - 1, start, end)

    def lookup(self, name: str) -> Any:
        """The canonical value of the outer name `name`; KeyError if there is none."""
        return canonical(self.found(name))

    def found(self, name: str) -> Any:
        """The object itself that the outer name `name` has; KeyError if there is none."""
        if name in self.captured:
            return self.captured[name]
        later = capture(self.function)  # what had no value yet when the function was defined
        if name in later:
            return later[name]
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        return vars(builtins)[name]

    @property
    def namespace(self) -> dict[str, Any]:
        """The outer names, for evaluating Python expressions as the function would."""
        return {**self.function.__globals__, **capture(self.function), **self.captured}


_NUMBERS = (int, float, np.generic, CompositeValue)


def capture(function: Callable) -> dict[str, Any]:
    """Outer names that `function` refers to, with their values now.

    Numbers are not among them in programs of Warp's, where they count as they are at the first launch.
    """
    captured = outer_values(function)
    if surface.is_warps:
        captured = {name: value for name, value in captured.items() if not isinstance(value, _NUMBERS)}
    # Vectors and matrices can change later, numbers cannot.
    return {name: v.copy() if isinstance(v, CompositeValue) else v for name, v in captured.items()}


def outer_values(function: Callable) -> dict[str, Any]:
    """The values now of all outer names that `function` refers to, as far as they have one."""
    code = function.__code__
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # defined later in the enclosing function, or never
            found[name] = cell.cell_contents
    for name in code.co_names:
        if name in function.__globals__:
            found.setdefault(name, function.__globals__[name])
    return found


def file_lines(function: Callable) -> list[str]:
    """The lines of the file of `function` as they are now; none if there is no such file.

    Taken when a function is decorated: by its first use the file may have been edited. The list is the
    one that `linecache` shares among all functions of the file.
    """
    file = file_of(function)
    if file == "<string>":  # whatever text Python keeps under that name need not be this function's
        return []
    linecache.checkcache(file)
    return linecache.getlines(file, function.__globals__)


@dataclass(frozen=True)
class Definition:
    """The names and the file of a function at the time it was decorated.

    `statics` tells of its tree what calls of `wp.static` gave then; without it, they are still to be evaluated.
    `evaluated` has all their values, whatever else may be among them. `tree` gives another tree than the lines of the
    function do, as from other code that changed it.
    """

    captured: dict[str, Any]
    lines: list[str]
    span: Span
    statics: Statics | None = None
    evaluated: Callable[[], list[Any]] | None = None
    tree: Callable[[list[str]], ast.FunctionDef] | None = None

    @staticmethod
    def of(function: Callable) -> Definition:
        """That of now."""
        span = Span(file_of(function), function.__code__.co_firstlineno)
        return Definition(capture(function), file_lines(function), span)

    def renewed(self, function: Callable) -> Definition:
        """The same text, with the names that it was captured with as they are now."""
        now = capture(function)
        return dataclasses.replace(self, captured={name: now.get(name, x) for name, x in self.captured.items()})

    def completed(self, function: Callable) -> Definition:
        """The same, with the values now of the names that were not captured."""
        captured = {**outer_values(function), **self.captured}
        captured = {name: v.copy() if isinstance(v, CompositeValue) else v for name, v in captured.items()}
        return dataclasses.replace(self, captured=captured)


class Defined:
    """Base of objects made of a Python function: its definition, and its source, read when it is first needed."""

    python: Callable  # the function
    _definition: Definition
    _is_old = False  # whether names are to be captured anew
    _first_read: Definition | None = None

    @property
    def definition(self) -> Definition:
        """The names and the file of the function when it was decorated, or after `forget_source`."""
        if self._is_old:
            self._is_old, self._definition = False, self._definition.renewed(self.python)
        return self._definition

    @property
    def first_read(self) -> Definition:
        """The definition that is read. In programs of Warp, it has numbers as they were when this was first asked."""
        if self._first_read is None or self._is_old:
            self._first_read = self.definition
            if surface.is_warps:
                self._first_read = self._first_read.completed(self.python)
        return self._first_read

    @functools.cached_property
    def source(self) -> Source:
        """The syntax tree, read when it is first needed."""
        known = self.first_read
        return read_source(self.python, known.captured, known.lines, known.statics, known.tree)

    def forget_source(self) -> None:
        """Have the source read anew by the next use, with the names as they are then."""
        self._is_old = True
        vars(self).pop("source", None)


def read_source(
    function: Callable,
    captured: Mapping[str, Any],
    text: list[str],
    statics: Statics | None = None,
    tree: Callable[[list[str]], ast.FunctionDef] | None = None,
) -> Source:
    """Parse `function`, whose file has the lines `text`; `statics` and `tree` as in its definition."""
    file, first_line = file_of(function), function.__code__.co_firstlineno
    lines, body = _quickly(function.__code__, text)
    if body is None:
        lines = inspect.getblock(text[first_line - 1 :])
    if not lines:
        raise CompileError(
            f"the source of `{function.__name__}` cannot be read",
            Span(file, first_line),
            "define kernels in a file or a notebook cell, not through exec or a bare prompt",
        )
    try:
        if tree is not None:
            body = [tree(lines)]
        elif body is None:
            body = _parse(lines)
    except SyntaxError as error:
        raise CompileError(
            f"the source of `{function.__name__}` cannot be parsed: {error.msg}", Span(file, first_line)
        ) from None
    except (RecursionError, MemoryError):
        raise CompileError(f"`{function.__name__}` is nested too deeply", Span(file, first_line)) from None
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise CompileError(f"`{function.__name__}` must be a plain function written with `def`", Span(file, first_line))
    if body[0].name != function.__code__.co_name:
        raise CompileError(
            f"the file of `{function.__name__}` has changed since it was imported",
            Span(file, first_line),
            "restart Python",
        )
    source = Source(function, body[0], file, lines, first_line, captured, statics(body[0]) if statics else {})
    local = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
    rewrite_output_arguments(source.tree, lambda name: None if name in local else source.lookup(name))
    return source


def lines_of(function: Callable, text: list[str]) -> list[str]:
    """The lines of a function whose file has the lines `text`; none where it has not."""
    lines, body = _quickly(function.__code__, text)
    return lines if body is not None else inspect.getblock(text[function.__code__.co_firstlineno - 1 :])


def _quickly(code: types.CodeType, text: list[str]) -> tuple[list[str], list[ast.stmt] | None]:
    """The lines of a function and the one statement that they are, as far as indentation tells; None where it does not.

    What comes after its last instruction is indented more than the first line. Where a bracket or a text goes on in a
    line that is not, the lines before that are no statement. `inspect` would go through all tokens, in Python.
    """
    first, last = code.co_firstlineno, max((line for *_, line in code.co_lines() if line), default=0)
    if not 0 < first <= last <= len(text):
        return [], None
    around, end = _indentation(text[first - 1]), last
    for number, line in enumerate(text[last:], last + 1):
        if line.strip() and not line.lstrip().startswith("#"):
            if _indentation(line) <= around:
                break
            end = number
    lines = text[first - 1 : end]
    try:
        found = _parse(lines)
    except (SyntaxError, RecursionError, MemoryError):
        return [], None
    return (lines, found) if len(found) == 1 else ([], None)


def _indentation(line: str) -> int:
    wide = line.expandtabs()
    return len(wide) - len(wide.lstrip())


def _parse(lines: list[str]) -> list[ast.stmt]:
    """The statements of `lines`, which may be indented, with line numbers that count from 1."""
    text = "".join(lines)
    if not lines[0][:1].isspace():
        return ast.parse(text).body
    # Under an `if` any indentation is right, and columns stay those of the file.
    (wrapper,) = ast.parse("if True:\n" + text).body
    assert isinstance(wrapper, ast.If)
    for statement in wrapper.body:
        ast.increment_lineno(statement, -1)
    return wrapper.body


def file_of(function: Callable) -> str:
    """The file that `function` was written in, or what Python names instead, as `<string>`."""
    return function.__code__.co_filename


# Objects that other decorators made, by the names of their classes.
_DECORATED = {"PythonKernel": "a kernel", "HandwrittenKernel": "a kernel", "Func": "a func", "NativeFunc": "a func"}


def check_function(function: Any, decorator: str) -> None:
    """Refuse what `decorator` cannot read: anything but a function written with `def`."""
    if not inspect.isfunction(function):
        kind = type(function).__name__
        shown = _DECORATED.get(kind, f"an object of type {kind}")
        raise KernelTypeError(
            f"{decorator} needs a function written with `def`, not {shown}",
            hint=f"put {decorator} right above the `def`, under all other decorators",
        )
    span = Span(file_of(function), function.__code__.co_firstlineno)
    if function.__name__ == "<lambda>":
        raise CompileError("a lambda cannot be read as kernel code", span, "write it with `def`")
    if hasattr(function, "__wrapped__"):
        raise CompileError(
            f"`{function.__name__}` is wrapped by another decorator, whose code would be ignored",
            span,
            f"put {decorator} right above the `def`",
        )


def assigned_names(statements: list[ast.stmt]) -> list[str]:
    """Names that `statements` bind, in order of appearance."""
    names: dict[str, None] = {}
    for statement in statements:
        for node in nodes_in(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None
    return list(names)


def partly_assigned_names(statements: list[ast.stmt]) -> list[str]:
    """Names of what `statements` assign parts of, as in `v[0] = x` or `m[1].y += x`, in order of appearance."""
    names: dict[str, None] = {}
    for statement in statements:
        for node in nodes_in(statement):
            if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                owner = variable_of(node)
                if owner is not None:
                    names[owner.id] = None
    return list(names)


def variable_of(place: ast.expr) -> ast.Name | None:
    """The variable that a place such as `v[0].x` is a part of."""
    while isinstance(place, (ast.Subscript, ast.Attribute)):
        place = place.value
    return place if isinstance(place, ast.Name) else None


def count_loads(trees: Iterable[ast.expr | ast.stmt]) -> dict[str, int]:
    """How often each name is read in `trees`. An augmented assignment reads its target."""
    counts: dict[str, int] = {}
    for tree in trees:
        for node in nodes_in(tree):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    counts[node.id] = counts.get(node.id, 0) + 1
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                counts[node.target.id] = counts.get(node.target.id, 0) + 1
    return counts


def indexed_names(tree: ast.AST) -> frozenset[str]:
    """The names that stand before brackets with more than numbers in them, or that go to a call and are its result."""
    found: set[str] = set()
    for node in nodes_in(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if not all(isinstance(item, ast.Slice) or _is_number(item) for item in items):
                found.add(node.value.id)
        elif isinstance(node, (ast.Assign, ast.Return)) and isinstance(node.value, ast.Call):
            call = node.value
            given = {n.id for n in (*call.args, *(k.value for k in call.keywords)) if isinstance(n, ast.Name)}
            if isinstance(node, ast.Assign):
                given &= {n.id for target in node.targets for n in nodes_in(target) if isinstance(n, ast.Name)}
            found |= given
    return frozenset(found)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant))


def arms_of(statement: ast.If) -> tuple[list[ast.If], list[ast.stmt]]:
    """An `if` and each `elif` after it, which nest in a syntax tree, and what runs if no condition holds."""
    arms = [statement]
    while len(orelse := arms[-1].orelse) == 1 and isinstance(orelse[0], ast.If):
        arms.append(orelse[0])
    return arms, orelse


def tests_of(statement: ast.stmt) -> list[ast.expr]:
    """The expressions by which a branching statement chooses."""
    if isinstance(statement, ast.If):
        return [arm.test for arm in arms_of(statement)[0]]
    return [statement.subject] if isinstance(statement, ast.Match) else []


def branches_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The sequences of statements of which a branching statement runs one; none for other statements."""
    if isinstance(statement, ast.If):
        arms, last = arms_of(statement)
        return [*(arm.body for arm in arms), last]
    if isinstance(statement, ast.Match):
        return [*(case.body for case in statement.cases), []]  # no case may fit
    return []


def may_jump(statement: ast.stmt, *, in_loop: bool = False) -> bool:
    """True if control may leave the statement other than by running past its end."""
    if isinstance(statement, ast.Return):
        return True
    if isinstance(statement, (ast.Break, ast.Continue)):
        return not in_loop
    if isinstance(statement, (ast.For, ast.While)):
        return any(may_jump(s, in_loop=True) for s in statement.body)
    return any(may_jump(s, in_loop=in_loop) for branch in branches_of(statement) for s in branch)


def returns_value(node: ast.AST) -> bool:
    """True if `node` is a `return` of something."""
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value is None)


def always_jumps(statements: list[ast.stmt]) -> bool:
    """True if control never runs past the end of `statements`."""
    for statement in statements:
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
            return True
        branches = branches_of(statement)
        if branches and all(map(always_jumps, branches)):
            return True
    return False


def parameter_span(function: Callable, name: str) -> Span:
    """The place of parameter `name` (`return`: the function), as far as it is known."""
    first = Span(file_of(function), function.__code__.co_firstlineno)
    try:
        source = read_source(function, {}, file_lines(function))
    except CompileError:
        return first
    arguments = source.tree.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    if name == "return" and source.tree.returns is not None:
        return source.span(source.tree.returns)
    return next((source.span(a) for a in every if a is not None and a.arg == name), first)


def annotations_of(function: Callable, captured: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of `function`, with the ones written as text evaluated."""
    namespace = {**function.__globals__, **captured}
    result = {}
    for name, annotation in inspect.get_annotations(function).items():
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, namespace)  # the module's own text, as typing does it
            except Exception as error:
                raise CompileError(
                    f"annotation of `{name}` cannot be evaluated: {error}",
                    parameter_span(function, name),
                ) from None
        result[name] = canonical(annotation)
    return result
