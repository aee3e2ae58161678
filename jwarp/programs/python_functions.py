"""Facts about Python functions as libraries of Warp ask for them: annotations, parameters, names from outside."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any


def closure_of(function: Callable) -> dict[str, Any]:
    """The variables of enclosing functions that a function refers to, as far as they have a value."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def found_by_name(function: Callable, name: str) -> Any:
    """The value that a name from outside has in a function; None if it has none."""
    closure = closure_of(function)
    return closure[name] if name in closure else function.__globals__.get(name)


def annotations_of_any(thing: Any) -> dict[str, Any]:
    """The annotations of a function, class or module, with those that are written as text evaluated."""
    return inspect.get_annotations(thing, eval_str=True)


def argument_spec(function: Callable) -> inspect.FullArgSpec:
    """As `inspect.getfullargspec`, with annotations that are written as text evaluated."""
    annotations = inspect.get_annotations(function, eval_str=True, locals=closure_of(function))
    return inspect.getfullargspec(function)._replace(annotations=annotations)
