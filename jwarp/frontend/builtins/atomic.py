"""The functions that change an element of an array in one indivisible step: one row each."""

from __future__ import annotations

from jwarp.config import surface
from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins.signatures import indexed
from jwarp.frontend.builtins.table import Builtin, check_count, define
from jwarp.frontend.context import Context
from jwarp.frontend.values import operator_table
from jwarp.frontend.values.bindings import ArrayRef, Binding, StructArray, describe
from jwarp.types import CompositeType
from jwarp.types.queries import type_repr


def _atomic(name: str, operation: str, doc: str) -> Builtin:
    compares = operation == "cas"
    count = 2 if compares else 1

    def lower(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
        array = args[0] if args else None
        if not isinstance(array, ArrayRef):
            hint = (
                f"name a field: {array.name}.{next(iter(array.type.struct.fields))}"
                if type(array) is StructArray
                else ""
            )
            raise KernelTypeError(
                f"the first argument of wp.{name} must be an array of numbers, vectors or matrices"
                + (f", not {describe(array)}" if array is not None else ""),
                spans[0] if spans else span,
                hint,
            )
        check_count(name, args, (1 + array.type.dims + count,), span)
        if not _takes("sub" if name == "atomic_sub" else operation, array):
            raise KernelTypeError(f"wp.{name} does not take {array.type.element}", span)
        _check_portable(name, operation, array, span)
        indices, values = args[1:-count], args[-count:]
        if name == "atomic_sub":
            values = [operator_table.negated(ctx, values[0], span)]
        return ctx.atomic(operation, array, indices, values, spans[1:], span)

    values = "compare: T, value: T" if compares else "value: T"
    text = f"""{doc}, atomically.

        Pass one index for each dimension of the array. For vectors and matrices, each component is atomic by itself.
        Returns the old value of the element; zero if the index is outside the array."""
    return define(indexed(f"{name}(arr: array[T], *index, {values}) -> T"), text, lower)


# The scalars that Warp's atomic operations take; others are an extension.
_INTEGERS = ("int32", "uint32", "int64", "uint64")
_WARPS_SCALARS = {
    "add": (*_INTEGERS, "float16", "bfloat16", "float32", "float64"),
    **dict.fromkeys(("min", "max"), (*_INTEGERS, "bfloat16", "float32", "float64")),
}


def _check_portable(name: str, operation: str, array: ArrayRef, span: Span) -> None:
    """Refuse, in programs, elements that the operation does not take in Warp: there the program would not compile."""
    kind = array.type.element
    scalar = kind.dtype if isinstance(kind, CompositeType) else kind
    known = _WARPS_SCALARS.get(operation)
    if not surface.is_warps or known is None or scalar.name in known:
        return
    shown = "[u]int32, [u]int64, " + ", ".join(known[4:-1]) + f", or {known[-1]}"
    raise KernelTypeError(
        f"`{array.name}` holds {kind}: {name}() operations only work on arrays with {shown} as the underlying scalar "
        f"types, but got {type_repr(kind)} (with scalar type {type_repr(scalar)})",
        span,
        "use an array of one of these; under the name jwarp, all scalars are taken",
    )


def _takes(operation: str, array: ArrayRef) -> bool:
    """True if the operation takes elements of the array whole, and changes each of their components."""
    kind = array.type.element
    if not isinstance(kind, CompositeType) or operation in ("exch", "cas"):
        return True
    return kind.kind.takes(operation) or operator_table.by_component(operation, kind.kind)


atomic_add = _atomic("atomic_add", "add", "Add to an element of an array")
atomic_sub = _atomic("atomic_sub", "add", "Subtract from an element of an array")
atomic_min = _atomic("atomic_min", "min", "Replace an element of an array by the smaller of it and the value")
atomic_max = _atomic("atomic_max", "max", "Replace an element of an array by the larger of it and the value")
atomic_and = _atomic("atomic_and", "and", "Combine an element of an array of integers by bitwise and")
atomic_or = _atomic("atomic_or", "or", "Combine an element of an array of integers by bitwise or")
atomic_xor = _atomic("atomic_xor", "xor", "Combine an element of an array of integers by bitwise exclusive or")
atomic_exch = _atomic("atomic_exch", "exch", "Store a value in an element of an array")
atomic_cas = _atomic(
    "atomic_cas", "cas", "Store a value in an element of an array where it equals `compare` bit by bit"
)
