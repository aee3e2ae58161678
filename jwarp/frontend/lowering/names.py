"""Lowers constants, names and tuples, and lets names stand for values."""

from __future__ import annotations

import ast
import difflib
from typing import Any, TypeVar

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.table import BUILTINS, public
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.indexed_composites import as_value, in_memory
from jwarp.frontend.lowering.rules import expression, lower
from jwarp.frontend.syntax.source import Known
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Binding,
    Number,
    PythonRef,
    Stored,
    StructValue,
    Unusable,
    bind_python,
    describe,
    layout,
    type_of,
)
from jwarp.ir.builder import FALSE, TRUE
from jwarp.ir.nodes import Operand

# In debug mode `x` has a companion of this name, a bool that is true where `x` has been set.
SET = "$set "


@expression(ast.Constant)
def constant(ctx: Context, node: ast.Constant) -> Binding:
    """A number or bool, which has no type yet."""
    if isinstance(node.value, (bool, int, float)):
        return Number(node.value)
    raise CompileError(
        f"the constant {node.value!r} has no meaning in a kernel",
        ctx.span(node),
        "kernels compute with numbers and bools; write math.inf for infinity, math.nan for NaN",
    )


@expression(Known)
def known(ctx: Context, node: Known) -> Binding:
    """A Python object."""
    return bind_python(node.value, "wp.static(…)", ctx.span(node))


@expression(ast.Tuple)
def tuple_of(ctx: Context, node: ast.Tuple) -> Binding:
    """Several values."""
    return tuple(lower(ctx, item) for item in node.elts)


@expression(ast.Name)
def name(ctx: Context, node: ast.Name) -> Binding:
    """A variable, or what a name from outside stands for."""
    return read_name(ctx, node.id, ctx.span(node))


def read_name(ctx: Context, name: str, span: Span) -> Binding:
    """The binding of a name: a variable, or a Python object from outside."""
    frame = ctx.frame
    if name in frame.env:
        if name in frame.unset:
            ctx.warnings[(span, name)] = None
            if ctx.debug:
                ctx.builder.check(_is_set(ctx, name, span), f"`{name}` has no value here")
        binding = frame.env[name]
        if isinstance(binding, Unusable):
            raise binding.error(span)
        return as_value(ctx, binding, span) if isinstance(binding, Stored) else binding
    code = frame.source.function.__code__
    if name in code.co_varnames or name in code.co_cellvars:
        raise CompileError(f"`{name}` has no value yet at this point", span, "assign to it before it is read")
    try:
        found = frame.source.lookup(name)
    except KeyError:
        found = public(name)  # as in Warp, where `vec3(…)` is `wp.vec3(…)`
        if found is None:
            raise CompileError(
                f"`{name}` is not defined. Referencing undefined symbol: {name}", span, suggestion(name), also=KeyError
            ) from None
    if isinstance(found, TypeVar):
        found = frame.variables.get(found, found)
    return bind_python(found, name, span)


def _is_set(ctx: Context, name: str, span: Span) -> Operand:
    """The truth value that this thread has assigned the variable; only debug mode tracks that."""
    return ctx.scalar(ctx.frame.env.get(SET + name, FALSE), span)


# The names here of functions of NumPy and JAX, if they differ.
_NUMPY_NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "clip": "clamp",
    "fabs": "abs",
    "inv": "inverse",
    "det": "determinant",
    "matmul": "mul",
    "maximum": "max",
    "minimum": "min",
    "norm": "length",
    "power": "pow",
}


def renamed(name: str) -> str:
    """How to write a function of NumPy that has another name here."""
    return f"write wp.{_NUMPY_NAMES[name]}" if name in _NUMPY_NAMES else ""


def suggestion(name: str) -> str:
    """The builtin that a wrong name may have meant."""
    if name in _NUMPY_NAMES:
        return renamed(name)
    # Nearer than names are by chance: `sum` is no misspelt `sub`.
    close = difflib.get_close_matches(name, BUILTINS, 1, 0.76)
    return f"did you mean wp.{close[0]}?" if close else ""


def _written(binding: Binding, span: Span) -> Any:
    """The type of what is bound, as users write it."""
    return binding.type.written if isinstance(binding, StructValue) else type_of(binding, span)


def refuse_rebound(name: str, before: Binding | None, span: Span) -> None:
    """Refuse another value for a variable that stands for a function, as a name keeps its type.

    Raises:
        KernelTypeError: it stands for one.
    """
    found = before.object if isinstance(before, PythonRef) else None
    if callable(found) and not isinstance(found, type):
        shown = getattr(found, "__name__", str(found))
        shown = f"wp.{shown}" if shown.startswith("grad(") else f"`{shown}`"
        raise KernelTypeError(
            f"Cannot reassign local '{name}', which is the function {shown}: rebinding function-valued local to a "
            "non-function value",
            span,
            "use another name",
        )


def assign(ctx: Context, name: str, binding: Binding, span: Span) -> None:
    """Let `name` stand for `binding`. A name keeps its type."""
    if binding == ():
        raise CompileError("there is no value to assign", span, "a function gives one with `return`")
    if isinstance(binding, Unusable):
        raise binding.error(span)
    frame = ctx.frame
    frame.statics.pop(name, None)
    before = frame.env.get(name)
    if not isinstance(binding, PythonRef):
        refuse_rebound(name, before, span)
    arrays = isinstance(before, ArrayRef) and isinstance(binding, ArrayRef)
    is_typed = before is not None and not isinstance(before, Unusable) and layout(before, span) is not None
    if before is not None and is_typed and not arrays and _written(before, span) != _written(binding, span):
        raise KernelTypeError(
            f"`{name}` is {describe(before)} and cannot become {describe(binding)}",
            span,
            "convert the value, or use another name",
        )
    frame.env[name] = in_memory(ctx, name, binding, span)
    frame.unset.discard(name)
    if ctx.debug:
        frame.env[SET + name] = TRUE
