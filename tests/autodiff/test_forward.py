"""Tangents of small kernels: IR in, IR out, against differences."""

import pytest
from derived_launches import check_derivatives
from textual_ir import expect, random_arguments, read

from jwarp.autodiff.forward import jvp
from jwarp.errors import NotDifferentiableError

pytestmark = pytest.mark.quick

PRODUCT = """
    kernel product(x: array[float64], k: float64, y: array[float64]), tid 1
      %0: int32 = tid 0
      %1: float64 = param k
      %2: float64 = load x[%0]
      %3: float64 = mul %1, %2
      %4: float64 = sin %3
      store y[%0], %4
"""
RECURRENCE = """
    kernel recurrence(x: array[float64], n: array[int32], y: array[float64]), tid 1
      %0: int32 = tid 0
      %1: float64 = load x[%0]
      %2: int32 = load n[%0]
      for %3: int32 = 0 .. %2 step 1 carry (%4: float64 = %1, %5: int32 = 1) {
        %6: float64 = mul %4, %4
        %7: float64 = load x[%3]
        %8: float64 = sub %6, %7
        %9: int32 = add %5, %3
        yield %8, %9
      } -> %10: float64, %11: int32
      %12: bool = gt %11, 3
      if %12 {
        yield %10
      } else {
        %13: float64 = mul %10, %1
        yield %13
      } -> %14: float64
      atomic_add y[0], %14
"""


def arguments(kernel):
    return random_arguments(kernel, (7,), seed=2)


@pytest.mark.parametrize(("text", "inputs"), [(PRODUCT, (0, 1, 2)), (RECURRENCE, (0, 2))])
def test_tangents_fit_differences(text, inputs):
    kernel = read(text)
    check_derivatives(kernel, (7,), arguments(kernel), inputs)


def test_a_product_has_the_tangents_of_both_factors():
    expect(
        jvp(read(PRODUCT), (0, 1)).kernel,
        """
            kernel product(x: array[float64], k: float64, dot_x: array[float64], dot_k: float64, dot_y: array[float64]), tid 1
              %0: int32 = tid 0
              %1: float64 = param k
              %2: float64 = param dot_k
              %3: float64 = load x[%0]
              %4: float64 = load dot_x[%0]
              %5: float64 = mul %1, %3
              %6: float64 = mul %2, %3
              %7: float64 = mul %4, %1
              %8: float64 = add %6, %7
              %9: float64 = cos %5
              %10: float64 = mul %8, %9
              store dot_y[%0], %10
        """,  # noqa: E501
    )


def test_only_what_a_given_parameter_changes_has_a_tangent():
    made = jvp(read(PRODUCT), (1,))
    assert [(o.kind, o.param) for o in made.origins] == [("primal", 0), ("primal", 1), ("tangent", 1), ("tangent", 2)]
    expect(
        made.kernel,
        """
            kernel product(x: array[float64], k: float64, dot_k: float64, dot_y: array[float64]), tid 1
              %0: int32 = tid 0
              %1: float64 = param k
              %2: float64 = param dot_k
              %3: float64 = load x[%0]
              %4: float64 = mul %1, %3
              %5: float64 = mul %2, %3
              %6: float64 = cos %4
              %7: float64 = mul %5, %6
              store dot_y[%0], %7
        """,
    )


def test_loops_carry_tangents_beside_values():
    expect(
        jvp(read(RECURRENCE), (0,)).kernel,
        """
            kernel recurrence(x: array[float64], n: array[int32], dot_x: array[float64], dot_y: array[float64]), tid 1
              %0: int32 = tid 0
              %1: float64 = load x[%0]
              %2: float64 = load dot_x[%0]
              %3: int32 = load n[%0]
              for %4: int32 = 0 .. %3 step 1 carry (%5: float64 = %1, %6: int32 = 1, %7: float64 = %2) {
                %8: float64 = mul %5, %5
                %9: float64 = mul %7, %5
                %10: float64 = add %9, %9
                %11: float64 = load x[%4]
                %12: float64 = load dot_x[%4]
                %13: float64 = sub %8, %11
                %14: float64 = neg %12
                %15: float64 = add %10, %14
                %16: int32 = add %6, %4
                yield %13, %16, %15
              } -> %17: float64, %18: int32, %19: float64
              %20: bool = gt %18, 3
              if %20 {
                yield %19
              } else {
                %21: float64 = mul %19, %1
                %22: float64 = mul %2, %17
                %23: float64 = add %21, %22
                yield %23
              } -> %24: float64
              atomic_add dot_y[0], %24
        """,
    )


def test_bits_of_floats_have_no_derivative():
    kernel = read("""
        kernel bits(x: array[float64], y: array[float64]), tid 1
          %0: int32 = tid 0
          %1: float64 = load x[%0]
          %2: int64 = bitcast %1
          %3: int64 = add %2, 1:int64
          %4: float64 = bitcast %3
          store y[%0], %4
    """)
    with pytest.raises(NotDifferentiableError, match="kernel `bits`: .* bits of a float"):
        jvp(kernel, (0,))
