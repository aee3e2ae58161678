"""The functions of arrays, and of what values are made of: one row each."""

from __future__ import annotations

import dataclasses
from typing import Any

from jwarp.arrays import create
from jwarp.arrays.array import array
from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend import lookups
from jwarp.frontend.builtins.table import PYTHON_BUILTINS, Builtin, check_count, define
from jwarp.frontend.context import Context
from jwarp.frontend.values import addresses
from jwarp.frontend.values.bindings import (
    Address,
    ArrayRef,
    Binding,
    Composite,
    Number,
    PythonRef,
    StructArray,
    StructValue,
    TileRef,
    describe,
)
from jwarp.ir.nodes import Const, Value
from jwarp.types import (
    MAX_DIMS,
    ArrayType,
    CompositeType,
    ScalarType,
    StructArrayType,
    StructType,
    as_scalar,
    uint64,
    user_type,
)


def _lower_len(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("len", args, (1,), span)
    match args[0]:
        case ArrayRef() as array:
            return ctx.extent(array, 0, span)
        case StructArray(first=array):
            return ctx.extent(array, 0, span)
        case tuple() as items:
            return Number(len(items))
        case Composite(type=kind):
            return Number(kind.shape[0])
        case TileRef(shape=shape):
            return Number(shape[0])
    raise KernelTypeError(f"len() needs an array, a vector or a matrix, not {describe(args[0])}", spans[0])


define(
    "len(a: Any) -> int",
    "The extent of the first dimension of an array, a tile, a vector or a matrix; of a tuple, its length.",
    _lower_len,
)


def _lower_type(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    check_count("type", args, (1,), span)
    whole = isinstance(args[0], (Composite, StructValue, ArrayRef, StructArray, TileRef))
    return PythonRef(args[0].type if whole else ctx.scalar(args[0], spans[0]).type)  # type: ignore[union-attr]


# Python's function, so not among the names of the package.
PYTHON_BUILTINS[type] = Builtin(
    "type(x: T) -> type[T]", "The type of a number, a vector, a matrix or a struct, to be called.", _lower_type
)


def _lower_zeros(ctx: Context, args: list[Any], spans: list[Span], span: Span) -> Binding:
    shape, dtype = args
    extents = [_constant_extent(n, span) for n in (shape if isinstance(shape, tuple) else (shape,))]
    if not 1 <= len(extents) <= MAX_DIMS:
        raise CompileError(f"a local array has 1 to {MAX_DIMS} dimensions, not {len(extents)}", span)
    wanted = dtype.object if isinstance(dtype, PythonRef) else dtype
    if isinstance(wanted, StructType):
        return _local_structs(ctx, wanted, tuple(extents), ctx.assigned_name or "local array", span)
    element = wanted if isinstance(wanted, CompositeType) else as_scalar(wanted)
    if element is None:
        raise KernelTypeError(
            f"the dtype of a local array must be a scalar, vector, matrix or struct type, not {describe(dtype)}",
            span,
            "wp.zeros(shape=4, dtype=float)",
        )
    if isinstance(element, CompositeType) and not element.size:
        raise KernelTypeError(f"an array cannot hold {element!r}, which has no components", span)
    return ctx.local_array(ArrayType(element, len(extents)), tuple(extents), span)


def _local_structs(ctx: Context, struct: StructType, extents: tuple[int, ...], name: str, span: Span) -> StructArray:
    """A local array of structs, as one for each field."""
    items: list[ArrayRef | StructArray] = []
    for field, kind in struct.fields.items():
        path, written = f"{name}.{field}", user_type(kind)
        if isinstance(written, StructType):
            items.append(_local_structs(ctx, written, extents, path, span))
        elif isinstance(written, (ScalarType, CompositeType)):
            made = ctx.local_array(ArrayType(written, len(extents)), extents, span)
            items.append(dataclasses.replace(made, name=path))
        else:
            raise KernelTypeError(f"the field `{field}` of {struct!r} is an array, which no element can hold", span)
    if not items:
        raise KernelTypeError(f"{struct!r} has no fields, so that an array of it has no extents", span)
    return StructArray(StructArrayType(struct, len(extents)), name, tuple(items))


def _constant_extent(binding: Binding, span: Span) -> int:
    value = binding.value if isinstance(binding, (Number, Const)) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CompileError(
            "the shape of a local array must be a positive constant integer, or a tuple of them: "
            "the `shape` argument must be specified as a constant when zero-initializing an array",
            span,
            "write a number, a captured constant or wp.static(…); an array whose shape varies is a parameter",
        )
    return value


def _local_array(name: str) -> Builtin:
    shapes = {"int": "array", "tuple[int]": "array"}
    shapes |= {f"tuple[{', '.join(['int'] * rank)}]": f"array{rank}d" for rank in (2, 3, 4)}
    forms = "\n".join(
        form
        for shape, array in shapes.items()
        for form in (
            f"{name}(shape: {shape}, dtype: type[T]) -> {array}[T]",
            f"{name}(shape: {shape}, dtype: type[float] = float) -> {array}[float]",
        )
    )
    return define(
        forms,
        """An array of zeros: in a kernel, a thread-private array; outside kernels, a mutable array.

        `shape` is a constant integer, or a tuple of up to four; `dtype` a scalar, vector, matrix or struct type.

        Raises:
            CompileError: the shape is not constant.
            KernelTypeError: `dtype` is not such a type.""",
        _lower_zeros,
        binds=True,
        host=getattr(create, name),
    )


# An element to which nothing was stored is zero after either.
zeros, empty = _local_array("zeros"), _local_array("empty")


def _lower_array(ctx: Context, args: list[Any], spans: list[Span], span: Span) -> Binding:
    place, shape, dtype = args
    if isinstance(place, (Value, Const)) and place.type is uint64:
        return lookups.array_of_number(ctx, place, shape if isinstance(shape, tuple) else (shape,), dtype, span)
    if not isinstance(place, Address):
        raise CompileError(
            "kernels make no arrays of pointers: wp.array(ptr=…)",
            span,
            "pass the array itself; wp.zeros(shape=…, dtype=…) makes one of the thread's own",
        )
    extents = shape if isinstance(shape, tuple) else (shape,)
    if len(extents) != 1:
        raise CompileError("an array made of an address has one dimension", span, addresses.WAY_OUT)
    wanted = dtype.object if isinstance(dtype, PythonRef) else dtype
    element = wanted if isinstance(wanted, CompositeType) else as_scalar(wanted)
    if element is None:
        raise KernelTypeError(f"the dtype of an array made of an address, not {describe(dtype)}", span)
    return addresses.array_at(ctx, place, _constant_extent(extents[0], span), element, span)


# The class, which is the annotation of a parameter outside of calls.
PYTHON_BUILTINS[array] = Builtin(
    "array(ptr: Any, shape: Any, dtype: Any) -> Any",
    "A part of an array of the thread's own: `ptr` is `a.ptr`, or so many bytes after it.",
    _lower_array,
    binds=True,
)
