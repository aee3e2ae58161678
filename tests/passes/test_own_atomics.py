"""What atomic operations find in arrays of the thread's own has derivatives, as no other thread is there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

F = wp.float64


@pytest.fixture(autouse=True)
def double_precision(x64):
    pass


@wp.kernel
def running(x: wp.array2d[F], at: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    bins = wp.zeros(shape=4, dtype=F)
    most = wp.zeros(shape=2, dtype=F)
    s = F(1.0)
    for k in range(at.shape[0]):
        v = x[i, k]
        before = wp.atomic_add(bins, at[k], v * s)
        high = wp.atomic_max(most, k % 2, v)
        old = wp.atomic_exch(bins, 3 - at[k], before * v + high)
        s += wp.sin(before) * old + wp.atomic_sub(bins, at[k], v)
    y[i] = s * bins[1] + bins[2]


def test_they_are_differentiated():
    rng = np.random.default_rng(3)
    x, at = jnp.asarray(rng.normal(size=(5, 6))), jnp.asarray(rng.integers(0, 4, 6), jnp.int32)
    f = wp.jax_kernel(running, output_dims=5, launch_dims=5)
    wp.check_grads(lambda x: f(x, at), (x,))
    assert np.abs(jax.grad(lambda x: f(x, at)[0].sum())(x)).min() > 1e-6
    step = jnp.asarray(rng.normal(size=x.shape)) * 1e-6
    both = [jax.grad(lambda x: f(x, at)[0].sum())(x + sign * step) for sign in (1, -1)]
    _, along = jax.jvp(jax.grad(lambda x: f(x, at)[0].sum()), (x,), (step * 1e6,))
    np.testing.assert_allclose(along, (both[0] - both[1]) / 2e-6, rtol=1e-5, atol=1e-6)
