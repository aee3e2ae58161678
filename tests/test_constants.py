"""Warp's mathematical constants, outside kernels and in them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick


def test_the_constants_outside_kernels():
    assert wp.pi == wp.PI == math.pi and wp.TAU == 2.0 * wp.HALF_PI * 2.0
    assert abs(math.exp(wp.LN2) - 2.0) < 1e-15 and abs(wp.LOG10E * wp.LN10 - 1.0) < 1e-15
    assert wp.PHI * wp.PHI == wp.PHI + 1.0 and math.isnan(wp.nan) and wp.inf == math.inf


def test_the_constants_in_a_kernel():
    @wp.kernel
    def k(y: wp.array[float]):
        y[0] = wp.pi
        y[1] = wp.cos(wp.PI)
        y[2] = -wp.inf
        y[3] = wp.NAN
        y[4] = wp.smoothstep(1.0, 1.0, 1.0)

    (y,) = wp.launch(k, 1, [], [5])
    np.testing.assert_array_equal(y, np.array([math.pi, -1.0, -math.inf, math.nan, 0.0], np.float32))
