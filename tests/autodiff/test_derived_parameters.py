"""Derived kernels have the parameters that they use, in one order, and two variants of one have the same."""

import pytest
from textual_ir import read

from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.derived_parameters import KINDS, aligned
from jwarp.autodiff.reverse import vjp
from jwarp.ir.verify import verify

pytestmark = pytest.mark.quick

KERNEL = """
    kernel k(x: array[float32], n: array[int32], scale: float32, y: array2d[float32]), tid 1
      %0: int32 = tid 0
      %1: int32 = load n[%0]
      %2: float32 = load x[%0]
      %3: float32 = param scale
      %4: int32 = shape y axis 1
      for %5: int32 = 0 .. %4 step 1 carry (%6: float32 = %2) {
        %7: float32 = mul %6, %6
        %8: float32 = mul %7, %3
        store y[%0, %5], %8
        yield %8
      } -> %9: float32
"""


def test_parameters_are_in_the_order_of_kinds_and_say_what_they_are():
    made = vjp(read(KERNEL), (0, 2), (3,))
    kinds = [o.kind for o in made.origins]
    assert kinds == sorted(kinds, key=list(KINDS).index)
    names = [p.name for p in made.kernel.params]
    assert names == ["x", "scale", "adj_y", "adj_x", "adj_scale"]  # nothing reads n
    assert [str(p.type) for p in made.kernel.params[-3:]] == ["array2d[float32]", "array[float32]", "array[float32]"]


def test_names_that_are_taken_are_not_taken_twice():
    text = KERNEL.replace("x: array[float32]", "adj_y: array[float32]").replace("load x", "load adj_y")
    names = [p.name for p in vjp(read(text), (0,), (3,)).kernel.params]
    assert len({*names}) == len(names)


def test_two_ways_to_compute_one_gradient_have_the_same_parameters():
    made = [vjp(read(KERNEL), (0, 2), (3,), storage=storage) for storage in Storage]
    first, second = aligned(made)
    assert first.origins == second.origins
    assert [p.name for p in first.kernel.params] == [p.name for p in second.kernel.params]
    for one in (first, second):
        verify(one.kernel)
