"""Evaluates calls of `wp.static` when a function of a Warp program is decorated, as Warp does."""

from __future__ import annotations

import ast
import builtins
import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jwarp.config import surface
from jwarp.errors import JwarpError
from jwarp.frontend.syntax.source import Definition, Place, file_of, outer_values, place_of, read_source
from jwarp.types import CompositeValue

_OF_STATIC = "jwarp.frontend.builtins.control"


def defined(function: Callable, definition: Definition | None = None) -> Definition:
    """The definition of a function that is being decorated, which may be given but for what `wp.static` gives.

    In programs of Warp's, what calls of it give is known from then on. Calls that name variables of loops, or what has
    no value yet, are evaluated when the function is read.
    """
    definition = definition or Definition.of(function)
    if not surface.is_warps or not (_names_static(function) or definition.tree is not None):
        return definition
    try:
        tree = read_source(function, definition.captured, definition.lines, tree=definition.tree).tree
    except JwarpError:  # it is raised when the function is read
        return definition
    found: dict[Place, Any] = {}
    known = {**function.__globals__, **outer_values(function)}
    # A tree that was changed may have one call at two places, which are known when it is read.
    counts = collections.Counter(place_of(node) for node in ast.walk(tree) if isinstance(node, ast.Call))
    for call in _calls(tree, frozenset()):
        if counts[place_of(call)] == 1 and _calls_static(call, known):
            _evaluate(call, known, function, found)
    return dataclasses.replace(definition, statics=lambda _: found, evaluated=lambda: list(found.values()))


def _names_static(function: Callable) -> bool:
    """True if a function as it is written may call `wp.static`."""
    return "static" in function.__code__.co_names or any(map(is_static, outer_values(function).values()))


def _calls(node: ast.AST, loops: frozenset[str]) -> Iterator[ast.Call]:
    """The calls below `node` that name no variable of a loop around them, the outer ones first."""
    if isinstance(node, ast.For):
        loops |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    if isinstance(node, ast.Call) and loops.isdisjoint(_loaded(node)):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, loops)


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _evaluate(call: ast.Call, known: Mapping[str, Any], function: Callable, found: dict[Place, Any]) -> None:
    """Note what a call of `wp.static` gives, unless it is part of one that is known, or names what has no value yet."""
    place = place_of(call)
    if any(_is_within(place, other) for other in found):
        return
    parts = [*call.args, *(k.value for k in call.keywords)]
    inner = [n for part in parts for n in ast.walk(part)]
    own = {n.arg for n in inner if isinstance(n, ast.arg)}
    own |= {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    here = vars(builtins).keys() - set(function.__code__.co_varnames)
    if len(parts) == 1 and _loaded(parts[0]) - own <= known.keys() | here:
        try:
            value = _value(parts[0], known, function)
        except Exception:  # what it needs may come later; if not, reading the function says so
            return
        found[place] = value.copy() if isinstance(value, CompositeValue) else value


def _is_within(place: Place, other: Place) -> bool:
    return other[:2] <= place[:2] and place[2:] <= other[2:]


def _value(node: ast.expr, known: Mapping[str, Any], function: Callable) -> Any:
    return eval(compile(ast.Expression(node), file_of(function), "eval"), dict(known))


def is_static(thing: Any) -> bool:
    """True for `wp.static` itself, which is defined in a layer above."""
    return getattr(thing, "__module__", None) == _OF_STATIC and getattr(thing, "__name__", None) == "static"


def _calls_static(call: ast.Call, known: Mapping[str, Any]) -> bool:
    callee, names = call.func, []
    while isinstance(callee, ast.Attribute):
        names.append(callee.attr)
        callee = callee.value
    if not isinstance(callee, ast.Name) or names[:1] not in ([], ["static"]):
        return False
    found = known.get(callee.id)
    for name in reversed(names):
        found = getattr(found, name, None)
    return is_static(found)
