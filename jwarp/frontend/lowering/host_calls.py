"""Calls functions of the kernel language, and operators between composites, outside kernels, on numbers.

The rules that read a call in a kernel read it here, with constants for arguments: what they build folds to constants.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.subclasses import type_of_value
from jwarp.config import surface
from jwarp.errors import JwarpError, KernelTypeError, Span
from jwarp.frontend.builtins.table import BUILTINS, OUTSIDE
from jwarp.frontend.context import Context, Frame, UsesTiles
from jwarp.frontend.func import CHOOSE, Func
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.lowering.calls import apply, called
from jwarp.frontend.lowering.host_programs import body_of, program_for
from jwarp.frontend.lowering.inlining import overload_of
from jwarp.frontend.syntax.python_operators import SYMBOLS
from jwarp.frontend.syntax.source import Source
from jwarp.frontend.values import operator_table
from jwarp.frontend.values.bindings import NO_ARRAY, ArrayRef, Binding, Composite, Number, PythonRef, bind_python
from jwarp.ir.evaluate_blocks import Unknown, yielded
from jwarp.ir.nodes import Const, Value
from jwarp.types import (
    OPERATE,
    PLAIN,
    ArrayType,
    CompositeValue,
    ScalarType,
    composite,
    from_dtype,
    number,
)
from jwarp.types.queries import no_function

# Loops of the library run over the components of vectors and matrices.
MAX_ITERATIONS = 1024

# The source of calls outside kernels: an empty one.
(_TREE,) = ast.parse("def outside(): ...").body
assert isinstance(_TREE, ast.FunctionDef)
_NOWHERE = Span("<outside>", 0)
_NOTHING = Source(lambda: None, _TREE, "", [], 0, {})


def call(function: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """Evaluate a builtin or a library function on numbers, vectors, matrices and the like.

    Vectors may be given as tuples or arrays. Floats without a type get that of the composites among the arguments.

    Raises:
        KernelTypeError: it does not take these, or gives what there is in kernels only.
    """
    if not named and (program := program_for(function, args, _context, _reading(function))):
        return program(args)
    span = _place()
    values = _typed([_bound(value, span) for value in (*args, *named.values())], span)
    positional, rest = values[: len(args)], values[len(args) :]
    keywords = dict(zip(named, rest, strict=True))
    spans = dict.fromkeys(named, span)
    given = Arguments(positional, [span] * len(args), keywords, spans, span, span, [None] * len(args), {})
    ctx = _context()
    try:
        found = _computed(ctx, _applied(ctx, function, given))
    except UsesTiles:
        raise KernelTypeError(f"wp.{function.name} can only be called inside a kernel", span) from None
    except JwarpError as error:
        d = error.diagnostic
        why = f": {no_function(function.name, (*args, *named.values()))}" if isinstance(error, KernelTypeError) else ""
        raise KernelTypeError(d.message + why, span, d.hint) from None
    return _value(found, f"wp.{function.name}", span)


def chosen(function: Func, args: tuple[Any, ...], named: dict[str, Any]) -> Func:
    """The function of several of one name that takes these arguments, as in kernels.

    Raises:
        KernelTypeError: none does.
    """
    span = _place()
    values, spans = [_typed_as(value, span) for value in args], dict.fromkeys(named, span)
    keywords = {name: _typed_as(value, span) for name, value in named.items()}
    given = Arguments(values, [span] * len(args), keywords, spans, span, span, [None] * len(args), {})
    return overload_of(function, given)


def _typed_as(value: Any, span: Span) -> Binding:
    """An argument, which of an array has nothing but its type."""
    kind = type_of_value(value)
    kind = getattr(kind, "indexed", None) or kind
    return ArrayRef(NO_ARRAY, "the argument", kind) if isinstance(kind, ArrayType) else _bound(value, span)


def _context() -> Context:
    return Context(Frame(_NOTHING), apply, MAX_ITERATIONS)


def _applied(ctx: Context, function: Any, given: Arguments) -> Binding:
    rule, reading = called(function, given.span)
    if not reading.has_values_only:
        raise KernelTypeError(f"wp.{function.name} can only be called inside a kernel", given.span)
    return rule(ctx, function, given)


def _computed(ctx: Context, found: Binding) -> Binding:
    """The numbers that were read, with those after loops whose ends are known when they run."""
    items: Any = found.items if isinstance(found, Composite) else (found,)
    if ctx.locals or all(isinstance(x, Const) for x in items):
        return found
    if not all(isinstance(x, (Value, Const)) and isinstance(x.type, ScalarType) for x in items):
        return found
    try:
        numbers = [Const(x.type, n.item()) for x, n in zip(items, yielded(body_of(ctx, items)), strict=True)]
    except Unknown:
        return found
    return Composite(found.type, tuple(numbers)) if isinstance(found, Composite) else numbers[0]


def _reading(function: Any) -> Callable[[Context, list[Binding]], Binding]:
    """The reading of a call on values."""

    def read(ctx: Context, values: list[Binding]) -> Binding:
        spans = [_NOWHERE] * len(values)
        given = Arguments(values, spans, {}, {}, _NOWHERE, _NOWHERE, [None] * len(values), {})
        return _applied(ctx, function, given)

    return read


def operate(name: str, x: Any, y: Any) -> Any:
    """Evaluate an operator between values, as kernels have it.

    Raises:
        KernelTypeError: there is no such operator.
    """
    if not any(isinstance(side, CompositeValue) for side in (x, y)):
        return BUILTINS[name](x, y)

    def read(ctx: Context, sides: list[Binding]) -> Binding:
        return operator_table.binary(ctx, SYMBOLS[name], name, sides[0], sides[1], _NOWHERE)

    if program := program_for(name, (x, y), _context, read):
        return program((x, y))
    span = _place()
    sides = _typed([_bound(side, span) for side in (x, y)], span)
    try:
        found = operator_table.binary(_context(), SYMBOLS[name], name, sides[0], sides[1], span)
    except KernelTypeError as error:
        if not surface.is_warps:
            raise
        raise KernelTypeError(no_function(name, (x, y)), hint=error.diagnostic.message) from None
    return _value(found, f"`{SYMBOLS[name]}`", span)


def _place() -> Span:
    """Where the user's code calls, which is the first frame outside the package and NumPy."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("jwarp", "numpy"):
        frame = frame.f_back
    return Span("<unknown>", 0) if frame is None else Span(frame.f_code.co_filename, frame.f_lineno)


def _bound(value: Any, span: Span) -> Binding:
    """An argument as a constant."""
    if isinstance(value, CompositeValue) or (isinstance(value, np.ndarray) and value.ndim in PLAIN):
        known = from_dtype(value.dtype)
        if known is not None and not isinstance(value, CompositeValue):
            value = composite(PLAIN[value.ndim], value.shape, known)(value)
    elif isinstance(value, (list, tuple)) and value and all(isinstance(x, (int, float, np.generic)) for x in value):
        first = bind_python(value[0], "the argument", span)
        value = composite(PLAIN[1], (len(value),), first.type)(*value)  # type: ignore[union-attr, arg-type]
    return bind_python(value, "the argument", span)


def _typed(values: list[Binding], span: Span) -> list[Binding]:
    """The arguments, where floats without a type have that of the components of composites, if it is one."""
    known = {v.type.dtype for v in values if isinstance(v, Composite) and v.type.dtype.is_float}
    if len(known) != 1:
        return values
    (dtype,) = known
    return [v.as_type(dtype, span) if isinstance(v, Number) and isinstance(v.value, float) else v for v in values]


def _value(binding: Binding, what: str, span: Span) -> Any:
    """A result as NumPy has it; Python numbers and what Python objects there are, as they are."""
    match binding:
        case (_, *_):
            return tuple(_value(item, what, span) for item in binding)
        case Composite(type=kind, items=items) if all(isinstance(x, Const) for x in items):
            return kind(*(x.value for x in items))  # type: ignore[union-attr]
        case Const(type=kind):
            return number(kind, binding.value)
        case Number():
            return binding.value
        case PythonRef():
            return binding.object
    raise KernelTypeError(f"{what} can only be called inside a kernel", span)


OUTSIDE["call"] = call
OPERATE[:] = [operate]
CHOOSE.append(chosen)
