"""Gradients of stencils: each thread gathers what its neighbours have for its element, and stores it once."""

import numpy as np
import pytest
from textual_ir import expect, lines, read

from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run

pytestmark = pytest.mark.quick

STENCIL = """
    kernel stencil(x: array[float64], y: array[float64]), tid 1
      %0: int32 = tid 0
      %1: float64 = load x[%0]
      %2: int32 = add %0, 1
      %3: float64 = load x[%2]
      %4: float64 = mul %3, %3
      %5: float64 = sub %1, %4
      store y[%0], %5
"""


def gradient(made, x, g, count):
    """The gradient by x, of a launch over all elements of x."""
    given = {"primal": x, "cotangent": g, "gradient": np.zeros_like(x), "dim": np.int32(len(g))}
    found = run(made.kernel, (count,), [given[o.kind] for o in made.origins])
    arrays = [o.kind for o, p in zip(made.origins, made.kernel.params, strict=True) if p.is_array]
    return dict(zip(arrays, found, strict=True))["gradient"]


def test_neighbours_are_gathered():
    kernel = read(STENCIL)
    gathered, scattered = vjp(kernel, (0,), (1,), gathered=(0,)), vjp(kernel, (0,), (1,))
    expect(
        gathered.kernel,
        """
            kernel stencil(x: array[float64], adj_y: array[float64], adj_x: array[float64], dim0: int32), tid 1
              %0: int32 = tid 0
              %1: int32 = param dim0
              %2: int32 = sub %0, 1
              %3: bool = ge %2, 0
              %4: bool = lt %2, %1
              %5: bool = and %3, %4
              if %5 {
                %6: int32 = add %2, 1
                %7: float64 = load x[%6]
                %8: float64 = load adj_y[%2]
                %9: float64 = neg %8
                %10: float64 = mul %9, %7
                %11: float64 = add %10, %10
                yield %11
              } else {
                yield 0.0:float64
              } -> %12: float64
              %13: bool = lt %0, %1
              if %13 {
                %14: float64 = load adj_y[%0]
                yield %14
              } else {
                yield 0.0:float64
              } -> %15: float64
              %16: float64 = add %12, %15
              store adj_x[%0], %16
        """,
    )
    expect(
        scattered.kernel,
        """
            kernel stencil(x: array[float64], adj_y: array[float64], adj_x: array[float64]), tid 1
              %0: int32 = tid 0
              %1: int32 = add %0, 1
              %2: float64 = load x[%1]
              %3: float64 = load adj_y[%0]
              %4: float64 = neg %3
              %5: float64 = mul %4, %2
              %6: float64 = add %5, %5
              atomic_add adj_x[%1], %6
              atomic_add adj_x[%0], %3
        """,
    )
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=9), rng.normal(size=8)
    expected = np.zeros(9)
    expected[:8] += g
    expected[1:] -= 2 * x[1:] * g
    np.testing.assert_allclose(gradient(gathered, x, g, 9), expected, rtol=1e-12)
    np.testing.assert_allclose(gradient(scattered, x, g, 8), expected, rtol=1e-12)


def test_what_no_stencil_is_stays_scattered():
    text = STENCIL.replace("add %0, 1", "mul %0, 2")
    made = vjp(read(text), (0,), (1,), gathered=(0,))
    assert not any(o.kind == "dim" for o in made.origins)
    expect(made.kernel, "\n".join(lines(vjp(read(text), (0,), (1,)).kernel)))
