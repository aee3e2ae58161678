"""What the names in a function of NVIDIA Warp's stood for when it was defined."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from typing import Any

from jwarp.frontend.syntax.source import Definition


def definition_of(function: Callable, adjoint: Any) -> Definition:
    """What jwarp takes the function for; `adjoint` is what Warp knows of it."""
    known = Definition.of(function)
    return Definition({**_bare_names(function), **known.captured}, known.lines, known.span, _statics(adjoint))


def _bare_names(function: Callable) -> dict[str, Any]:
    """Warp's own, by the names that are used without that of its module, as `vec3(…)`."""
    package = sys.modules["warp"]
    builtin_functions = package._src.context.builtin_functions
    names = (n for n in function.__code__.co_names if n not in function.__globals__ and not hasattr(builtins, n))
    return {
        n: builtin_functions.get(n) or getattr(package, n)
        for n in names
        if n in builtin_functions or hasattr(package, n)
    }


def _statics(adjoint: Any) -> dict[str, Any]:
    """The values that `wp.static` had where the function was defined, by the text of the expression."""
    return {_normal(text): value for text, value in adjoint.resolved_static_expressions.items()}


def _normal(text: str) -> str:
    """An expression as `ast.unparse` writes it."""
    try:
        return ast.unparse(ast.parse(f"({text})", mode="eval"))
    except SyntaxError:
        return text
