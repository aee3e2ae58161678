"""Reads functions of the kernel language where they are called, after choosing among overloads."""

from __future__ import annotations

import ast
from typing import Any

from jwarp.errors import CompileError, JwarpError, KernelTypeError, Span
from jwarp.frontend.context import Frame
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.func_grad import with_gradient
from jwarp.frontend.lowering.loops import LoopLowering
from jwarp.frontend.syntax.source import count_loads
from jwarp.frontend.values.bindings import ArrayRef, Binding, StructArray, StructValue, bind_python, describe, layout
from jwarp.frontend.values.cells import holds_tile
from jwarp.ir.builder import FALSE, TRUE
from jwarp.types import ArrayType, FloatMatrix, TileKind


class InliningLowering(LoopLowering):
    """The part of a lowering that deals with the bodies of functions."""

    def call_function(self, function: Func, args: list[Binding], keywords: dict, node: ast.Call) -> Binding:
        span = self.span(node)
        function = self.overload(function, args, keywords, span)
        if function in self.stack:
            raise CompileError(f"`{function.name}` calls itself; recursion is not supported", span, "write a loop")
        arguments = self.arguments(function, args, keywords, node)
        frame = Frame(function.source, is_kernel=False, loads=count_loads(function.source.tree.body))
        frame.env.update(arguments)
        caller, self.frame = self.frame, frame
        self.stack.append(function)
        nodes, start = self.builder.nodes, len(self.builder.nodes)
        try:
            self.lower_statements(function.source.tree.body)
            result = self.result_of(function, span)
        except JwarpError as error:
            raise _inside(error, function, span) from None
        finally:
            self.stack.pop()
            self.frame = caller
        if function.gradient is not None and not self.in_gradient:
            if any(map(holds_tile, (*arguments.values(), result))):
                raise CompileError(
                    f"`{function.name}` has a gradient of its own, so it cannot take or give tiles", span
                )
            return with_gradient(self, function, arguments, result, nodes[start:], span)
        return result

    def arguments(self, function: Func, args: list[Binding], keywords: dict, node: ast.Call) -> dict[str, Binding]:
        """The arguments of a call by parameter name, checked against the annotations."""
        span = self.span(node)
        # A method's first argument stands before the dot.
        spans = [span] * (len(args) - len(node.args)) + [self.span(a) for a in node.args]
        keyword_spans = {str(k.arg): self.span(k.value) for k in node.keywords}
        parameters = function.signature.parameters
        try:
            places = function.signature.bind(*spans, **keyword_spans).arguments
        except TypeError as error:
            names = ", ".join(function.outputs.names)
            hint = f"write {names} = wp.{function.name}(…)" if names else ""
            raise KernelTypeError(f"call of `{function.name}`: {error}", span, hint) from None
        bound = function.signature.bind(*args, **keywords).arguments
        for name, parameter in parameters.items():
            if name not in bound:
                bound[name] = bind_python(parameter.default, name, span)
            expected, binding = function.declared(name), bound[name]
            if expected is not None and not _fits(_layout(binding, span), expected):
                default = "" if name in places else ", its default,"
                raise KernelTypeError(
                    f"`{name}` of `{function.name}` must be {expected}, not {describe(binding)}{default}".rstrip(","),
                    places.get(name, span),
                    "" if isinstance(expected, (ArrayType, FloatMatrix, TileKind)) else f"convert it: wp.{expected}(…)",
                )
        return bound

    def result_of(self, function: Func, span: Span) -> Binding:
        env = self.frame.env
        result = env.get("$result", ())
        if "$result" in env and env.get("$return") != TRUE:
            self.warnings[(span, f"the result of {function.name}")] = None
            if self.debug:
                self.builder.check(self.scalar(env.get("$return", FALSE), span), f"`{function.name}` returns no value")
        result = self.tiles.settled(self.tiles.loose(result, span), span)
        expected = function.declared("return")
        if expected is not None and not _fits(_layout(result, span), expected):
            returns = function.source.tree.returns
            assert returns is not None
            shown = ("nothing" if expected == () else repr(expected)).replace(",)", ")")
            raise KernelTypeError(
                f"`{function.name}` is declared to return {shown} and returns {describe(result)}",
                function.source.span(returns),
            )
        return result

    def overload(self, function: Func, args: list[Binding], keywords: dict, span: Span) -> Func:
        """The one of the functions of this name that takes these arguments and says most about them."""
        if len(function.overloads) == 1:
            return function
        fitting = [f for f in function.overloads if _takes(f, args, keywords, span)]
        best = [f for f in fitting if all(f.says_as_much_as(other) for other in fitting)]
        if len(best) == 1:
            return best[0]
        given = ", ".join(map(describe, [*args, *keywords.values()]))
        known = "; ".join(f.heading for f in fitting or function.overloads)
        if fitting:
            raise CompileError(
                f"`{function.name}` with ({given}) is ambiguous: several overloads take it", span, f"there are {known}"
            )
        raise KernelTypeError(f"no overload of `{function.name}` takes ({given})", span, f"there are {known}")


def _takes(function: Func, args: list[Binding], keywords: dict, span: Span) -> bool:
    """Whether a call fits the parameters of `function` and their annotations."""
    try:
        bound = function.signature.bind(*args, **keywords).arguments
    except TypeError:
        return False
    wanted = {name: function.declared(name) for name in bound}
    return all(kind is None or _fits(_layout(bound[name], span), kind) for name, kind in wanted.items())


def _fits(given: Any, expected: Any) -> bool:
    if isinstance(expected, tuple) and isinstance(given, tuple) and len(given) == len(expected):
        return all(map(_fits, given, expected))
    return expected.fits(given) if isinstance(expected, (FloatMatrix, TileKind)) else given == expected


def _layout(binding: Binding, span: Span) -> Any:
    """What an annotation is compared with."""
    if isinstance(binding, tuple):
        return tuple(_layout(item, span) for item in binding)
    whole = isinstance(binding, (ArrayRef, StructArray, StructValue))
    return binding.type if whole else layout(binding, span)  # type: ignore[union-attr]


def _inside(error: JwarpError, function: Func, span: Span) -> JwarpError:
    """The error with a line that says where the function was called from."""
    d = error.diagnostic
    where = f"`{function.name}` was called at {span}"
    return type(error)(d.message, d.span, f"{d.hint}; {where}" if d.hint else where)
