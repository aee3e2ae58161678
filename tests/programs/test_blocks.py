"""Blocks in programs have one thread on the CPU, as Warp's have, unless `enable_cpu_blocks` is set."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.config import surface
from jwarp.programs.launch_class import Launch


@wp.kernel
def sizes(out: wp.array[int]):
    out[wp.tid()] = wp.block_dim()


@wp.kernel
def count(out: wp.array[int]):
    wp.atomic_add(out, 0, 1)


@wp.kernel
def scaled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * float(wp.block_dim())


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setattr(surface, "is_warps", True)
    yield wp.config
    wp.config.enable_cpu_blocks = False


@pytest.mark.parametrize(("is_enabled", "expected"), [(False, 1), (True, 4)])
def test_threads_of_a_block(program, is_enabled, expected):
    program.enable_cpu_blocks = is_enabled
    out = wp.zeros(8, dtype=int)
    for _ in range(2):  # the second one is repeated
        wp.launch(sizes, 8, inputs=[out], block_dim=4)
        np.testing.assert_array_equal(out.numpy(), expected)
    total = wp.zeros(1, dtype=int)
    for times in (1, 2):
        wp.launch_tiled(count, dim=[3], inputs=[total], block_dim=4)
        assert total.numpy()[0] == 3 * expected * times
    assert Launch(sizes, "cpu", block_dim=4).block_dim == expected


def test_the_setting_holds_from_launch_to_launch(program):
    out = wp.zeros(4, dtype=int)
    for is_enabled, expected in ((False, 1), (True, 2), (False, 1)):
        program.enable_cpu_blocks = is_enabled
        wp.launch(sizes, 4, inputs=[out], block_dim=2)
        np.testing.assert_array_equal(out.numpy(), expected)


def test_functions_of_jax(program):
    x = jnp.arange(4.0)
    for is_enabled, factor in ((False, 1.0), (True, 2.0)):
        program.enable_cpu_blocks = is_enabled
        function = wp.jax_kernel(scaled, block_dim=2)
        np.testing.assert_array_equal(function(x)[0], x * factor)
        np.testing.assert_array_equal(jax.grad(lambda x, f=function: f(x)[0].sum())(x), factor)


def test_too_many_threads(program):
    for start in (
        lambda: wp.launch(count, 0, inputs=[wp.zeros(1, dtype=int)], block_dim=1025),
        lambda: wp.launch_tiled(count, [0], inputs=[wp.zeros(1, dtype=int)], block_dim=1025),
        lambda: Launch(count, "cpu", block_dim=1025),
        lambda: wp.force_load(block_dim=1025),
    ):
        with pytest.raises(ValueError, match="at most 1024 on CPU"):
            start()


def test_blocks_outside_programs_are_those_of_a_gpu():
    out = wp.zeros(8, dtype=int)
    wp.launch(sizes, 8, inputs=[out], block_dim=4)
    np.testing.assert_array_equal(out.numpy(), 4)
