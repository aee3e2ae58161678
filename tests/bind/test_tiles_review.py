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

    def directional(f):
        return lambda x: jax.jvp(f, (x,), (np.cos(np.arange(6, dtype=np.float32)).reshape(2, 3),))[1]

    for derivative in (jax.grad, directional, lambda f: directional(jax.grad(f))):
        np.testing.assert_allclose(derivative(f)(x), derivative(expected)(x), rtol=1e-5, atol=1e-6)


TILE = (5, 6)


@wp.kernel
def window(
    x: wp.array2d[float], row: int, column: int, t: wp.array2d[float], y: wp.array2d[float], z: wp.array2d[float]
):
    tile = wp.tile_load(x, shape=(5, 6), offset=(row, column))
    wp.tile_store(t, tile)
    wp.tile_store(y, tile * tile, offset=(row, column))
    wp.tile_atomic_add(z, tile, offset=(column, row))


@pytest.mark.parametrize(
    "offset", [(0, 0), (-2, -3), (-5, 1), (1, -6), (-100, 0), (4, -1), (6, 7), (-(2**31), 0), (0, 2**31 - 1)]
)
def test_tiles_that_stick_out_of_arrays(offset):
    """An index before an array is outside of it, as one behind it is: it does not count from the end."""
    row, column = offset
    x = jnp.asarray(np.random.default_rng(1).normal(size=(7, 8)).astype(np.float32))

    def f(x):
        return wp.launch_tiled(window, 1, [x, row, column], [TILE, x.shape, x.shape], block_dim=16)

    def expected(x):
        def inside(i, j):
            return 0 <= i < x.shape[0] and 0 <= j < x.shape[1]

        t, y, z = jnp.zeros(TILE), jnp.zeros(x.shape), jnp.zeros(x.shape)
        for k, m in np.ndindex(TILE):
            if inside(row + k, column + m):
                t = t.at[k, m].set(x[row + k, column + m])
                y = y.at[row + k, column + m].set(x[row + k, column + m] ** 2)
        for k, m in np.ndindex(TILE):
            if inside(column + k, row + m):
                z = z.at[column + k, row + m].add(t[k, m])
        return t, y, z

    def total(f):
        return lambda x: sum(jnp.sin(y * (k + 1)).sum() for k, y in enumerate(f(x)))

    for found, wanted in zip(f(x), expected(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.grad(total(f))(x), jax.grad(total(expected))(x), rtol=1e-4, atol=1e-5)


@wp.kernel
def neighbours(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    left = wp.tile_load(x, shape=16, offset=i * 16 - 1)
    right = wp.tile_load(x, shape=16, offset=i * 16 + 1)
    wp.tile_store(y, left * right, offset=i * 16)


def test_a_stencil_of_tiles():
    x = jnp.asarray(np.random.default_rng(2).normal(size=150).astype(np.float32))

    def f(x):
        return wp.launch_tiled(neighbours, 10, [x], [150], block_dim=8)[0]

    def expected(x):
        padded = jnp.pad(x, 1)
        return padded[:-2] * padded[2:]

    np.testing.assert_allclose(f(x), expected(x), rtol=1e-5, atol=1e-6)
    found, wanted = (jax.grad(lambda x, f=f: jnp.sin(f(x)).sum())(x) for f in (f, expected))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    direction = (jnp.cos(jnp.arange(150.0)),)
    found, wanted = (jax.jvp(jax.grad(lambda x, f=f: jnp.sin(f(x)).sum()), (x,), direction)[1] for f in (f, expected))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
