"""The loops that each lane runs by itself, as a loop with lanes is inside: the outermost ones that change nothing."""

import pytest
from textual_ir import expect, read

from jwarp.analysis.lane_serialised import has_lanes, in_turn, lane_serialised_loops, live_ins
from jwarp.ir.nodes import For, Op, walk

pytestmark = pytest.mark.quick

SEARCH = """
    kernel k(x: array[float32], n: array[int32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %1: int32 = load n[%0]
      for %2: int32 = 0 .. %1 step 1 carry (%3: float32 = 0.0) {
        lanes add %4: int32 = 0 .. 8 step 1 carry (%5: float32 = %3) {
          %6: float32 = load x[%4]
          %7: float32 = add %5, %6
          yield %7
        } -> %8: float32
        yield %8
      } -> %9: float32
      store y[%0], %9
"""


def loops(kernel):
    return [n for n in walk(kernel.body) if isinstance(n, For)]


def with_inside(line):
    """The search with a line in its inner loop."""
    return SEARCH.replace("yield %7", f"{line}\nyield %7")


def test_the_outermost_loop_without_effects_is_serialised():
    kernel = read(SEARCH)
    outer, inner = loops(kernel)
    assert has_lanes(kernel) and lane_serialised_loops(kernel) == {outer}
    assert [v.type.name for v in live_ins(outer)] == ["int32"]  # the number of iterations alone
    assert set(live_ins(inner)) == {outer.params[0]}


@pytest.mark.parametrize("line", ["store y[%0], %6", "%10: int32 = tid 0", "%10: float32 = atomic_add y[0], %6"])
def test_loops_that_change_memory_or_ask_for_the_thread_are_not(line):
    assert not lane_serialised_loops(read(with_inside(line)))


def test_where_the_outer_loop_has_an_effect_the_inner_one_is():
    kernel = read(SEARCH.replace("yield %8", "store y[%0], %8\nyield %8"))
    assert lane_serialised_loops(kernel) == {loops(kernel)[1]}


def test_what_a_local_array_holds_is_not_for_all_lanes():
    text = with_inside("%10: float32 = load l[0]").replace(
        "tid 1\n", "tid 1\n  local l: array[float32] of [4]\n  clear l\n"
    )
    assert not lane_serialised_loops(read(text))


def test_of_nested_loops_with_lanes_the_innermost_is():
    body = "lanes add %20: int32 = 0 .. 2 step 1 carry (%21: float32 = 0.0) {\nyield %21\n} -> %22: float32"
    kernel = read(with_inside(body))
    assert lane_serialised_loops(kernel) == {loops(kernel)[2]}


def test_iterations_in_turn():
    kernel = read(SEARCH)
    expect(in_turn(kernel), SEARCH.replace("lanes add", "for"))
    assert in_turn(kernel, lane_serialised_loops(kernel)) is not None
    assert has_lanes(in_turn(kernel, lane_serialised_loops(kernel)))
    plain = in_turn(kernel)
    assert in_turn(plain) is plain and not has_lanes(plain) and not lane_serialised_loops(plain)
    assert any(isinstance(n, Op) for n in walk(plain.body))
