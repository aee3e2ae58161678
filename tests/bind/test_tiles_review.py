"""Kernels with tiles as their users write them, against JAX: derivatives at corners, elements of all types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


@wp.kernel
def multiplied(x: wp.array2d[float], whole: wp.array[float], columns: wp.array[float]):
    t = wp.tile_load(x, shape=(2, 3))
    wp.tile_store(whole, wp.tile_reduce(wp.mul, t))
    wp.tile_store(columns, wp.tile_reduce(wp.mul, t, axis=0))


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_derivatives_of_a_product_of_elements(zeros):
    x = np.random.default_rng(zeros).normal(size=(2, 3)).astype(np.float32)
    x.flat[[1, 4][:zeros]] = 0.0

    def f(x):
        whole, columns = wp.launch_tiled(multiplied, 1, [x], [1, 3], block_dim=8)
        return jnp.sin(whole).sum() + (columns**2 + columns).sum()

    def expected(x):
        whole, columns = jnp.prod(x), x[0] * x[1]
        return jnp.sin(whole).sum() + (columns**2 + columns).sum()

    for derivative in (jax.grad, jax.jacfwd, jax.hessian, lambda f: jax.jacrev(jax.grad(f))):
        np.testing.assert_allclose(derivative(f)(x), derivative(expected)(x), rtol=1e-5, atol=1e-6)
