"""Variables and places that a function changes: the arguments for its parameters `wp.ref[T]`, copied in and back."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jwarp.errors import CompileError, Span
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.lowering.assignment_targets import Place, change, place_of, read
from jwarp.frontend.lowering.indexed_composites import as_value
from jwarp.frontend.lowering.names import assign
from jwarp.frontend.native import NativeFunc
from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.source import Known, variable_of
from jwarp.frontend.values import array_views, composites, located
from jwarp.frontend.values.array_joins import arrays_of
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Composite,
    OneOf,
    PythonRef,
    Referenced,
    Stored,
    StructArray,
    StructValue,
    holds_array,
)
from jwarp.ir.nodes import Const
from jwarp.types import ArrayType, CompositeType, int32


@dataclass(frozen=True)
class _Target:
    """The argument of a call for a reference: its expression, and its place if it is a part of something."""

    node: ast.expr
    place: Place | None = None

    @property
    def element(self) -> Place | None:
        """The place, if it is an element of an array."""
        return None if self.place is None or self.place.array is None else self.place


Targets = dict[str, _Target]


def reference_targets(ctx: Context, function: Func, given: Arguments, arguments: dict[str, Binding]) -> Targets:
    """The targets of the references of `function` in a call, before it runs."""
    if not function.references:
        return {}
    nodes = function.signature.bind_partial(*given.nodes, **given.named_nodes).arguments
    targets: Targets = {}
    for name, reference in function.references.items():
        node = nodes.get(name)
        if isinstance(node, ast.Name) and node.id in ctx.frame.env:
            owner = ctx.frame.env[node.id]
            targets[name] = _Target(node, place_of(ctx, node) if isinstance(owner, Referenced) else None)
        elif isinstance(node, (ast.Subscript, ast.Attribute)) and not reference.takes_values:
            targets[name] = _part_target(ctx, function, name, node, arguments)
        elif not reference.takes_values:
            where = given.span if node is None else ctx.span(node)
            raise CompileError(
                f"`{name}` of `{function.name}` is a reference, which needs a variable", where, "assign to one first"
            )
    _check_apart(ctx, function, targets)
    return targets


def read_again(ctx: Context, function: Func, targets: Targets, arguments: dict[str, Binding]) -> None:
    """Let references be what the variables are now: other arguments may be calls that have changed them.

    An element that the function can reach in another way as well stays where it is; others are copied to it and back.
    """
    overlapping = _overlapping(targets, arguments)
    for name, target in targets.items():
        span = ctx.span(target.node)
        if name in overlapping:
            arguments[name] = _in_array(ctx, function, target, span)
        elif target.element is not None:
            arguments[name] = read(ctx, target.element, span)
        elif isinstance(target.node, ast.Name):
            arguments[name] = as_value(ctx, ctx.frame.env[target.node.id], span)


def _overlapping(targets: Targets, arguments: dict[str, Binding]) -> set[str]:
    """The references to elements of arrays that another argument has an element of, or is."""
    arrays = {name: arrays_of(binding) for name, binding in arguments.items()}
    arrays |= {name: arrays_of(target.element.array) for name, target in targets.items() if target.element}
    elements = (name for name, target in targets.items() if target.element is not None)
    return {name for name in elements if any(arrays[name] & other for key, other in arrays.items() if key != name)}


def _in_array(ctx: Context, function: Func, target: _Target, span: Span) -> Referenced:
    """An element of an array, or a part of one, where it is."""
    place = target.element
    assert place is not None and place.array is not None and place.indices is not None
    has_own = function.gradient is not None or function.replay is not None
    is_native = isinstance(function, NativeFunc)
    if has_own or is_native or any(isinstance(s, (range, composites.Part)) for s in place.selectors):
        why = "it is native code" if is_native else "that is several components"
        why = "it has a derivative of its own" if has_own else why
        raise CompileError(
            f"`{function.name}` gets `{place.name}` besides a reference to an element of it, and {why}",
            span,
            "pass the array and the index instead of the reference",
        )
    array = place.array
    if isinstance(array, StructArray):
        return Referenced(array_views.struct_view(ctx, array, place.indices, span))
    shown = array_views.view(ctx, array, place.indices, span)
    return Referenced(_component(ctx, shown, place, span) if place.selectors else shown)


def _component(ctx: Context, array: ArrayRef, place: Place, span: Span) -> ArrayRef:
    """A component, or the row, that is selected of an element."""
    if isinstance(array, OneOf):
        return array.with_options([_component(ctx, option, place, span) for option in array.options])
    known: Any = place.selectors
    chosen = (Const(int32, s) if isinstance(s, int) else ctx.as_index(s, array, span) for s in known)
    if array.located is not None:
        at = array.located
        start = located.component_at(ctx, at.start, tuple(chosen), array.type.components, span)
        return dataclasses.replace(array, type=ArrayType(place.kind, 0), axes=(dataclasses.replace(at, start=start),))
    return dataclasses.replace(array, type=ArrayType(place.kind, 0), axes=(*array.axes, *chosen))


def _part_target(
    ctx: Context, function: Func, name: str, node: ast.Subscript | ast.Attribute, arguments: dict[str, Binding]
) -> _Target:
    """An element of an array, or a field or component of a variable."""
    if any(isinstance(n, ast.Call) for n in nodes_in(node)):
        raise CompileError(
            f"`{name}` of `{function.name}` is a reference, and this place is named with a call in it",
            ctx.span(node),
            "assign what the call gives to a variable first",
        )
    return _Target(node) if holds_array(arguments[name]) else _Target(node, place_of(ctx, node))


def _check_apart(ctx: Context, function: Func, targets: Targets) -> None:
    """Refuse parts of variables that a call may change by two names, since they are copied to the function and back."""
    copied = {name: target for name, target in targets.items() if target.element is None}
    for name, target in copied.items():
        others = [other for key, other in copied.items() if key != name]
        if any(_same(target.node, other.node) for other in others):
            raise CompileError(f"this is given to `{function.name}` by two references", ctx.span(target.node))
        names = {n.id for n in nodes_in(target.node) if isinstance(n, ast.Name)}
        named = {other.node.id for other in others if isinstance(other.node, ast.Name)}
        if names & named:
            raise CompileError(
                f"`{function.name}` gets `{min(names & named)}` by a reference, and a part that is named with it by "
                "another one",
                ctx.span(target.node),
            )
        if any(_may_meet(target.place, other.place) for other in others):
            raise CompileError(
                f"`{function.name}` gets two references to parts of one variable, which may have something in common",
                ctx.span(target.node),
                "pass the variable and the indices, or let the variable be a local array: wp.zeros(…)",
            )


def _same(x: ast.expr, y: ast.expr) -> bool:
    return ast.dump(x).replace("Store()", "Load()") == ast.dump(y).replace("Store()", "Load()")


def _may_meet(x: Place | None, y: Place | None) -> bool:
    """True if two parts of variables may overlap."""
    if x is None or y is None or (x.variable or x.name) != (y.variable or y.name):
        return False
    if any(a != b for a, b in zip(x.path, y.path, strict=False)):
        return False
    if len(x.path) != len(y.path) or not isinstance(x.whole, CompositeType):
        return True
    known = (composites.axes_of(x.whole.shape, p.selectors) for p in (x, y))
    axes = zip(*known, x.whole.shape, strict=True)
    return not any(_positions(a, extent).isdisjoint(_positions(b, extent)) for a, b, extent in axes)


def _positions(along: Any, extent: int) -> set[int]:
    """The positions along an axis that may be selected."""
    if isinstance(along, int):
        return {along}
    return set(along) if isinstance(along, range) else set(range(extent))


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
            f"`{function.name}` changes `{node.id}`, which cannot be seen in the text of this loop",
            ctx.span(node),
            f"call `{function.name}` by its own name, or give the function this name before the loop",
        )


def changed_by_calls(ctx: Context, tree: ast.AST) -> list[str]:
    """The names of variables that calls in `tree` change, in order of appearance."""
    calls = (node for node in nodes_in(tree) if isinstance(node, ast.Call))
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
    """The callee under this name as far as the source tells, and the number of arguments before the dot."""
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and isinstance(owner := ctx.frame.env.get(node.value.id), StructValue):
            return getattr(owner.type, node.attr, None), 1
        owner, _ = _callee(ctx, node.value)
        return (vars(owner).get(node.attr), 0) if inspect.ismodule(owner) else (None, 0)
    if isinstance(node, Known):
        return canonical(node.value), 0
    if isinstance(node, ast.Name):
        if node.id in ctx.frame.env:
            found = ctx.frame.env[node.id]
            return (found.object if isinstance(found, PythonRef) else None), 0
        with contextlib.suppress(KeyError):
            return ctx.frame.source.lookup(node.id), 0
    return None, 0
