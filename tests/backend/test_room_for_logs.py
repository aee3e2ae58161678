"""Operations that save values for the reverse sweep: the first of a block makes room for all in one test."""

import re

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp

COLUMNS, TRIPS, ROWS = 5, 90, 19


@wp.kernel
def mixed(x: wp.array2d[wp.float64], trips: int, y: wp.array2d[wp.float64]):
    i = wp.tid()
    for k in range(trips + i % 3):
        for c in range(wp.static(COLUMNS)):
            following = y[i, (c + 1) % wp.static(COLUMNS)]
            y[i, c] = x[i, c] * following * y[i, c] + wp.float64(0.5)
        if k % 2 == i % 2:
            y[i, 0] = y[i, 0] * x[i, 0]


def by_jax(x, y):
    """The same by JAX, iteration by iteration, each for all rows that make it."""
    rows = jnp.arange(ROWS)

    def trip(y, k):
        columns = list(y.T)
        for c in range(COLUMNS):
            columns[c] = x[:, c] * columns[(c + 1) % COLUMNS] * columns[c] + 0.5
        columns[0] = jnp.where(k % 2 == rows % 2, columns[0] * x[:, 0], columns[0])
        return jnp.where(k < TRIPS + rows % 3, jnp.stack(columns), y.T).T, None

    return jax.lax.scan(trip, y, jnp.arange(TRIPS + 2))[0]


def test_logs_grow_in_the_middle_of_a_trip(x64):
    """Of 16 lanes, an iteration adds six records of 256 bytes: not a part of the bytes that a log begins with."""
    rng = np.random.default_rng(0)
    x, y, g = (jnp.asarray(rng.uniform(-0.4, 0.4, (ROWS, COLUMNS))) for _ in range(3))

    def run(x, y):
        return wp.jax_kernel(mixed, in_out_argnames=["y"], launch_dims=ROWS)(x, TRIPS, y)[0]

    value, back = jax.vjp(run, x, y)
    expected, expected_back = jax.vjp(by_jax, x, y)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for made, wanted in zip(back(g), expected_back(g), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-9, atol=1e-12)


def test_one_test_of_room_for_the_stores_of_a_trip():
    """One in the loop, one where it runs again for the reverse sweep, in each one for the branch; one for the place."""
    text = wp.inspect(mixed, "llvm", adjoint=["x", "y"])
    assert len(re.findall(r"^grown\d+:", text, re.MULTILINE)) == 5
    assert len(re.findall(r"^ *save ", wp.inspect(mixed, "ir", adjoint=["x", "y"]), re.MULTILINE)) == 12
