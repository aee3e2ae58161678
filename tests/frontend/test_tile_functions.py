"""Functions applied to the elements of tiles, reductions, running results and equations: NumPy says what is right."""

import functools

import numpy as np
import pytest
import scipy.linalg
from tile_running import close, run_tiled

import jwarp as wp


def numbers(seed, *shape, dtype=np.float32):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(1, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@wp.func
def soft(x: float, s: float):
    y = x * s
    if y > 0.5:
        y = wp.log(y) + 0.5
    for k in range(3):
        y += float(k) * s
    return y


@wp.func
def collatz(x: int, most: int):
    steps = int(0)
    while x != 1 and steps < most:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    return steps


@wp.func
def power_sum(x: int, y: wp.vec2, n: int):
    total = float(0.0)
    for k in range(n):
        if k == x:
            continue
        total += y[0] + float(k) * y[1]
    return total


@wp.func
def rotated(v: wp.vec3, a: float):
    return wp.vec2(v.x * wp.cos(a), v.y + v.z)


@wp.kernel
def mapped(
    x: wp.array2d[float], s: float, n: int, v: wp.array[wp.vec3], out: wp.array3d[float], whole: wp.array2d[int]
):
    t = wp.tile_load(x, (3, 4))
    wp.tile_store(out[0], wp.tile_map(wp.sin, t))
    wp.tile_store(out[1], wp.tile_map(wp.max, t, wp.tile_full((3, 4), 0.25)))
    wp.tile_store(out[2], wp.tile_map(wp.pow, wp.tile_map(wp.abs, t), s))
    wp.tile_store(out[3], wp.tile_map(soft, t, s))
    wp.tile_store(out[4], wp.tile_map(soft, t, 0.75))
    k = wp.tile_astype(t * 10.0, dtype=int)
    k = wp.tile_map(wp.abs, k) + wp.tile_ones((3, 4), dtype=int)
    wp.tile_store(whole, wp.tile_map(collatz, k, n))
    wp.tile_store(out[5], wp.tile_map(power_sum, k, wp.vec2(s, 0.5), n))
    w = wp.tile_load(v, 3)
    u = wp.tile_map(rotated, w, wp.tile_reshape(t[0, :3], 3))
    wp.tile_store(out[6][0], wp.tile_map(wp.length, w))
    wp.tile_store(out[6][1], wp.tile_map(wp.dot, u, u))
    wp.tile_store(out[7], wp.tile_map(float, k))
    wp.tile_store(out[8], wp.tile_map(wp.lerp, t, t * 2.0, s))


def in_numpy(function, *columns):
    """A function of the kernel language on each element, by Python."""
    shape = np.broadcast_shapes(*(np.shape(c)[:2] for c in columns[:1]))
    flat = [np.broadcast_to(c, shape).reshape(-1) if np.ndim(c) in (0, 2) else [c] * 12 for c in columns]
    return np.array([function.python(*row) for row in zip(*flat, strict=True)], object).reshape(shape)


def test_map():
    x, v, s, n = numbers(0, 3, 4), numbers(1, 3, 3), np.float32(1.25), 5
    args = (x, s, n, v, np.zeros((9, 3, 4), np.float32), np.zeros((3, 4), np.int32))
    out, whole = run_tiled(mapped, 1, *args)[-2:]
    k = np.abs((x * np.float32(10)).astype(np.int32)) + 1

    def softened(s):
        y = x * s
        with np.errstate(all="ignore"):
            return np.where(y > 0.5, np.log(y) + 0.5, y) + 3 * s

    np.testing.assert_array_equal(whole, in_numpy(collatz, k, n).astype(np.int32))
    close(out[:5], [np.sin(x), np.maximum(x, 0.25), np.abs(x) ** s, softened(s), softened(np.float32(0.75))])
    close(out[5], in_numpy(power_sum, k, (s, 0.5), n).astype(np.float64))
    close(out[6, 0, :3], np.linalg.norm(v, axis=1))
    u = np.stack([v[:, 0] * np.cos(x[0, :3]), v[:, 1] + v[:, 2]], 1)
    close(out[6, 1, :3], (u * u).sum(1))
    np.testing.assert_array_equal(out[7], k)
    close(out[8], x * (1 - s) + 2 * x * s)


# -- reductions


@wp.func
def larger(x: float, y: float):
    return wp.where(wp.abs(y) > wp.abs(x), y, x)


@wp.func
def longer(x: wp.vec2, y: wp.vec2):
    if wp.length_sq(y) > wp.length_sq(x):
        return y
    return x


@wp.kernel
def reduced(x: wp.array3d[float], out: wp.array2d[float], rows: wp.array4d[float], first: wp.array[int]):
    t = wp.tile_load(x, (2, 3, 4))
    wp.tile_store(out[0], wp.tile_sum(t))
    wp.tile_store(out[1], wp.tile_min(t))
    wp.tile_store(out[2], wp.tile_max(t))
    wp.tile_store(out[3], wp.tile_reduce(wp.mul, t))
    wp.tile_store(out[4], wp.tile_reduce(larger, t))
    out[5, 0] = wp.tile_sum(t)[0] * 2.0
    wp.tile_store(out[6], wp.tile_sum(t[1][0], axis=0))
    wp.tile_store(out[7], wp.tile_reduce(larger, t[1][0], axis=0))
    wp.tile_store(out[8], wp.tile_dot(t, t * 0.5))
    wp.tile_store(rows[0][0], wp.tile_sum(t, axis=0))
    wp.tile_store(rows[0][1], wp.tile_sum(t, axis=1))
    wp.tile_store(rows[1][0], wp.tile_reduce(min, t, axis=2))
    wp.tile_store(rows[1][1], wp.tile_reduce(wp.max, t, axis=1))
    wp.tile_store(rows[2][0], wp.tile_reduce(larger, t, axis=0))
    wp.tile_store(rows[2][1], wp.tile_reduce(larger, t, axis=1))
    wp.tile_store(rows[3][0], wp.tile_reduce(larger, t, 2))
    first[0] = wp.tile_argmin(t)[0]
    first[1] = wp.tile_argmax(t)[0]


def largest(x, axis):
    chosen = np.expand_dims(np.abs(x).argmax(axis), axis)
    return np.take_along_axis(x, chosen, axis).squeeze(axis)


def test_reductions():
    x = numbers(2, 2, 3, 4)
    args = (x, np.zeros((9, 1), np.float32), np.zeros((4, 2, 3, 4), np.float32), np.zeros(2, np.int32))
    _, out, rows, first = run_tiled(reduced, 1, *args)
    wide, flat = x.astype(np.float64), x.reshape(-1)
    expected = [wide.sum(), x.min(), x.max(), wide.prod(), largest(flat, 0), 2 * wide.sum(), wide[1, 0].sum()]
    close(out[:, 0], [*expected, largest(x[1, 0], 0), 0.5 * (wide * wide).sum()])
    for place, value in {
        (0, 0): wide.sum(0), (0, 1): wide.sum(1), (1, 0): x.min(2), (1, 1): x.max(1),
        (2, 0): largest(x, 0), (2, 1): largest(x, 1), (3, 0): largest(x, 2),
    }.items():  # fmt: skip
        close(rows[place][tuple(slice(0, n) for n in value.shape)], value)
    np.testing.assert_array_equal(first, [flat.argmin(), flat.argmax()])


@wp.kernel
def reduced_vectors(x: wp.array2d[wp.vec2], out: wp.array[wp.vec2], rows: wp.array2d[wp.vec2], dot: wp.array[float]):
    t = wp.tile_load(x, (3, 4))
    wp.tile_store(out, wp.tile_sum(t))
    wp.tile_store(out, wp.tile_reduce(wp.add, t), offset=1)
    wp.tile_store(out, wp.tile_reduce(longer, t), offset=2)
    wp.tile_store(out, wp.tile_reduce(wp.min, t), offset=3)
    wp.tile_store(rows[0], wp.tile_sum(t, axis=0))
    wp.tile_store(rows[1], wp.tile_reduce(longer, t, axis=1))
    wp.tile_store(dot, wp.tile_dot(t, t))


def test_reductions_of_vectors():
    x = numbers(3, 3, 4, 2)
    args = (x, np.zeros((4, 2), np.float32), np.zeros((2, 4, 2), np.float32), np.zeros(1, np.float32))
    _, out, rows, dot = run_tiled(reduced_vectors, 1, *args)
    lengths = (x**2).sum(-1)
    longest = x.reshape(-1, 2)[lengths.argmax()]
    close(out, [x.sum((0, 1)), x.sum((0, 1)), longest, x.min((0, 1))])
    close(rows[0], x.sum(0))
    close(rows[1][:3], np.take_along_axis(x, lengths.argmax(1)[:, None, None], 1)[:, 0])
    close(dot, [(x.astype(np.float64) ** 2).sum()])


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_reductions_of_integers(dtype):
    kind = next(t for t in wp.types.SCALARS.values() if t.dtype == dtype)

    @wp.kernel
    def k(x: wp.array[kind], out: wp.array[kind]):
        t = wp.tile_load(x, 6)
        wp.tile_store(out, wp.tile_reduce(wp.bit_and, t), 0)
        wp.tile_store(out, wp.tile_reduce(wp.bit_or, t), 1)
        wp.tile_store(out, wp.tile_reduce(wp.bit_xor, t), 2)
        wp.tile_store(out, wp.tile_reduce(wp.mul, t), 3)
        wp.tile_store(out, wp.tile_scan_inclusive(t), 4)
        wp.tile_store(out, wp.tile_scan_exclusive(t), 10)

    x = numbers(4, 6, dtype=dtype)
    out = run_tiled(k, 1, x, np.zeros(16, dtype))[-1]
    sums = np.cumsum(x, dtype=dtype)
    bits = [functools.reduce(f, x) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    np.testing.assert_array_equal(out, [*bits, x.prod(dtype=dtype), *sums, *(sums - x)])


@wp.kernel
def scanned(x: wp.array2d[float], out: wp.array3d[float]):
    t = wp.tile_load(x, (3, 4))
    wp.tile_store(out[0], wp.tile_scan_inclusive(t))
    wp.tile_store(out[1], wp.tile_scan_exclusive(t))
    wp.tile_store(out[2], wp.tile_scan_max_inclusive(t))
    wp.tile_store(out[3], wp.tile_scan_min_inclusive(t))
    d = wp.tile_zeros((3, 4))
    wp.tile_axpy(0.5, t, d)
    wp.tile_axpy(wp.tile_max(t)[0], t, dest=d)
    wp.tile_store(out[4], d)
    row = wp.tile_zeros(4)
    wp.tile_axpy(2.0, t, wp.tile_broadcast(row, (3, 4)))
    wp.tile_store(out[5][0], row)


def test_running_results():
    x = numbers(5, 3, 4)
    out = run_tiled(scanned, 1, x, np.zeros((6, 3, 4), np.float32))[-1]
    close(out[5, 0], 2 * x.sum(0))
    flat = x.reshape(-1)
    sums = np.cumsum(flat.astype(np.float64))
    runs = [sums, sums - flat, np.maximum.accumulate(flat), np.minimum.accumulate(flat), flat * (0.5 + flat.max())]
    close(out[:5], np.stack(runs).reshape(5, 3, 4))


# -- equations


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [None, 3])
def test_equations(dtype, columns):
    kind = wp.float32 if dtype == np.float32 else wp.float64
    n = 5
    shape = (n,) if columns is None else (n, columns)
    array = wp.array[kind] if columns is None else wp.array2d[kind]
    results = wp.array2d[kind] if columns is None else wp.array3d[kind]

    @wp.kernel
    def solved(a: wp.array2d[kind], y: array, factors: wp.array3d[kind], out: results):
        m, b = wp.tile_load(a, shape=(n, n)), wp.tile_load(y, shape=shape)
        lower = wp.tile_cholesky(m)
        upper = wp.tile_cholesky(m, fill_mode="upper")
        wp.tile_store(factors[0], lower)
        wp.tile_store(factors[1], upper)
        wp.tile_store(out[0], wp.tile_cholesky_solve(lower, b))
        wp.tile_store(out[1], wp.tile_cholesky_solve(upper, b, "upper"))
        wp.tile_store(out[2], wp.tile_lower_solve(m, b))
        wp.tile_store(out[3], wp.tile_upper_solve(m, b))
        z = b
        wp.tile_lower_solve_inplace(lower, z)
        wp.tile_upper_solve_inplace(wp.tile_transpose(lower), z)
        wp.tile_store(out[4], z)
        wp.tile_cholesky_solve_inplace(lower, b)
        wp.tile_store(out[5], b)
        wp.tile_cholesky_inplace(m, fill_mode="upper")
        wp.tile_store(factors[2], m)

    rng = np.random.default_rng(6)
    g = rng.standard_normal((n, n))
    a = (g @ g.T + n * np.eye(n)).astype(dtype)
    # Only one triangle is read, so that the matrix need not be symmetric.
    a += np.triu(rng.standard_normal((n, n)), 1).astype(dtype)
    y = rng.standard_normal(shape).astype(dtype)
    factors, out = run_tiled(solved, 1, a, y, np.zeros((3, n, n), dtype), np.zeros((6, *shape), dtype))[-2:]
    low, high = (np.tril(a) + np.tril(a, -1).T).astype(float), (np.triu(a) + np.triu(a, 1).T).astype(float)
    close(factors, [np.linalg.cholesky(low), np.linalg.cholesky(high).T, np.linalg.cholesky(high).T], dtype)
    triangular = functools.partial(scipy.linalg.solve_triangular, a.astype(float), y.astype(float))
    solutions = [np.linalg.solve(low, y), np.linalg.solve(high, y), triangular(lower=True), triangular(lower=False)]
    close(out, [*solutions, solutions[0], solutions[0]], dtype)


@wp.kernel
def diagonal(a: wp.array2d[wp.vec2], d: wp.array[wp.vec2], out: wp.array2d[wp.vec2]):
    wp.tile_store(out, wp.tile_diag_add(wp.tile_load(a, (3, 3)), wp.tile_load(d, 3)))


def test_diagonal():
    a, d = numbers(7, 3, 3, 2), numbers(8, 3, 2)
    out = run_tiled(diagonal, 1, a, d, np.zeros_like(a))[-1]
    a[range(3), range(3)] += d
    np.testing.assert_array_equal(out, a)
