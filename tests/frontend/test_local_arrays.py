"""Arrays of a thread's own and rows of arrays: Python itself runs the same kernels on NumPy arrays."""

import dataclasses
import types

import numpy as np
import pytest
from run_three_ways import run_kernel

import jwarp as wp
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

pytestmark = pytest.mark.quick

N = 41
SCALAR = {int: np.int32, float: np.float32}


def in_numpy(kernel, *args):
    """The array arguments after Python has run the kernel, with NumPy's arrays as local ones."""

    def zeros(shape, dtype=float):
        return np.zeros(shape, SCALAR[dtype])

    names = types.SimpleNamespace(**{**vars(wp), "zeros": zeros, "empty": zeros})
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    outer = {**kernel.python.__globals__, "wp": names}

    def plain(function):
        return types.FunctionType(function.__code__, outer)

    outer |= {name: plain(f.python) for name, f in outer.items() if isinstance(f, wp.Func)}
    for thread in range(N):
        names.tid = lambda thread=thread: thread
        plain(kernel.python)(*copies)
    return [c for c in copies if isinstance(c, np.ndarray)]


def check(kernel, *args):
    expected = in_numpy(kernel, *args)
    for got, wanted in zip(run_kernel(kernel, N, *args), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def matrix(seed, *shape):
    return np.random.default_rng(seed).integers(-9, 10, (N, *shape)).astype(np.int32)


@wp.func
def shift(a: wp.array[int], by: int):
    last = a[a.shape[0] - 1]
    for k in range(1, len(a)):
        j = len(a) - k
        a[j] = a[j - 1] + by
    a[0] = last


@wp.func
def sorted_copy(a: wp.array[int]):
    made = wp.zeros(shape=6, dtype=int)
    for k in range(6):
        made[k] = a[k]
    for k in range(1, 6):
        j = k
        while j > 0 and made[j - 1] > made[j]:
            kept = made[j]
            made[j] = made[j - 1]
            made[j - 1] = kept
            j -= 1
    return made


@wp.kernel
def insertion_sort(x: wp.array2d[int], out: wp.array2d[int]):
    i = wp.tid()
    in_order = sorted_copy(x[i])
    shift(in_order, i)
    shift(x[i], 1)
    for k in range(6):
        out[i, k] = in_order[k]


@wp.kernel
def in_branches_and_loops(x: wp.array2d[int], out: wp.array2d[int]):
    i = wp.tid()
    t = wp.zeros((2, 3), dtype=int)
    for k in range(x[i, 0]):
        fresh = wp.empty(4, dtype=int)
        if x[i, k % 6] < 0:
            fresh[k % 4] = k
            fresh[-1] += 2
            if k == 5:
                continue
        elif k % 3 == 1:
            own = wp.zeros(shape=3, dtype=int)
            own[k % 3] += x[i, 1]
            fresh[1] = own[1] - own[0]
        if x[i, 2] == k:
            break
        for j in range(4):
            t[k % 2, j % 3] += fresh[j] * (j + 1)
    if x[i, 3] > 3:
        out[i, 5] = t[0][1]
        return
    for j in range(3):
        out[i, j] = t[0, j] + 10 * t[-1, j]


@wp.kernel
def rows(x: wp.array2d[int], y: wp.array3d[int], out: wp.array2d[int]):
    i = wp.tid()
    row = x[i]
    if row[0] > 0:
        row = x[i - row[0]]
    best = y[i, 0]
    for k in range(y.shape[1]):
        other = y[i][k]
        if other[0] > best[0]:
            best = other
        other[1] += k
    mine = out[i]
    mine[0] = row[1] + best[1]
    mine[1] = (y[i, 1] if best[0] > 2 else y[i, 0, :])[2]
    a, b = y[i].shape
    mine[2] = a * 10 + b + len(best)


@wp.kernel
def constant_places(x: wp.array2d[int], out: wp.array2d[int]):
    i = wp.tid()
    t = wp.zeros(4, dtype=int)
    for k in range(3):
        t[k] = x[i, k]
    while t[0] < 20:
        t[0] += 7
        t[1] -= t[0]
        if t[1] < -30:
            t[3] = t[1]
    for k in range(4):
        out[i, k] = t[k]


def test_sorting_in_functions():
    check(insertion_sort, matrix(1, 6), matrix(2, 6))


def test_branches_and_loops():
    check(in_branches_and_loops, matrix(3, 6), matrix(4, 6))


def test_rows():
    check(rows, matrix(5, 6), matrix(6, 2, 3), matrix(7, 3))


def test_constant_places():
    check(constant_places, matrix(8, 3), matrix(9, 4))
    for version in ("fast", "checked"):
        assert "alloca" not in str(CpuKernel(constant_places.ir(), Settings(cache_dir="")).module(version))


def test_elements_of_vectors_and_matrices():
    @wp.kernel
    def kernel(x: wp.array[wp.vec3], k: wp.array[int], out: wp.array[wp.mat22]):
        i = wp.tid()
        v = wp.zeros(shape=(2, 2), dtype=wp.vec3)
        m = wp.zeros(2, wp.mat22)
        v[k[i] % 2, 1] = x[i]
        v[1][1].y += 2.0
        v[0, -1] += x[i]
        m[1][0, 1] = wp.dot(v[0, 1], v[1, 1])
        m[1][1] = wp.vec2(v[1, 1].y, float(len(v)))
        m[k[i]] += wp.mat22(1.0)
        out[i] = m[1] * 2.0

    rng = np.random.default_rng(4)
    x, k = rng.integers(-5, 5, (N, 3)).astype(np.float32), rng.integers(0, 4, N).astype(np.int32)
    out = run_kernel(kernel, N, x, k, np.ones((N, 2, 2), np.float32))[-1]
    for i in range(N):
        v = np.zeros((2, 3))
        v[k[i] % 2] = x[i]
        v[1, 1] += 2
        v[0] += x[i]
        expected = np.array([[0, v[0] @ v[1]], [v[1, 1], 2]]) + (k[i] == 1)
        np.testing.assert_array_equal(out[i], 2 * expected)


def test_atomic_operations_give_what_was_there():
    @wp.kernel
    def kernel(x: wp.array2d[int], out: wp.array2d[int]):
        i = wp.tid()
        t = wp.zeros(3, dtype=int)
        p = x[i, 0]
        out[i, 0] = wp.atomic_add(t, p, 5) + wp.atomic_max(t, p, 7)
        out[i, 1] = wp.atomic_cas(t, 1, 7, 9) * 100 + wp.atomic_exch(t, 1, 4)
        out[i, 2] = wp.atomic_add(x[i], 1, 3)
        t[1] |= 1
        out[i, 3] = t[0] + t[1] * 10 + t[2] * 100

    x = matrix(10, 3)
    got_x, out = run_kernel(kernel, N, x, np.zeros((N, 4), np.int32))
    for i in range(N):
        t = [0, 0, 0]
        p = x[i, 0]
        inside = -3 <= p < 3
        first = [0, 5 if inside else 0]
        if inside:
            t[p] = 7
        before = t[1]
        exchanged = 9 if before == 7 else before
        t[1] = 5
        assert out[i].tolist() == [sum(first), before * 100 + exchanged, x[i, 1], t[0] + t[1] * 10 + t[2] * 100]
    assert np.array_equal(got_x[:, 1], x[:, 1] + 3)


def test_every_precision_and_bools():
    for dtype in (wp.float16, wp.bfloat16, wp.float64, wp.uint8, wp.int64, wp.bool):

        @wp.kernel
        def kernel(x: wp.array[int], out: wp.array[int]):
            i = wp.tid()
            t = wp.zeros(3, dtype=dtype)
            t[x[i]] = dtype(x[i])
            t[0] = dtype(1)
            for k in range(3):
                out[i] += int(t[k]) * (k + 1)

        x = np.random.default_rng(1).integers(0, 5, N).astype(np.int32)
        one = 1 if dtype is wp.bool else x
        expected = 1 + np.where(x == 1, 2 * np.minimum(one, 1), 0) + np.where(x == 2, 3 * one, 0)
        np.testing.assert_array_equal(run_kernel(kernel, N, x, np.zeros(N, np.int32))[-1], expected)


def test_an_index_that_is_certainly_outside_is_refused():
    @wp.kernel
    def kernel(x: wp.array[float]):
        t = wp.zeros(3, dtype=float)
        t[3] = x[0]
        x[1] = t[2]

    with pytest.raises(wp.LaunchError, match=r"index 3 is outside axis 0 of `t`, whose extent is 3"):
        wp.launch(kernel, 1, [], [2])


def test_the_largest_local_array_runs():
    @wp.kernel
    def kernel(x: wp.array[int], out: wp.array[float]):
        i = wp.tid()
        t = wp.zeros(1024, dtype=float)
        t[x[i]] = 2.5
        out[i] = t[x[i]] + t[x[i] - 1]

    x = np.arange(N, dtype=np.int32) * 25
    np.testing.assert_array_equal(run_kernel(kernel, N, x, np.zeros(N, np.float32))[-1], 2.5)


def test_locals_belong_to_the_kernel():
    first, second = constant_places.ir(), in_branches_and_loops.ir()
    assert [local.name for local in first.locals] == ["t"]
    assert [local.name for local in second.locals] == ["t", "fresh", "own"]
    assert dataclasses.replace(second.locals[0], name="u").shape == (2, 3)


@wp.kernel
def given_to_two_names(x: wp.array[float], y: wp.array2d[float]):
    i = wp.tid()
    a = wp.zeros(shape=2, dtype=float)
    a[0] = x[i]
    b = c = a
    b[0] += 1.0
    c[0] *= 3.0
    y[i, 0] = a[0]
    y[i, 1] = b[0]
    y[i, 2] = c[0]


def test_each_name_has_a_copy_of_its_own():
    x = np.random.default_rng(4).normal(size=5).astype(np.float32)
    (y,) = wp.launch(given_to_two_names, 5, [x], [np.zeros((5, 3), np.float32)])
    np.testing.assert_array_equal(y, np.stack([x, x + np.float32(1), x * np.float32(3)], 1))
