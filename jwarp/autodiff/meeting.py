"""What derivatives do where plain stores of several threads may meet: they find whose value stayed, or refuse.

The value that a derivative computes once more is that of the launch bit by bit, since both are compiled to round alike.
So the content of the array at the end tells whose value it is. Where a kernel also reads what it stores, there is
no telling: there each store leaves the number of its thread, and two numbers at one element end the launch.
"""

from __future__ import annotations

import math

from jwarp.ir.attributes import Origin
from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import Const, Kernel, Op, Operand, Value
from jwarp.types import ScalarType, int64, scalar_of, shape_of, uint8, uint16, uint32, uint64, with_shape

_BITS: dict[int, ScalarType] = {8: uint8, 16: uint16, 32: uint32, 64: uint64}


def stayed(builder: Builder, kernel: Kernel, array: int, indices: tuple[Operand, ...], value: Operand) -> Operand:
    """Whether `value` is what the launch left in an element of an array; all NaNs are taken for one."""
    final = Value(with_shape(kernel.array(array).dtype, shape_of(indices[0].type)))
    builder.append(Op("load", indices, Origin("final", array), final, builder.span))
    return same_bits(builder, value, final)


def same_bits(builder: Builder, x: Operand, y: Operand) -> Operand:
    """Whether two floats have the same bits, or both are NaN."""
    bits = with_shape(_BITS[scalar_of(x.type).bits], shape_of(x.type))
    alike = builder.op("eq", *(builder.op("bitcast", a, type=bits) for a in (x, y)))
    none = builder.op("and", builder.op("ne", x, x), builder.op("ne", y, y))
    return builder.op("or", alike, none)


def alone_there(builder: Builder, kernel: Kernel, array: int, indices: tuple[Operand, ...]) -> Operand:
    """Check that no other thread stores to an element; whether that holds."""
    shape = shape_of(indices[0].type)
    kind = with_shape(uint32, shape)
    thread = Value(int64)
    builder.append(Op("thread", (), None, thread, builder.span))
    mark = builder.op("cast", builder.op("add", thread, Const(int64, 1)), type=uint32)
    if shape:
        mark = builder.op("fill", mark, attr=shape)
    before = Value(kind)
    origin = Origin("claim", array)
    builder.append(Op("atomic_cas", (*indices, zero(kind), mark), origin, before, builder.span))
    holds = builder.op("or", builder.op("eq", before, zero(kind)), builder.op("eq", before, mark))
    name = kernel.array(array).name
    builder.check(
        holds,
        f"two threads store to one element of `{name}`, which the kernel also reads, so that nothing tells whose value "
        "the gradient goes to; store to another array than the one that is read, or use wp.atomic_add",
    )
    return holds


def or_nan(builder: Builder, holds: Operand, x: Operand) -> Operand:
    """`x`, or NaN where something does not hold: where checks are not waited for, it tells."""
    return builder.op("select", holds, x, Const(x.type, math.nan))


__all__ = ["alone_there", "or_nan", "same_bits", "stayed"]
