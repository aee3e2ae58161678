"""Operands of operations on whole tiles that are equal in every block are found before, as a table."""

import numpy as np
import pytest
from textual_ir import assert_same_bits, random_arguments, read

from jwarp.backend.interpreter.machine import run
from jwarp.tiling.tables import with_tables
from jwarp.tiling.to_scalars import lower_tiles

pytestmark = pytest.mark.quick

PRODUCT = """
    kernel k(x: array2d[float32], y: array2d[float32]), tid 1, block_dim 4
      %0: int32[2x2] = iota shape [2, 2] axis 0
      %1: int32[2x2] = iota shape [2, 2] axis 1
      %2: float32[2x2] = load x[%0, %1]
      %3: int32[2x2] = mul %0, %1
      %4: float32[2x2] = cast %3
      %5: float32[2x2] = cos %4
      %6: float32[2x2] = matmul %2, %5, 0.0:float32[2x2]
      store y[%0, %1], %6
"""


def test_the_table_of_a_product():
    kernel, tables = with_tables(read(PRODUCT))
    assert [kind.type.name for kind in tables] == ["float32[2x2]"]
    np.testing.assert_array_equal(*tables.values(), np.cos(np.float32([[0, 0], [0, 1]])))
    assert "cos" not in str(kernel.body)


def test_a_table_is_read_where_it_was_computed():
    kernel = read(PRODUCT)
    lowered = lower_tiles(kernel, tables=True)
    (table,) = (local for local in lowered.locals if local.values is not None)
    assert table.values[:3] == (1.0, 1.0, 1.0)
    args = random_arguments(kernel, (4, 4))
    for x, y in zip(run(lowered, (1,), args), run(kernel, (1,), args), strict=True):
        assert_same_bits(x, y)


def test_without_whole_operations_there_are_no_tables():
    kernel = read("""
        kernel k(x: array[int32]), tid 1, block_dim 4
          %0: int32[4] = iota shape [4] axis 0
          %1: int32[4] = mul %0, %0
          store x[%0], %1
    """)
    made, tables = with_tables(kernel)
    assert made is kernel and not tables
