"""In programs `wp.jax_kernel` gives one function for a kernel and its options, as Warp does."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.config import config, surface


@wp.kernel
def halved(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 0.5 * x[i] + y[i]


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)


def test_equal_options_give_one_function(program):
    first = wp.jax_kernel(halved)
    assert first is wp.jax_kernel(halved, num_outputs=1, in_out_argnames=[]) is wp.jax_kernel(halved, output_dims=None)
    added = wp.jax_kernel(halved, in_out_argnames=["y"])
    assert added is not first and added is wp.jax_kernel(halved, in_out_argnames=("y",))
    assert wp.jax_kernel(halved, output_dims=()) is not first is not wp.jax_kernel(halved, output_dims={"y": (5,)})
    x = jnp.asarray(np.random.default_rng(0).normal(size=5), jnp.float32)
    np.testing.assert_allclose(first(x)[0], 0.5 * x)
    np.testing.assert_allclose(added(x, x)[0], 1.5 * x)


def test_blocks_of_the_process_are_an_option(program, monkeypatch):
    made = wp.jax_kernel(halved, block_dim=64)
    monkeypatch.setitem(config.of_warp, "enable_cpu_blocks", True)
    assert wp.jax_kernel(halved, block_dim=64) is not made


def test_elsewhere_each_is_made_anew():
    assert wp.jax_kernel(halved) is not wp.jax_kernel(halved)
