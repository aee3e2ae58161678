"""Lowers the body of a function of native code: one operation, which is given its arguments."""

from __future__ import annotations

from collections.abc import Iterator

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.indexed_composites import as_value
from jwarp.frontend.native import NativeFunc
from jwarp.frontend.syntax.snippets import changed_arrays
from jwarp.frontend.values.bindings import ArrayRef, Binding, Composite, OneOf, StructArray, as_operand, describe
from jwarp.ir.attributes import NativeCall, NativeParam
from jwarp.ir.native import parts_of, spelt
from jwarp.ir.nodes import Op, Operand, Value
from jwarp.types import CompositeType, ScalarType, int32

_WAY_OUT = "write that part in the kernel language"


def native_result(ctx: Context, function: NativeFunc, span: Span) -> Binding:
    """The result of the native text of `function` for the variables that are its arguments."""
    env = ctx.frame.env
    given = {name: as_value(ctx, env[name], span) for name in function.signature.parameters}
    arrays = [name for name, x in given.items() if isinstance(x, ArrayRef)]
    changed = changed_arrays(function.snippet, arrays) | changed_arrays(function.replay_snippet or "", arrays)
    params, operands = [], list[Operand]()
    reads, changes = list[int](), list[int]()
    for name, binding in given.items():
        if isinstance(binding, ArrayRef):
            _check_array(function, name, binding, span)
            (changes if name in changed else reads).append(binding.index)
            params.append(NativeParam(name, "changed" if name in changed else "read", spelt(binding.type.element)))
            continue
        manner = "reference" if name in function.references or name in function.given_back else "value"
        params.append(NativeParam(name, manner, spelt(_type_of(function, name, binding, span))))
        operands += ctx.scalars(binding, span)
    returned = _result_type(function, span)
    call = NativeCall(
        function.name,
        function.snippet,
        "" if returned is None else spelt(returned),
        tuple(params),
        tuple(reads),
        tuple(changes),
        _optional(function.adj_snippet),
        _optional(function.replay_snippet),
    )
    types = parts_of(call)
    token = Value(int32) if types else None
    ctx.builder.append(Op("native", tuple(operands), call, token, span))
    parts = _parts(ctx, token, types, span)
    result = () if returned is None else _taken(returned, parts)
    after = {
        name: _taken(_type_of(function, name, binding, span), parts)
        for name, binding in given.items()
        if name in function.references or name in function.given_back
    }
    if function.given_back:
        return (*(() if returned is None else (result,)), *after.values())
    env.update(after)
    return result


def _optional(text: str | None) -> tuple[str, ...]:
    return () if text is None else (text,)


def _parts(ctx: Context, token: Value | None, types: list[ScalarType], span: Span) -> Iterator[Operand]:
    for k, type_ in enumerate(types):
        assert token is not None
        part = Value(type_)
        ctx.builder.append(Op("native_part", (token,), k, part, span))
        yield part


def _taken(kind: ScalarType | CompositeType, parts: Iterator[Operand]) -> Binding:
    """A value of a type made of the next parts."""
    if isinstance(kind, CompositeType):
        return Composite(kind, tuple(next(parts) for _ in range(kind.size)))
    return next(parts)


def _type_of(function: NativeFunc, name: str, binding: Binding, span: Span) -> ScalarType | CompositeType:
    scalar = as_operand(binding, span)
    if scalar is not None:
        assert isinstance(scalar.type, ScalarType)
        return scalar.type
    if isinstance(binding, Composite):
        return binding.type
    raise KernelTypeError(
        f"`{name}` of `{function.name}` is {describe(binding)}, which native code does not take", span, _WAY_OUT
    )


def _check_array(function: NativeFunc, name: str, array: ArrayRef, span: Span) -> None:
    """Refuse arrays that are not one piece of memory."""
    what = ""
    if isinstance(array, (OneOf, StructArray)):
        what = "one of several arrays"
    elif array.is_missing:
        what = "no array here"
    elif array.is_local:
        what = "an array of the thread's own"
    elif array.row != ():
        what = "a part of an array"
    if what:
        raise CompileError(
            f"`{name}` of `{function.name}` is {what}, and native code takes whole arrays",
            span,
            "pass the array that the kernel is given, and where to look in it",
        )


def _result_type(function: NativeFunc, span: Span) -> ScalarType | CompositeType | None:
    kind = function.declared("return")
    if kind is None or kind == ():
        return None
    if isinstance(kind, (ScalarType, CompositeType)):
        return kind
    raise KernelTypeError(
        f"`{function.name}` is native code, which gives a number, a vector or its like, not {kind}",
        span,
        "leave several results in arrays, or in wp.ref parameters",
    )
