"""Gradients where the threads of a block run loops of unlike lengths, and meet in a tile."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

pytestmark = pytest.mark.quick


@wp.kernel
def rows(x: wp.array2d[wp.float64], length: wp.array[int], y: wp.array[wp.float64]):
    row, lane = wp.tid()
    total = wp.float64(0.0)
    for i in range(length[row + lane]):
        total += x[lane, i] * x[row, i]
    y[row] = wp.tile_sum(wp.tile(total))[0]


@wp.kernel
def shares(x: wp.array2d[wp.float64], length: wp.array[int], y: wp.array[wp.float64]):
    row, lane = wp.tid()
    if length[row] == 0:
        return
    total = wp.float64(0.0)
    for i in range(length[row + 1] + lane, length[row], wp.block_dim()):
        total += x[row, i] * wp.sin(x[row, i])
    y[row] = wp.tile_sum(wp.tile(total))[0]


def rows_by_jax(x, length):
    def of(row):
        lanes = np.arange(8)
        inside = np.arange(x.shape[1]) < length[row + lanes][:, None]
        return jnp.sum(jnp.where(inside, x[:8] * x[row], 0.0))

    return jnp.stack([of(0), of(1)])


def shares_by_jax(x, length):
    def of(row):
        i = np.arange(x.shape[1])
        return jnp.sum(jnp.where((i >= length[row + 1]) & (i < length[row]), x[row] * jnp.sin(x[row]), 0.0))

    return jnp.stack([of(0), of(1)])


@pytest.mark.parametrize(("kernel", "by_jax"), [(rows, rows_by_jax), (shares, shares_by_jax)], ids=["rows", "shares"])
def test_trips_that_differ_by_thread(kernel, by_jax):
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        x = jnp.asarray(rng.normal(size=(9, 20)))
        length = rng.permutation(np.array([17, 2, 5, 0, 20, 11, 3, 9, 1], np.int32))
        length[:3] = [19, 12, 4]
        launch = wp.jax_kernel(kernel, launch_dims=(2, 8), output_dims=2, block_dim=8)

        def loss(f):
            return lambda x: jnp.sum(f(x) * jnp.array([0.7, -1.3]))

        np.testing.assert_allclose(launch(x, length)[0], by_jax(x, length), rtol=1e-12)
        got, wanted = (jax.grad(loss(f))(x) for f in (lambda x: launch(x, length)[0], lambda x: by_jax(x, length)))
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)
