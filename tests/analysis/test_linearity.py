"""Linearity of a kernel in some parameters, against its results for sums and multiples of them."""

import numpy as np
import pytest
from textual_ir import read

from jwarp.analysis.linearity import nonlinearity
from jwarp.autodiff.tile_rules import derivative_reads
from jwarp.backend.interpreter.machine import run

pytestmark = pytest.mark.quick

KERNEL = """
    kernel k(x: array[float64], a: array[float64], y: array[float64]), tid 1
      %0: int32 = tid 0
      %1: float64 = load x[%0]
      %2: float64 = load a[%0]
      {}
"""
RNG = np.random.default_rng(0)
BODIES = {
    "%3: float64 = mul %1, %2\nstore y[%0], %3": None,
    "%3: float64 = div %1, %2\natomic_add y[%0], %3": None,
    "%3: bool = gt %2, 0.0:float64\n%4: float64 = select %3, %1, 0.0:float64\nstore y[%0], %4": None,
    "%3: float64 = load y[%0]\n%4: float64 = add %3, %1\nstore y[%0], %4": None,
    "%3: float64 = add %1, %2\nstore y[%0], %3": "is added to",
    "%3: float64 = mul %1, %1\nstore y[%0], %3": "",
    "%3: float64 = div %2, %1\nstore y[%0], %3": "",
    "%3: float64 = abs %1\nstore y[%0], %3": "",
    "%3: bool = gt %1, 0.0:float64\n%4: float64 = select %3, %1, 0.0:float64\nstore y[%0], %4": "becomes a condition",
    "%3: int32 = cast %1\nstore y[%3], %1": "",
    "store y[%0], %2": "",
    "atomic_max y[%0], %1": "",
}


@pytest.mark.parametrize("body", BODIES)
def test_what_is_called_linear_is_linear(body):
    kernel = read(KERNEL.format(body))
    fault = nonlinearity(kernel, {0, 2}, [2], derivative_reads)
    assert (fault is None) == (BODIES[body] is None)
    if fault is not None:
        assert BODIES[body] in fault.reason
        return
    a, zero = RNG.normal(size=5), np.zeros(5)
    (x, y), (u, v) = RNG.normal(size=(2, 2, 5))

    def result(x, y):
        return run(kernel, (5,), [x, a, y])[2]

    # What adds to an element, or leaves it, is linear in what was there, too.
    np.testing.assert_allclose(result(2 * x + u, 2 * y + v), 2 * result(x, y) + result(u, v), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(result(zero, zero), zero)
