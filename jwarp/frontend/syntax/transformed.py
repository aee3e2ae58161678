"""Definitions of functions whose syntax tree is not the one of their file: other code changed it before it is read."""

from __future__ import annotations

import ast
import dataclasses
import functools
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from jwarp.errors import CompileError, Span
from jwarp.frontend.syntax.source import Definition, Known, lines_of
from jwarp.frontend.syntax.static_values import defined


def definition_of(function: Callable, transformers: Sequence[ast.NodeTransformer], source: str | None) -> Definition:
    """The definition of a function that is being made, with the text and the changes to its tree that are given.

    The changes are made now, once: what makes them may tell others of what it finds.
    """
    found = Definition.of(function)
    if source is not None:
        lines = [*"\n" * (found.span.line - 1), *source.splitlines(keepends=True)]
        found = dataclasses.replace(found, lines=lines)
    if transformers or source is not None:
        lines = lines_of(function, found.lines)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        for transformer in transformers:
            tree = transformer.visit(tree)
        found = dataclasses.replace(found, tree=Transformed(transformed(tree, found.span, lines)))
    return defined(function, found)


@dataclasses.dataclass(frozen=True)
class Transformed:
    """The tree of a definition, of which each reader gets a copy."""

    tree: ast.FunctionDef

    def __call__(self, lines: list[str]) -> ast.FunctionDef:
        made = _copied(self.tree, 0)
        assert isinstance(made, ast.FunctionDef)
        return made

    @functools.cached_property
    def text(self) -> str:
        """All that there is to say of the tree."""
        return ast.dump(self.tree, include_attributes=True)

    @functools.cached_property
    def values(self) -> tuple[Any, ...]:
        """The Python objects in it, in order."""
        return tuple(node.value for node in ast.walk(self.tree) if isinstance(node, Known))

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The names of variables and attributes in it."""
        nodes = list(ast.walk(self.tree))
        return frozenset(
            [n.id for n in nodes if isinstance(n, ast.Name)] + [n.attr for n in nodes if isinstance(n, ast.Attribute)]
        )


def transformed(module: ast.Module, span: Span, lines: list[str]) -> ast.FunctionDef:
    """A copy of a tree that was changed, with its columns those of the file, which has `lines` of the function.

    What Warp has put into it, functions and what `wp.static` gave, is there as that.
    """
    function = module.body[0]
    if not isinstance(function, ast.FunctionDef):
        raise CompileError("what the code transformers have made of it is no function", span)
    ast.fix_missing_locations(function)
    made = _copied(function, len(lines[0]) - len(lines[0].lstrip()))
    assert isinstance(made, ast.FunctionDef)
    return made


_PLAIN = (bool, int, float, str, bytes, complex, type(None), type(...))


def _copied(node: Any, indent: int) -> Any:
    if isinstance(node, list):
        return [_copied(item, indent) for item in node]
    if not isinstance(node, ast.AST):
        return node
    if hasattr(node, "warp_func"):
        made: ast.AST = Known(node.warp_func)
    elif isinstance(node, Known) or (isinstance(node, ast.Constant) and not isinstance(node.value, _PLAIN)):
        made = Known(node.value)
    else:
        made = type(node)(**{name: _copied(getattr(node, name, None), indent) for name in node._fields})
    for name in node._attributes:
        shift = indent if name.endswith("col_offset") else 0
        setattr(made, name, (getattr(node, name, None) or 0) + shift)
    return made
