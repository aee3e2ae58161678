"""A launch over other dimensions than the kernel reads coordinates of is warned of, once."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.compiler import thread_counts


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(thread_counts, "_WARNED", type(thread_counts._WARNED)("in a test", 16))


@wp.kernel
def sums(x: wp.array2d[float], out: wp.array[float]):
    i = wp.tid()
    for j in range(x.shape[1]):
        out[i] += x[i, j]


@wp.kernel
def squares(x: wp.array2d[float], out: wp.array2d[float]):
    n = x.shape[0]
    i, j = wp.tid()
    if i < n:
        out[i, j] = x[i, j] * x[i, j]


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return caught


def test_an_addition_runs_as_often_as_there_are_columns():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), jnp.float32)
    launch = wp.jax_kernel(sums, output_dims=3)
    found = []
    (warning,) = warned(lambda: found.append(launch(x)[0]))
    np.testing.assert_allclose(found[0], 4 * np.sum(x, axis=1), rtol=1e-5)
    assert warning.category is wp.KernelWarning
    assert warning.filename == __file__
    assert "kernel 'sums'" in str(warning.message)
    assert "1 coordinate," in str(warning.message)
    assert "2 dimensions:" in str(warning.message)
    assert warning.lineno == sums.python.__code__.co_firstlineno + 2
    assert not warned(lambda: launch(x[:2]))
    assert not warned(lambda: wp.jax_kernel(sums, output_dims=3, launch_dims=3)(x))


def test_a_coordinate_that_no_dimension_gives():
    x = np.ones((3, 4), np.float32)
    (warning,) = warned(lambda: wp.launch(squares, 3, [x], [np.zeros_like(x)]))
    assert "2 coordinates" in str(warning.message)
    assert "1 dimension:" in str(warning.message)
    assert warning.lineno == squares.python.__code__.co_firstlineno + 3
    (other,) = warned(lambda: wp.launch(squares, (3, 4, 2), [x], [np.zeros_like(x)]))
    assert "3 dimensions" in str(other.message)


@pytest.mark.parametrize("dim, block_dim", [((3, 1), None), (3, None), ((3, 1, 1), None), ((3, 8), 8), ((3, 0), None)])
def test_what_is_meant_is_not_warned_of(dim, block_dim):
    x = np.ones((3, 4), np.float32)
    assert not warned(lambda: wp.launch(sums, dim, [x], [np.zeros(3, np.float32)], block_dim=block_dim))


@wp.kernel
def block_sums(x: wp.array2d[float], out: wp.array[float]):
    i = wp.tid()
    wp.tile_store(out, wp.tile_sum(wp.tile_load(x[i], shape=4)), offset=i)


def test_blocks_are_not_warned_of():
    x, out = np.ones((3, 4), np.float32), np.zeros(3, np.float32)
    assert not warned(lambda: wp.launch_tiled(block_sums, 3, [x], [out], block_dim=32))
    assert not warned(lambda: wp.launch(squares, 1, [x], [np.zeros_like(x)]))
    assert not warned(lambda: wp.launch_tiled(sums, [3], [x], [out], block_dim=32))


def test_derivatives_say_nothing_more():
    x = jnp.ones((3, 4))

    def run():
        wp.check_grads(wp.jax_kernel(sums, output_dims=3), (x,))

    assert len(warned(run)) == 1
