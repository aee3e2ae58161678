"""The same bits for any number of threads, where a kernel uses no float atomics."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jwarp as wp
from jwarp import _native

pytestmark = pytest.mark.quick


@wp.kernel
def mix(x: wp.array2d[float], rounds: int, y: wp.array2d[float], count: wp.array[int]):
    i, j = wp.tid()
    v = x[i, j]
    if i > 0:
        v += 0.5 * x[i - 1, j]
    for _ in range(rounds):
        v = wp.sin(v) * 1.5 + wp.exp(-v * v)
        if v > 2.0:
            break
    y[i, j] = v
    wp.atomic_add(count, i % 3, j)


@pytest.mark.parametrize("shape", [(1, 70_001), (257, 331), (5000, 3)])
@pytest.mark.parametrize("batch", [None, 3])
def test_threads_do_not_change_a_bit(shape, batch):
    shapes = shape if batch is None else (batch, *shape)
    x = np.random.default_rng(3).normal(size=shapes).astype(np.float32)

    def run(x):
        return tuple(wp.launch(mix, shape, [x, 9], [shape, 3]))

    run = jax.jit(run if batch is None else jax.vmap(run))
    results = {}
    try:
        for threads in (1, 2, 8):
            _native.set_thread_limit(threads, eager=True)
            results[threads] = [np.asarray(r).tobytes() for r in run(x)]
    finally:
        _native.set_thread_limit(0)
    assert results[1] == results[2] == results[8]
    assert any(results[1][0])


@wp.kernel
def accumulated(x: wp.array[float], total: wp.array[float], seen: wp.array[float]):
    i = wp.tid()
    total[i] += x[i]
    if x[i] > 0.0:
        total[i] -= 2.0
    seen[i] = total[i]


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_additions_to_elements_of_ones_own_that_are_read_too(threads, repeat):
    """They are not atomic, also where several threads have the same coordinate."""
    rng = np.random.default_rng(repeat)
    x, start = rng.integers(-9, 9, (2, 20_011)).astype(np.float32)
    expected = start + repeat * (x - 2.0 * (x > 0.0))
    dims = (x.size, repeat) if repeat > 1 else x.shape
    try:
        _native.set_thread_limit(threads, eager=True)
        total, seen = wp.launch(accumulated, dims, [x], [jax.numpy.asarray(start), x.shape])
        batched = jax.vmap(lambda x: wp.launch(accumulated, dims, [x], [jax.numpy.asarray(start), x.shape]))
        totals, _ = batched(np.stack([x, x[::-1]]))
        here, there = start.copy(), np.zeros_like(x)
        wp.launch(accumulated, dims, [x], [here, there])
    finally:
        _native.set_thread_limit(0)
    for found in (total, totals[0], here):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(totals[1], start + (expected - start)[::-1])
    if repeat == 1:
        np.testing.assert_array_equal(seen, expected)
