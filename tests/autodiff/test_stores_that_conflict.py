"""The questions of derivatives where stores conflict: the bits that stayed, numbers of threads, slots."""

import numpy as np
import pytest
from textual_ir import read

from jwarp.analysis.write_conflicts import Slot
from jwarp.autodiff import write_conflicts
from jwarp.backend.interpreter.machine import run
from jwarp.ir.attributes import Origin
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import Block, Const, Kernel, Op, Param, Value, walk
from jwarp.types import ArrayType, bool_, float32, int32, uint32

pytestmark = pytest.mark.quick

NAN, OTHER_NAN = np.float32(np.nan), np.uint32(0x7FC00001).view(np.float32)
PAIRS = [(0.0, -0.0), (1.0, 1.0), (1.0, 2.0), (NAN, OTHER_NAN), (NAN, 1.0), (np.inf, np.inf), (-0.0, -0.0)]


def answers(make, xs, ys):
    """The truth values that `make` gives of floats in two arrays."""
    x, y, thread = Value(float32), Value(float32), Value(int32)
    builder = Builder()
    builder.append(Op("tid", (), 0, thread))
    builder.append(Op("load", (thread,), 0, x))
    builder.append(Op("load", (thread,), 1, y))
    found = make(builder, x, y)
    assert found.type is bool_
    builder.append(Op("store", (thread, builder.op("cast", found, type=int32)), 2))
    params = (Param("x", ArrayType(float32, 1)), Param("y", ArrayType(float32, 1)), Param("r", ArrayType(int32, 1)))
    kernel = Kernel("k", params, 1, make_block(builder.nodes, ()))
    xs, ys = (np.array(values, np.float32) for values in (xs, ys))
    return run(kernel, (len(xs),), [xs, ys, np.zeros(len(xs), np.int32)])[2].astype(bool).tolist()


def test_bits_and_numbers():
    xs, ys = zip(*PAIRS, strict=True)
    assert answers(write_conflicts.same_bits, xs, ys) == [False, True, False, True, False, True, True]
    assert answers(write_conflicts.same_number, xs, ys) == [True, True, False, True, False, True, True]


KERNEL = """
    kernel k(x: array[float32], c: array[int32], y: array2d[float32]), tid 1
      %0: int32 = tid 0
      %1: float32 = load x[%0]
      store y[%0, 0], %1
"""


def test_what_stayed_is_read_after_the_launch():
    builder, kernel = Builder(), read(KERNEL)
    index = (Value(int32), Const(int32, 0))
    write_conflicts.stayed(builder, kernel, 2, index, Value(float32))
    (load,) = (n for n in builder.nodes if isinstance(n, Op) and n.row.is_load)
    assert load.attr == Origin("final", 2) and load.args == index


def test_threads_have_numbers_from_one_on():
    builder = Builder()
    made = write_conflicts.marks(builder, read(KERNEL), {2})
    assert list(made) == [()] and made[()].type is uint32
    assert write_conflicts.marks(Builder(), read(KERNEL), {0}).keys() == {()}  # it is loaded
    builder.append(Op("store", (Const(int32, 0), made[()]), 0))
    number = Kernel("k", (Param("r", ArrayType(uint32, 1)),), 1, Block(tuple(builder.nodes)))
    assert run(number, (1,), [np.zeros(1, np.uint32)])[0].tolist() == [1]


def test_a_thread_claims_an_element_or_finds_another_one_there():
    builder, kernel = Builder(), read(KERNEL)
    mark = Value(uint32)
    index = (Value(int32), Const(int32, 0))
    write_conflicts.alone_there(builder, kernel, 2, index, {(): mark})
    ops = list(walk(Block(tuple(builder.nodes))))
    assert [n.name for n in ops] == ["atomic_cas", "eq", "eq", "or", "check"]
    claim, free, own, _, check = ops
    assert claim.attr == Origin("claim", 2) and claim.args == (*index, Const(uint32, 0), mark)
    assert free.args[1] == Const(uint32, 0) and own.args[1] is mark
    assert "two threads store to one element of `y`" in check.text


def test_a_slot_is_inside_its_counter_and_not_negative():
    builder = Builder()
    index = (Value(int32), Value(int32))
    write_conflicts.is_slot(builder, Slot(1, 1, (0, Const(int32, 3))), Origin("work", 1), index)
    inside, *tests = (n for n in builder.nodes if isinstance(n, Op) and n.name != "and")
    assert (inside.name, inside.args, inside.attr) == ("inside", (index[0], Const(int32, 3)), Origin("work", 1))
    assert [(n.name, n.args[0]) for n in tests] == [("ge", index[1]), ("ge", index[0])]


def test_nan_where_something_does_not_hold():
    def make(builder, x, y):
        z = write_conflicts.or_nan(builder, builder.op("lt", x, y), x)
        return builder.op("eq", z, z)

    assert answers(make, [1.0, 3.0], [2.0, 2.0]) == [True, False]
