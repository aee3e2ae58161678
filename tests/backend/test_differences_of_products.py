"""Tests that a difference of two products is rounded as it stands: cross(v, v) is zero, as in Warp on processors."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp

N = 1003


@wp.kernel
def crosses(a: wp.array[wp.vec3], b: wp.array[wp.vec3], own: wp.array[wp.vec3], ab: wp.array[wp.vec3]):
    i = wp.tid()
    own[i] = wp.cross(a[i], a[i])
    ab[i] = wp.cross(a[i], b[i])


@wp.kernel
def differences(x: wp.array2d[wp.Float], r: wp.array[wp.Float], in_loop: wp.array[wp.Float]):
    i = wp.tid()
    r[i] = x[0, i] * x[1, i] - x[2, i] * x[3, i]
    total = x[0, i]
    for k in range(4):
        total = total * x[k, i] - x[0, i] * x[1, i]
    in_loop[i] = total


@wp.kernel
def sides(c: wp.array[float], b: wp.array[float], a: wp.array[float]):
    i = wp.tid()
    a[i] = wp.sqrt(c[i] * c[i] - b[i] * b[i])


@wp.kernel
def beside_all_threads(c: wp.array[wp.Float], r: wp.array[wp.Float], a: wp.array2d[wp.Float]):
    i = wp.tid()
    for k in range(r.shape[0]):
        square = r[k] * r[k]  # the same in all lanes
        if i >= 0:
            a[k, i] = c[i] * c[i] - square


def test_crosses_are_antisymmetric():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N, 3)).astype(np.float32)
    own, ab, ba = np.full((3, N, 3), np.nan, np.float32)
    wp.launch(crosses, N, [a, b, own, ab])
    assert (own == 0).all()
    wp.launch(crosses, N, [b, a, own, ba])
    np.testing.assert_array_equal(ab, -ba)
    np.testing.assert_array_equal(ab, np.cross(a, b))  # which rounds each product


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_product_is_rounded(dtype):
    x = np.random.default_rng(1).normal(size=(4, N)).astype(dtype)
    r, in_loop = np.full((2, N), np.nan, dtype)
    wp.launch(differences, N, [x, r, in_loop])
    np.testing.assert_array_equal(r, x[0] * x[1] - x[2] * x[3])
    total = x[0]
    for k in range(4):
        total = total * x[k] - x[0] * x[1]
    np.testing.assert_array_equal(in_loop, total)


def test_a_root_of_a_difference_of_squares_has_no_nan():
    c = np.random.default_rng(2).uniform(0.5, 2.0, N).astype(np.float32)
    a = np.full(N, np.nan, np.float32)
    wp.launch(sides, N, [c, c.copy(), a])
    assert (a == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_that_all_threads_share_is_rounded(dtype):
    rng = np.random.default_rng(3)
    c, r = rng.normal(size=N).astype(dtype), rng.normal(size=5).astype(dtype)
    a = np.full((5, N), np.nan, dtype)
    wp.launch(beside_all_threads, N, [c, r, a])
    np.testing.assert_array_equal(a, c * c - (r * r)[:, None])
