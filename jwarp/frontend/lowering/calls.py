"""Lowers calls: of builtins, types, functions of the kernel language and `wp.static`."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Sequence
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.control import static
from jwarp.frontend.builtins.prints import PrintBuiltin
from jwarp.frontend.builtins.table import BUILTINS, PYTHON_BUILTINS, Builtin
from jwarp.frontend.builtins.tile.calls import TileBuiltin
from jwarp.frontend.context import spelling
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.subscripts import SubscriptLowering
from jwarp.frontend.values import composites, structs
from jwarp.frontend.values.bindings import Binding, Composite, PythonRef, StructValue, bind_python, describe
from jwarp.ir.builder import zero
from jwarp.types import CompositeType, ScalarType, StructType, as_scalar


class CallLowering(SubscriptLowering):
    """The part of a lowering that deals with calls."""

    def lower_Call(self, node: ast.Call) -> Binding:
        span = self.span(node)
        method = self.method(node.func)
        if method is not None:
            owner, function = method
            args = [owner, *(self.expression(a) for a in node.args)]
            keywords = {k.arg: self.expression(k.value) for k in node.keywords}
            return self.call_function(function, args, keywords, node)
        callee = self.expression(node.func)
        if not isinstance(callee, PythonRef):
            raise CompileError(f"{describe(callee)} cannot be called", span, "multiplication is written with `*`")
        function = callee.object
        if function is static:
            return self.static_expression(node)
        with contextlib.suppress(TypeError):  # not hashable: not one of Python's own functions
            function = PYTHON_BUILTINS.get(function, function)
        plain = isinstance(function, (PrintBuiltin, Func))
        for part in (*node.args, *node.keywords):
            if (isinstance(part, ast.Starred) and plain) or (isinstance(part, ast.keyword) and part.arg is None):
                raise self.unsupported(part, ast.Starred)
        if isinstance(function, PrintBuiltin):
            if node.keywords:
                keyword = self.span(node.keywords[0])
                raise CompileError(f"wp.{function.name} takes no keyword arguments", keyword, "put all in its text")
            return function.lines(self, node)
        is_type = as_scalar(function) is not None or isinstance(function, CompositeType)
        if isinstance(function, StructType):
            named = {str(k.arg): self.expression(k.value) for k in node.keywords}
            args, spans = self.positional(node)
            return structs.construct(self, function, args, named, spans, span)
        if not isinstance(function, (Builtin, Func)) and not is_type:
            raise self.not_callable(function, span)
        if isinstance(function, TileBuiltin):
            return self.tile_call(function, node)
        args, spans = self.positional(node, texts=function is PYTHON_BUILTINS.get(slice))
        target = as_scalar(function)
        if target is not None:
            return self.conversion(target, args, span, bool(node.keywords))
        if isinstance(function, CompositeType):
            if node.keywords:
                raise CompileError(f"{function.name}() takes no keyword arguments", span)
            return composites.construct(self, function, args, span)
        if isinstance(function, Builtin):
            named = {str(k.arg): self.expression(k.value) for k in node.keywords}
            places = {str(k.arg): self.span(k.value) for k in node.keywords}
            wrong = span if function.binds or not named else self.span(node.keywords[0])
            args, spans = function.arguments(args, spans, named, places, wrong)
            return function.lower(self, args, spans, span)
        keywords = {k.arg: self.expression(k.value) for k in node.keywords}
        return self.call_function(function, args, keywords, node)

    def tile_call(self, function: TileBuiltin, node: ast.Call) -> Binding:
        """A call of a function on tiles, some of whose arguments are texts."""
        args, spans = self.positional(node, texts=True)
        named = {str(k.arg): self.argument_of(k.value) for k in node.keywords}
        places = {str(k.arg): self.span(k.value) for k in node.keywords}
        return function.call(self, args, spans, named, places, node)

    def argument_of(self, node: ast.expr) -> Binding:
        """An argument, which may be a text or None."""
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
            return PythonRef(node.value)
        return self.expression(node)

    def apply(self, function: PythonRef, args: list[Binding], nodes: list[ast.expr], node: ast.Call) -> Binding:
        """Call `function`, an argument of the call `node`, with arguments that are written at `nodes`."""
        span, callee = self.span(node), function.object
        with contextlib.suppress(TypeError):
            callee = PYTHON_BUILTINS.get(callee, callee)
        spans = [self.span(n) for n in nodes]
        if isinstance(callee, Func):
            call = ast.copy_location(ast.Call(node.func, nodes, []), node)
            return self.call_function(callee, args, {}, call)
        if isinstance(callee, Builtin) and not isinstance(callee, (TileBuiltin, PrintBuiltin)):
            args, spans = callee.arguments(args, spans, {}, {}, span)
            return callee.lower(self, args, spans, span)
        if (target := as_scalar(callee)) is not None:
            return self.conversion(target, args, span, keywords=False)
        if isinstance(callee, CompositeType):
            return composites.construct(self, callee, args, span)
        raise self.not_callable(callee, span)

    def positional(self, node: ast.Call, texts: bool = False) -> tuple[list[Binding], list[Span]]:
        """The arguments without names, and where they stand. `*v` is one for each component of a vector or tuple.

        With `texts`, a text or None is an argument too.
        """
        args: list[Binding] = []
        spans: list[Span] = []
        for arg in node.args:
            inner = arg.value if isinstance(arg, ast.Starred) else arg
            value = self.argument_of(inner) if texts else self.expression(inner)
            items: Sequence[Binding] = (value,)
            if isinstance(arg, ast.Starred):
                if isinstance(value, Composite) and len(value.type.shape) == 1:
                    items = value.items
                elif isinstance(value, tuple):
                    items = value
                else:
                    hint = "write the values one by one"
                    raise KernelTypeError(
                        f"`*` unpacks a vector or a tuple, not {describe(value)}", self.span(arg), hint
                    )
            args += items
            spans += [self.span(arg)] * len(items)
        return args, spans

    def method(self, node: ast.expr) -> tuple[StructValue, Func] | None:
        """The struct and the function that `p.name` of a call is, if it is a method."""
        if not isinstance(node, ast.Attribute):
            return None
        owner = self.expression(node.value)
        found = getattr(owner.type, node.attr, None) if isinstance(owner, StructValue) else None
        return (owner, found) if isinstance(owner, StructValue) and isinstance(found, Func) else None

    def not_callable(self, function: Any, span: Span) -> CompileError:
        """The error for a call of a Python object that kernels cannot call."""
        name = getattr(function, "__name__", getattr(function, "name", repr(function)))
        hint = ""
        if hasattr(function, "enable_backward"):  # a kernel: its class is defined on top of this one
            return CompileError(
                f"`{name}` is a kernel, which only a launch can run", span, "make what both need a @wp.func"
            )
        if inspect.isfunction(function) and not (function.__module__ or "").startswith("jwarp."):
            hint = f"decorate it: @wp.func above `def {name}`"
        elif name in BUILTINS:
            hint = f"write wp.{name}"
        return CompileError(f"`{name}` is not a function of the kernel language", span, hint)

    def call_function(self, function: Func, args: list[Binding], keywords: dict, node: ast.Call) -> Binding:
        raise NotImplementedError  # in the subclass: a function's body is statements

    def conversion(self, target: ScalarType, args: list[Binding], span: Span, keywords: bool) -> Binding:
        if len(args) > 1 or keywords:
            raise KernelTypeError(f"{spelling(target)}() converts one value", span)
        return self.convert(args[0], target, span) if args else zero(target)

    def static_expression(self, node: ast.Call) -> Binding:
        """`wp.static(expression)`: evaluated by Python itself, with the captured names."""
        if len(node.args) != 1 or node.keywords:
            raise CompileError("wp.static takes one expression", self.span(node))
        source = self.frame.source
        self.check_known(node.args[0])
        expression = ast.Expression(node.args[0])
        namespace = {**source.namespace, **self.frame.statics}
        try:
            result = eval(compile(expression, source.file, "eval"), namespace)
        except Exception as error:
            raise CompileError(f"wp.static: {type(error).__name__}: {error}", self.span(node.args[0])) from error
        return bind_python(result, "wp.static(…)", self.span(node))

    def check_known(self, node: ast.expr) -> None:
        """Refuse a variable of the kernel under `wp.static`, also where an outer name is spelled like it."""
        nodes = list(ast.walk(node))
        own = {n.arg for n in nodes if isinstance(n, ast.arg)}
        own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        code = self.frame.source.function.__code__
        variables = {*code.co_varnames, *code.co_cellvars, *self.frame.env} - own - set(self.frame.statics)
        for name in (n for n in nodes if isinstance(n, ast.Name) and n.id in variables):
            raise CompileError(
                f"wp.static: `{name.id}` is a variable of the kernel, unknown when it is built",
                self.span(node),
                "it may use outer names, and the variables of loops over constants",
            )
