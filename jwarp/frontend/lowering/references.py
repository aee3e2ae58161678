"""Variables that a function changes by name: the arguments for its parameters `wp.ref[T]`."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from jwarp.errors import CompileError
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.lowering.names import assign
from jwarp.frontend.values.bindings import Binding, PythonRef, StructValue


def leave_references(
    ctx: Context, function: Func, given: Arguments, before: dict[str, Binding], after: dict[str, Binding]
) -> None:
    """Let the variables that a call names stand for what `function` has left of its references."""
    if not function.references:
        return
    nodes = function.signature.bind_partial(*given.nodes, **given.named_nodes).arguments
    for name, reference in function.references.items():
        node = nodes.get(name)
        if isinstance(node, ast.Name) and node.id in ctx.frame.env:
            if after[name] is not before[name]:
                _check_carried(ctx, function, node)
                assign(ctx, node.id, after[name], ctx.span(node))
        elif not reference.takes_values:
            where = given.span if node is None else ctx.span(node)
            raise CompileError(
                f"`{name}` of `{function.name}` is a reference, which needs a variable", where, "assign to one first"
            )


def _check_carried(ctx: Context, function: Func, node: ast.Name) -> None:
    if node.id in ctx.frame.not_carried:
        raise CompileError(
            f"`{function.name}` changes `{node.id}`, which cannot be told from the text of this loop",
            ctx.span(node),
            f"call `{function.name}` by its own name, or give the function this name before the loop",
        )


def changed_by_calls(ctx: Context, tree: ast.AST) -> list[str]:
    """The names of variables that calls in `tree` change, in order of appearance."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    nodes = (node for call in calls for node in _references_of(ctx, call))
    return list(dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name)))


def _references_of(ctx: Context, call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that are references."""
    function, bound = _callee(ctx, call.func)
    if not isinstance(function, Func):
        return
    for overload in function.overloads:
        for name in overload.references:
            position = list(overload.signature.parameters).index(name) - bound
            if 0 <= position < len(call.args):
                yield call.args[position]
            yield from (k.value for k in call.keywords if k.arg == name)


def _callee(ctx: Context, node: ast.expr) -> tuple[Any, int]:
    """What is called by this name as far as the text tells, and how many arguments stand before the dot."""
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and isinstance(owner := ctx.frame.env.get(node.value.id), StructValue):
            return getattr(owner.type, node.attr, None), 1
        owner, _ = _callee(ctx, node.value)
        return (inspect.getattr_static(owner, node.attr, None), 0) if inspect.ismodule(owner) else (None, 0)
    if isinstance(node, ast.Name):
        if node.id in ctx.frame.env:
            found = ctx.frame.env[node.id]
            return (found.object if isinstance(found, PythonRef) else None), 0
        with contextlib.suppress(KeyError):
            return ctx.frame.source.lookup(node.id), 0
    return None, 0
