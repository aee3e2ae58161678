"""Elements of arrays of ids, and numbers made of them: the grids, trees and meshes that they name."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from jwarp.errors import CompileError, Span
from jwarp.frontend import lookups
from jwarp.frontend.builtins.table import public
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.values import array_views
from jwarp.frontend.values.bindings import ArrayRef, Binding, PythonRef, StructValue, type_of
from jwarp.ir.nodes import Block, Const, Op, Operand, Value, walk
from jwarp.types import AnyType, ArrayType, StructType, fits, int32, uint64


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
    """The arguments of a call, with what they name for ids where the function asks for that.

    An id is an element of an array of ids, or a number that was calculated, where one array alone can tell what that
    names.
    """
    wanted: dict[int | str, dict[StructType, None]] = {}  # by a parameter's number, and by its name
    for overload in function.overloads:
        for k, (name, kind) in enumerate(zip(overload.signature.parameters, overload.wanted, strict=True)):
            if getattr(kind, "is_handle", False) and _fits_besides(overload, k, given):
                for key in (k, name):
                    wanted.setdefault(key, {})[kind] = None

    def found(key: int | str, value: Binding) -> Binding:
        if key in wanted and isinstance(value, (Value, Const)) and value.type is uint64:
            return _named(ctx, value, wanted[key], given.span)
        return value

    values = [found(k, value) for k, value in enumerate(given.values)]
    return dataclasses.replace(given, values=values, named={name: found(name, x) for name, x in given.named.items()})


def _fits_besides(overload: Func, place: int, given: Arguments) -> bool:
    """True if all arguments but the one at `place` are what the function takes there."""
    pairs = enumerate(zip(given.values, overload.wanted, strict=False))
    return all(k == place or kind is None or fits(type_of(value, given.span), kind, {}) for k, (value, kind) in pairs)


def _named(ctx: Context, id: Operand, wanted: Collection[StructType], span: Span) -> Binding:
    """The object that an id names; the id itself where that is not known."""
    if ctx.memory is not None:
        return lookups.object_of(ctx, id, list(wanted), span)
    tables = [table for table in ctx.tables.values() if table.type.table_of in wanted]
    if isinstance(id, Value) and id in ctx.named:
        table, indices = ctx.named[id]
        if table is None:
            return id
        numbers = table.items[1]
        assert isinstance(numbers, ArrayRef)
        number = ctx.load(numbers, indices, span)
    elif id.type is uint64 and len(tables) == 1:
        (table,) = tables
        number = _number(ctx, table, id, span)
    else:
        return id
    assert isinstance(number, Value)
    return _object(ctx, table, number, span)


def _number(ctx: Context, table: StructValue, id: Operand, span: Span) -> Binding:
    """The number of what an id names, found among all ids; that of nothing where it is none of them."""
    known = table.items[2]
    assert isinstance(known, ArrayRef)
    search = PythonRef(public("lower_bound"))
    place = ctx.scalar(ctx.apply(search, [known, id], [span, span], span), span)
    found = ctx.emit("eq", ctx.scalar(ctx.load(known, (place,), span), span), id, span=span)
    return ctx.emit("select", found, place, Const(int32, 0), span=span)


def _object(ctx: Context, table: StructValue, number: Value, span: Span) -> Binding:
    """Object `number` of a table: its slices of the arrays that hold all objects' parts."""
    assert table.type.table_of is not None
    _, _, _, starts, *parts = table.items
    assert isinstance(starts, ArrayRef)
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
