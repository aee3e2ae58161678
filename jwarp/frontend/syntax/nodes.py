"""The nodes of a syntax tree, listed once: rules ask for them again for each call and each iteration."""

from __future__ import annotations

import ast

_NAME = "_jwarp_nodes"


def nodes_in(tree: ast.AST) -> tuple[ast.AST, ...]:
    """The node and all inside it, in the order of `ast.walk`. Who changes a tree must `forget_nodes` before."""
    found: tuple[ast.AST, ...] | None = getattr(tree, _NAME, None)
    if found is None:
        found = _listed(tree)
        setattr(tree, _NAME, found)
    return found


def _listed(tree: ast.AST) -> tuple[ast.AST, ...]:
    """As `ast.walk`, which takes twice as long."""
    found = [tree]
    for node in found:  # it grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return tuple(found)


def forget_nodes(tree: ast.AST) -> None:
    """Let the tree be changed."""
    for node in ast.walk(tree):
        if hasattr(node, _NAME):
            delattr(node, _NAME)
