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
    known = {_normal(text): value for text, value in adjoint.resolved_static_expressions.items()}
    return dataclasses.replace(Definition.of(function), statics=known)


def _normal(text: str) -> str:
    """An expression as `ast.unparse` writes it."""
    try:
        return ast.unparse(ast.parse(f"({text})", mode="eval"))
    except SyntaxError:
        return text
