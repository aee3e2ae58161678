"""Addresses of local arrays: offsets, and the array that a kernel makes from an address."""

from __future__ import annotations

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.values import array_views
from jwarp.frontend.values.bindings import Address, ArrayRef, Binding, describe
from jwarp.ir.nodes import Const
from jwarp.types import (
    CompositeType,
    ElementType,
    ScalarType,
    StructType,
    int32,
    uint64,
)

WAY_OUT = "pass the array itself; a slice, a[2:7], shows a part of one"


def address(array: ArrayRef, span: Span) -> Address:
    """`a.ptr`, of an array of the thread's own with one dimension."""
    if not array.is_local or array.axes or array.type.dims != 1:
        raise CompileError(
            "kernels take addresses, `ptr`, of whole arrays of the thread's own in one dimension alone", span, WAY_OUT
        )
    return Address(array)


def moved(symbol: str, left: Binding, right: Binding, span: Span) -> Address:
    """`a.ptr + wp.uint64(n)`, n bytes after it, or the same the other way round."""
    start, count = (left, right) if isinstance(left, Address) else (right, left)
    if symbol != "+" or not isinstance(start, Address) or isinstance(count, Address):
        raise KernelTypeError(f"an address takes no `{symbol}`", span, "a.ptr + wp.uint64(n) is n bytes after it")
    if not isinstance(count, Const) or count.type is not uint64:
        raise KernelTypeError(
            f"what is added to an address must be a constant uint64, not {describe(count)}", span, WAY_OUT
        )
    return Address(start.array, start.offset + int(count.value))


def array_at(e: array_views.Emitter, place: Address, extent: int, dtype: ElementType, span: Span) -> ArrayRef:
    """`wp.array(ptr=place, shape=extent, dtype=dtype)`: a part of the array that the address is of."""
    kind = place.array.type
    assert not isinstance(kind.element, StructType) and place.array.extents is not None
    if dtype != kind.element:
        raise KernelTypeError(
            f"an array of {dtype} cannot show one of {kind.element}", span, f"write dtype={kind.element}"
        )
    first, rest = divmod(place.offset, _bytes(kind.element))
    if rest:
        raise CompileError(f"the address is {rest} bytes after the start of an element", span)
    if first + extent > place.array.extents[0]:
        raise CompileError(
            f"elements {first} to {first + extent - 1} of `{place.array.name}`, which has {place.array.extents[0]}",
            span,
        )
    part = array_views.Slice(Const(int32, first), Const(int32, first + extent))
    return array_views.view(e, place.array, (part,), span)


def _bytes(element: ScalarType | CompositeType) -> int:
    if isinstance(element, CompositeType):
        return _bytes(element.dtype) * element.size
    return int(element.dtype.itemsize)
