"""Lowers calls: of builtins, types, functions of the kernel language and `wp.static`."""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import inspect
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from jwarp.config import surface
from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.control import static
from jwarp.frontend.builtins.table import BUILTINS, PYTHON_BUILTINS, Builtin, Reading
from jwarp.frontend.builtins.tiles.calls import TileBuiltin
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.jax_function import JaxFunction
from jwarp.frontend.kernel_base import Kernel
from jwarp.frontend.lowering.arguments import Arguments, read_arguments
from jwarp.frontend.lowering.derivatives import GradientOf, call_gradient
from jwarp.frontend.lowering.inlining import call_function, call_jax_function, call_native
from jwarp.frontend.lowering.names import renamed
from jwarp.frontend.lowering.rules import expression, lower, unsupported
from jwarp.frontend.native import NativeFunc
from jwarp.frontend.syntax.source import place_of
from jwarp.frontend.values import composites, operator_table, structs
from jwarp.frontend.values.bindings import (
    Binding,
    Composite,
    Number,
    PythonRef,
    StructValue,
    TileRef,
    bind_python,
    describe,
    spelling,
)
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const
from jwarp.types import CompositeType, ScalarType, StructType, as_scalar, composite


@expression(ast.Call)
def call(ctx: Context, node: ast.Call) -> Binding:
    """A call of whatever kernels can call."""
    span = ctx.span(node)
    statics = ctx.frame.source.statics
    if statics and (place := place_of(node)) in statics:
        return bind_python(statics[place], "wp.static(…)", span)
    if (method := _method(ctx, node.func)) is not None:
        owner, function = method
        _refuse_unpacking(ctx, node)
        return call_function(ctx, function, read_arguments(ctx, node, Reading()).after(owner))
    found = _callee(ctx, node.func)
    if not isinstance(found, PythonRef):
        raise CompileError(f"{describe(found)} cannot be called", span, "multiplication is written with `*`")
    if found.object is static:
        return _static(ctx, node)
    callee = _meant(found.object)
    rule, reading = called(callee, span)
    if not isinstance(callee, Func):
        ctx.borrowed = frozenset()
    _refuse_unpacking(ctx, node)
    if node.keywords and not reading.names:
        raise CompileError(
            f"wp.{callee.name} takes no keyword arguments", ctx.span(node.keywords[0]), "put all in its text"
        )
    return rule(ctx, callee, read_arguments(ctx, node, reading))


def apply(ctx: Context, function: PythonRef, values: list[Binding], spans: list[Span], span: Span) -> Binding:
    """Apply `function`, an argument of the call at `span`, to `values`, which are written at `spans`."""
    callee = _meant(function.object)
    rule, reading = called(callee, span)
    if isinstance(callee, StructType) or not reading.has_values_only:
        raise _not_callable(callee, span)
    return rule(ctx, callee, Arguments(values, spans, {}, {}, span, span, [None] * len(values), {}))


def _method(ctx: Context, node: ast.expr) -> tuple[StructValue, Func] | None:
    """The struct and the function that `p.name` of a call is, if it is a method."""
    if not isinstance(node, ast.Attribute):
        return None
    owner = lower(ctx, node.value)
    found = getattr(owner.type, node.attr, None) if isinstance(owner, StructValue) else None
    return (owner, found) if isinstance(owner, StructValue) and isinstance(found, Func) else None


def _refuse_unpacking(ctx: Context, node: ast.Call) -> None:
    """Refuse `**names`."""
    for part in node.keywords:
        if part.arg is None:
            raise unsupported(ctx, part, ast.Starred)


def _meant(function: Any) -> Any:
    """The canonical form of a callee: a builtin for one of Python's functions, a scalar type for `int`."""
    with contextlib.suppress(TypeError):  # not hashable: not one of Python's own functions
        function = PYTHON_BUILTINS.get(function, function)
    return as_scalar(function) or function


# -- kinds of things that can be called


def _call_scalar_type(ctx: Context, target: ScalarType, given: Arguments) -> Binding:
    if len(given.values) > 1 or given.named:
        raise KernelTypeError(f"{spelling(target)}() converts one value", given.span)
    return ctx.convert(given.values[0], target, given.span) if given.values else zero(target)


def _call_composite_type(ctx: Context, target: CompositeType, given: Arguments) -> Binding:
    named, target = dict(given.named), target.plain
    if isinstance(dtype := named.get("dtype"), PythonRef) and as_scalar(dtype.object) is target.dtype:
        del named["dtype"]  # says again what the type's name says
    if target.shape in dict(target.kind.titles) and isinstance(dtype := named.pop("dtype", None), PythonRef):
        target = composite(
            target.kind, target.shape, composites.component_type(ctx, (), dtype, target.name, given.span)
        )
    composites.check_extents(target, named, given.span)
    order = target.in_order(len(given.values), named)
    if order is None:
        ways = " or ".join(f"({', '.join(names)})" for shape, names in target.kind.parameters if shape == target.shape)
        taken = f"no keyword arguments but {ways}" if ways else "no keyword arguments"
        raise CompileError(f"{target.name}() takes {taken}", given.span)
    return operator_table.construct(ctx, target, [*given.values, *(named[name] for name in order)], given.span)


def _call_struct(ctx: Context, struct: StructType, given: Arguments) -> Binding:
    return structs.construct(ctx, struct, given.values, given.named, given.spans, given.span)


def _call_builtin(ctx: Context, builtin: Builtin, given: Arguments) -> Binding:
    wrong = given.span if builtin.binds else given.keyword_span
    values, spans = builtin.arguments(given.values, given.spans, given.named, given.named_spans, wrong)
    return builtin.lower(ctx, values, spans, given.span)


def _call_tile_builtin(ctx: Context, builtin: TileBuiltin, given: Arguments) -> Binding:
    return builtin.call(ctx, given.values, given.spans, given.named, given.named_spans, given.span)


def _call_native(ctx: Context, function: NativeFunc, given: Arguments) -> Binding:
    if function.is_barrier and not given.values and not given.named:
        ctx.barrier(given.span)
        return ()
    return call_native(ctx, function, given)


Rule = Callable[[Context, Any, Arguments], Binding]
# A row holds for things of its kind that those before do not hold for.
_CALLED: tuple[tuple[type, Rule, Reading], ...] = (
    (NativeFunc, _call_native, Reading()),
    (JaxFunction, call_jax_function, Reading()),
    (Func, call_function, Reading()),
    (GradientOf, call_gradient, Reading()),
    (TileBuiltin, _call_tile_builtin, Reading()),
    (Builtin, _call_builtin, Reading()),
    (ScalarType, _call_scalar_type, Reading()),
    (CompositeType, _call_composite_type, Reading()),
    (StructType, _call_struct, Reading()),
)


def called(callee: Any, span: Span) -> tuple[Rule, Reading]:
    """How `callee` is called, and its arguments are read.

    Raises:
        CompileError: kernels cannot call it.
    """
    for kind, rule, reading in _CALLED:
        if isinstance(callee, kind):
            return rule, callee.reading if isinstance(callee, Builtin) else reading
    raise _not_callable(callee, span)


def _not_callable(function: Any, span: Span) -> CompileError:
    """The error for a call of a Python object that kernels cannot call."""
    name = getattr(function, "__name__", getattr(function, "name", repr(function)))
    hint = ""
    if isinstance(function, Kernel):
        return CompileError(
            f"`{name}` is a kernel, which only a launch can run", span, "make what both need a @wp.func"
        )
    home = (getattr(function, "__module__", None) or "").partition(".")[0]
    if inspect.isfunction(function) and home not in ("jwarp", "jax", "numpy"):
        hint = f"decorate it: @wp.func above `def {name}`"
    elif name in BUILTINS:
        hint = f"write wp.{name}"
    elif home in ("jax", "numpy"):
        hint = renamed(name) or "call it in a function of jax.numpy under @wp.jax_func, which kernels can call"
    elif name == "sum":
        hint = "add in a loop: `total += x[j]` under `for j in range(n)`"
    shown = f"np.{name}" if getattr(np, name, None) is function else name
    return CompileError(f"`{shown}` is not a function of the kernel language", span, hint)


# -- wp.static


def _callee(ctx: Context, node: ast.expr) -> Binding:
    """The function, type or rule that a call names."""
    try:
        return lower(ctx, node)
    except KernelTypeError as error:
        missing = error.diagnostic
        if error.also is not AttributeError or missing.span != ctx.span(node):
            raise
        text = f"Could not find function {ast.unparse(node)}: {missing.message}"
        raise KernelTypeError(text, missing.span, missing.hint, also=AttributeError) from None


def _static(ctx: Context, node: ast.Call) -> Binding:
    """`wp.static(expression)`: evaluated by Python itself, with the captured names."""
    parts = [*node.args, *(k.value for k in node.keywords)]
    if len(parts) != 1:
        raise CompileError("wp.static takes one expression", ctx.span(node))
    source = ctx.frame.source
    known = _constants(ctx)
    inner = _Known(ctx)
    text = inner.visit(copy.deepcopy(parts[0]))
    if _is_of_outer_names(ctx, text):
        known = {}
    else:
        _check_known(ctx, text, known)
    expression = ast.fix_missing_locations(ast.Expression(text))
    namespace = {**source.namespace, **known, **inner.values}
    try:
        result = eval(compile(expression, source.file, "eval"), namespace)
    except Exception as error:
        raise CompileError(
            f"wp.static: {type(error).__name__}: Error evaluating static expression: {error}", ctx.span(parts[0])
        ) from error
    return bind_python(result, "wp.static(…)", ctx.span(node))


def _is_of_outer_names(ctx: Context, node: ast.expr) -> bool:
    """True if Warp evaluates an expression before it reads the kernel: in programs, where all names are outer ones.

    So it does where variables of the kernel are spelled like these, unless they are those of loops around it.
    """
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if not surface.is_warps or names & ctx.frame.loops:
        return False
    variables = ctx.frame.source.function.__code__.co_varnames
    return names <= {*ctx.frame.source.namespace, *(vars(builtins).keys() - set(variables))}


def _constants(ctx: Context) -> dict[str, Any]:
    """The variables of the kernel whose values are known when it is built."""
    bindings = ctx.frame.env.items()
    numbers = {name: x.value for name, x in bindings if isinstance(x, (Number, Const)) and not name.startswith("$")}
    return {**numbers, **ctx.frame.statics}


class _Known(ast.NodeTransformer):
    """Makes each `len(v)` of a variable of the kernel, a vector, tuple or tile, the number that it is.

    A `wp.static` inside that the decorator evaluated becomes a name, whose value is among `values`.
    """

    def __init__(self, ctx: Context):
        self.ctx = ctx
        self.values: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        place = place_of(node)
        if place in self.ctx.frame.source.statics:
            name = f"$static{len(self.values)}"
            self.values[name] = self.ctx.frame.source.statics[place]
            return ast.copy_location(ast.Name(name, ast.Load()), node)
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            value = node.args[0]
            found = self.ctx.frame.env.get(value.id) if isinstance(value, ast.Name) else None
            if isinstance(found, Composite):
                return ast.copy_location(ast.Constant(found.type.shape[0]), node)
            if isinstance(found, TileRef):
                return ast.copy_location(ast.Constant(found.shape[0]), node)
            if isinstance(found, tuple):
                return ast.copy_location(ast.Constant(len(found)), node)
        return self.generic_visit(node)


def _check_known(ctx: Context, node: ast.expr, known: Collection[str]) -> None:
    """Refuse a variable of the kernel under `wp.static`, also where an outer name is spelled like it."""
    nodes = list(ast.walk(node))
    own = {n.arg for n in nodes if isinstance(n, ast.arg)}
    own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    code = ctx.frame.source.function.__code__
    variables = {*code.co_varnames, *code.co_cellvars, *ctx.frame.env} - own - set(known)
    for name in (n for n in nodes if isinstance(n, ast.Name) and n.id in variables):
        raise CompileError(
            f"wp.static: `{name.id}` is a variable of the kernel, unknown when it is built",
            ctx.span(node),
            "it may use outer names, variables that are constants, and the variables of loops over constants",
        )
