"""Calls of functions that are read once for each kind of call: further calls get copies of what was read.

Large ones that only read stay functions of the kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.errors import Span
from jwarp.frontend.context import Context, Kept, Warnings
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.arguments import Arguments
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
from jwarp.frontend.values.located import Located
from jwarp.ir.builder import make_block
from jwarp.ir.clone import Cloner
from jwarp.ir.functions import arrays_in
from jwarp.ir.nodes import Block, Const, For, Function, Op, Operand, Value, inner_params, results, used_values, walk
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
    """The specialisation key of a call; None if it is inlined, or an argument is neither a number nor an array."""
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


class Unread(Exception):
    """Calls nest too deep to read one inside the other: `function` is to be read for the arguments `given` before.

    `stack` are the functions that are being read meanwhile, which it must not call.
    """

    def __init__(self, function: Func, given: Arguments, stack: Sequence[Func]):
        super().__init__(function.name)
        self.function, self.given, self.stack = function, given, tuple(stack)


class _NoNumbers(Exception):
    """Something else than numbers and arrays is among the arguments."""


def _kind(binding: Binding, given: dict[Value, int]) -> Hashable:
    """The specialisation key of a binding, without its values. These go to `given`, each once, with its number."""
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
        case Located():
            return (axis.family, *(_kind(x, given) for x in axis.scalars))
    return _kind(axis, given)


def called(ctx: Context, call: Call, span: Span) -> Binding | None:
    """The result of a call that was read before under its specialisation key; None if it is still to be read."""
    kept = ctx.functions.known.get(call.kind)
    if kept is None:
        return None
    ctx.warnings.update(kept.warnings)
    if isinstance(kept.code, int):
        return _called(ctx, kept, kept.code, call.given, span)
    copy = Cloner(dict(zip(kept.given, call.given, strict=True)))
    ctx.builder.extend(copy.block(kept.code).nodes)
    return _rebuilt(kept.result, copy.known)


def _called(ctx: Context, kept: Kept, number: int, given: Sequence[Operand], span: Span) -> Binding:
    token = Value(int32)
    ctx.builder.append(Op("call", tuple(given), number, token, span))
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
        case Located():
            return binding.rebuilt([_rebuilt(x, values) for x in binding.scalars])
        case Chosen():
            return Chosen(_rebuilt(binding.indices, values))
    return binding


def kept(ctx: Context, call: Call, start: int, result: Binding, said: Warnings, span: Span) -> Binding:
    """The result of a call that was just read, its nodes those from `start`: they become a function if they may.

    `said` are the warnings of that, which all calls repeat: those of a body that is read for nothing are dropped.
    """
    functions = ctx.functions
    if call.kind in functions.known:  # each call of this kind is read
        return result
    functions.known[call.kind] = None
    found = dict[Value, int]()
    try:
        _kind(result, found)
    except _NoNumbers:
        return result
    made = tuple(value for value in found if value not in call.given)
    block = make_block(ctx.builder.nodes[start:], made)
    if not _is_whole(block, call.given, ctx.first_local):
        return result
    if not _is_function(block):
        functions.known[call.kind] = Kept(block, result, call.given, made, said)
        return result
    copy = Cloner()
    params = copy.fresh_all(call.given)
    functions.made.append(Function(call.name, params, copy.block(block)))
    number = len(functions.made) - 1
    known = functions.known[call.kind] = Kept(number, result, call.given, made, said)
    del ctx.builder.nodes[start:]
    return _called(ctx, known, number, call.given, span)


def _is_whole(block: Block, given: Sequence[Value], first_local: int) -> bool:
    """True if a block computes the same from other values of `given`, wherever it stands in the kernel.

    It computes from these, and it looks at parameters: local arrays and threads belong to a place in the kernel.
    """
    defined = set(given)
    for node in walk(block):
        if isinstance(node, Op):
            if not node.row.in_copies or any(a >= first_local for a in arrays_in(node)):
                return False
            if node.result is not None:
                defined.add(node.result)
        else:
            defined.update(results(node), inner_params(node))
    return used_values(block) <= defined


def _is_function(block: Block) -> bool:
    """True if a block is long, has no effect, and belongs to one thread.

    A loop whose iterations are lanes is one that the threads of a vector run one after the other, where it stands.
    """
    count = 0
    for node in walk(block):
        if isinstance(node, Op) and not node.row.in_functions:
            return False
        if isinstance(node, For) and node.lanes is not None:
            return False
        count += 1
    return count >= LEAST_OPERATIONS
