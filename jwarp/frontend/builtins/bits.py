"""The bits of a value read as another type, as `wp.cast` does: both lie in memory as C lays them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.values.bindings import Binding, Composite, StructValue, Unusable, describe
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import ArrayType, CompositeType, ScalarType, StructType, bool_, uint8, uint16, uint32, uint64
from jwarp.types.queries import size_and_alignment

_UNSIGNED = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


def reinterpreted(ctx: Context, value: Binding, kind: Any, span: Span) -> Binding:
    """`value`, a number, composite or struct without arrays, as the type `kind` of the same size.

    What no field of the value covers is zero.

    Raises:
        KernelTypeError: one of them is something else, or they differ in size.
    """
    own = _kind_of(ctx, value, span)
    for each in (own, kind):
        if not _has_bits(each):
            raise KernelTypeError(
                f"wp.cast reads the bits of numbers, vectors, matrices and structs of these, not of {each}", span
            )
    sizes = [size_and_alignment(each)[0] for each in (own, kind)]
    if sizes[0] != sizes[1]:
        raise KernelTypeError(
            f"wp.cast keeps the bits, so it needs a type of the same size: {own} has {sizes[0]} bytes, {kind} has "
            f"{sizes[1]}",
            span,
            "to convert the value, call the type: wp.float32(x)",
        )
    parts = list(_parts(ctx, value, own, 0, span))

    def taken(scalar: ScalarType, at: int) -> Operand:
        return _taken(ctx, parts, scalar, at, span)

    return _made(kind, 0, taken)


def _kind_of(ctx: Context, value: Binding, span: Span) -> Any:
    if isinstance(value, (Composite, StructValue)):
        return value.type
    return ctx.scalar(value, span, "first argument of wp.cast").type


def _fields(kind: StructType) -> list[Any]:
    """The types of the fields; a vector by value is an array without dimensions there."""
    return [f.element if isinstance(f, ArrayType) and not f.dims else f for f in kind.fields.values()]


def _has_bits(kind: Any) -> bool:
    if isinstance(kind, StructType):
        return all(map(_has_bits, _fields(kind)))
    return isinstance(kind, (ScalarType, CompositeType))


def _places(kind: StructType, at: int) -> Iterator[tuple[Any, int]]:
    """The type and the place of each field of a struct that lies at `at`."""
    for field in _fields(kind):
        size, alignment = size_and_alignment(field)
        at = -(-at // alignment) * alignment
        yield field, at
        at += size


def _parts(ctx: Context, value: Binding, kind: Any, at: int, span: Span) -> Iterator[tuple[int, Operand]]:
    """The scalars of a value, each with its place."""
    if isinstance(value, StructValue):
        for (field, place), item in zip(_places(kind, at), value.items, strict=True):
            if not isinstance(item, Unusable):
                yield from _parts(ctx, item, field, place, span)
    elif isinstance(value, Composite):
        for k, item in enumerate(value.items):
            yield at + k * _size(kind.dtype), item
    else:
        yield at, ctx.scalar(value, span, f"value of wp.cast: {describe(value)}")


def _made(kind: Any, at: int, taken: Callable[[ScalarType, int], Operand]) -> Binding:
    """A value of a type, made of the scalars at its places."""
    if isinstance(kind, StructType):
        return StructValue(kind, tuple(_made(field, place, taken) for field, place in _places(kind, at)))
    if isinstance(kind, CompositeType):
        return Composite(kind, tuple(taken(kind.dtype, at + k * _size(kind.dtype)) for k in range(kind.size)))
    return taken(kind, at)


def _size(scalar: ScalarType) -> int:
    return size_and_alignment(scalar)[0]


def _taken(ctx: Context, parts: list[tuple[int, Operand]], scalar: ScalarType, at: int, span: Span) -> Operand:
    """The scalar whose bits are those from `at` on."""
    size = _size(scalar)
    word = _UNSIGNED[size]
    total: Operand | None = None
    for place, x in parts:
        if place == at and x.type is scalar:
            return x
        width = _size(x.type)
        if not at - width < place < at + size:
            continue
        if x.type is bool_ or x.type.bits != 8 * width:
            bits = ctx.emit("cast", x, span=span, type=uint8)
        else:
            bits = ctx.emit("bitcast", x, span=span, type=_UNSIGNED[width])
        if place < at:
            bits = ctx.emit("shr", bits, Const(bits.type, 8 * (at - place)), span=span)
        if bits.type is not word:
            bits = ctx.emit("cast", bits, span=span, type=word)
        if place > at:
            bits = ctx.emit("shl", bits, Const(word, 8 * (place - at)), span=span)
        total = bits if total is None else ctx.emit("or", total, bits, span=span)
    if total is None:
        return zero(scalar)
    if scalar is bool_:
        return ctx.emit("ne", total, zero(word), span=span)
    return ctx.emit("bitcast", total, span=span, type=scalar)
