"""The nodes of a syntax tree, listed once: rules ask for them again for each call and each trip."""

from __future__ import annotations

import ast

_NAME = "_jwarp_nodes"


def nodes_in(tree: ast.AST) -> tuple[ast.AST, ...]:
    """The node and all inside it, in the order of `ast.walk`. Who changes a tree must `forget_nodes` before."""
    found: tuple[ast.AST, ...] | None = getattr(tree, _NAME, None)
    if found is None:
        found = tuple(ast.walk(tree))
        setattr(tree, _NAME, found)
    return found


def forget_nodes(tree: ast.AST) -> None:
    """Let the tree be changed."""
    for node in ast.walk(tree):
        if hasattr(node, _NAME):
            delattr(node, _NAME)
