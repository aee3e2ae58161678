"""Simplification: what a body yields is kept, and loads are shared only as long as they hold."""

import time

import pytest
from textual_ir import agree, expect, read

import jwarp as wp
from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import Block, Const, For, Kernel, Op, Param, Value, walk
from jwarp.ir.printing import format_kernel
from jwarp.passes.simplify import has_finite_slopes, is_cheap, simplify
from jwarp.types import ArrayType, float32, int32

pytestmark = pytest.mark.quick

ONE = Const(int32, 1)


def names(body: Block) -> list[str]:
    return [node.name for node in walk(body) if isinstance(node, Op)]


def test_what_a_body_yields_is_needed():
    x, y = Value(int32), Value(int32)
    builder = Builder()
    with builder.block() as nodes:
        total = builder.op("add", builder.op("mul", x, y), ONE)
        builder.op("sub", x, y)  # nothing needs it
        body = make_block(nodes, (total, y))
    made = simplify(Kernel("form", (), 1, body)).body
    assert names(made) == ["mul", "add"]
    assert made.yields == (total, y)


def loads_in_loop(stored: int) -> int:
    """How many loads of parameter 0 are left, of one before a loop and one in it that stores."""
    params = tuple(Param(name, ArrayType(float32, 1)) for name in "ab")
    first, again, index = Value(float32), Value(float32), Value(int32)
    body = Block((Op("load", (ONE,), 0, again), Op("store", (index, again), stored)))
    loop = For(index, Const(int32, 0), Const(int32, 4), 1, (), (), body, ())
    used = Op("store", (ONE, first), 1)
    kernel = Kernel("loads", params, 1, Block((Op("load", (ONE,), 0, first), used, loop)))
    return names(simplify(kernel).body).count("load")


def test_a_load_is_shared_with_a_loop_that_does_not_store_to_its_array():
    assert loads_in_loop(stored=1) == 1


def test_a_load_is_not_shared_with_a_loop_that_stores_to_its_array():
    assert loads_in_loop(stored=0) == 2


def test_loops_in_branches_of_loops_take_no_time_that_grows_with_their_depth_alone():
    """Unchanged loop-carried values are found in inner loops once for all that these carry."""

    @wp.kernel
    def deep(x: wp.array[float], n: int, y: wp.array[float]):
        i = wp.tid()
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(n):
            if x[j] > 0.0:
                for k in range(j):
                    if x[k] > 1.0:
                        a, b = b + 1.0, a
                        for h in range(k):
                            if x[h] > 2.0:
                                b, c = c + 1.0, b
                                for m in range(h):
                                    if x[m] > 3.0:
                                        c, d = d + 1.0, c
                                        for o in range(m):
                                            if x[o] > 4.0:
                                                d, a = a + 1.0, d
        y[i] = a + b + c + d

    start = time.process_time()
    simplify(deep.ir())
    assert time.process_time() - start < 1.0


def test_constants_are_folded_and_operations_shared():
    before = read("""
        kernel k(x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: int32 = tid 0
          %2: int32 = add 2, 3
          %3: int32 = mul %1, 1
          %4: int32 = add %3, 0
          %5: float32 = load x[%0]
          %6: float32 = load x[%4]
          %7: float32 = mul %5, %6
          %8: float32 = cast %2
          %9: float32 = mul %7, %8
          %10: float32 = sin %9
          store x[%0], %9
          %11: float32 = load x[%1]
          store y[%1], %11
    """)
    expect(
        simplify(before),
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: float32 = mul %1, %1
              %3: float32 = mul %2, 5.0
              store x[%0], %3
              %4: float32 = load x[%0]
              store y[%0], %4
        """,
    )
    agree(before, simplify(before))


def test_what_a_branch_knows_of_its_condition():
    before = read("""
        kernel k(n: array[int32], y: array[int32]), tid 1
          %0: int32 = tid 0
          %1: int32 = load n[%0]
          %2: bool = gt %1, 1
          %3: bool = lt %1, 4
          %4: bool = and %2, %3
          if %4 {
            %5: int32 = select %2, 10, 20
            yield %5, 3
          } else {
            %6: bool = not %4
            %7: int32 = select %6, 30, 40
            yield %7, 3
          } -> %8: int32, %9: int32
          if %2 {
            yield True
          } else {
            yield False
          } -> %10: bool
          if True {
            yield %8
          } else {
            yield 0
          } -> %11: int32
          %12: int32 = select %10, %11, %9
          store y[%0], %12
    """)
    expect(
        simplify(before),
        """
            kernel k(n: array[int32], y: array[int32]), tid 1
              %0: int32 = tid 0
              %1: int32 = load n[%0]
              %2: bool = gt %1, 1
              %3: bool = lt %1, 4
              %4: bool = and %2, %3
              %5: int32 = select %4, 10, 30
              %6: int32 = select %2, %5, 3
              store y[%0], %6
        """,
    )
    agree(before, simplify(before))


def test_cheap_branches_become_selects_where_that_is_asked_for():
    before = read("""
        kernel k(x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: bool = gt %1, 0.0
          if %2 {
            %3: float32 = mul %1, 2.0
            yield %3, True
          } else {
            %4: float32 = neg %1
            %5: bool = lt %1, -1.0
            yield %4, %5
          } -> %6: float32, %7: bool
          if %7 {
            store y[%0], %6
          }
    """)
    expect(
        simplify(before, flatten=is_cheap),
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: bool = gt %1, 0.0
              %3: float32 = mul %1, 2.0
              %4: float32 = neg %1
              %5: bool = lt %1, -1.0
              %6: float32 = select %2, %3, %4
              %7: bool = or %2, %5
              if %7 {
                store y[%0], %6
              }
        """,
    )
    expect(simplify(before), format_kernel(before))
    agree(before, simplify(before, flatten=is_cheap))


def test_what_loops_carry_and_never_change_is_known():
    before = read("""
        kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: int32 = load n[%0]
          for %2: int32 = 0 .. %1 step 1 carry (%3: float32 = 2.0, %4: float32 = 2.0, %5: float32 = 0.0) {
            %6: float32 = load x[%2]
            %7: float32 = mul %6, %3
            %8: float32 = add %5, %7
            yield %4, %3, %8
          } -> %9: float32, %10: float32, %11: float32
          for %12: int32 = 3 .. 3 step 1 carry (%13: float32 = %9) {
            store y[%12], %13
            yield 0.0
          } -> %14: float32
          %15: float32 = add %11, %14
          store y[%0], %15
    """)
    expect(
        simplify(before),
        """
            kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: int32 = load n[%0]
              for %2: int32 = 0 .. %1 step 1 carry (%3: float32 = 0.0) {
                %4: float32 = load x[%2]
                %5: float32 = mul %4, 2.0
                %6: float32 = add %3, %5
                yield %6
              } -> %7: float32
              %8: float32 = add %7, 2.0
              store y[%0], %8
        """,
    )
    agree(before, simplify(before))


def test_blocks_that_may_run_without_need():
    def block(*ops):
        lines = "".join(f"    {op}\n" for op in ops)
        kernel = read(
            f"kernel k(x: array[float32], y: float32), tid 1\n  %0: float32 = param y\n  if True {{\n{lines}  }}"
        )
        return kernel.body.nodes[-1].then

    assert is_cheap(block("%1: float32 = sqrt %0")) and not is_cheap(block("%1: float32 = exp %0"))
    assert not is_cheap(block("store x[0], %0"))
    assert not is_cheap(block(*(f"%{k}: float32 = neg %0" for k in range(1, 10))))
    assert has_finite_slopes(block("%1: float32 = neg %0", "%2: float32 = max %1, 0.0"))
    assert not has_finite_slopes(block("%1: float32 = sqrt %0")) and not has_finite_slopes(block("store x[0], %0"))
