"""Dependences on the order of threads: counters that are read, and loops that wait for another thread."""

import pytest
from textual_ir import read

from jwarp.analysis.thread_order import (
    awaited,
    counters,
    depends_on_order,
    keeps_order,
    locked,
    rounds_by_order,
    runs_in_order,
)

pytestmark = pytest.mark.quick


def kernel(body, head=""):
    return read(f"kernel k(c: array[int32], x: array[float32]), tid 1{head}\n%0: int32 = tid 0\n{body}")


SLOT = "%1: int32 = atomic_add c[0], 1\nstore x[%1], 1.0"


@pytest.mark.parametrize(
    ("body", "found", "keeps", "depends"),
    [
        (SLOT, {0}, True, True),
        ("%1: int32 = atomic_add c[0], 1", set(), True, False),  # nobody looks at it
        ("atomic_add c[0], 1\n%1: int32 = load c[1]\nstore x[%1], 1.0", {0}, False, True),
        ("%1: int32 = atomic_add c[%0], 1\nstore x[%1], 1.0", set(), True, True),  # the thread's own
        (f"for %2: int32 = 0 .. 3 step 1 {{\n{SLOT}\n}}", {0}, False, True),
        ("atomic_exch c[0], %0", set(), True, True),
        ("atomic_max c[0], %0", set(), True, False),
    ],
)
def test_counters(body, found, keeps, depends):
    made = kernel(body)
    assert counters(made) == found
    assert keeps_order(made) is keeps and depends_on_order(made) is depends
    assert counters(made, owned=frozenset({0})) == frozenset()


def test_sums_of_floats_round_by_order():
    assert rounds_by_order(kernel("atomic_add x[0], 1.0"))
    assert not rounds_by_order(kernel("atomic_max x[0], 1.0\natomic_add c[0], 1"))


WAIT = "while {{\n%1: int32 = {}\n%2: bool = ne %1, 0\nyield %2\n}} do {{\n}}\n{}"


def test_a_loop_that_looks_at_an_element_waits_for_another_thread():
    waiting = kernel(WAIT.format("load c[0]", "store c[0], 0"))
    assert awaited(waiting).name == "load" and runs_in_order(waiting)
    for body in (
        WAIT.format("load c[0]", ""),  # nobody else changes it
        WAIT.format("load c[%0]", "store c[%0], 0"),  # nobody else has this element
    ):
        assert awaited(kernel(body)) is None and not runs_in_order(kernel(body))
    assert runs_in_order(kernel("store x[0], 1.0", ", in order"))


def test_a_lock_is_taken_and_given_back():
    body = """
        while carry (%1: bool = True) {
          yield %1
        } do {
          %2: int32 = atomic_cas c[0], 0, 1
          %3: bool = eq %2, 0
          if %3 {
            store x[0], 1.0
            %4: int32 = atomic_exch c[0], 0
            yield False
          } else {
            yield True
          } -> %5: bool
          yield %5
        } -> %6: bool
    """
    assert locked(kernel(body)).name == "atomic_cas"
    assert locked(kernel(SLOT)) is None
