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


@wp.kernel
def faces(u: wp.array[float], y: wp.array[float]):
    j = wp.tid()
    if j > 0:
        y[j] = u[j - 1] * u[j - 1]


@wp.kernel
def clamped_faces(u: wp.array[float], y: wp.array[float]):
    j = wp.tid()
    if j > 1:
        y[j] = u[wp.max(j - 2, 0)] * u[wp.max(j - 3, 0)]


@wp.kernel
def two_lengths(u: wp.array[float], v: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i > 0:
        y[i] = u[i - 1] * (v[i + 2] - v[i])


@wp.kernel
def turned_faces(u: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    if i > 0 and j > 1:
        y[i, j] = u[j - 2, i - 1] * u[j - 2, i - 1]


def two_lengths_in_jax(u, v):
    return jnp.zeros(4).at[1:].set(u * (v[3:] - v[1:4]))


# A kernel, the shapes of its inputs and of its output, and the same in JAX.
LONGER = [
    (faces, [(3,)], (4,), lambda u: jnp.zeros(4).at[1:].set(u * u)),
    (faces, [(70,)], (71,), lambda u: jnp.zeros(71).at[1:].set(u * u)),
    (clamped_faces, [(3,)], (5,), lambda u: jnp.zeros(5).at[2:].set(u * u[jnp.array([0, 0, 1])])),
    (two_lengths, [(3,), (6,)], (4,), two_lengths_in_jax),
    (turned_faces, [(3, 6)], (7, 5), lambda u: jnp.zeros((7, 5)).at[1:, 2:].set(u.T * u.T)),
]


@pytest.mark.parametrize("bounds", ["safe", "error"])
@pytest.mark.parametrize("kernel, shapes, dims, reference", LONGER)
def test_launches_longer_than_an_array(kernel, shapes, dims, reference, bounds):
    """Gathered by threads of which some have no element: under JAX, on a tape, and over a batch."""
    inputs = [jnp.asarray(RNG.normal(size=shape), jnp.float32) for shape in shapes]
    seed = jnp.asarray(RNG.normal(size=dims), jnp.float32)
    every = tuple(range(len(inputs)))
    function = wp.jax_kernel(kernel, launch_dims=dims, output_dims=dims)

    def loss(*inputs):
        return jnp.vdot(function(*inputs)[0], seed)

    expected = jax.grad(lambda *inputs: jnp.vdot(reference(*inputs), seed), every)(*inputs)
    with wp.config(bounds=bounds):
        for mine, theirs in zip(jax.grad(loss, every)(*inputs), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
        doubled = [jnp.stack([x, 2.0 * x]) for x in inputs]
        for mine, x in zip(jax.vmap(jax.grad(loss, every))(*doubled), expected, strict=True):
            np.testing.assert_allclose(mine[0], x, rtol=1e-5, atol=1e-6)
        arrays = [wp.array(np.asarray(x), requires_grad=True) for x in inputs]
        y = wp.zeros(dims, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dims, arrays, [y])
        tape.backward(grads={y: wp.array(np.asarray(seed))})
        for a, theirs in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), theirs, rtol=1e-5, atol=1e-6)
