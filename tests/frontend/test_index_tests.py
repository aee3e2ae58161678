"""Tests of signs go where indices are plainly not negative, and stay elsewhere."""

import numpy as np
import pytest

import jwarp as wp
from jwarp.config import config
from jwarp.ir.nodes import Op, walk

pytestmark = pytest.mark.quick


@wp.kernel
def plain(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    for k in range(x.shape[1] // 4):
        t = wp.tile_load(x, shape=(2, 4), offset=(2 * i + 1, 4 * k))
        wp.tile_store(y, t, offset=(2 * i, 8 * j + k))


@wp.kernel
def in_front(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    wp.tile_store(y, wp.tile_load(x, shape=4, offset=4 * i - 1), offset=4 * i)


@wp.kernel
def from_outside(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    wp.tile_store(y, wp.tile_load(x, shape=4, offset=i + n), offset=4 * i)


@wp.kernel
def counted_down(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    for k in range(3, -3, -1):
        wp.tile_atomic_add(y, wp.tile_load(x, shape=4, offset=k), offset=4 * i)


@wp.kernel
def by_a_quotient(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    wp.tile_store(y, wp.tile_load(x, shape=4, offset=i // x.shape[0]), offset=4 * i)  # -1 where that is 0


@wp.kernel
def asked_by_the_author(x: wp.array[float], y: wp.array[int]):
    i = wp.tid()
    t = wp.tile_load(x, shape=4, offset=4 * i)
    wp.tile_store(x, t, offset=4 * i)
    for k in range(y.shape[0]):
        if k * 1000000000 < 0:  # integers wrap
            y[k] = 1


def count_tests(kernel):
    ir = kernel.block_ir(config.settings, 32, None)
    return sum(isinstance(n, Op) and n.name in ("ge", "lt") for n in walk(ir.body))


def test_multiples_of_coordinates_and_counters_need_none():
    assert count_tests(plain) == 0


@pytest.mark.parametrize("kernel", [in_front, from_outside, counted_down, by_a_quotient], ids=lambda k: k.name)
def test_others_do(kernel):
    assert count_tests(kernel) > 0


def test_what_wraps_is_found_negative():
    _, y = wp.launch_tiled(asked_by_the_author, 1, [], [np.zeros(4, np.float32), np.zeros(5, np.int32)], block_dim=4)
    np.testing.assert_array_equal(y, [0, 0, 0, 1, 1])
