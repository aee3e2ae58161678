"""The definition of a function of NVIDIA Warp's, as it was when the function was decorated."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from jwarp.errors import CompileError, Span
from jwarp.frontend.syntax.source import Definition, Place, place_of
from jwarp.frontend.syntax.transformed import transformed


def definition_of(function: Callable, adjoint: Any) -> Definition:
    """The definition of a Warp function for jwarp; `adjoint` is Warp's own record of it.

    Values that `wp.static` had where the function was defined hold; what its names stand for is looked up now. Where
    Warp's code transformers have made another tree of it, that one counts.
    """
    definition = Definition.of(function)
    if len(definition.lines) < definition.span.line and adjoint.source:  # its file is gone
        above = [""] * (definition.span.line - 1)
        definition = dataclasses.replace(definition, lines=[*above, *adjoint.source.splitlines(keepends=True)])
    if adjoint.transformers:
        return dataclasses.replace(definition, tree=functools.partial(transformed, adjoint.tree, definition.span))
    code = function.__code__
    parameters = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    statics = functools.partial(_statics, adjoint.tree, parameters, definition.span)
    return dataclasses.replace(definition, statics=statics, evaluated=functools.partial(_evaluated, adjoint.tree))


# Attributes of nodes under these names contain no constants.
_NAMES = frozenset({"ctx", "id", "attr", "op", "ops", "arg", "name", "type_comment"})


def _evaluated(module: ast.Module) -> list[Any]:
    """The constants, and the functions in place of names, of a tree of Warp's, always in the same order."""
    found: list[Any] = []
    pending: list[Any] = [module]
    while pending:  # not by `ast.walk`, which took a third of the time of a kernel that is on disk
        node = pending.pop()
        kind = type(node)
        if kind is list:
            pending += node
        elif kind is ast.Constant:
            found.append(node.value)
        elif isinstance(node, ast.AST):
            if hasattr(node, "warp_func"):
                found.append(node.warp_func)
            for name in kind._fields:
                if name not in _NAMES and (part := getattr(node, name, None)) is not None:
                    pending.append(part)
    return found


def _statics(module: ast.Module, parameters: frozenset[str], span: Span, own: ast.FunctionDef) -> Mapping[Place, Any]:
    """The values by which Warp replaced calls of `wp.static` in a definition, by their place in `own`, its tree.

    Raises:
        CompileError: the trees differ in anything else.
    """
    found: dict[Place, Any] = {}
    other = module.body[0]
    if not isinstance(other, ast.FunctionDef):
        raise CompileError(f"Warp has another tree of `{own.name}`", span)
    pending: list[tuple[Any, Any]] = [(own.args.args, other.args.args), (own.body, other.body)]
    while pending:
        x, y = pending.pop()
        if type(x) is not type(y):
            if isinstance(x, ast.Call) and (isinstance(y, ast.Constant) or hasattr(y, "warp_func")):
                # An expression that reads a parameter, such as its length, is another value for other arguments.
                if not any(isinstance(node, ast.Name) and node.id in parameters for node in ast.walk(x)):
                    found[place_of(x)] = y.value if isinstance(y, ast.Constant) else y.warp_func
                continue
        elif isinstance(x, list):
            if len(x) == len(y):
                pending.extend(zip(x, y, strict=True))
                continue
        elif isinstance(x, ast.Constant) and isinstance(x.value, str) and isinstance(y.value, str):
            continue  # texts of several lines are indented in the file
        elif isinstance(x, ast.AST):
            pending.extend((getattr(x, name), getattr(y, name)) for name in x._fields if name != "annotation")
            continue
        elif x == y:
            continue
        raise CompileError(
            f"`{own.name}` is not what its file says: its file has changed since", span, "restart Python after a change"
        )
    return found
