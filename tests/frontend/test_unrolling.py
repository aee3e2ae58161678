"""Loops over `wp.static` expressions of their variable: read iteration by iteration, with their jumps."""

import numpy as np
import pytest
from run_three_ways import run_in_python, run_kernel, values_of

import jwarp as wp

pytestmark = pytest.mark.quick

WEIGHTS = (0.5, -1.0, 2.0, 4.0)
FUNCTIONS = (wp.neg, wp.sqrt, wp.floor)
N = 33


def agrees_with_python(kernel, *args):
    expected = run_in_python(kernel, N, *args)
    for got, wanted in zip(run_kernel(kernel, N, *args), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def arrays():
    a = np.random.default_rng(5).integers(-6, 7, N).astype(np.int32)
    return a, np.zeros((4, N), np.int32)


def test_jumps_that_are_known():
    @wp.kernel
    def kernel(a: wp.array[int], out: wp.array2d[int]):
        i = wp.tid()
        for j in range(6):
            if wp.static(j == 2):
                break
            out[0, i] += a[i] + j
        for j in range(6):
            if wp.static(j % 2 == 0):
                continue
            out[1, i] += a[i] * j
        for j in range(3):
            for k in range(4):
                if wp.static(k > j):
                    break
                out[2, i] += 10 * j + k
            out[3, i] += 1

    agrees_with_python(kernel, *arrays())


def test_jumps_that_depend_on_the_thread():
    @wp.kernel
    def kernel(a: wp.array[int], out: wp.array2d[int]):
        i = wp.tid()
        last = -1
        for j in range(5):
            if a[i] == j:
                break
            if a[i] == j - 4:
                continue
            last = j
            out[0, i] += wp.static(j * j + 1)
        out[1, i] = last
        for j in range(4):
            if a[i] > j:
                out[2, i] = wp.static(100 + j)
                if a[i] == 5:
                    return
        out[3, i] = a[i]

    agrees_with_python(kernel, *arrays())


def test_a_function_returns_from_an_unrolled_loop():
    @wp.func
    def first_above(x: float) -> int:
        for j in range(4):
            if wp.static(WEIGHTS[j]) > x:
                return j
        return -1

    @wp.kernel
    def kernel(out: wp.array[int]):
        out[0] = first_above(0.0)
        out[1] = first_above(0.5)
        out[2] = first_above(3.0)
        out[3] = first_above(4.0)

    assert values_of(kernel, count=4) == [0, 2, 3, -1]


def test_functions_by_trip():
    @wp.kernel
    def kernel(out: wp.array[float]):
        for j in range(3):
            f = wp.static(FUNCTIONS[j])
            out[j] = f(6.25)

    assert values_of(kernel, count=3) == [-6.25, 2.5, 6]


def test_a_loop_inside_a_running_loop():
    @wp.kernel
    def kernel(a: wp.array[int], out: wp.array2d[int]):
        i = wp.tid()
        n = 0
        while n < 10:
            n += 1
            if n == a[i]:
                continue
            for j in range(4):
                if n > wp.static(2 * j + 3):
                    continue
                if n == a[i] + j:
                    break
                out[0, i] += wp.static(j + 1) * n
            if n > 7:
                break
            out[1, i] += 1
        out[2, i] = n

    agrees_with_python(kernel, *arrays())


@wp.kernel
def counted_by_truth(n: wp.array[int]):
    for _ in range(wp.static(True)):
        n[0] += 1
    for _ in range(False):
        n[0] += 10


def test_a_constant_bool_is_a_number_of_trips():
    assert wp.launch(counted_by_truth, 1, [], [1])[0][0] == 1


@wp.kernel
def stepped_by_trips(a: wp.array[int], out: wp.array2d[int]):
    i = wp.tid()
    for n in range(3):
        for k in range(a[i], 9, n % 2):
            out[n, i] += k
        for k in reversed(range(0, a[i], n % 2)):
            out[3, i] += k + n


def test_a_step_that_turns_out_to_be_zero_gives_no_trip():
    a, out = arrays()
    _, got = run_kernel(stepped_by_trips, N, a, out)
    expected = np.zeros_like(out)
    expected[1] = [sum(range(first, 9)) for first in a]
    expected[3] = [sum(k + 1 for k in range(last)) for last in a]
    np.testing.assert_array_equal(got, expected)
