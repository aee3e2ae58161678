"""`expect_eq`, `expect_neq` and `expect_near`: what does not hold is printed, and an error in debug mode."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins.table import check_count, check_same, define
from jwarp.frontend.context import Context
from jwarp.frontend.values import operator_table
from jwarp.frontend.values.bindings import Binding, Composite, Number, describe
from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Const, If, Op, Operand
from jwarp.ir.printing import short_file

# How a value is shown, by the kind of its type: floats with all digits of float32.
_SHOWN = {"float": "%.9g", "int": "%d", "uint": "%u", "bool": "%s"}


def expectation(ctx: Context, name: str, holds: Operand, said: Sequence[str | Binding], span: Span) -> Binding:
    """Say that `holds` is expected: where it does not, print the texts and values `said`."""
    if isinstance(holds, Const) and holds.value:
        return ()
    place = f"{short_file(span)}:{span.line}: wp.{name}: ".replace("%", "%%")
    values = [v for part in said if not isinstance(part, str) for v in ctx.scalars(part, span)]
    text = place + "".join(part if isinstance(part, str) else _format(ctx, part, span) for part in said) + "\n"
    report = Op("print", tuple(values), text, None, span)
    ctx.builder.append(If(holds, make_block([], ()), make_block([report], ()), (), span))
    if ctx.debug:
        with_place, ctx.builder.span = ctx.builder.span, span
        ctx.builder.check(holds, f"wp.{name} does not hold")
        ctx.builder.span = with_place
    return ()


def _format(ctx: Context, value: Binding, span: Span) -> str:
    shown = [_SHOWN[x.type.kind] for x in ctx.scalars(value, span)]
    return f"({', '.join(shown)})" if isinstance(value, Composite) else shown[0]


def _equal(ctx: Context, name: str, args: list[Binding], spans: list[Span], span: Span) -> Operand:
    """The truth value of the equality of two scalars, or of two composites of one type."""
    check_count(name, args, (2,), span)
    if any(isinstance(a, Composite) for a in args):
        return operator_table.equal(ctx, "==", args[0], args[1], span)
    x, y = (ctx.scalar(a, s, f"argument of wp.{name}") for a, s in zip(args, spans, strict=True))
    check_same(name, (x, y), span)
    return ctx.emit("eq", x, y, span=span)


def _expect_eq(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    holds = _equal(ctx, "expect_eq", args, spans, span)
    return expectation(ctx, "expect_eq", holds, ["expected ", args[1], ", got ", args[0]], span)


def _expect_neq(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    holds = ctx.emit("not", _equal(ctx, "expect_neq", args, spans, span), span=span)
    return expectation(ctx, "expect_neq", holds, ["both are ", args[0]], span)


def _expect_near(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    a, b, tolerance = args
    if isinstance(b, Number) and not isinstance(a, (Number, Composite)):
        b = b.as_type(ctx.scalar(a, span).type, span)  # a literal has the type of what it is compared with
    xs, ys = ctx.scalars(a, span), ctx.scalars(b, span)
    if isinstance(a, Composite) or isinstance(b, Composite):
        fits = isinstance(a, Composite) and isinstance(b, Composite) and a.type is b.type
    else:
        fits = xs[0].type is ys[0].type
    if not fits or not xs[0].type.is_float:
        given = f"{describe(a)} and {describe(b)}"
        raise KernelTypeError(f"wp.expect_near compares two values of one type, of floats, not {given}", span)
    kind = xs[0].type
    limit = tolerance.as_type(kind, span) if isinstance(tolerance, Number) else ctx.scalar(tolerance, span)
    check_same("expect_near", (xs[0], limit), span)

    def near(x: Operand, y: Operand) -> Operand:
        distance = ctx.emit("abs", ctx.emit("sub", x, y, span=span), span=span)
        return ctx.emit("le", distance, limit, span=span)

    shown = f"{limit.value:g}" if isinstance(limit, Const) else limit
    both = functools.partial(ctx.emit, "and", span=span)
    holds = functools.reduce(both, [near(x, y) for x, y in zip(xs, ys, strict=True)])
    return expectation(ctx, "expect_near", holds, ["expected ", b, " within ", shown, ", got ", a], span)


_TEXT = """

    If the check fails, the thread prints a line with both values, and the kernel continues. In debug mode, the launch
    ends with an error that names the line and the thread."""


def _outside(name: str, holds: Callable[..., bool], says: Callable[[Any, Any], str]) -> Callable[..., None]:
    """The function that calls outside kernels run, which print what does not hold."""

    def check(a: Any, b: Any, tolerance: Any = 1e-6) -> None:
        if not holds(np.asarray(a), np.asarray(b), tolerance):
            print(f"Error, {name}() failed:\n\t {says(a, b)}", file=sys.stderr)

    return check


def _expected(a: Any, b: Any) -> str:
    return f"Expected: {b}\n\t Actual: {a}"


_host_eq = _outside("expect_eq", lambda a, b, _: bool((a == b).all()), _expected)
_host_neq = _outside("expect_neq", lambda a, b, _: not (a == b).all(), lambda a, b: f"Both are: {a}")
_host_near = _outside("expect_near", lambda a, b, tolerance: bool((abs(a - b) <= tolerance).all()), _expected)


expect_eq = define(
    "expect_eq(a: T, b: T) -> None",
    "Check that two values of the same type are equal: numbers, vectors, matrices or other composites." + _TEXT,
    _expect_eq,
    host=_host_eq,
)
expect_neq = define(
    "expect_neq(a: T, b: T) -> None", "Check that two values of one type differ." + _TEXT, _expect_neq, host=_host_neq
)
expect_near = define(
    "expect_near(a: T, b: T, tolerance: Any = 1e-6) -> None",
    "Check that two floats, or all components, differ by at most `tolerance`. NaN is near nothing." + _TEXT,
    _expect_near,
    host=_host_near,
    binds=True,
)


def _breakpoint(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("breakpoint", args, (0,), span)
    return ()


breakpoint = define(
    "breakpoint() -> None",
    """Does nothing. (In Warp's debug builds, it stops in a debugger.)

    Debuggers cannot show the source of kernels. Print values, or set `wp.config.debug`.""",
    _breakpoint,
    host=lambda: None,
)
