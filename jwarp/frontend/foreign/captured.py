"""What the names in a kernel of NVIDIA Warp's stood for when it was defined."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Mapping
from typing import Any


def with_bare_names(function: Callable, captured: Mapping[str, Any]) -> dict[str, Any]:
    """`captured`, and what Warp's names mean that are used without the name of its module, as `vec3(…)`."""
    package = sys.modules["warp"]
    found = dict(captured)
    for name in function.__code__.co_names:
        known = name in found or name in function.__globals__ or hasattr(builtins, name)
        if not known and (hasattr(package, name) or name in package._src.context.builtin_functions):
            found[name] = getattr(package, name, None) or package._src.context.builtin_functions[name]
    return found


def statics_of(adjoint: Any) -> dict[str, Any]:
    """The values that `wp.static` had where the function was defined, by the text of the expression."""
    return {_normal(text): value for text, value in adjoint.resolved_static_expressions.items()}


def _normal(text: str) -> str:
    """An expression as `ast.unparse` writes it."""
    try:
        return ast.unparse(ast.parse(f"({text})", mode="eval"))
    except SyntaxError:
        return text
