"""What a function of NVIDIA Warp's was when it was defined."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import Any

from jwarp.frontend.syntax.source import Definition


def definition_of(function: Callable, adjoint: Any) -> Definition:
    """What jwarp takes the function for; `adjoint` is what Warp knows of it.

    Values that `wp.static` had where the function was defined hold; what its names stand for is looked up now.
    """
    variables = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
    known: dict[str, Any] = {}
    for text, value in adjoint.resolved_static_expressions.items():
        try:
            tree = ast.parse(f"({text})", mode="eval")
        except SyntaxError:
            continue
        # What depends on variables is another value each time that it is read, and Warp has the last one.
        if not any(isinstance(node, ast.Name) and node.id in variables for node in ast.walk(tree)):
            known[ast.unparse(tree)] = value
    return dataclasses.replace(Definition.of(function), statics=known)
