"""Calls of functions that stay functions of the kernel: large ones that only read, once for each kind of call."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.errors import Span
from jwarp.frontend.context import Context, Kept, Warnings
from jwarp.frontend.func import Func
from jwarp.frontend.native import NativeFunc
from jwarp.frontend.values.bindings import (
    ArrayRef,
    Axis,
    Binding,
    Chosen,
    Composite,
    Number,
    OneOf,
    Part,
    PythonRef,
    StructArray,
    StructValue,
)
from jwarp.ir.builder import make_block
from jwarp.ir.clone import Cloner
from jwarp.ir.functions import arrays_in
from jwarp.ir.nodes import Const, Function, Node, Op, Operand, Value, inner_params, results, used_values, walk
from jwarp.types import int32

# Of fewer operations than these, a function is put where it is called.
LEAST_OPERATIONS = 48


@dataclass(frozen=True)
class Call:
    """A call of which a function may be made: all calls of one `kind` are of it. `given` are the values in them."""

    name: str
    kind: Hashable
    given: tuple[Value, ...]


def kind_of(ctx: Context, function: Func, arguments: Mapping[str, Binding]) -> Call | None:
    """The kind of a call; None where functions are read in line, or something else than numbers and arrays is given."""
    if ctx.block_dim or ctx.debug or ctx.only_scalars or ctx.in_gradient or ctx.in_lanes:
        return None
    has_own_derivative = function.gradient is not None or function.replay is not None
    if has_own_derivative or isinstance(function, NativeFunc) or function.references:
        return None
    given: dict[Value, int] = {}
    try:
        kinds = tuple((name, _kind(binding, given)) for name, binding in arguments.items())
    except _NoNumbers:
        return None
    return Call(function.name, (function, kinds), tuple(given))


class _NoNumbers(Exception):
    """Something else than numbers and arrays is among the arguments."""


def _kind(binding: Binding, given: dict[Value, int]) -> Hashable:
    """What bindings have in common that differ in values only, which go to `given`: each once, with its number."""
    match binding:
        case Value():
            return binding.type, given.setdefault(binding, len(given))
        case Const() | PythonRef():
            return binding
        case Number():
            return type(binding.value), repr(binding.value)
        case Composite() | StructValue():
            return (binding.type, *(_kind(item, given) for item in binding.items))
        case tuple():
            return tuple(_kind(item, given) for item in binding)
        case ArrayRef() if not isinstance(binding, OneOf) and (binding.is_missing or not binding.is_local):
            return (binding.index, binding.type, *(_axis_kind(axis, given) for axis in binding.axes))
        case StructArray():
            return (binding.type, *(_kind(item, given) for item in binding.items))
    raise _NoNumbers


def _axis_kind(axis: Axis, given: dict[Value, int]) -> Hashable:
    match axis:
        case None:
            return None
        case Part():
            return (*(_kind(x, given) for x in (axis.start, axis.count, axis.step)), axis.limit)
        case Chosen():
            return _kind(axis.indices, given)
    return _kind(axis, given)


def called(ctx: Context, call: Call, span: Span) -> Binding | None:
    """What a call gives of a function that the kernel has; None where it is to be read."""
    kept = ctx.functions.known.get(call.kind)
    return None if kept is None else _called(ctx, kept, call.given, span)


def _called(ctx: Context, kept: Kept, given: Sequence[Operand], span: Span) -> Binding:
    ctx.warnings.update(kept.warnings)
    token = Value(int32)
    ctx.builder.append(Op("call", tuple(given), kept.number, token, span))
    values: dict[Value, Operand] = dict(zip(kept.given, given, strict=True))
    for k, value in enumerate(kept.made):
        part = values[value] = Value(value.type)
        ctx.builder.append(Op("call_part", (token,), k, part, span))
    return _rebuilt(kept.result, values)


def _rebuilt(binding: Any, values: Mapping[Value, Operand]) -> Any:
    match binding:
        case Value():
            return values[binding]
        case Composite():
            return Composite(binding.type, tuple(_rebuilt(item, values) for item in binding.items))
        case StructValue():
            return StructValue(binding.type, tuple(_rebuilt(item, values) for item in binding.items))
        case tuple():
            return tuple(_rebuilt(item, values) for item in binding)
        case ArrayRef():
            return dataclasses.replace(binding, axes=_rebuilt(binding.axes, values))
        case StructArray():
            return dataclasses.replace(binding, items=_rebuilt(binding.items, values))
        case Part():
            start, count, step = _rebuilt((binding.start, binding.count, binding.step), values)
            return Part(start, count, step, binding.limit)
        case Chosen():
            return Chosen(_rebuilt(binding.indices, values))
    return binding


def kept(ctx: Context, call: Call, start: int, result: Binding, said: Warnings, span: Span) -> Binding:
    """The result of a call that was just read, its nodes those from `start`: they become a function if they may.

    `said` are the warnings of that, which all calls repeat: those of a body that is read for nothing are dropped.
    """
    functions = ctx.functions
    if call.kind in functions.known:  # it is in line
        return result
    functions.known[call.kind] = None
    nodes, found = ctx.builder.nodes[start:], dict[Value, int]()
    try:
        _kind(result, found)
    except _NoNumbers:
        return result
    if not _is_function(nodes, call.given, ctx.first_local):
        return result
    made = tuple(value for value in found if value not in call.given)
    copy = Cloner()
    params = copy.fresh_all(call.given)
    body = copy.block(make_block(nodes, made))
    function = Function(call.name, params, body)
    functions.made.append(function)
    known = functions.known[call.kind] = Kept(len(functions.made) - 1, result, call.given, made, said)
    del ctx.builder.nodes[start:]
    return _called(ctx, known, call.given, span)


def _is_function(nodes: Sequence[Node], given: Sequence[Value], first_local: int) -> bool:
    """Whether nodes are many, and do nothing but compute from values that are given and elements of parameters."""
    block, count, defined = make_block(nodes), 0, set(given)
    for node in walk(block):
        if isinstance(node, Op) and not (node.row.in_functions and all(a < first_local for a in arrays_in(node))):
            return False
        count += 1
        defined.update(results(node), inner_params(node))
    return count >= LEAST_OPERATIONS and used_values(block) <= defined
