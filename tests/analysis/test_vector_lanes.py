"""Which values are the same in all lanes of a vector or count up: loops with lanes, tapes, calls, lanes in turn."""

import pytest
from textual_ir import read

from jwarp.analysis.lane_serialised import lane_serialised_loops
from jwarp.analysis.vector_lanes import shapes_of
from jwarp.ir.nodes import Op, walk

pytestmark = pytest.mark.quick


def strides(text, **how):
    """The stride of each value that a kernel stores or pushes; None if it varies."""
    kernel = read(text)
    shapes = shapes_of(kernel, **how)
    ops = (n for n in walk(kernel.body) if isinstance(n, Op) and (n.row.is_store or n.row.is_atomic))
    return [shapes[n.values[-1]].stride for n in ops]


LANES = """
    kernel k(x: array[int32], y: array[int32]), tid 2, {}
      %0: int32 = tid 0
      %1: int32 = tid 1
      lanes add %2: int32 = 0 .. 8 step 1 carry (%3: int32 = %1) {{
        %4: int32 = load x[%2]
        %5: int32 = add %3, %4
        store y[0], %2
        store y[1], %3
        store y[2], %1
        yield %5
      }} -> %6: int32
      store y[3], %6
      store y[4], %1
"""


def test_in_a_block_only_loops_have_lanes():
    assert strides(LANES.format("block_dim 32")) == [1, None, 0, 0, 0]


SEARCH = """
    kernel k(x: array[int32], y: array[int32]), tid 1
      %0: int32 = tid 0
      for %1: int32 = 0 .. %0 step 1 carry (%2: int32 = %0) {
        lanes add %3: int32 = 0 .. 8 step 1 carry (%4: int32 = 0) {
          %5: int32 = load x[%3]
          yield %5
        } -> %6: int32
        %7: int32 = add %6, %0
        yield %7
      } -> %8: int32
      store y[%0], %8
"""


def test_lanes_run_a_loop_in_turn_and_differ_afterwards():
    kernel = read(SEARCH)
    (loop,) = lane_serialised_loops(kernel)
    shapes = shapes_of(kernel)
    assert shapes[loop.params[0]].is_uniform and shapes[loop.body.nodes[1].result].is_uniform
    assert shapes[loop.results[0]].is_varying
    assert shapes[kernel.body.nodes[0].result].stride == 1  # as before the loop


def test_a_loop_with_lanes_that_writes_changes_nothing_for_the_next_one():
    loop = "lanes add %20: int32 = 0 .. 8 step 1 carry (%21: int32 = 0)"
    writing = f"{loop} {{\nstore y[%20], 0\nyield %21\n}} -> %22: int32\nfor %1"
    kernel = read(SEARCH.replace("for %1", writing, 1))
    (loop,) = lane_serialised_loops(kernel)
    shapes = shapes_of(kernel)
    assert loop is kernel.body.nodes[2] and shapes[loop.params[0]].is_uniform and shapes[loop.results[0]].is_varying


CALLS = """
    kernel k(n: int32, y: array[int32]), tid 1
      function 0 f(%0: int32, %1: int32) {
        %2: int32 = add %0, 1
        yield %2, %1
      }
      %3: int32 = tid 0
      %4: int32 = param n
      %5: int32 = call 0 f %4, %3
      %6: int32 = call_part 0 %5
      %7: int32 = call_part 1 %5
      %8: int32 = call 0 f %3, %4
      %9: int32 = call_part 0 %8
      %10: int32 = call_part 1 %8
      store y[0], %6
      store y[1], %7
      store y[2], %9
      store y[3], %10
"""


def test_results_of_functions_follow_from_the_arguments_of_each_call():
    assert strides(CALLS) == [0, None, None, 0]


ARITHMETIC = """
    kernel k(x: array[int32], y: array[int32]), tid 1
      local l: array[int32] of [2]
      clear l
      %0: int32 = tid 0
      %1: int32 = mul %0, 3
      %2: int32 = neg %1
      %3: int32 = sub 7, %2
      %4: int32 = mul %0, %0
      %5: int32 = load x[0]
      %6: int32 = load l[0]
      %7: int32 = atomic_add x[1], %5
      store y[0], %3
      store y[1], %4
      store y[2], %5
      store y[3], %6
      store y[4], %7
"""


def test_arithmetic_and_memory():
    assert strides(ARITHMETIC) == [0, 3, None, 0, None, None]


def test_fields_of_records():
    text = """
        kernel k(x: array[float32], y: array[float32]), tid 1
          %0: float32 = load x[0]
          push tape 0, %0, %0 uniform [1]
          %1: float32 = top tape 0 field 0
          %2: float32 = top tape 0 field 1
          pop tape 0
          store y[0], %1
          store y[1], %2
    """
    assert strides(text) == [None, 0]
