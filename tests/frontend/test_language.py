"""The values of expressions, written out by hand or computed by NumPy, and where they differ from Python's."""

import math

import numpy as np
import pytest
from run_three_ways import run_kernel, values_of

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.types import FLOATS, INTS, SCALARS

pytestmark = pytest.mark.quick

TOP = 2**31 - 1


@wp.kernel
def comparisons(n: wp.array[int], x: wp.array[float], b: wp.array[wp.uint8], out: wp.array2d[int]):
    i = wp.tid()
    out[0, i] = int(n[i] < x[i])
    out[1, i] = int(x[i] >= n[i])
    out[2, i] = int(x[i] > 1)
    out[3, i] = int(n[i] == 2.5)
    out[4, i] = int(b[i] > n[i])
    out[5, i] = int(0 < x[i] < 3)
    out[6, i] = int(wp.int64(n[i]) * wp.int64(1000000007) != n[i])
    out[7, i] = int(wp.float64(x[i]) == x[i])


def test_numbers_of_two_types_are_compared_as_in_c():
    rng = np.random.default_rng(3)
    n, x = rng.integers(-3, 4, 50).astype(np.int32), rng.integers(-12, 13, 50).astype(np.float32) / 4
    b = rng.integers(0, 256, 50).astype(np.uint8)
    out = run_kernel(comparisons, 50, n, x, b, np.zeros((8, 50), np.int32))[-1]
    chain = (x > 0) & (x < 3)
    expected = [n < x, x >= n, x > 1, n == 2.5, b > n, chain, n != 0, x == x]
    np.testing.assert_array_equal(out, np.array(expected, np.int32))


@wp.kernel
def typed(x: wp.array[wp.float64], v: wp.array[wp.vec3], out: wp.array[wp.float64], w: wp.array[wp.vec3]):
    out[0] = x.dtype(3) + type(x[0])(1.5)
    w[0] = type(v[0])(2.0) + v.dtype(1.0, 2.0, 3.0)


def test_types_are_those_of_values_and_arrays(x64):
    out, w = run_kernel(typed, 1, np.ones(1), np.ones((1, 3), np.float32), np.zeros(1), np.zeros((1, 3), np.float32))[
        2:
    ]
    assert out.tolist() == [4.5] and w.tolist() == [[3, 4, 5]]


@wp.kernel
def chosen(a: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    wp.atomic_add(out, 0, a[i]) if a[i] > 0 else wp.atomic_max(out, 1, -a[i])


def test_a_choice_between_calls_is_a_statement():
    a = np.random.default_rng(5).integers(-50, 50, 40).astype(np.int32)
    assert run_kernel(chosen, 40, a, np.zeros(2, np.int32))[-1].tolist() == [a[a > 0].sum(), -a.min()]


@wp.kernel
def one_name_for_two_loops(out: wp.array[int]):
    for i in range(2):
        for i in range(3):
            out[wp.static(i)] += 1
        out[3] += wp.static(10 * i)
    out[4] = wp.static(i)


def test_static_sees_the_last_value_of_a_loop_variable():
    assert run_kernel(one_name_for_two_loops, 1, np.zeros(5, np.int32))[-1].tolist() == [2, 2, 2, 40, 2]


@wp.kernel
def divisions(a: wp.array[int], b: wp.array[int], out: wp.array2d[int]):
    i = wp.tid()
    out[0, i] = a[i] / b[i]
    out[1, i] = a[i] // b[i]
    out[2, i] = a[i] % b[i]


def test_integer_division_truncates_floors_and_keeps_the_sign_of_the_dividend():
    a, b = np.array([7, -7, 7, -7, 6, -6, 0], np.int32), np.array([2, 2, -2, -2, 3, 3, 5], np.int32)
    out = run_kernel(divisions, len(a), a, b, np.zeros((3, len(a)), np.int32))[-1]
    assert out.tolist() == [[3, -3, -3, 3, 2, -2, 0], [3, -4, -4, 3, 2, -2, 0], [1, -1, 1, -1, 0, 0, 0]]


def test_integer_division_by_zero_and_its_overflow_are_defined():
    a, b = np.array([5, -5, 0, -TOP - 1], np.int32), np.array([0, 0, 0, -1], np.int32)
    out = run_kernel(divisions, 4, a, b, np.zeros((3, 4), np.int32))[-1]
    assert out.tolist() == [[-1, -1, -1, -TOP - 1], [-1, -1, -1, -TOP - 1], [5, -5, 0, 0]]


@wp.kernel
def float_remainders(a: wp.array[float], b: wp.array[float], out: wp.array2d[float]):
    i = wp.tid()
    out[0, i] = a[i] % b[i]
    out[1, i] = a[i] // b[i]
    out[2, i] = a[i] / b[i]


def test_float_remainder_is_that_of_c():
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-50, 50, 100).astype(np.float32) for _ in range(2))
    out = run_kernel(float_remainders, 100, a, b, np.zeros((3, 100), np.float32))[-1]
    np.testing.assert_array_equal(out, [np.fmod(a, b), np.floor(a / b), a / b])


@wp.kernel
def roundings(a: wp.array[float], out: wp.array2d[float]):
    i = wp.tid()
    out[0, i] = wp.round(a[i])
    out[1, i] = wp.rint(a[i])
    out[2, i] = round(a[i])
    out[3, i] = wp.floor(a[i])
    out[4, i] = wp.ceil(a[i])
    out[5, i] = wp.trunc(a[i])


def test_round_goes_away_from_zero_and_rint_to_even():
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.4, -2.6, 0.49999997, 8388609.0], np.float32)
    away = [1, 2, 3, -1, -2, -3, 2, -3, 0, 8388609]
    out = run_kernel(roundings, len(a), a, np.zeros((6, len(a)), np.float32))[-1]
    assert out[0].tolist() == out[2].tolist() == away
    np.testing.assert_array_equal(out[[1, 3, 4, 5]], [np.rint(a), np.floor(a), np.ceil(a), np.trunc(a)])


@wp.kernel
def shifts(a: wp.array[int], b: wp.array[int], out: wp.array2d[int]):
    i = wp.tid()
    out[0, i] = a[i] << b[i]
    out[1, i] = a[i] >> b[i]


def test_shifts_by_the_width_or_more_leave_nothing_but_the_sign():
    a, b = np.array([3, -3, 3, -3, 1, 3, -3], np.int32), np.array([2, 1, 32, 32, 31, 99, -1], np.int32)
    out = run_kernel(shifts, len(a), a, b, np.zeros((2, len(a)), np.int32))[-1]
    assert out.tolist() == [[12, -6, 0, 0, -TOP - 1, 0, 0], [0, -2, 0, -1, 0, 0, -1]]


def test_min_max_clamp_where_and_select():
    @wp.kernel
    def kernel(x: float, n: int, out: wp.array[float]):
        out[0] = wp.min(x, 2.0)
        out[1] = max(x, 2.0)
        out[2] = wp.clamp(x, -1.0, 1.0)
        out[3] = wp.clamp(x, 5.0, 1.0)  # the upper bound wins
        out[4] = wp.where(n, 1.0, 2.0)
        out[5] = wp.where(n > 3, 1.0, 2.0)
        out[6] = wp.select(n > 3, 1.0, 2.0)  # the value for False comes first
        out[7] = abs(-x)
        out[8] = 1.0 if n else 2.0

    assert values_of(kernel, 3.0, 2, count=9) == [2, 3, 1, 1, 1, 2, 1, 3, 1]


@pytest.mark.parametrize("target", INTS, ids=repr)
@pytest.mark.parametrize("source", INTS, ids=repr)
def test_integers_convert_by_wrapping(source, target):
    @wp.kernel
    def convert(a: wp.array[source], out: wp.array[target]):
        i = wp.tid()
        out[i] = target(a[i])

    a = np.array([0, 1, source.min, source.max, source.max // 3], source.dtype)
    got = run(convert.ir(), (5,), [a, np.zeros(5, target.dtype)])[-1]
    assert all((int(v) - int(w)) % 2**target.bits == 0 for v, w in zip(got, a, strict=True))


@pytest.mark.parametrize("target", INTS, ids=repr)
@pytest.mark.parametrize("source", FLOATS, ids=repr)
def test_floats_convert_to_integers_by_truncating_and_saturating(source, target):
    @wp.kernel
    def convert(a: wp.array[source], out: wp.array[target]):
        i = wp.tid()
        out[i] = target(a[i])

    values = [0.0, 2.75, -2.75, 100.5, math.inf, -math.inf, math.nan, -1e4]
    a = np.array(values, source.dtype)
    got = run(convert.ir(), (len(a),), [a, np.zeros(len(a), target.dtype)])[-1]
    wide = [float(v) for v in a]
    expected = [0 if v != v else max(min(v, target.max), target.min) for v in wide]
    assert got.tolist() == [int(v) for v in expected]


@pytest.mark.parametrize("source", SCALARS.values(), ids=repr)
def test_every_type_converts_to_every_type_a_small_number(source):
    types = [t for t in SCALARS.values() if t.name != "bool"]
    for target in types:

        @wp.kernel
        def convert(a: source, out: wp.array[target]):
            out[0] = target(a)

        ((value,),) = run(convert.ir(), (1,), [source(1), np.zeros(1, target.dtype)])
        assert value == 1 and value.dtype == target.dtype

    @wp.kernel
    def truth(a: source, out: wp.array[bool]):
        out[0] = bool(a)
        out[1] = not a

    assert run(truth.ir(), (1,), [source(1), np.zeros(2, bool)])[-1].tolist() == [True, False]


def test_narrow_integers_wrap_in_their_own_width():
    @wp.kernel
    def kernel(a: wp.int8, b: wp.uint8, out: wp.array[int]):
        out[0] = int(a + a)
        out[1] = int(a * a)
        out[2] = int(-a)
        out[3] = int(b + b)
        out[4] = int(-b)
        out[5] = int(~b)
        out[6] = int(b >> wp.uint8(1))

    got = values_of(kernel, np.int8(100), np.uint8(200), count=7)
    assert got == [-56, 10000 % 256, -100, 144, 56, 55, 100]


def test_literals_take_the_full_precision_of_a_conversion():
    @wp.kernel
    def kernel(out: wp.array[wp.float64]):
        out[0] = wp.float64(0.1)
        out[1] = wp.float64(-0.1)
        out[2] = wp.float64(float(0.1))
        out[3] = wp.float64(1e300)
        out[4] = wp.float64(123456789012345678901234567890)

    ((*got,),) = run(kernel.ir(), (1,), [np.zeros(5)])
    assert got == [0.1, -0.1, float(np.float32(0.1)), 1e300, float(123456789012345678901234567890)]


def test_numbers_that_are_equal_in_python_are_kept_apart():
    @wp.kernel
    def kernel(p: bool, out: wp.array[float]):
        if p:
            zero = 0.0
        else:
            zero = -0.0
        out[0] = 1.0 / zero

    assert values_of(kernel, True) == [math.inf] and values_of(kernel, False) == [-math.inf]


def test_indices_count_from_the_end_and_outside_there_is_nothing():
    @wp.kernel
    def kernel(a: wp.array[float], k: int, out: wp.array[float]):
        out[0] = a[-1]
        out[1] = a[k]
        out[2] = a[-k]
        out[wp.int64(3)] = a[wp.uint8(1)]
        out[k] = 7.0
        out[-k] = 8.0

    a = np.array([1.0, 2.0, 3.0], np.float32)
    assert run_kernel(kernel, 1, a, 4, np.zeros(5, np.float32))[-1].tolist() == [3, 8, 0, 2, 7]
    assert run_kernel(kernel, 1, a, 99, np.zeros(5, np.float32))[-1].tolist() == [3, 0, 0, 2, 0]


def test_elements_change_in_place():
    @wp.kernel
    def kernel(a: wp.array[float], n: wp.array[int], flags: wp.array[bool]):
        i = wp.tid()
        a[i] *= 3.0
        a[i] -= 1.0
        a[0] += 0.5
        n[i] |= 6
        n[i] &= 12
        n[i] ^= 5
        n[i] <<= 2
        n[i] //= 3
        n[i] %= 4
        flags[i] |= i == 1
        flags[i] &= i < 3

    n = np.arange(4, dtype=np.int32)
    a, n, flags = run_kernel(kernel, 4, np.ones(4, np.float32), n, np.array([True, False, False, True]))
    assert a.tolist() == [4, 2, 2, 2] and flags.tolist() == [True, True, False, False]
    assert n.tolist() == [((((k | 6) & 12) ^ 5) << 2) // 3 % 4 for k in range(4)]


def test_shapes_and_lengths():
    @wp.kernel
    def kernel(a: wp.array3d[float], out: wp.array[int]):
        rows, columns, depth = a.shape
        shape = a.shape
        out[0] = rows * 100 + columns * 10 + depth
        out[1] = shape[0] * 100 + shape[-1]
        out[2] = len(a) + out.shape[0] * 10

    assert values_of(kernel, np.zeros((2, 3, 4), np.float32), count=3) == [234, 204, 32]


def test_tid_has_one_to_four_coordinates():
    @wp.kernel
    def kernel(out: wp.array4d[int]):
        i, j, k, m = wp.tid()
        out[i, j, k, m] = ((i * 3 + j) * 4 + k) * 5 + m

    out = run_kernel(kernel, (2, 3, 4, 5), np.zeros((2, 3, 4, 5), np.int32))[0]
    assert out.ravel().tolist() == list(range(120))


def test_a_number_may_change_in_a_loop_without_a_conversion():
    @wp.kernel
    def kernel(n: int, out: wp.array[float]):
        s = 0.0
        k = 1
        for _ in range(n):
            s += 0.5
            k = k + 1
        out[0] = s * float(k)

    assert values_of(kernel, 20) == [10.0 * 21]


def test_a_variable_that_may_be_unset_reads_as_zero_with_a_warning():
    @wp.kernel
    def in_branch(n: int, out: wp.array[int]):
        if n > 2:
            y = 5
        out[0] = y

    @wp.kernel
    def in_loop(n: int, out: wp.array[int]):
        for k in range(n):
            y = k + 5
        out[0] = y

    @wp.kernel
    def after_continue(n: int, out: wp.array[int]):
        for k in range(3):
            if k < n:
                continue
            y = k + 5
        out[0] = y

    for kernel in (in_branch, in_loop, after_continue):
        with pytest.warns(wp.KernelWarning, match=r"test_language.py:\d+: `y` may have no value"):
            kernel.ir()
    assert values_of(in_branch, 3) == [5] and values_of(in_branch, 1) == [0]
    assert values_of(in_loop, 3) == [7] and values_of(in_loop, 0) == [0]
    assert values_of(after_continue, 1) == [7] and values_of(after_continue, 3) == [0]


def test_what_is_always_set_gives_no_warning(recwarn):
    @wp.kernel
    def kernel(n: int, out: wp.array[int]):
        if n > 2:
            y = 1
        elif n > 1:
            return
        else:
            y = 2
        for k in range(20):
            z = k + y
        while True:
            w = z
            if w > 0:
                break
        for k in range(n):
            z = k
        out[0] = y + z + w

    kernel.ir()
    assert not recwarn.list


def test_asserts_and_documentation_are_read_over():
    @wp.kernel
    def kernel(n: int, out: wp.array[int]):
        """Count."""
        assert n > 0, "positive"
        assert n > 0, f"{n} must be positive"
        pass
        out[0] = n

    assert values_of(kernel, 3) == [3]
