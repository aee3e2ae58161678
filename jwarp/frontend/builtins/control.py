"""The functions that say which thread this is, which numbers a loop runs over, and what Python computes."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from jwarp.errors import CompileError, Span
from jwarp.frontend.builtins.table import check_count, define
from jwarp.frontend.context import Context
from jwarp.frontend.values.bindings import Binding
from jwarp.types import CompositeValue

T = TypeVar("T")


def _lower_tid(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("tid", args, (0,), span)
    return ctx.tid(1, span)


tid = define(
    "tid() -> ThreadIndex",
    """The coordinates of this thread in the launch, each an int32.

    Write `i = wp.tid()` for one launch dimension, `i, j = wp.tid()` for two, and so on for up to four.

    Raises:
        CompileError: It is called in a function, or with different numbers of coordinates in one kernel.""",
    _lower_tid,
)


def _only_in_for(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    raise CompileError("range() can only stand in a for statement", span)


range = define(
    """
    range(stop: Index, /) -> Range
    range(start: Index, stop: Index, step: Index = 1, /) -> Range""",
    "The integers of a `for` loop. A loop with constant bounds may be unrolled.",
    _only_in_for,
)


def static(value: T) -> T:
    """Evaluate an expression in Python when the kernel is built: `wp.static(a + 1)`.

    Outside kernels, it returns its argument. Names of the kernel itself are not visible, except variables of unrolled
    loops.
    """
    return value


def constant(value: T) -> T:
    """Mark a number, a vector or a matrix as a constant for kernels, and return it unchanged."""
    if not isinstance(value, (bool, int, float, np.generic, CompositeValue)):
        raise TypeError(
            f"wp.constant takes a number, a bool, a vector or a matrix. Invalid constant type: {type(value)}"
        )
    return value
