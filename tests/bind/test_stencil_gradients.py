"""Gradients of stencils by the old content of their outputs, too: the places that neighbours read are then cleared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(23)


@wp.kernel
def differences(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i + 1] - 3.0 * x[i]


@wp.kernel
def products(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = y[i, j] * x[i + 1, j] * x[i, j + 1] + x[i, j]


def differences_in_jax(x, y, n):
    return y.at[:n].set((x[1:] - 3.0 * x[:-1])[:n])


def products_in_jax(x, y, n):
    new = y[:-1, :-1] * x[1:, :-1] * x[:-1, 1:] + x[:-1, :-1]
    return y.at[:n, :n].set(new[:n, :n])


@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("threads", [47, 20, 1])
@pytest.mark.parametrize("kernel, reference", [(differences, differences_in_jax), (products, products_in_jax)])
def test_gradients_by_inputs_and_old_contents(kernel, reference, threads, wanted):
    rank = kernel.params[0].type.ndim
    x, y, seed = (jnp.asarray(RNG.normal(size=(48,) * rank), jnp.float32) for _ in range(3))

    def found(x, y):
        return jnp.vdot(wp.launch(kernel, (threads,) * rank, [x], [y])[0], seed)

    def expected(x, y):
        return jnp.vdot(reference(x, y, threads), seed)

    gradients = jax.grad(found, wanted)(x, y)
    for mine, theirs in zip(gradients, jax.grad(expected, wanted)(x, y), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
