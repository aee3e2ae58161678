"""Derivatives of plain stores that may conflict between threads: find the store that was last, or refuse.

The value that a derivative computes once more is that of the launch bit by bit, since both are compiled to round alike.
So the content of the array at the end tells whose value it is. Where a kernel also reads what it stores, there is
no telling: there each store leaves the number of its thread, and two numbers at one element end the launch.
"""

from __future__ import annotations

import math
from collections.abc import Container

from jwarp.analysis.ownership import accesses
from jwarp.analysis.write_conflicts import Slot, ambiguity
from jwarp.ir.attributes import Iota, Origin
from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import Const, Kernel, Op, Operand, Value, walk
from jwarp.types import ScalarType, int32, int64, scalar_of, shape_of, uint8, uint16, uint32, uint64, with_shape

_BITS: dict[int, ScalarType] = {8: uint8, 16: uint16, 32: uint32, 64: uint64}


def stayed(builder: Builder, kernel: Kernel, array: int, indices: tuple[Operand, ...], value: Operand) -> Operand:
    """The truth value that the launch left `value` in an element of an array; all NaNs count as one."""
    final = Value(with_shape(kernel.array(array).dtype, shape_of(indices[0].type)))
    builder.append(Op("load", indices, Origin("final", array), final, builder.span))
    return same_bits(builder, value, final)


def same_bits(builder: Builder, x: Operand, y: Operand) -> Operand:
    """The truth value that two floats have the same bits, or both are NaN."""
    bits = with_shape(_BITS[scalar_of(x.type).bits], shape_of(x.type))
    alike = builder.op("eq", *(builder.op("bitcast", a, type=bits) for a in (x, y)))
    return builder.op("or", alike, _both_nan(builder, x, y))


def same_number(builder: Builder, x: Operand, y: Operand) -> Operand:
    """The truth value that two floats are equal, or both NaN."""
    return builder.op("or", builder.op("eq", x, y), _both_nan(builder, x, y))


def _both_nan(builder: Builder, x: Operand, y: Operand) -> Operand:
    return builder.op("and", builder.op("ne", x, x), builder.op("ne", y, y))


Marks = dict[tuple[int, ...], Operand]


def marks(builder: Builder, kernel: Kernel, arrays: Container[int]) -> Marks:
    """A number for each thread that stores to `arrays`, from 1 on, and for each lane of a block, by the lanes' shape.

    It is for the whole kernel: where lanes go their own ways, none could be filled into them.
    """
    shapes = {shape_of(n.indices[0].type) for n in accesses(walk(kernel.body)) if n.array in arrays and n.indices}
    made: Marks = {}
    for shape in sorted(shapes):
        thread = Value(int64)
        builder.append(Op("thread", (), None, thread, builder.span))
        count = Const(int64, math.prod(shape))
        first = builder.op("cast", builder.op("add", builder.op("mul", thread, count), Const(int64, 1)), type=uint32)
        if shape:
            first = builder.op("fill", first, attr=shape)
            for axis in range(len(shape)):
                number = Value(with_shape(int32, shape))
                builder.append(Op("iota", (), Iota(shape, axis), number, builder.span))
                wide = builder.op("cast", number, type=first.type)
                step = Const(first.type, math.prod(shape[axis + 1 :]))
                first = builder.op("add", first, builder.op("mul", wide, step))
        made[shape] = first
    return made


def alone_there(builder: Builder, kernel: Kernel, array: int, indices: tuple[Operand, ...], numbers: Marks) -> Operand:
    """Check that no other thread stores to an element; whether that holds."""
    mark = numbers[shape_of(indices[0].type)]
    kind = mark.type
    before = Value(kind)
    origin = Origin("claim", array)
    builder.append(Op("atomic_cas", (*indices, zero(kind), mark), origin, before, builder.span))
    holds = builder.op("or", builder.op("eq", before, zero(kind)), builder.op("eq", before, mark))
    name = kernel.array(array).name
    builder.check(
        holds,
        f"two threads store to one element of `{name}`, {ambiguity(kernel, array)}, so that nothing tells whose value "
        "the gradient goes to; store to another array than one that is read, or use wp.atomic_add",
    )
    return holds


def agree_there(builder: Builder, kernel: Kernel, array: int, indices: tuple[Operand, ...], value: Operand) -> Operand:
    """Check that a thread stores what the launch left; whether that holds.

    Where all threads store the same to an element, each that loads it finds what it stored itself. One by one, each
    then goes back through what it did; the first one takes the gradient of what was left.
    """
    holds = stayed(builder, kernel, array, indices, value)
    name = kernel.array(array).name
    builder.check(
        holds,
        f"different values are stored to one element of `{name}`, {ambiguity(kernel, array)}, and it may be that of "
        "several threads, so that nothing tells whose value the gradient goes to; store to another array than one that "
        "is read, index it by wp.tid() or by a place that wp.atomic_add gave, or use wp.atomic_add",
    )
    return holds


def is_slot(builder: Builder, slot: Slot, counters: Origin, indices: tuple[Operand, ...]) -> Operand:
    """The truth value that a store's index is that of a slot: the counter's value there, and not negative."""
    holds = builder.op("inside", *(p if isinstance(p, Const) else indices[p] for p in slot.places), attr=counters)
    for position in (slot.position, *(p for p in slot.places if not isinstance(p, Const))):
        holds = builder.op("and", holds, builder.op("ge", indices[position], zero(indices[position].type)))
    return holds


def or_nan(builder: Builder, holds: Operand, x: Operand) -> Operand:
    """`x`, or NaN where something does not hold: it tells where no check does, or none that is waited for."""
    return builder.op("select", holds, x, Const(x.type, math.nan))


__all__ = [
    *("Marks", "agree_there", "alone_there", "is_slot", "marks", "or_nan", "same_bits", "same_number", "stayed"),
]
