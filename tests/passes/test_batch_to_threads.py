"""A batch in place of the last launch axis: the threads of one launch do what launches for each element do."""

import numpy as np
import pytest
from textual_ir import assert_same_bits, expect, random_arguments, read

from jwarp.backend.interpreter.machine import run
from jwarp.passes.batch_to_threads import batch_to_threads, becomes_threads

pytestmark = pytest.mark.quick

SCALED = """
    kernel scaled(k: float32, x: array[float32], s: array[int32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %1: float32 = param k
      %2: int32 = shape x axis 0
      for %3: int32 = 0 .. %2 step 1 {
        %4: float32 = load x[%3]
        %5: float32 = mul %4, %1
        %6: int32 = load s[%0]
        %7: int32 = add %3, %6
        atomic_add y[%7], %5
      }
"""


def test_parameters_of_the_batch_get_its_axis():
    expect(
        batch_to_threads(read(SCALED), {0, 1, 3}),
        """
            kernel scaled(k: array[float32], x: array2d[float32], s: array[int32], y: array2d[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load k[%0]
              %2: int32 = shape x axis 1
              for %3: int32 = 0 .. %2 step 1 {
                %4: int32 = tid 0
                %5: float32 = load x[%4, %3]
                %6: float32 = mul %5, %1
                %7: int32 = load s[0]
                %8: int32 = add %3, %7
                %9: int32 = tid 0
                atomic_add y[%9, %8], %6
              }
        """,
    )


def test_a_launch_for_the_batch_does_what_one_for_each_element_does():
    kernel, batched = read(SCALED), {0, 1, 3}
    made, count = batch_to_threads(kernel, batched), 4
    args = [random_arguments(kernel, (6,), seed) for seed in range(count)]
    stacked = [np.stack([a[p] for a in args]) if p in batched else args[0][p] for p in range(4)]
    found = run(made, (count,), stacked)
    for b in range(count):
        alone = [args[b][p] if p in batched else args[0][p] for p in range(4)]
        expected = run(kernel, (1,), alone)
        assert_same_bits(found[-1][b], expected[-1])
        assert not np.array_equal(expected[-1], alone[-1])


@pytest.mark.parametrize(
    "body",
    ['check True, "fine"', 'print "here"', "%0: int64 = thread"],
)
def test_kernels_that_tell_threads_apart_stay(body):
    assert not becomes_threads(read(f"kernel k(x: array[float32]), tid 1\n  {body}"), {0})


def test_kernels_with_an_order_and_arrays_of_four_axes_stay():
    assert not becomes_threads(read("kernel k(x: array[float32]), tid 1, in order\n  store x[0], 1.0"), {0})
    full = read("kernel k(x: array4d[float32]), tid 1\n  store x[0, 0, 0, 0], 1.0")
    assert not becomes_threads(full, {0}) and becomes_threads(full, ())
