"""Structs in kernels: parameters, construction, fields, elements of arrays; all taken apart into their fields."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from jwarp.errors import KernelTypeError, Span, no_attribute
from jwarp.frontend.values.bindings import (
    NO_ARRAY,
    ArrayRef,
    Binding,
    Chosen,
    Composite,
    Number,
    StructArray,
    StructValue,
    Unusable,
    describe,
    way_to,
)
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Operand, Param
from jwarp.types import (
    AnyType,
    ArrayType,
    CompositeType,
    ScalarType,
    StructArrayType,
    StructType,
    array_of,
    fits,
    has_arrays,
    user_type,
)
from jwarp.types.queries import type_repr


class Emitter(Protocol):
    """The operations of the lowering that the rules below use."""

    def convert(self, binding: Binding, type: ScalarType, span: Span) -> Operand: ...


Arguments = Callable[[int, Param, Span], Binding]


def bind_parameter(argument: Arguments, kind: AnyType, params: Iterator[tuple[int, Param]], span: Span) -> Binding:
    """The binding of a parameter as it is written, which takes up as many of `params` as it has parts.

    `argument` makes the binding of one part.
    """
    if isinstance(kind, StructType) and kind.indexed is not None:
        data, *indices = (argument(*next(params), span) for _ in kind.fields)
        assert isinstance(data, ArrayRef)
        return dataclasses.replace(data, axes=tuple(Chosen(x) for x in indices if isinstance(x, ArrayRef)))
    if isinstance(kind, StructType):
        parts = tuple(bind_parameter(argument, inner, params, span) for inner in kind.fields.values())
        return StructValue(kind.described_of or kind, parts)
    if isinstance(kind, StructArrayType):
        items = []
        for inner in kind.struct.fields.values():
            whole: AnyType = inner
            if isinstance(inner, (StructType, StructArrayType)):
                whole = array_of(getattr(inner, "struct", inner), kind.dims + getattr(inner, "dims", 0))
            items.append(bind_parameter(argument, whole, params, span))
        name = _first(items).name.rsplit(".", _depth(kind.struct))[0]
        written = StructArrayType(kind.struct.described_of or kind.struct, kind.dims)
        return StructArray(written, name, tuple(items))  # type: ignore[arg-type]
    index, param = next(params)
    return argument(index, param, span)


def _first(items: Sequence[Any]) -> ArrayRef:
    return items[0].first if isinstance(items[0], StructArray) else items[0]


def _depth(kind: StructType) -> int:
    first = next(iter(kind.fields.values()))
    first = getattr(first, "struct", first)
    return 1 + (_depth(first) if isinstance(first, StructType) else 0)


def construct(
    e: Emitter,
    kind: StructType,
    args: Sequence[Binding],
    named: Mapping[str, Binding],
    spans: Sequence[Span],
    span: Span,
) -> StructValue:
    """`P(…)`: fields in order or by name; those that are not given are zero."""
    names = list(kind.fields)
    if len(args) > len(names):
        raise KernelTypeError(f"{kind!r} has {len(names)} fields ({', '.join(names)}), {len(args)} values given", span)
    given = dict(zip(names, zip(args, spans, strict=False), strict=False))
    for name, value in named.items():
        if name not in kind.fields:
            raise KernelTypeError(f"{kind!r} has no field `{name}`", span, f"there are {', '.join(names)}")
        if name in given:
            raise KernelTypeError(f"{kind!r}: field `{name}` is given twice", span)
        given[name] = (value, span)
    items = []
    for name, wanted in kind.fields.items():
        if name in given:
            value, value_span = given[name]
            items.append(fitted(e, value, wanted, f"field `{name}` of {kind!r}", value_span))
        else:
            items.append(nothing(wanted, name))
    return StructValue.of(kind, tuple(items))


def nothing(kind: AnyType | CompositeType, name: str) -> Binding:
    """The value of a field that was not given one."""
    written = user_type(kind)
    if isinstance(written, StructType):
        return StructValue(written, tuple(nothing(inner, field) for field, inner in written.fields.items()))
    if isinstance(written, ScalarType):
        return zero(written)
    if isinstance(written, CompositeType):
        return Composite(written, (zero(written.dtype),) * written.size)
    if isinstance(written, StructArrayType):
        fields = written.struct.fields.items()
        items = tuple(nothing(array_of(user_type(inner), written.dims), f"{name}.{field}") for field, inner in fields)
        return StructArray(written, name, items)  # type: ignore[arg-type]
    assert isinstance(written, ArrayType)
    return ArrayRef(NO_ARRAY, name, written, extents=(0,) * written.dims)


def fitted(e: Emitter, value: Binding, wanted: AnyType, what: str, span: Span) -> Binding:
    """`value` as the value of a field of type `wanted`: numbers convert, other things have the type or name such."""
    if isinstance(value, Number) and isinstance(wanted, ScalarType):
        if isinstance(value.value, float) and not wanted.is_float:
            raise KernelTypeError(f"{what} is {wanted}, not {value.value}", span, "convert it: int(x)")
        return e.convert(value, wanted, span)
    expected = user_type(wanted)
    kind = value.type if isinstance(value, StructValue) else None
    if kind is not None and (kind.is_handle or kind.holds_handles) and fits(kind, expected, {}):
        return value
    if getattr(value, "type", None) is not expected and getattr(value, "type", None) != expected:
        raise KernelTypeError(f"{what} is {expected!r}, not {describe(value)}", span, way_to(expected, value))
    return value


def field(owner: StructValue | StructArray, name: str, span: Span, written: str = "") -> Binding:
    """`p.name`, where p is `written` so; for an array of structs, the array of that field of all."""
    kind = owner.type if isinstance(owner, StructValue) else owner.type.struct
    if name not in kind.fields:
        close = difflib.get_close_matches(name, kind.fields, 1)
        known = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(kind.fields)}"
        raise no_attribute(name, f"'{written}' ({type_repr(kind)})" if written else f"{kind!r}", span, known)
    found = owner.field(name)
    if isinstance(found, Unusable):
        raise found.error(span)
    return found


def refuse_array_fields(kind: StructType, span: Span) -> None:
    """Refuse to store whole structs where some field is an array."""
    for name, inner in kind.fields.items():
        if has_arrays(inner):
            raise KernelTypeError(
                f"the field `{name}` of {kind!r} is an array, which an element holds as a part of it",
                span,
                "store to the other fields, and to the elements of this one, one by one",
            )


def leaves(array: StructArray, value: StructValue) -> Iterator[tuple[ArrayRef, Binding]]:
    """The arrays of an array of structs, each with what an element is to hold there."""
    for item, part in zip(array.items, value.items, strict=True):
        if isinstance(item, StructArray):
            yield from leaves(item, part)  # type: ignore[arg-type]
        else:
            yield item, part
