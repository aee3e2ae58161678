"""Operations without an instruction become IR that computes them, in the same bits."""

import numpy as np
import pytest
from textual_ir import agree, expect, random_arguments, read

from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import Block, Op, Value
from jwarp.passes.expand import expand
from jwarp.types import float32

pytestmark = pytest.mark.quick


def nothing(node, is_paired):
    return None


def test_arithmetic_in_16_bits_goes_by_float32():
    before = read("""
        kernel k(x: array[float16], y: array[bfloat16], z: array[bool]), tid 1
          %0: int32 = tid 0
          %1: float16 = load x[%0]
          %2: float16 = mul %1, %1
          %3: float16 = select True, %2, %1
          store x[%0], %3
          %4: bfloat16 = load y[%0]
          %5: bool = lt %4, 1.0:bfloat16
          store z[%0], %5
    """)
    after = expand(before, nothing)
    expect(
        after,
        """
            kernel k(x: array[float16], y: array[bfloat16], z: array[bool]), tid 1
              %0: int32 = tid 0
              %1: float16 = load x[%0]
              %2: float32 = cast %1
              %3: float32 = cast %1
              %4: float32 = mul %2, %3
              %5: float16 = cast %4
              %6: float16 = select True, %5, %1
              store x[%0], %6
              %7: bfloat16 = load y[%0]
              %8: float32 = cast %7
              %9: bool = lt %8, 1.0
              store z[%0], %9
        """,
    )
    agree(before, after)


def test_atomic_operations_on_a_local_array_become_a_load_and_a_store():
    before = read("""
        kernel k(x: array[float32], y: array[float32]), tid 1
          local a: array[float32] of [2]
          clear a
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          atomic_add a[0], %1
          %2: float32 = atomic_max a[0], 0.5
          %3: float32 = atomic_exch a[1], %2
          %4: float32 = atomic_cas a[0], %1, 3.0
          %5: float32 = load a[0]
          %6: float32 = add %4, %5
          store y[%0], %6
    """)
    after = expand(before, nothing)
    expect(
        after,
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              local a: array[float32] of [2]
              clear a
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: float32 = load a[0]
              %3: float32 = add %2, %1
              store a[0], %3
              %4: float32 = load a[0]
              %5: float32 = max %4, 0.5
              store a[0], %5
              %6: float32 = load a[1]
              store a[1], %4
              %7: float32 = load a[0]
              %8: uint32 = bitcast %7
              %9: uint32 = bitcast %1
              %10: bool = eq %8, %9
              %11: float32 = select %10, 3.0, %7
              store a[0], %11
              %12: float32 = load a[0]
              %13: float32 = add %7, %12
              store y[%0], %13
        """,
    )
    agree(before, after)


def test_atomic_operations_on_parameters_and_shared_arrays_stay():
    before = read("""
        kernel k(x: array[float32]), tid 1
          %0: int32 = tid 0
          atomic_add x[0], 1.0
    """)
    expect(expand(before, nothing), "kernel k(x: array[float32]), tid 1\n  %0: int32 = tid 0\n  atomic_add x[0], 1.0")


def test_forms_are_copied_in_with_fresh_values_and_told_of_pairs():
    x, square = Value(float32), Value(float32)
    form = (x,), Block((Op("mul", (x, x), None, square),), (square,))
    asked = []

    def expansion(node, is_paired):
        asked.append((node.name, is_paired))
        return form if node.name in ("sin", "cos", "exp") else None

    before = read("""
        kernel k(x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: float32 = sin %1
          %3: float32 = cos %1
          %4: float32 = sub %2, %3
          if True {
            %5: float32 = sin %4
            %6: float32 = exp %5
            store y[%0], %6
          }
    """)
    after = expand(before, expansion)
    expect(
        after,
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: float32 = mul %1, %1
              %3: float32 = mul %1, %1
              %4: float32 = sub %2, %3
              if True {
                %5: float32 = mul %4, %4
                %6: float32 = mul %5, %5
                store y[%0], %6
              }
        """,
    )
    assert asked == [("sin", True), ("cos", True), ("sub", False), ("sin", False), ("exp", False)]
    args = random_arguments(before, (7,))
    np.testing.assert_array_equal(run(after, (7,), args)[1], np.zeros(7))
