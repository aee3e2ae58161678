"""Rewrites calls that give their results to arguments: `svd3(A, U, s, V)` becomes `U, s, V = svd3(A)`.

So it does calls that change their first argument: `set_q(t, q)` becomes `t = set_q(t, q)`.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jwarp.frontend.syntax.nodes import nodes_in

Lookup = Callable[[str], Any]


@dataclass(frozen=True)
class Outputs:
    """The names of a function's results, as further parameters after `position` others.

    Or else the first parameter, `changed`, which gets the result.
    """

    names: tuple[str, ...]
    position: int
    changed: str = ""


def rewrite_output_arguments(tree: ast.FunctionDef, lookup: Lookup) -> None:
    """Rewrite such calls in `tree`, in place. `lookup` gives what an outer name stands for, or raises KeyError."""
    for node in nodes_in(tree):
        if not isinstance(node, (ast.stmt, ast.match_case)):
            continue
        for statements in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(statements, list):
                statements[:] = [_rewritten(s, lookup) for s in statements]


def _rewritten(statement: ast.stmt, lookup: Lookup) -> ast.stmt:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return statement
    call = statement.value
    outputs = inspect.getattr_static(_outer(call.func, lookup), "outputs", None)
    if isinstance(outputs, Outputs) and outputs.changed:
        return _with_change(statement, call, outputs.changed)
    if not isinstance(outputs, Outputs) or not outputs.names:
        return statement
    names, count = outputs.names, outputs.position
    targets = dict(zip(names, call.args[count:], strict=False))
    targets |= {str(k.arg): k.value for k in call.keywords if k.arg in names}
    if set(targets) != set(names) or len(call.args) + len(call.keywords) > count + len(names):
        return statement  # the call itself says what is wrong
    items = [targets[name] for name in names]
    for item in items:
        if isinstance(item, (ast.Name, ast.Subscript, ast.Attribute)):
            item.ctx = ast.Store()
    inputs = [k for k in call.keywords if k.arg not in names]
    shorter = ast.copy_location(ast.Call(call.func, call.args[:count], inputs), call)
    target = ast.copy_location(ast.Tuple(items, ast.Store()), call)
    return ast.copy_location(ast.Assign([target], shorter), statement)


def _with_change(statement: ast.stmt, call: ast.Call, changed: str) -> ast.stmt:
    """The assignment of what a call gives to its first argument."""
    named = (k.value for k in call.keywords if k.arg == changed)
    first = call.args[0] if call.args else next(named, None)
    if not isinstance(first, (ast.Name, ast.Subscript, ast.Attribute)):
        return statement  # the call itself says what is wrong
    target = copy.deepcopy(first)
    target.ctx = ast.Store()
    return ast.copy_location(ast.Assign([target], call), statement)


def _outer(node: ast.expr, lookup: Lookup) -> Any:
    """The outer object that `node` names, by itself or in a module; None if it is anything else."""
    if isinstance(node, ast.Attribute):
        owner = _outer(node.value, lookup)
        return inspect.getattr_static(owner, node.attr, None) if inspect.ismodule(owner) else None
    try:
        return lookup(node.id) if isinstance(node, ast.Name) else None
    except KeyError:
        return None
