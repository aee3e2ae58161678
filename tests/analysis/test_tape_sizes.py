"""How many records an adjoint keeps, where no data decides that."""

import pytest
from textual_ir import read

from jwarp.analysis.tape_sizes import MAX_BYTES, fits_thread, logged_arrays, record_counts, tape_fields

pytestmark = pytest.mark.quick

TAPED = """
    kernel k(x: array[float64], n: array[int32]), tid 1
      %0: int32 = tid 0
      %1: int32 = load n[%0]
      push tape 0, %0, 1.0:float64
      for %2: int32 = 0 .. {count} step 2 {{
        for %3: int32 = 3 .. 0 step -1 {{
          push tape 1, %3
          save x[%3]
        }}
      }}
      if True {{
        save x[0]
      }} else {{
        save x[1]
      }}
"""


def test_records_are_counted_by_loops_and_both_sides_of_branches():
    kernel = read(TAPED.format(count=5))
    assert record_counts(kernel.body) == {("push", 0): 1, ("push", 1): 9, ("save", 0): 11}
    fields = tape_fields(kernel)
    assert [[t.name for t in fields[tape]] for tape in (0, 1)] == [["int32", "float64"], ["int32"]]
    assert logged_arrays(kernel) == (0,)
    assert fits_thread(kernel)


def test_loops_over_data_have_no_known_number():
    kernel = read(TAPED.format(count="%1"))
    assert record_counts(kernel.body) is None and not fits_thread(kernel)
    without = read("kernel k(n: array[int32]), tid 1\n%0: int32 = load n[0]\nfor %1: int32 = 0 .. %0 step 1 {\n}")
    assert record_counts(without.body) == {} and fits_thread(without)


def test_the_place_of_a_thread_is_bounded():
    each = 3 * (4 + 8 + 8)  # three records with an int32, and a place with a float64
    most = (MAX_BYTES - 12 - 2 * 16) // each * 2
    assert fits_thread(read(TAPED.format(count=most))) and not fits_thread(read(TAPED.format(count=most + 2)))
