"""Calls outside kernels whose loops depend on numbers: the values of kernels; norms of integers are floats."""

from __future__ import annotations

import numpy as np
import pytest

import jwarp as wp
from jwarp.ir import evaluate_blocks

RNG = np.random.default_rng(3)


@wp.kernel
def in_kernel(seeds: wp.array[wp.uint32], p: wp.array[wp.vec3], counts: wp.array2d[wp.uint32], curl: wp.array[wp.vec3]):
    i = wp.tid()
    counts[i, 0] = wp.poisson(seeds[i], 1.5)
    counts[i, 1] = wp.poisson(seeds[i], 33.0)
    curl[i] = wp.curlnoise(seeds[i], p[i], wp.uint32(3), 2.5, 0.3)


def test_random_numbers_and_noise_are_those_of_kernels():
    seeds = RNG.integers(0, 2**32, 6, np.uint32)
    p = RNG.normal(size=(6, 3)).astype(np.float32)
    counts, curl = np.zeros((6, 2), np.uint32), np.zeros((6, 3), np.float32)
    wp.launch(in_kernel, 6, [seeds, p], [counts, curl])
    assert len({*counts[:, 1].tolist()}) > 2
    for seed, place, numbers, found in zip(seeds[:2], p, counts, curl, strict=False):  # each takes a second
        state = wp.uint32(seed)
        assert [wp.poisson(state, 1.5), wp.poisson(state, 33.0)] == numbers.tolist()
        np.testing.assert_allclose(
            wp.curlnoise(state=state, xyz=wp.vec3(*place), octaves=wp.uint32(3), lacunarity=2.5, gain=0.3),
            found, rtol=1e-4, atol=1e-6)  # fmt: skip


def test_loops_end(monkeypatch):
    monkeypatch.setattr(evaluate_blocks, "MAX_STEPS", 50)
    with pytest.raises(wp.KernelTypeError, match="wp.curlnoise can only be called inside a kernel"):
        wp.curlnoise(wp.uint32(1), wp.vec2(0.5, 0.7), wp.uint32(51))


@wp.kernel
def norms_of_integers(a: wp.array[wp.vec3i], out: wp.array2d[float]):
    i = wp.tid()
    out[i, 0] = wp.norm_l1(a[i])
    out[i, 1] = wp.norm_l2(a[i])
    out[i, 2] = wp.norm_huber(a[i], 2.5)
    out[i, 3] = wp.norm_pseudo_huber(a[i], 2.5)


def test_norms_of_integers():
    given = RNG.integers(-9, 9, (20, 3)).astype(np.int32)
    given[0], given[1], given[2] = 0, (1, 0, -1), (-(2**31), 70000, 70000)
    out = np.zeros((20, 4), np.float32)
    wp.launch(norms_of_integers, 20, [given], [out])
    x = given.astype(float)
    square = (x * x).sum(1)
    huber = np.where(square <= 2.5**2, 0.5 * square, 2.5 * (np.sqrt(square) - 1.25))
    expected = np.stack([np.abs(x).sum(1), np.sqrt(square), huber, 2.5 * np.sqrt(1 + square / 2.5**2)], 1)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    v = wp.vec3i(*given[3].tolist())
    outside = [wp.norm_l1(v), wp.norm_l2(v), wp.norm_huber(v, 2.5), wp.norm_pseudo_huber(v, 2.5)]
    assert all(isinstance(n, (float, np.float32)) for n in outside)
    np.testing.assert_allclose(outside, expected[3], rtol=1e-6)
