"""Which arrays several threads may store to, and how a derivative finds out whose value stayed."""

import pytest
from textual_ir import read

from jwarp.analysis.write_conflicts import Slot, WriteConflicts, ambiguity, conflicting_stores
from jwarp.ir.nodes import Const
from jwarp.types import int32

pytestmark = pytest.mark.quick

HEAD = """
    kernel k(x: array[float32], n: array[int32], c: array[int32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %1: int32 = load n[%0]
      %2: float32 = load x[%0]
"""
Y = 3


def conflicts(body, **facts):
    return conflicting_stores(read(HEAD + body), **facts)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("store y[%0], %2", WriteConflicts()),
        ("store y[%1], %2", WriteConflicts(decided_by_final=frozenset({Y}))),
        ("%3: float32 = atomic_exch y[%1], %2", WriteConflicts(decided_by_final=frozenset({Y}))),
        ("%3: float32 = atomic_exch y[%1], %2\nstore x[%0], %3", WriteConflicts()),
        ("store y[%1], %2\n%3: float32 = load y[0]\nstore x[%0], %3", WriteConflicts(ambiguous=frozenset({Y}))),
        ("store y[%1], %2\natomic_add y[0], %2", WriteConflicts(ambiguous=frozenset({Y}))),
        ("atomic_add y[%1], %2", WriteConflicts()),
        ("store c[%1], 1", WriteConflicts()),  # of integers, which have no derivative
    ],
)
def test_stores(body, found):
    assert conflicts(body) == found


def test_threads_with_the_same_coordinates_conflict_everywhere():
    assert conflicts("store y[%0], %2", repeated=True).arrays == {Y}
    assert not conflicts("store y[%1], %2", alone=True)


def test_along_an_axis_with_one_thread_a_constant_is_its_own():
    assert conflicts("store y[0], %2").arrays == {Y}
    assert not conflicts("store y[0], %2", single=(0,))


LOOPED = """
      for %3: int32 = 0 .. %1 step 1 {
        %4: float32 = load y[%3]
        store y[%3], %4
      }
"""


def test_in_loops_threads_may_store_the_same_value():
    assert conflicts(LOOPED) == WriteConflicts(same_value=frozenset({Y}))
    assert conflicts(LOOPED + "store y[%1], %2").ambiguous == {Y}


COUNTED = "%3: int32 = atomic_add c[0], {}\nstore y[%3], %2"


def test_what_a_counter_gave_is_a_slot():
    found = conflicts(COUNTED.format(1))
    assert not found and found.slots == {Y: Slot(0, 2, (Const(int32, 0),))}


@pytest.mark.parametrize("body", [
    COUNTED.format(0),
    COUNTED.format(1) + "\nstore c[0], 0",
    COUNTED.format(1) + "\nstore y[%1], %2",
    COUNTED.format(1) + "\natomic_add y[%1], %2",
    COUNTED.format(1).replace("store", "%5: int8 = cast %3\n%6: int32 = cast %5\nstore").replace("y[%3]", "y[%6]"),
])  # fmt: skip
def test_what_another_counter_may_give_again_is_none(body):
    found = conflicts(body)
    assert found.arrays == {Y} and not found.slots


def test_the_reason_says_what_else_happens_to_the_array():
    assert "reads or adds to" in ambiguity(read(HEAD + "store y[%1], %2\natomic_add y[0], %2"), Y)
    assert "reads or adds to" not in ambiguity(read(HEAD + "store y[%1], %2"), Y)
