"""`@wp.func`: functions that kernels call. They are read anew at each call, so they are generic."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from jwarp.frontend.source import Source, annotations_of, capture, read_source


class Func:
    """A function of the kernel language. Outside kernels it is the Python function itself."""

    def __init__(self, function: Callable):
        functools.update_wrapper(self, function)
        self.python = function
        self.name = function.__name__
        self._captured = capture(function)

    @functools.cached_property
    def source(self) -> Source:
        return read_source(self.python, self._captured)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.python)

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        return annotations_of(self.python, self._captured)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.python(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<wp.func {self.name}>"


def func(function: Callable) -> Func:
    """Make a Python function callable from kernels.

    Its arguments are scalars and arrays; it may return one value or several (`return a, b`).
    Numbers that it refers to by name are captured now.
    """
    if not inspect.isfunction(function):
        raise TypeError(f"@wp.func needs a Python function, not {type(function).__name__}")
    return Func(function)
