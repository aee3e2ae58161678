"""The kernel once more, for its reverse: what is run again, what is kept, and what is left out."""

import pytest
from textual_ir import read

from jwarp.analysis.activity import activity
from jwarp.autodiff.forward_sweep import ForwardSweep
from jwarp.autodiff.tile_rules import carries
from jwarp.ir.attributes import Origin, RecordFields
from jwarp.ir.nodes import Block, For, If, Op, While, walk
from jwarp.ir.row_groups import Stage

pytestmark = pytest.mark.quick

HEAD = """
    kernel k(x: array[float32], n: array[int32], c: array[int32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %1: float32 = load x[%0]
      %2: int32 = load n[%0]
"""
WRITTEN, COUNTER = frozenset({3}), frozenset({2})


def swept(body, *, counters=frozenset(), is_taped=True, taped=True, stage=Stage.DERIVED):
    """The sweep of a kernel, and the nodes that it makes after those of the head."""
    kernel = read(HEAD + body, stage)
    active = activity(kernel, {0, 3}, {3}, carries)
    sweep = ForwardSweep(kernel, active, WRITTEN, counters, is_taped=is_taped)
    sweep.run(kernel.body, taped)
    return sweep, list(walk(Block(tuple(sweep.builder.nodes))))[3:]


def ops(nodes):
    return [(n.name, n.attr) for n in nodes if isinstance(n, Op)]


PRIMAL, WORK = Origin("primal", 0), Origin("work", 3)


def test_arrays_are_named_by_origins_and_stores_that_nothing_reads_are_left_out():
    sweep, nodes = swept('%3: float32 = sin %1\nstore y[%0], %3\nprint "done"\ncheck True, "all right"')
    assert ops(nodes) == [("sin", None)]
    assert sweep.origin(0) == PRIMAL and sweep.origin(3) == WORK


def test_what_is_overwritten_and_read_is_saved_before():
    _, nodes = swept("%3: float32 = load y[%0]\nstore y[%0], %1\n%4: float32 = add %3, %1\nstore y[0], %4")
    assert ops(nodes) == [
        ("load", WORK),
        ("save", WORK),
        ("store", WORK),
        ("add", None),
        ("save", WORK),
        ("store", WORK),
    ]


LOOP = """
      for %3: int32 = 0 .. %2 step 1 carry (%4: float32 = %1, %5: int32 = 0) {
        %6: float32 = sin %4
        %7: int32 = add %5, 2
        yield %6, %7
      } -> %8: float32, %9: int32
      store y[%0], %8
"""


def test_a_loop_records_the_values_that_iterations_begin_with():
    sweep, nodes = swept(LOOP)
    loop = next(n for n in nodes if isinstance(n, For))
    push = loop.body.nodes[0]
    assert push.name == "push" and push.args == loop.params and push.attr == RecordFields(0, (False, False))
    assert list(sweep.tape_of.values()) == [0]
    assert not any(n.row.adds_to_tape for n in swept(LOOP, is_taped=False)[1] if isinstance(n, Op))
    assert not any(n.row.adds_to_tape for n in swept(LOOP, taped=False)[1] if isinstance(n, Op))


def test_a_loop_without_derivatives_records_nothing():
    integers = LOOP.replace("store y[%0], %8", "store y[%0], %1")
    assert not any(n.row.adds_to_tape for n in swept(integers)[1] if isinstance(n, Op))


def test_a_loop_that_overwrites_what_is_read_marks_its_log():
    body = LOOP.replace("yield %6, %7", "%10: float32 = load y[%0]\nstore y[%0], %10\nyield %6, %7")
    _, nodes = swept(body)
    loop = next(n for n in nodes if isinstance(n, For))
    mark, push = loop.body.nodes[:2]
    assert (mark.name, mark.attr) == ("mark", WORK)
    assert push.args == (*loop.params, mark.result) and push.attr.uniform == (False, False, True)


def test_a_while_loop_counts_its_iterations():
    sweep, nodes = swept("""
      while carry (%3: float32 = %1) {
        %4: bool = lt %3, 9.0
        yield %4
      } do {
        %5: float32 = mul %3, %3
        yield %5
      } -> %6: float32
      store y[%0], %6
    """)
    loop = next(n for n in nodes if isinstance(n, While))
    assert len(loop.params) == len(loop.results) == 2
    (stands,) = sweep.iterations_of.values()
    assert sweep.known[stands] is loop.results[1]


def test_a_branch_gives_what_it_computes_inside():
    body = """
      %3: bool = gt %1, 0.0
      if %3 {
        %4: float32 = sin %1
        %5: float32 = exp %4
        yield %5
      } else {
        yield %1
      } -> %6: float32
      store y[%0], %6
    """
    sweep, nodes = swept(body)
    branch = next(n for n in nodes if isinstance(n, If))
    sine, exponential = branch.then.nodes
    assert [*branch.then.yields] == [exponential.result, sine.result, exponential.result]
    assert [y.value for y in branch.orelse.yields[1:]] == [0.0, 0.0]
    original = next(n for n in sweep.kernel.body.nodes if isinstance(n, If)).then.nodes[0].result
    assert sweep.known[original] is branch.results[1]  # which the reverse reads
    plain = next(n for n in swept(body, taped=False)[1] if isinstance(n, If))
    assert len(plain.results) == 1


COUNTED = "%3: int32 = atomic_add c[0], 1\nstore y[%3], %1"


def test_what_threads_count_is_found_once_and_noted_in_loops():
    counter = Origin("primal", 2)
    assert ops(swept(COUNTED, counters=COUNTER)[1])[0] == ("atomic_add", counter)
    _, nodes = swept(f"for %9: int32 = 0 .. %2 step 1 {{\n{COUNTED}\n}}", counters=COUNTER)
    assert ("note", counter) in ops(nodes) and ("bookmark", counter) in ops(nodes)
    kernel = read(HEAD + COUNTED)
    again = ForwardSweep(kernel, activity(kernel, {0}, {3}, carries), WRITTEN, COUNTER, is_taped=True)
    again.replays = True
    again.run(kernel.body, True)
    assert ("noted", counter) in ops(again.builder.nodes)
    assert not any(n.row.is_atomic for n in again.builder.nodes if isinstance(n, Op))
