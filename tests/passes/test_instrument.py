"""Checks that debug mode asks for: they fail for the right thread, and change nothing where they hold."""

import numpy as np
import pytest
from textual_ir import agree, expect, read

from jwarp.backend.interpreter.machine import run
from jwarp.passes.instrument import instrument, shadowed, without_checks

pytestmark = pytest.mark.quick

COPY = """
    kernel k(x: array[float32], n: array[int32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %1: int32 = load n[%0]
      %2: float32 = load x[%1]
      %3: float32 = sqrt %2
      store y[%0], %3
      %4: float32 = load x[%1]
      store y[%0], %4
"""


def test_bounds_of_every_access_are_checked_once():
    before = read(COPY)
    made = instrument(before, bounds=True, values=False)
    assert made.params == before.params
    expect(
        made,
        """
            kernel k(x: array[float32], n: array[int32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: bool = inside n[%0]
              check %1, "<unknown>:0: index outside of `n`"
              %2: int32 = load n[%0]
              %3: bool = inside x[%2]
              check %3, "<unknown>:0: index outside of `x`"
              %4: float32 = load x[%2]
              %5: float32 = sqrt %4
              %6: bool = inside y[%0]
              check %6, "<unknown>:0: index outside of `y`"
              store y[%0], %5
              %7: float32 = load x[%2]
              store y[%0], %7
        """,
    )
    agree(before, made)
    x = [np.arange(4, dtype=np.float32), np.array([0, 4, 1], np.int32), np.zeros(3, np.float32)]
    with pytest.raises(RuntimeError, match="index outside of `x`"):
        run(made, (3,), x)


def test_what_is_checked_in_a_branch_is_checked_again_after_it():
    made = instrument(
        read("""
            kernel k(x: array[float32], n: array[int32]), tid 1
              %0: int32 = tid 0
              %1: int32 = load n[%0]
              %2: bool = lt %1, 4
              if %2 {
                store x[%1], 1.0
              }
              atomic_add x[%1], 1.0
        """),
        bounds=True,
        values=False,
    )
    expect(
        made,
        """
            kernel k(x: array[float32], n: array[int32]), tid 1
              %0: int32 = tid 0
              %1: bool = inside n[%0]
              check %1, "<unknown>:0: index outside of `n`"
              %2: int32 = load n[%0]
              %3: bool = lt %2, 4
              if %3 {
                %4: bool = inside x[%2]
                check %4, "<unknown>:0: index outside of `x`"
                store x[%2], 1.0
              }
              %5: bool = inside x[%2]
              check %5, "<unknown>:0: index outside of `x`"
              atomic_add x[%2], 1.0
        """,
    )


def test_components_are_checked_together_and_tiles_not_at_all():
    made = instrument(
        read("""
            kernel k(x: array[vec3], t: array[float32]), tid 1, block_dim 4
              %0: int32 = tid 0
              store x[%0, 0], 1.0
              store x[%0, 2], 1.0
              %1: float32[4] = load t[0:int32[4]]
              store t[1:int32[4]], %1
        """),
        bounds=True,
        values=False,
    )
    expect(
        made,
        """
            kernel k(x: array[vec3], t: array[float32]), tid 1, block_dim 4
              %0: int32 = tid 0
              %1: bool = inside x[%0, 0]
              check %1, "<unknown>:0: index outside of `x`"
              store x[%0, 0], 1.0
              store x[%0, 2], 1.0
              %2: float32[4] = load t[0:int32[4]]
              store t[1:int32[4]], %2
        """,
    )


def test_a_nan_that_a_select_passes_over_is_none():
    made = instrument(
        read("""
            kernel k(x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: bool = gt %1, 0.0
              %3: float32 = sqrt %1
              %4: float32 = select %2, %3, 0.0
              atomic_add y[0], %4
        """),
        bounds=False,
        values=True,
    )
    expect(
        made,
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: bool = gt %1, 0.0
              %3: float32 = sqrt %1
              %4: bool = eq %3, %3
              %5: bool = ne %1, %1
              %6: bool = or %4, %5
              %7: float32 = select %2, %3, 0.0
              %8: bool = not %2
              %9: bool = select %8, True, %6
              check %9, "<unknown>:0: `sqrt` gives NaN"
              atomic_add y[0], %7
        """,
    )
    x, y = np.array([-1.0, 4.0], np.float32), np.zeros(1, np.float32)
    np.testing.assert_array_equal(run(made, (2,), [x, y])[1], [2.0])
    with pytest.raises(RuntimeError, match="`sqrt` gives NaN"):
        run(
            instrument(read(COPY), bounds=False, values=True),
            (2,),
            [x, np.arange(2, dtype=np.int32), np.zeros(2, np.float32), np.zeros(2, np.uint32)],
        )


def test_threads_leave_their_numbers_where_they_may_race():
    before = read("""
        kernel k(x: array[int32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: int32 = load x[%0]
          store y[%1], 1.0
    """)
    made = instrument(before, bounds=False, values=True)
    assert shadowed(before) == shadowed(made) == (1,)
    expect(
        made,
        """
            kernel k(x: array[int32], y: array[float32], "store of y": array[uint32]), tid 1
              %0: int64 = thread
              %1: int64 = add %0, 1:int64
              %2: uint32 = cast %1
              %3: int32 = tid 0
              %4: int32 = load x[%3]
              %5: uint32 = atomic_cas "store of y"[%4], 0:uint32, %2
              %6: bool = eq %5, 0:uint32
              %7: bool = eq %5, %2
              %8: bool = or %6, %7
              check %8, "<unknown>:0: race: this thread stores to an element of `y` that another thread stores to"
              store y[%4], 1.0
        """,
    )
    y, marks = np.zeros(3, np.float32), np.zeros(3, np.uint32)
    apart = run(made, (3,), [np.array([2, 0, 1], np.int32), y, marks])
    np.testing.assert_array_equal(apart[1], np.ones(3))
    np.testing.assert_array_equal(apart[2], [2, 3, 1])
    with pytest.raises(RuntimeError, match="race: this thread stores to an element of `y` that another thread"):
        run(made, (3,), [np.array([2, 0, 2], np.int32), y, marks])


def test_without_checks():
    before = read(COPY)
    assert without_checks(before) is before
    made = without_checks(instrument(before, bounds=True, values=False))
    agree(before, made)
    assert "check" not in str(made.body)
