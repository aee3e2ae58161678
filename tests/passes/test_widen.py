"""Derivatives of decompositions go by float64, and only where a kernel has a decomposition."""

import pytest
from textual_ir import agree, expect, read

from jwarp.ir.nodes import Const, Op, walk
from jwarp.passes.simplify import simplify
from jwarp.passes.widen import widened

pytestmark = pytest.mark.quick


def test_a_kernel_without_decompositions_stays():
    kernel = read("kernel k(x: array[float32]), tid 1\n  %0: float32 = load x[0]\n  store x[1], %0")
    assert widened(kernel, 1) is kernel and widened(kernel, 2) is kernel


# (Q exp(s) Q^T)[0, 0] of a decomposition of two values, and one part alone, which depends on how Q is chosen.
KERNEL = """
    kernel k(q: array[float32], w: array[float64], y: array[float32]), tid 1
      %0: float64 = load w[0]
      %1: float64 = separation %0 bits 32 signed
      %2: float64 = add %0, %1
      %3: float64 = load w[1]
      %4: float32 = cast %0
      %5: float32 = cast %3
      %6: float32 = load q[0]
      %7: float32 = load q[1]
      %8: float64 = cast %6
      %9: float64 = cast %7
      %10: float32 = symmetric %4, %2, %1 factor 1 number 0 width 2
      %11: float32 = symmetric %5, %3, %1 factor 1 number 1 width 2
      %12: float32 = symmetric %6, %8, %1 factor 0 number 0 width 2
      %13: float32 = symmetric %7, %9, %1 factor 0 number 1 width 2
      %14: float32 = exp %10
      %15: float32 = exp %11
      %16: float32 = mul %12, %12
      %17: float32 = mul %13, %13
      %18: float32 = mul %14, %16
      %19: float32 = mul %15, %17
      %20: float32 = add %18, %19
      store y[0], %20
      store y[1], %12
"""


def test_what_is_symmetric_follows_float64():
    """The stored value is what it was; its derivative is that of the same in float64. One part alone stays."""
    made = widened(read(KERNEL), 1)
    expect(
        made,
        """
            kernel k(q: array[float32], w: array[float64], y: array[float32]), tid 1
              %0: float64 = load w[0]
              %1: float64 = max %0, 1.0:float64
              %2: float64 = mul %1, 1e-09:float64
              %3: float64 = add %0, %2
              %4: float64 = load w[1]
              %5: float32 = cast %0
              %6: float32 = cast %4
              %7: float32 = load q[0]
              %8: float32 = load q[1]
              %9: float64 = cast %7
              %10: float64 = cast %8
              %11: float32 = exp %5
              %12: float64 = exp %3
              %13: float32 = exp %6
              %14: float64 = exp %4
              %15: float32 = mul %7, %7
              %16: float64 = mul %9, %9
              %17: float32 = mul %8, %8
              %18: float64 = mul %10, %10
              %19: float32 = mul %11, %15
              %20: float64 = mul %12, %16
              %21: float32 = mul %13, %17
              %22: float64 = mul %14, %18
              %23: float32 = add %19, %21
              %24: float64 = add %20, %22
              %25: float32 = cast %24
              %26: float32 = follow %23, %25
              store y[0], %26
              store y[1], %7
        """,
    )
    agree(simplify(read(KERNEL)), made)


def test_values_are_further_apart_for_second_derivatives():
    def distances(order):
        made = widened(read(KERNEL), order)
        return [
            x.value
            for n in walk(made.body)
            if isinstance(n, Op) and n.name == "mul"
            for x in n.args
            if isinstance(x, Const)
        ]

    assert distances(1) == [1e-9] and distances(2) == [7e-6]
