"""Launches in place on arrays that share memory: one array for two parameters, overlaps, and what is apart."""

import numpy as np
import pytest
from launch_kernels import accumulate, halve_and_double, scale
from numpy.testing import assert_array_equal

import jwarp as wp


@pytest.fixture
def random():
    return np.random.default_rng(6)


def floats(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


@wp.kernel
def transpose(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[j, i] = x[i, j]


@wp.kernel
def running_sum(x: wp.array[float], y: wp.array[float]):
    for i in range(1, x.shape[0]):
        y[i] = x[i - 1] + x[i]


def test_one_array_as_input_and_output(random):
    x = floats(random, 1000)
    expected = 3 * x
    wp.launch(scale, 1000, [x, 3.0], [x])
    assert_array_equal(x, expected)
    assert_array_equal(wp.launch(scale, 1000, [x[:], 2.0, x])["y"], 2 * expected)


def test_a_read_of_such_an_array_sees_what_was_written():
    """As for one parameter that is read and written; JAX arrays would be two."""
    x = np.arange(100, dtype=np.float32)
    expected = x.copy()
    for i in range(1, 100):
        expected[i] = expected[i - 1] + expected[i]
    wp.launch(running_sum, 1, [x], [x])
    assert_array_equal(x, expected)
    y = np.zeros(100, np.float32)
    wp.launch(running_sum, 1, [np.arange(100, dtype=np.float32)], [y])
    assert_array_equal(y[1:], np.arange(99) + np.arange(1, 100))


def test_such_an_array_in_debug_mode():
    with wp.config(debug=True):
        x = np.arange(10, dtype=np.float32)
        wp.launch(scale, 10, [x, 2.0], [x])
        assert_array_equal(x, 2 * np.arange(10))

        @wp.kernel
        def shift(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[(i + 1) % 10]

        with pytest.raises(RuntimeError, match="shift"):
            wp.launch(shift, 10, [x], [x])


def test_inputs_may_share_memory(random):
    x, y = floats(random, 12), np.zeros((4, 3), np.float32)
    square = x.reshape(3, 4)
    wp.launch(transpose, (3, 4), [square], [y])
    total = np.zeros(5, np.float32)
    wp.launch(accumulate, 5, [x[2:7]], [total])

    @wp.kernel
    def add(a: wp.array[float], b: wp.array[float], c: wp.array[float]):
        i = wp.tid()
        c[i] = a[i] + b[i]

    wp.launch(add, 5, [x[:5], x[1:6]], [total])
    assert_array_equal(total, x[:5] + x[1:6])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (lambda a: a[:-1], lambda a: a[1:]),
        (lambda a: a[:10], lambda a: a[9::-1]),
        (lambda a: a[:10], lambda a: a[:20:2]),
        (lambda a: a[0:30:3], lambda a: a[20:0:-2]),
        (lambda a: a[:10], lambda a: a[5:15]),
    ],
)
def test_partial_overlap_is_refused(source, target):
    a = np.arange(31, dtype=np.float32)
    with pytest.raises(wp.LaunchError, match=r"'scale'.*'y' overlaps 'x'"):
        wp.launch(scale, 10, [source(a), 2.0], [target(a)])
    assert_array_equal(a, np.arange(31))


def test_interleaved_views_do_not_overlap(random):
    a = floats(random, 40)
    expected = a.copy()
    expected[1::2] = 2 * a[::2]
    wp.launch(scale, 20, [a[::2], 2.0], [a[1::2]])
    assert_array_equal(a, expected)


def test_overlap_of_views_that_only_look_apart():
    """Bytes in common, though no element begins where another one does."""
    raw = np.zeros(84, np.uint8)
    with pytest.raises(wp.LaunchError, match="overlaps"):
        wp.launch(scale, 20, [raw[:80].view(np.float32), 2.0], [raw[2:82].view(np.float32)])


def test_one_output_given_twice():
    y = np.zeros(8, np.float32)
    with pytest.raises(wp.LaunchError, match=r"'half' and 'double' are the same array"):
        wp.launch(halve_and_double, 8, [np.ones(8, np.float32)], [y, y])
    with pytest.raises(wp.LaunchError, match=r"'half' overlaps 'double'"):
        wp.launch(halve_and_double, 7, [np.ones(8, np.float32)], [y[1:], y[:-1]])


def test_an_output_that_overlaps_itself():
    y = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (6, 3), (4, 4))
    with pytest.raises(wp.LaunchError, match=r"'y' has elements that overlap"):
        wp.launch(transpose, (3, 6), [np.zeros((3, 6), np.float32)], [y])


def test_repeated_calls_with_arrays_that_share_memory(random):
    a = floats(random, 40)
    separate = np.zeros(20, np.float32)
    for _ in range(2):
        wp.launch(scale, 20, [a[:20], 2.0], [separate])
    with pytest.raises(wp.LaunchError, match="overlaps"):
        wp.launch(scale, 20, [a[:20], 2.0], [a[10:30]])
    expected = 2 * a[:20]
    wp.launch(scale, 20, [a[:20], 2.0], [a[:20]])
    assert_array_equal(a[:20], expected)
    x, y, z = (floats(random, 8) for _ in range(3))
    for _ in range(2):
        wp.launch(halve_and_double, 8, [x], [y, z])
    with pytest.raises(wp.LaunchError, match="same array"):
        wp.launch(halve_and_double, 8, [x], [y, y])
