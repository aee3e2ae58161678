"""Adjoints of small kernels: IR in, IR out, against differences and the tangents."""

import pytest
from derived_launches import check_derivatives
from textual_ir import expect, random_arguments, read

from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.reverse import vjp
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
# A value that is read after the loop has overwritten it, in a loop whose count is data.
OVERWRITTEN = """
    kernel overwritten(n: array[int32], x: array[float64], y: array[float64]), tid 1
      %0: int32 = tid 0
      %1: int32 = load n[%0]
      for %2: int32 = 0 .. %1 step 1 {
        %3: float64 = load y[%0]
        %4: float64 = mul %3, %3
        %5: float64 = load x[%2]
        %6: float64 = sub %4, %5
        store y[%0], %6
      }
"""
BRANCH = """
    kernel branch(x: array[float64], y: array[float64]), tid 1
      %0: int32 = tid 0
      %1: float64 = load x[%0]
      %2: bool = gt %1, 0.0:float64
      if %2 {
        %3: float64 = sqrt %1
        yield %3
      } else {
        yield 2.0:float64
      } -> %4: float64
      %5: float64 = mul %4, %1
      store y[%0], %5
"""


def arguments(kernel):
    return random_arguments(kernel, (7,), seed=2)


@pytest.mark.parametrize(("text", "inputs"), [(PRODUCT, (0, 1, 2)), (OVERWRITTEN, (1, 2)), (BRANCH, (0,))])
def test_gradients_fit_differences(text, inputs):
    kernel = read(text)
    check_derivatives(kernel, (7,), arguments(kernel), inputs)


def test_a_product_gives_a_gradient_to_each_factor():
    """The one that all threads read gets a sum; an element that one thread reads is stored."""
    made = vjp(read(PRODUCT), (0, 1), (2,))
    assert [(o.kind, o.param) for o in made.origins] == [
        ("primal", 0), ("primal", 1), ("cotangent", 2), ("gradient", 0), ("gradient", 1)
    ]  # fmt: skip
    expect(
        made.kernel,
        """
            kernel product(x: array[float64], k: float64, adj_y: array[float64], adj_x: array[float64], adj_k: array[float64]), tid 1
              %0: float64 = param k
              %1: int32 = tid 0
              %2: float64 = load x[%1]
              %3: float64 = mul %0, %2
              %4: float64 = load adj_y[%1]
              %5: float64 = cos %3
              %6: float64 = mul %4, %5
              %7: float64 = mul %6, %2
              %8: float64 = mul %6, %0
              %9: float64 = load adj_x[%1]
              %10: float64 = add %9, %8
              store adj_x[%1], %10
              atomic_add adj_k[0:int64], %7
        """,  # noqa: E501
    )


def test_only_wanted_gradients_are_computed():
    expect(
        vjp(read(PRODUCT), (1,), (2,)).kernel,
        """
            kernel product(x: array[float64], k: float64, adj_y: array[float64], adj_k: array[float64]), tid 1
              %0: float64 = param k
              %1: int32 = tid 0
              %2: float64 = load x[%1]
              %3: float64 = mul %0, %2
              %4: float64 = load adj_y[%1]
              %5: float64 = cos %3
              %6: float64 = mul %4, %5
              %7: float64 = mul %6, %2
              atomic_add adj_k[0:int64], %7
        """,
    )


def test_several_threads_at_one_place_add_up():
    expect(
        vjp(read(PRODUCT), (0,), (2,), repeated=True).kernel,
        """
            kernel product(x: array[float64], k: float64, final_y: array[float64], adj_y: array[float64], adj_x: array[float64]), tid 1, exact
              %0: float64 = param k
              %1: int32 = tid 0
              %2: float64 = load x[%1]
              %3: float64 = mul %0, %2
              %4: float64 = sin %3
              %5: float64 = load final_y[%1]
              %6: uint64 = bitcast %4
              %7: uint64 = bitcast %5
              %8: bool = eq %6, %7
              %9: bool = ne %4, %4
              %10: bool = ne %5, %5
              %11: bool = and %9, %10
              %12: bool = or %8, %11
              %13: float64 = load adj_y[%1]
              %14: bool = ne %13, 0.0:float64
              %15: bool = and %12, %14
              if %15 {
                %16: float64 = atomic_exch adj_y[%1], 0.0:float64
                yield %16
              } else {
                yield 0.0:float64
              } -> %17: float64
              %18: bool = nonzero %17
              %19: float64 = cos %3
              %20: float64 = mul %17, %19
              %21: float64 = mul %20, %0
              %22: float64 = select %18, %21, 0.0:float64
              atomic_add adj_x[%1], %22
        """,  # noqa: E501
    )


def test_a_branch_is_taken_again_on_the_way_back():
    expect(
        vjp(read(BRANCH), (0,), (1,)).kernel,
        """
            kernel branch(x: array[float64], adj_y: array[float64], adj_x: array[float64]), tid 1
              %0: int32 = tid 0
              %1: float64 = load x[%0]
              %2: bool = gt %1, 0.0:float64
              if %2 {
                %3: float64 = sqrt %1
                yield %3, %3
              } else {
                yield 2.0:float64, 0.0:float64
              } -> %4: float64, %5: float64
              %6: float64 = load adj_y[%0]
              %7: float64 = mul %6, %1
              %8: float64 = mul %6, %4
              %9: bool = not %2
              if %9 {
                yield %8
              } else {
                %10: float64 = mul %5, 2.0:float64
                %11: float64 = div %7, %10
                %12: bool = eq %5, 0.0:float64
                %13: float64 = select %12, 0.0:float64, %11
                %14: float64 = add %8, %13
                yield %14
              } -> %15: float64
              %16: float64 = load adj_x[%0]
              %17: float64 = add %16, %15
              store adj_x[%0], %17
        """,
    )


def test_elements_that_a_loop_overwrites_are_restored_from_a_log():
    expect(
        vjp(read(OVERWRITTEN), (1, 2), (2,)).kernel,
        """
            kernel overwritten(n: array[int32], x: array[float64], y: array[float64], adj_y: array[float64], adj_x: array[float64]), tid 1
              %0: int32 = tid 0
              %1: int32 = load n[%0]
              for %2: int32 = 0 .. %1 step 1 {
                %3: int64 = mark y
                push tape 0, %3 uniform [0]
                %4: float64 = load y[%0]
                %5: float64 = mul %4, %4
                %6: float64 = load x[%2]
                %7: float64 = sub %5, %6
                save y[%0]
                store y[%0], %7
              }
              %8: int64 = cast %1
              %9: int64 = max %8, 0:int64
              %10: int64 = lane_max %9
              %11: int64 = sub %10, 1:int64
              for %12: int64 = %11 .. -1:int64 step -1 {
                %13: bool = lt %12, %9
                if %13 {
                  %14: int64 = top tape 0 field 0
                  pop tape 0
                  rollback y %14
                  %15: int32 = cast %12
                  %16: float64 = load y[%0]
                  %17: float64 = load adj_y[%0]
                  store adj_y[%0], 0.0:float64
                  %18: float64 = neg %17
                  atomic_add adj_x[%15], %18
                  %19: float64 = mul %17, %16
                  %20: float64 = add %19, %19
                  %21: float64 = load adj_y[%0]
                  %22: float64 = add %21, %20
                  store adj_y[%0], %22
                }
              }
        """,  # noqa: E501
    )


def test_without_a_log_such_loops_are_refused():
    with pytest.raises(NotDifferentiableError, match="kernel `overwritten`"):
        vjp(read(OVERWRITTEN), (1, 2), (2,), storage=Storage.CHECKPOINTS)
