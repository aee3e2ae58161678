"""Variables and places that a function changes: the arguments for its parameters `wp.ref[T]`, copied in and back."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jwarp.errors import CompileError
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.lowering.names import assign
from jwarp.frontend.lowering.places import Place, change, place_of
from jwarp.frontend.lowering.stored import as_value
from jwarp.frontend.syntax.source import variable_of
from jwarp.frontend.values.array_choices import arrays_of
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    PythonRef,
    Stored,
    StructValue,
    holds_array,
)


@dataclass(frozen=True)
class _Target:
    """What a call gives for a reference: where it is written, and the place if that is an element of an array."""

    node: ast.expr
    element: Place | None = None


Targets = dict[str, _Target]


def reference_targets(ctx: Context, function: Func, given: Arguments, arguments: dict[str, Binding]) -> Targets:
    """What the references of `function` are in a call, as the arguments are before it."""
    if not function.references:
        return {}
    nodes = function.signature.bind_partial(*given.nodes, **given.named_nodes).arguments
    targets: Targets = {}
    for name, reference in function.references.items():
        node = nodes.get(name)
        if isinstance(node, ast.Name) and node.id in ctx.frame.env:
            targets[name] = _Target(node)
        elif isinstance(node, (ast.Subscript, ast.Attribute)) and not reference.takes_values:
            targets[name] = _part_target(ctx, function, name, node, arguments)
        elif not reference.takes_values:
            where = given.span if node is None else ctx.span(node)
            raise CompileError(
                f"`{name}` of `{function.name}` is a reference, which needs a variable", where, "assign to one first"
            )
    _check_apart(ctx, function, targets, arguments)
    return targets


def read_again(ctx: Context, targets: Targets, arguments: dict[str, Binding]) -> None:
    """Let references be what the variables are now: other arguments may be calls that have changed them."""
    for name, target in targets.items():
        if isinstance(target.node, ast.Name):
            arguments[name] = as_value(ctx, ctx.frame.env[target.node.id], ctx.span(target.node))


def _part_target(
    ctx: Context, function: Func, name: str, node: ast.Subscript | ast.Attribute, arguments: dict[str, Binding]
) -> _Target:
    """An element of an array, or a field or component of a variable."""
    if any(isinstance(n, ast.Call) for n in ast.walk(node)):
        raise CompileError(
            f"`{name}` of `{function.name}` is a reference, and this place is named with a call in it",
            ctx.span(node),
            "assign what the call gives to a variable first",
        )
    if holds_array(arguments[name]):
        return _Target(node)
    place = place_of(ctx, node)
    return _Target(node, None if place.array is None else place)


def _check_apart(ctx: Context, function: Func, targets: Targets, arguments: dict[str, Binding]) -> None:
    """Refuse places that a call may change by two names, since they are copied to the function and back."""
    written = [ast.dump(target.node).replace("Store()", "Load()") for target in targets.values()]
    for name, target in targets.items():
        if written.count(ast.dump(target.node).replace("Store()", "Load()")) > 1:
            raise CompileError(f"this is given to `{function.name}` by two references", ctx.span(target.node))
        array = target.element.array if target.element is not None else None
        others = [value for other, value in arguments.items() if other != name]
        if isinstance(array, ArrayRef) and any(arrays_of(array) & arrays_of(value) for value in others):
            raise CompileError(
                f"`{function.name}` gets `{array.name}` besides a reference to an element of it",
                ctx.span(target.node),
                "pass the index instead of the reference",
            )
        names = {n.id for n in ast.walk(target.node) if isinstance(n, ast.Name)}
        named = {t.node.id for n, t in targets.items() if isinstance(t.node, ast.Name) and n != name}
        if names & named:
            raise CompileError(
                f"`{function.name}` gets `{min(names & named)}` by a reference, and a part that is named with it by "
                "another one",
                ctx.span(target.node),
            )


def leave_references(
    ctx: Context, function: Func, targets: Targets, before: dict[str, Binding], after: dict[str, Binding]
) -> None:
    """Let the variables and places that a call names stand for what `function` has left of its references."""
    for name, target in targets.items():
        if after[name] is before[name]:
            continue
        node, span = target.node, ctx.span(target.node)
        root = variable_of(node)
        if root is not None and target.element is None:
            _check_carried(ctx, function, root)
        if isinstance(node, ast.Name):
            assign(ctx, node.id, after[name], span)
        else:
            change(ctx, target.element or place_of(ctx, node), "store", after[name], span)


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
    nodes = [node for call in calls for node in _references_of(ctx, call)]
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    roots = [root.id for node in nodes if not isinstance(node, ast.Name) and (root := variable_of(node)) is not None]
    parts = [name for name in roots if isinstance(ctx.frame.env.get(name), (Composite, Stored, StructValue))]
    return list(dict.fromkeys([*names, *parts]))


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
        return (vars(owner).get(node.attr), 0) if inspect.ismodule(owner) else (None, 0)
    if isinstance(node, ast.Name):
        if node.id in ctx.frame.env:
            found = ctx.frame.env[node.id]
            return (found.object if isinstance(found, PythonRef) else None), 0
        with contextlib.suppress(KeyError):
            return ctx.frame.source.lookup(node.id), 0
    return None, 0
