"""Tiles of random numbers: element k is number k // B of thread k % B of a block of B threads, as in Warp."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


def hashed(state):
    inner = (int(state) * 747796405 + 2891336453) % 2**32
    word = (((inner >> ((inner >> 28) + 4)) ^ inner) * 277803737) % 2**32
    return (word >> 22) ^ word


@wp.kernel
def drawn(seed: int, low: float, high: float, whole: wp.array2d[int], some: wp.array2d[int], unit: wp.array2d[float],
          between: wp.array2d[float]):  # fmt: skip
    i = wp.tid()
    rng = wp.rand_init(seed, i)
    wp.tile_store(whole, wp.tile_randi((1, 10), rng), offset=(i, 0))
    wp.tile_store(some, wp.tile_randi(shape=(1, 10), rng=rng, min=-5, max=7), offset=(i, 0))
    wp.tile_store(unit, wp.tile_randf((1, 10), rng, storage="shared"), offset=(i, 0))
    wp.tile_store(between, wp.tile_randf((1, 10), rng, low, high), offset=(i, 0))


@pytest.mark.parametrize("width", [1, 4, 16])
def test_each_thread_has_a_sequence_of_its_own(width):
    outs = [np.zeros((3, 10), kind) for kind in (np.int32, np.int32, np.float32, np.float32)]
    wp.launch_tiled(drawn, 3, [42, -1.0, 3.0, *outs], block_dim=width)
    for block in range(3):
        start = hashed(42 + hashed(block))
        states = []
        for lane in range(width):
            state = hashed(start + lane)
            states.append([state := hashed(state) for _ in range(-(10 // -width))])
        numbers = np.array(states, np.uint32).T.ravel()[:10]
        unit = (numbers >> 8).astype(np.float32) * np.float32(2**-24)
        np.testing.assert_array_equal(outs[0][block], numbers.view(np.int32))
        np.testing.assert_array_equal(outs[1][block], (numbers % 12).astype(np.int32) - 5)
        np.testing.assert_array_equal(outs[2][block], unit)
        np.testing.assert_allclose(outs[3][block], unit * 4 - 1, rtol=1e-6, atol=1e-6)


def test_the_numbers_of_warps_own_test():
    outs = [np.zeros((1, 10), kind) for kind in (np.int32, np.int32, np.float32, np.float32)]
    wp.launch_tiled(drawn, 1, [42, 0.0, 1.0, *outs], block_dim=64)
    np.testing.assert_array_equal(outs[0][0, :2], [798497746, 1803297529])
    np.testing.assert_allclose(outs[2][0, :2], [0.1859147, 0.41986287], rtol=1e-6)


@wp.kernel
def spread(low: float, high: float, out: wp.array[float]):
    wp.tile_store(out, wp.tile_randf(8, wp.rand_init(7), low, high))


def test_limits_have_derivatives():
    fn = wp.jax_kernel(spread, launch_dims=4, block_dim=4, output_dims=8)
    unit = fn(0.0, 1.0)[0]
    got = jax.grad(lambda low, high: fn(low, high)[0].sum(), (0, 1))(-1.0, 3.0)
    np.testing.assert_allclose(jnp.array(got), [8 - unit.sum(), unit.sum()], rtol=1e-5)


@wp.kernel
def of_no_state(out: wp.array[float]):
    wp.tile_store(out, wp.tile_randf(8, 42))


def test_what_is_no_state_is_refused():
    with pytest.raises(wp.KernelTypeError, match="`rng` must be a state of uint32"):
        wp.inspect(of_no_state, "ir")
