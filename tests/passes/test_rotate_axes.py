"""Launch dimensions in another order, or one of them in two: the same threads, counted otherwise."""

import numpy as np
import pytest
from textual_ir import assert_same_bits, expect, random_arguments, read

from jwarp.backend.interpreter.machine import run
from jwarp.passes.rotate_axes import rotated, rotates, split

pytestmark = pytest.mark.quick

KERNEL = """
    kernel k(x: array3d[float32], y: array3d[float32]), tid 3
      %0: int32 = tid 0
      %1: int32 = tid 1
      %2: int32 = tid 2
      %3: float32 = load x[%0, %1, %2]
      if True {
        %4: int32 = tid 0
        %5: float32 = cast %4
        %6: float32 = mul %3, %5
        store y[%0, %1, %2], %6
      }
"""


def results(kernel, dims):
    return run(kernel, dims, random_arguments(kernel, (4, 3, 5)))


def test_the_first_dimension_becomes_the_last_one():
    before = read(KERNEL)
    expect(
        rotated(before),
        """
            kernel k(x: array3d[float32], y: array3d[float32]), tid 3
              %0: int32 = tid 2
              %1: int32 = tid 0
              %2: int32 = tid 1
              %3: float32 = load x[%0, %1, %2]
              if True {
                %4: int32 = tid 2
                %5: float32 = cast %4
                %6: float32 = mul %3, %5
                store y[%0, %1, %2], %6
              }
        """,
    )
    expected = results(before, (4, 3, 5))
    assert_same_bits(results(rotated(before), (3, 5, 4))[1], expected[1])
    assert not np.array_equal(expected[1], random_arguments(before, (4, 3, 5))[1])


def test_the_first_dimension_is_split():
    before = read(KERNEL)
    expect(
        split(before, 2),
        """
            kernel k(x: array3d[float32], y: array3d[float32]), tid 4
              %0: int32 = tid 0
              %1: int32 = mul %0, 2
              %2: int32 = tid 3
              %3: int32 = add %1, %2
              %4: int32 = tid 1
              %5: int32 = tid 2
              %6: float32 = load x[%3, %4, %5]
              if True {
                %7: int32 = tid 0
                %8: int32 = mul %7, 2
                %9: int32 = tid 3
                %10: int32 = add %8, %9
                %11: float32 = cast %10
                %12: float32 = mul %6, %11
                store y[%3, %4, %5], %12
              }
        """,
    )
    assert_same_bits(results(split(before, 2), (2, 3, 5, 2))[1], results(before, (4, 3, 5))[1])


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("kernel k(x: array[int32]), tid 2\n  store x[0], 1", True),
        ("kernel k(x: array[int32]), tid 2\n  atomic_add x[0], 1", True),
        ("kernel k(x: array[int32]), tid 1\n  store x[0], 1", False),
        ("kernel k(x: array[int32]), tid 2, in order\n  store x[0], 1", False),
        ("kernel k(x: array[int32]), tid 2, block_dim 32\n  store x[0], 1", False),
        ('kernel k(x: array[int32]), tid 2\n  check True, "fine"', False),
        ('kernel k(x: array[int32]), tid 2\n  print "here"', False),
        ("kernel k(x: array[int32]), tid 2\n  %0: int64 = thread\n  %1: int32 = cast %0\n  store x[0], %1", False),
        ("kernel k(x: array[int32]), tid 2\n  %0: int32 = atomic_add x[0], 1\n  store x[%0], 1", False),
    ],
)
def test_only_where_nothing_shows_how_threads_are_counted(text, may):
    assert rotates(read(text)) is may
