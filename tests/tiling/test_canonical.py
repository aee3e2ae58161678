"""Operations on tiles written as simpler ones, with the same results."""

import numpy as np
import pytest
from textual_ir import agree, expect, random_arguments, read

from jwarp.backend.interpreter.machine import run
from jwarp.ir.row_groups import Stage
from jwarp.tiling.canonical import simpler

pytestmark = pytest.mark.quick

HEAD = "kernel k(x: array[float32], n: array[int32], y: array2d[float32]), tid 1, block_dim 4"


def test_the_place_of_an_extremum_is_a_minimum_of_places():
    before = read(f"""
        {HEAD}
          %0: int32[5] = iota shape [5] axis 0
          %1: float32[5] = load x[%0]
          %2: int32 = arg max %1
          store n[0], %2
    """)
    expect(
        simpler(before),
        """
            kernel k(x: array[float32], n: array[int32], y: array2d[float32]), tid 1, block_dim 4
              %0: int32[5] = iota shape [5] axis 0
              %1: float32[5] = load x[%0]
              %2: float32 = reduce %1 max axes [0]
              %3: int32[5] = iota shape [5] axis 0
              %4: int32[5] = view %3 shape [5] offset 0 strides [1]
              %5: float32[5] = fill %2 [5]
              %6: bool[5] = eq %1, %5
              %7: bool[5] = ne %5, %5
              %8: bool[5] = ne %1, %1
              %9: bool[5] = and %7, %8
              %10: bool[5] = or %6, %9
              %11: int32[5] = select %10, %4, 2147483647:int32[5]
              %12: int32 = reduce %11 min axes [0]
              store n[0], %12
        """,
    )
    agree(before, simpler(before))


def test_a_system_with_a_transpose_is_one_with_the_matrix():
    before = read(f"""
        {HEAD}
          %0: int32[3x3] = iota shape [3, 3] axis 0
          %1: int32[3x3] = iota shape [3, 3] axis 1
          %2: float32[3x3] = load y[%0, %1]
          %3: float32[3x3] = view %2 shape [3, 3] offset 0 strides [1, 3]
          %4: int32[3] = iota shape [3] axis 0
          %5: float32[3] = load x[%4]
          %6: float32[3] = tri_solve %3, %5 lower
          store x[%4], %6
    """)
    expect(
        simpler(before),
        """
            kernel k(x: array[float32], n: array[int32], y: array2d[float32]), tid 1, block_dim 4
              %0: int32[3x3] = iota shape [3, 3] axis 0
              %1: int32[3x3] = iota shape [3, 3] axis 1
              %2: float32[3x3] = load y[%0, %1]
              %3: float32[3x3] = view %2 shape [3, 3] offset 0 strides [1, 3]
              %4: int32[3] = iota shape [3] axis 0
              %5: float32[3] = load x[%4]
              %6: float32[3] = tri_solve %2, %5 transposed
              store x[%4], %6
        """,
    )
    args = random_arguments(before, (7, 3))
    for x, y in zip(run(simpler(before), (1,), args), run(before, (1,), args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_a_few_elements_are_added_to_a_tile_itself():
    before = read(f"""
        {HEAD}
          %0: int32[4] = iota shape [4] axis 0
          %1: float32[4] = load x[%0]
          %2: float32[2] = view %1 shape [2] offset 1 strides [2]
          %3: float32[4] = spread %2 shape [4] offset 0 strides [1]
          %4: float32[4] = add %1, %3
          %5: float32 = load x[5]
          %6: float32[4] = put_add 0.0:float32[4], 1, %5
          %7: float32[4] = add %4, %6
          store x[%0], %7
    """)
    expect(
        simpler(before),
        """
            kernel k(x: array[float32], n: array[int32], y: array2d[float32]), tid 1, block_dim 4
              %0: int32[4] = iota shape [4] axis 0
              %1: float32[4] = load x[%0]
              %2: float32[2] = view %1 shape [2] offset 1 strides [2]
              %3: float32[4] = spread_add %1, %2 shape [4] offset 0 strides [1]
              %4: float32 = load x[5]
              %5: float32[4] = put_add %3, 1, %4
              store x[%0], %5
        """,
        Stage.TILING,
    )
