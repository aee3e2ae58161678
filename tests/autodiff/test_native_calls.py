"""Native code in kernels that derivatives are taken of: what stands for it, what its adjoint becomes, and refusals."""

import pytest
from textual_ir import expect, read

from jwarp.autodiff.native_calls import for_derivatives
from jwarp.autodiff.reverse import vjp
from jwarp.errors import NotDifferentiableError

pytestmark = pytest.mark.quick

ADJOINT = '"adj_x += 0.5f / sqrtf(x) * adj_ret;"'

ROOT = """
    kernel k(x: array[float32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %1: float32 = load x[%0]
      %2: bool = on_gpu
      if %2 {{
        %3: int32 = native %1 "root" "return sqrtf(x);" "float32" params ["x" "value" "float32"] reads [] changes [] adjoint [{}] replay []
        %4: float32 = native_part 0 %3
        yield %4
      }} else {{
        %5: float32 = sqrt %1
        yield %5
      }} -> %6: float32
"""  # noqa: E501

FOLLOWS = """
      %7: float32 = sqrt %1
      %8: float32 = follow %6, %7
      store y[%0], %8
"""


@pytest.mark.parametrize(("adjoint", "reverse"), [("", True), ("", False), (ADJOINT, False)])
def test_the_value_of_native_code_follows_its_substitute(adjoint, reverse):
    kernel = read(ROOT.format(adjoint) + "store y[%0], %6")
    expect(for_derivatives(kernel, reverse=reverse), ROOT.format(adjoint) + FOLLOWS)


def test_native_code_with_an_adjoint_stays_in_reverse_mode():
    text = ROOT.format(ADJOINT) + "store y[%0], %6"
    expect(for_derivatives(read(text), reverse=True), text)


def test_kernels_without_native_code_are_left_alone():
    kernel = read("kernel k(y: array[float32]), tid 1\n%0: int32 = tid 0\nstore y[%0], 1.0")
    assert for_derivatives(kernel, reverse=True) is kernel


def test_the_authors_adjoint_adds_to_the_gradient():
    made = vjp(read(ROOT.format(ADJOINT) + "store y[%0], %6"), [0], [1]).kernel
    expect(made, """
        kernel k(x: array[float32], adj_y: array[float32], adj_x: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: bool = on_gpu
          if %2 {
            yield 0.0
          } else {
            %3: float32 = sqrt %1
            yield %3
          } -> %4: float32
          %5: float32 = load adj_y[%0]
          %6: bool = not %2
          if %6 {
            %7: float32 = mul %4, 2.0
            %8: float32 = div %5, %7
            %9: bool = eq %4, 0.0
            %10: float32 = select %9, 0.0, %8
            yield %10
          } else {
            %11: int32 = native %1, %5, 0.0 "adj_root" "adj_x += 0.5f / sqrtf(x) * adj_ret;" "" params ["x" "value" "float32"; "adj_ret" "value" "float32"; "adj_x" "reference" "float32"] reads [] changes [] adjoint [] replay []
            %12: float32 = native_part 0 %11
            yield %12
          } -> %13: float32
          %14: float32 = load adj_x[%0]
          %15: float32 = add %14, %13
          store adj_x[%0], %15
    """)  # noqa: E501  # fmt: skip


COUNT = """
    kernel k(n: array[int32], y: array[float32]), tid 1
      %0: int32 = tid 0
      %2: bool = on_gpu
      if %2 {{
        native "count" "atomicAdd(n, 1);" "" params ["n" "changed" "int32"] reads [] changes [n] adjoint [] replay [{}]
        yield
      }} else {{
        %4: int32 = atomic_add n[0], 1
        yield
      }}
      %5: int32 = load n[0]
      %6: float32 = cast %5
      store y[%0], %6
"""


def test_what_is_found_by_atomic_operations_and_read_is_refused():
    with pytest.raises(NotDifferentiableError, match=r"`count`, native code that finds by atomic operations"):
        for_derivatives(read(COUNT.format("")), reverse=True)
    replay = read(COUNT.format('""'))  # derivatives run nothing in its place
    assert for_derivatives(replay, reverse=False) is not replay
