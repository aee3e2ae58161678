"""Sine and cosine of one argument, which share their reduction: as accurate as each alone."""

import numpy as np
import pytest

import jwarp as wp
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

COUNT = 1 << 18


@wp.kernel
def both(x: wp.array[float], s: wp.array[float], c: wp.array[float]):
    i = wp.tid()
    s[i] = wp.sin(x[i])
    c[i] = wp.cos(x[i])


@wp.kernel
def alone(x: wp.array[float], s: wp.array[float]):
    i = wp.tid()
    s[i] = wp.sin(x[i])


def ulps(found, exact):
    narrow = exact.astype(np.float32)
    return float((np.abs(np.asarray(found, np.longdouble) - exact) / np.spacing(np.abs(narrow))).max())


@pytest.mark.parametrize(
    "numbers",
    [
        lambda rng: rng.uniform(-4, 4, COUNT),
        lambda rng: rng.uniform(-17000, 17000, COUNT),
        lambda rng: rng.integers(-10000, 10000, COUNT) * (np.pi / 2),
        lambda rng: rng.integers(-10000, 10000, COUNT) * (np.pi / 4),
        lambda rng: 10.0 ** rng.uniform(-44, 38, COUNT),
    ],
    ids=["near zero", "around the limit", "zeros", "eighths", "all sizes"],
)
def test_errors_stay_below_two_units(numbers):
    x = numbers(np.random.default_rng(9)).astype(np.float32)
    s, c = wp.launch(both, len(x), [x], [len(x)] * 2)
    wide = x.astype(np.longdouble)
    assert ulps(s, np.sin(wide)) < 2
    assert ulps(c, np.cos(wide)) < 2


def test_special_values():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    s, c = (np.asarray(r) for r in wp.launch(both, 5, [x], [5, 5]))
    np.testing.assert_array_equal(s, [0.0, -0.0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(np.signbit(s[:2]), [False, True])
    np.testing.assert_array_equal(c, [1.0, 1.0, np.nan, np.nan, np.nan])


def test_they_share_what_they_compute():
    # Without the branches for large arguments, which few threads take.
    two, one = (len(CpuKernel(kernel.ir(), Settings(cache_dir="")).optimized().body.nodes) for kernel in (both, alone))
    assert two < 2 * one - 4
