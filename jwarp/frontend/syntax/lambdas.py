"""The source of a lambda expression, found in its file among others that may stand in the same line."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jwarp.errors import CompileError, Span
from jwarp.frontend.syntax.source import Source, file_of


def lambda_source(function: Callable, captured: Mapping[str, Any], lines: list[str]) -> Source:
    """The lambda as a function that returns its expression; `lines` are those of its file.

    Raises:
        CompileError: the file has no such text, or none that Python can read.
    """
    code, file = function.__code__, file_of(function)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        tree = ast.Module([], [])
    places = set(_places(function))
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)] == list(code.co_varnames[: code.co_argcount])
        and places <= {(n.lineno, n.col_offset) for n in ast.walk(node.body) if isinstance(n, ast.expr)}
    ]
    if not found:
        raise CompileError(
            "the text of the lambda is not found",
            Span(file, code.co_firstlineno),
            "write a function under @wp.func",
        )
    # Of one inside another, the inner one has all the places, too.
    node = min(found, key=lambda node: len(ast.dump(node)))
    returned = ast.copy_location(ast.Return(node.body), node.body)
    fields: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
    made = ast.FunctionDef(
        name="lambda_", args=node.args, body=[returned], decorator_list=[], returns=None, type_comment=None, **fields
    )
    return Source(function, ast.copy_location(made, node), file, lines, 1, captured)


def _places(function: Callable) -> Iterator[tuple[int, int]]:
    """Where the expressions begin that the code of a function computes."""
    for line, _, column, _ in function.__code__.co_positions():
        if line is not None and column is not None and (line, column) != (function.__code__.co_firstlineno, 0):
            yield line, column
