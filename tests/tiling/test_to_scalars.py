"""Kernels with tiles become loops over memory of the block: IR in, IR out, for vectors and for the lanes of a GPU."""

import numpy as np
import pytest
from textual_ir import assert_same_bits, expect, random_arguments, read

from jwarp.backend.interpreter.machine import run
from jwarp.errors import KernelTypeError
from jwarp.ir.row_groups import Stage
from jwarp.tiling.to_scalars import lower_tiles, shared_bytes

pytestmark = pytest.mark.quick

SUM = """
    kernel k(x: array[float32], y: array[float32]), tid 1, block_dim 4
      %0: int32 = tid 0
      %1: int32[8] = iota shape [8] axis 0
      %2: float32[8] = load x[%1]
      %3: float32[8] = mul %2, %2
      %4: float32 = reduce %3 add axes [0]
      store y[%0], %4
"""
TRANSPOSE = """
    kernel k(x: array2d[float32], y: array2d[float32]), tid 1, block_dim 4
      %0: int32[2x3] = iota shape [2, 3] axis 0
      %1: int32[2x3] = iota shape [2, 3] axis 1
      %2: float32[2x3] = load x[%0, %1]
      %3: float32[3x2] = view %2 shape [3, 2] offset 0 strides [1, 3]
      %4: int32[3x2] = iota shape [3, 2] axis 0
      %5: int32[3x2] = iota shape [3, 2] axis 1
      %6: float32[3x2] = add %3, 1.0:float32[3x2]
      store y[%4, %5], %6
"""
MATMUL = """
    kernel k(x: array2d[float32], y: array2d[float32]), tid 1, block_dim 4
      %0: int32[2x2] = iota shape [2, 2] axis 0
      %1: int32[2x2] = iota shape [2, 2] axis 1
      %2: float32[2x2] = load x[%0, %1]
      for %3: int32 = 0 .. 3 step 1 carry (%4: float32[2x2] = 0.0:float32[2x2]) {
        %5: float32[2x2] = matmul %2, %2, %4 a
        yield %5
      } -> %6: float32[2x2]
      store y[%0, %1], %6
"""


@pytest.mark.parametrize("text", [SUM, TRANSPOSE, MATMUL])
@pytest.mark.parametrize("flat", [False, True])
def test_results_stay(text, flat):
    kernel = read(text)
    lowered = lower_tiles(kernel, flat=flat)
    args = random_arguments(kernel, (9, 9))
    for x, y in zip(run(lowered, (2,), args), run(kernel, (2,), args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_elements_that_pass_from_one_operation_to_the_next_are_in_no_memory():
    expect(
        lower_tiles(read(SUM)),
        """
            kernel k(x: array[float32], y: array[float32]), tid 1, block_dim 4
              %0: int32 = tid 0
              lanes add %1: int32 = 0 .. 8 step 1 carry (%2: float32 = -0.0) {
                %3: float32 = load x[%1]
                %4: float32 = mul %3, %3
                %5: float32 = add %2, %4
                yield %5
              } -> %6: float32
              store y[%0], %6
        """,
        Stage.LOWERED,
    )


def test_a_view_is_the_tile_at_other_places():
    expect(
        lower_tiles(read(TRANSPOSE)),
        """
            kernel k(x: array2d[float32], y: array2d[float32]), tid 1, block_dim 4
              shared tile0: array[float32] of [6]
              for %0: int32 = 0 .. 2 step 1 {
                lanes %1: int32 = 0 .. 3 step 1 {
                  %2: float32 = load x[%0, %1]
                  %3: int32 = mul %0, 3
                  %4: int32 = add %3, %1
                  store tile0[%4], %2
                }
              }
              for %5: int32 = 0 .. 3 step 1 {
                lanes %6: int32 = 0 .. 2 step 1 {
                  %7: int32 = mul %6, 3
                  %8: int32 = add %5, %7
                  %9: float32 = load tile0[%8]
                  %10: float32 = add %9, 1.0
                  store y[%5, %6], %10
                }
              }
        """,
        Stage.LOWERED,
    )


def test_lanes_of_a_block_share_all_elements():
    expect(
        lower_tiles(read(TRANSPOSE), flat=True),
        """
            kernel k(x: array2d[float32], y: array2d[float32]), tid 1, block_dim 4
              shared tile0: array[float32] of [6]
              lanes %0: int32 = 0 .. 6 step 1 {
                %1: int32 = mod %0, 3
                %2: int32 = div %0, 3
                %3: float32 = load x[%2, %1]
                store tile0[%0], %3
              }
              lanes %4: int32 = 0 .. 6 step 1 {
                %5: int32 = mod %4, 2
                %6: int32 = div %4, 2
                %7: int32 = mul %5, 3
                %8: int32 = add %6, %7
                %9: float32 = load tile0[%8]
                %10: float32 = add %9, 1.0
                store y[%6, %5], %10
              }
        """,
        Stage.LOWERED,
    )


def test_a_product_is_added_up_in_its_memory():
    lowered = lower_tiles(read(MATMUL))
    expect(
        lowered,
        """
            kernel k(x: array2d[float32], y: array2d[float32]), tid 1, block_dim 4
              shared tile0: array[float32] of [4]
              shared tile1: array[float32] of [4]
              for %0: int32 = 0 .. 2 step 1 {
                lanes %1: int32 = 0 .. 2 step 1 {
                  %2: float32 = load x[%1, %0]
                  %3: int32 = mul %1, 2
                  %4: int32 = add %0, %3
                  store tile0[%4], %2
                }
              }
              lanes %5: int32 = 0 .. 4 step 1 {
                store tile1[%5], 0.0
              }
              for %6: int32 = 0 .. 3 step 1 {
                tile_matmul tile1, tile0, tile0 m 2 n 2 k 2 accumulate a
              }
              for %7: int32 = 0 .. 2 step 1 {
                lanes %8: int32 = 0 .. 2 step 1 {
                  %9: int32 = mul %7, 2
                  %10: int32 = add %9, %8
                  %11: float32 = load tile1[%10]
                  store y[%7, %8], %11
                }
              }
        """,
        Stage.LOWERED,
    )
    assert shared_bytes(lowered) == 2 * 4 * 4


def test_tiles_that_need_too_much_memory_are_refused():
    text = MATMUL.replace("2x2", "512x512").replace("[2, 2]", "[512, 512]")
    with pytest.raises(KernelTypeError, match="kernel `k`: its tiles need 2097152 bytes at once, of 1048576"):
        lower_tiles(read(text))


def test_a_kernel_without_tiles_stays():
    kernel = read("kernel k(x: array[float32]), tid 1, block_dim 4\n  %0: int32 = tid 0\n  store x[%0], 1.0")
    lowered = lower_tiles(kernel)
    expect(lowered, "kernel k(x: array[float32]), tid 1, block_dim 4\n  %0: int32 = tid 0\n  store x[%0], 1.0")
    args = random_arguments(kernel, (5,))
    assert_same_bits(run(lowered, (5,), args)[0], run(kernel, (5,), args)[0])
