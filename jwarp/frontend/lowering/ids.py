"""Elements of arrays of ids: the grids, trees and meshes that they name."""

from __future__ import annotations

import dataclasses

from jwarp.errors import CompileError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.values import array_views
from jwarp.frontend.values.bindings import ArrayRef, Binding, StructValue
from jwarp.ir.nodes import Block, Const, Op, Value, walk
from jwarp.types import AnyType, ArrayType, StructType, int32


def as_array(ctx: Context, name: str, table: StructValue) -> Binding:
    """A parameter that is an array of ids, as that array; what its elements name is noted."""
    ids = table.items[0]
    assert isinstance(ids, ArrayRef)
    ctx.tables[ids.index] = table
    return dataclasses.replace(ids, name=name)


def refuse_writes(ctx: Context, body: Block) -> None:
    """Refuse a kernel that changes an array of ids: what they name was found before it runs.

    Raises:
        CompileError: it does; with the line.
    """
    for node in walk(body) if ctx.tables else ():
        if isinstance(node, Op) and node.row.is_write and node.attr in ctx.tables:
            raise CompileError(
                "an array of ids is read at the launch, and cannot be written by the kernel that asks what they name",
                node.span,
                "write it in another kernel, or to another array",
            )


def with_objects(ctx: Context, function: Func, given: Arguments) -> Arguments:
    """The arguments of a call, with what they name for elements of arrays of ids where the function asks for that."""
    handles = {
        k
        for overload in function.overloads
        for k, wanted in enumerate(overload.wanted)
        if getattr(wanted, "is_handle", False)
    }
    values = [
        _named(ctx, x, given.span) if k in handles and isinstance(x, Value) and x in ctx.named else x
        for k, x in enumerate(given.values)
    ]
    return dataclasses.replace(given, values=values)


def _named(ctx: Context, id: Value, span: Span) -> Binding:
    """What an id names: the parts of the arrays of all that are of it."""
    table, index = ctx.named[id]
    assert table.type.table_of is not None
    _, numbers, starts, *parts = table.items
    assert isinstance(numbers, ArrayRef) and isinstance(starts, ArrayRef)
    number = ctx.load(numbers, (index,), span)
    assert isinstance(number, Value)
    after = ctx.emit("add", number, Const(int32, 1), span=span)
    places = enumerate(parts)

    def part(kind: AnyType) -> Binding:
        if isinstance(kind, StructType):
            return StructValue(kind, tuple(part(inner) for inner in kind.fields.values()))
        k, items = next(places)
        assert isinstance(items, ArrayRef)
        if not isinstance(kind, ArrayType) or kind.dims == 0:
            return ctx.load(items, (number,), span)
        first, last = (ctx.load(starts, (x, Const(int32, k)), span) for x in (number, after))
        assert isinstance(first, Value) and isinstance(last, Value)
        return array_views.view(ctx, items, [array_views.Slice(first, last)], span)

    return part(table.type.table_of)
