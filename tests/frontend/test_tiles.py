"""Tiles made of numbers and of arrays, written to arrays, and combined by operators: NumPy says what is right."""

import ml_dtypes
import numpy as np
import pytest
from tile_running import BLOCK, close, run_tiled

import jwarp as wp

pytestmark = pytest.mark.quick

M, N = 5, 7
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
KINDS = {np.dtype(t.dtype): t for t in wp.types.SCALARS.values()}


def numbers(seed, shape, dtype=np.float32):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -50, 50, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@wp.kernel
def made_of_numbers(x: float, out: wp.array3d[float]):
    wp.tile_store(out[0], wp.tile_zeros(shape=(2, 6), dtype=float))
    wp.tile_store(out[1], wp.tile_ones((2, 6)))
    wp.tile_store(out[2], wp.tile_full((2, 6), x + 1.0, float))
    wp.tile_store(out[3], wp.tile_full(shape=(2, 6), value=3, dtype=float, storage="shared"))
    wp.tile_store(out[4][0], wp.tile_arange(6))
    wp.tile_store(out[4][1], wp.tile_arange(4.0, 1.0, -0.5))
    wp.tile_store(out[5][0], wp.tile_arange(2, 13, 2, dtype=float))
    wp.tile_store(out[5][1], wp.tile_empty(6))


def test_tiles_made_of_numbers():
    (out,) = run_tiled(made_of_numbers, 1, np.float32(2.5), numbers(0, (6, 2, 6)))
    expected = np.zeros((6, 2, 6), np.float32)
    expected[1], expected[2], expected[3] = 1.0, 3.5, 3.0
    expected[4] = np.arange(6), np.arange(4.0, 1.0, -0.5)
    expected[5, 0] = np.arange(2, 13, 2)
    np.testing.assert_array_equal(out, expected)


@wp.kernel
def vector_tiles(v: wp.vec3, out: wp.array2d[wp.vec3], mats: wp.array[wp.mat22]):
    wp.tile_store(out[0], wp.tile_full(4, v))
    wp.tile_store(out[1], wp.tile_ones(4, dtype=wp.vec3))
    wp.tile_store(out[2], wp.tile_full(4, wp.vec3(1.0, 2.0, 3.0), dtype=wp.vec3) + wp.tile_full(4, v))
    wp.tile_store(mats, wp.tile_full(2, wp.mat22(1.0, 2.0, 3.0, 4.0)))


def test_tiles_of_vectors_and_matrices():
    v = numbers(1, 3)
    out, mats = run_tiled(vector_tiles, 1, v, np.zeros((3, 4, 3), np.float32), np.zeros((2, 2, 2), np.float32))[1:]
    expected = np.stack([v, np.ones(3), v + np.float32([1, 2, 3])])[:, None].repeat(4, 1)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(mats, np.float32([[[1, 2], [3, 4]]] * 2))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, np.bool_])
def test_tiles_of_every_type_are_copied(dtype):
    kind = KINDS[np.dtype(dtype)]

    @wp.kernel
    def copied(x: wp.array2d[kind], y: wp.array2d[kind]):
        i, j = wp.tid()
        at = (i * 2, j * 4)
        wp.tile_store(y, wp.tile_load(x, shape=(2, 4), offset=at), offset=at)

    x = numbers(2, (M, N)).astype(dtype)
    for shape in ((M, N), (4, 8), (6, 3)):
        _, y = run_tiled(copied, (3, 2), x, np.zeros(shape, dtype), block_dim=4)
        expected = np.zeros(shape, dtype)
        rows, columns = min(M, shape[0]), min(N, shape[1])
        expected[:rows, :columns] = x[:rows, :columns]
        np.testing.assert_array_equal(y, expected)


@wp.kernel
def four_dimensions(x: wp.array4d[float], y: wp.array4d[float], o: wp.vec4i):
    t = wp.tile_load(x, (2, 3, 2, 2), (o[0], o[1], o[2], o[3]))
    wp.tile_store(y, t * 2.0)


def test_four_dimensions():
    x, o = numbers(3, (4, 4, 3, 5)), np.int32([1, 0, 1, 2])
    y = run_tiled(four_dimensions, 1, x, np.zeros((2, 3, 2, 2), np.float32), o)[1]
    np.testing.assert_array_equal(y, 2 * x[1:3, 0:3, 1:3, 2:4])


@wp.kernel
def wide_offsets(x: wp.array[wp.vec2d], first: wp.int64, y: wp.array[wp.vec2d]):
    wp.tile_store(y, wp.tile_load(x, shape=3, offset=first), offset=wp.uint8(1))


def test_offsets_of_other_types():
    x = numbers(4, (9, 2), np.float64)
    for first in (2, 7, 2**40):
        y = run_tiled(wide_offsets, 1, x, np.int64(first), np.zeros((5, 2)))[1]
        expected = np.zeros((5, 2))
        there = x[first : first + 3]
        expected[1 : 1 + len(there)] = there
        np.testing.assert_array_equal(y, expected)


@wp.kernel
def rows_by_index(x: wp.array2d[float], rows: wp.array[int], first: int, y: wp.array2d[float], old: wp.array2d[float]):
    indices = wp.tile_load(rows, shape=4)
    t = wp.tile_load_indexed(x, indices, shape=(4, 3), offset=(first, 1), axis=0)
    wp.tile_store_indexed(y, indices=indices, t=t, offset=(0, 2))
    before = wp.tile_atomic_add_indexed(y, indices, t, axis=0)
    wp.tile_store(old, before)


def test_rows_by_index():
    rows = np.int32([3, -1, 0, 9])
    x, start = numbers(5, (5, 6)), numbers(6, (5, 6))
    for first in (0, 1):
        y, old = run_tiled(rows_by_index, 1, x, rows, first, start, np.zeros((4, 3), np.float32))[-2:]
        expected, before = start.copy(), np.zeros((4, 3), np.float32)
        t = np.zeros((4, 3), np.float32)
        for k, row in enumerate(rows):
            if 0 <= first + row < 5:
                t[k] = x[first + row, 1:4]
        for k, row in enumerate(rows):
            if 0 <= row < 5:
                expected[row, 2:5] = t[k]
        for k, row in enumerate(rows):
            if 0 <= row < 5:
                before[k] = expected[row, :3]
                expected[row, :3] += t[k]
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(old, before)


@wp.kernel
def columns_by_index(x: wp.array2d[wp.vec2], columns: wp.array[int], y: wp.array2d[wp.vec2]):
    t = wp.tile_load_indexed(x, wp.tile_load(columns, shape=3), (2, 3), axis=1)
    wp.tile_store(y, t)


def test_columns_by_index():
    x, columns = numbers(7, (4, 5, 2)), np.int32([4, 0, 0])
    y = run_tiled(columns_by_index, 1, x, columns, np.zeros((2, 3, 2), np.float32))[-1]
    np.testing.assert_array_equal(y, x[:2][:, columns])


@wp.kernel
def added(x: wp.array[float], total: wp.array[float], before: wp.array2d[float]):
    i = wp.tid()
    old = wp.tile_atomic_add(total, wp.tile_load(x, shape=4, offset=i * 4), offset=2)
    wp.tile_store(before[i], old)
    wp.tile_atomic_add(total, wp.tile_ones(2))


def test_atomic_add():
    x = np.arange(12, dtype=np.float32)
    total, before = run_tiled(added, 3, x, np.zeros(5, np.float32), np.zeros((3, 4), np.float32))[1:]
    expected, seen = np.zeros(5, np.float32), np.zeros((3, 4), np.float32)
    for i in range(3):
        seen[i, :3] = expected[2:]
        expected[2:] += x[4 * i : 4 * i + 3]
        expected[:2] += 1
    np.testing.assert_array_equal(total, expected)
    np.testing.assert_array_equal(before, seen)


# -- operators


@wp.kernel
def operators(a: wp.array[float], b: wp.array[float], s: float, out: wp.array2d[float]):
    x, y = wp.tile_load(a, shape=7), wp.tile_load(b, shape=7)
    wp.tile_store(out[0], x + y)
    wp.tile_store(out[1], x - y)
    wp.tile_store(out[2], x * y)
    wp.tile_store(out[3], x / y)
    wp.tile_store(out[4], -x)
    wp.tile_store(out[5], x * s)
    wp.tile_store(out[6], 2.5 * x)
    wp.tile_store(out[7], x / s)
    wp.tile_store(out[8], s / x)
    wp.tile_store(out[9], wp.add(x, y))
    wp.tile_store(out[10], wp.neg(wp.mul(x, y)))
    x += y
    wp.tile_store(out[11], x)
    x -= y * 2.0
    wp.tile_store(out[12], x)
    x *= s
    x /= y
    wp.tile_store(out[13], x)


def test_operators():
    a, b, s = numbers(8, 7), numbers(9, 7), np.float32(1.75)
    out = run_tiled(operators, 1, a, b, s, np.zeros((14, 7), np.float32))[-1]
    expected = [a + b, a - b, a * b, a / b, -a, a * s, np.float32(2.5) * a, a / s, s / a, a + b, -(a * b), a + b]
    x = a + b - b * np.float32(2)
    expected += [x, x * s / b]
    np.testing.assert_array_equal(out, np.stack(expected))


@wp.kernel
def bits(a: wp.array[wp.uint16], b: wp.array[wp.uint16], out: wp.array2d[wp.uint16]):
    x, y = wp.tile_load(a, shape=6), wp.tile_load(b, shape=6)
    wp.tile_store(out[0], x & y)
    wp.tile_store(out[1], x | y)
    wp.tile_store(out[2], x ^ y)
    x &= y
    x |= wp.tile_full(6, 256, dtype=wp.uint16)
    x ^= y
    wp.tile_store(out[3], x)
    wp.tile_store(out[4], wp.bit_xor(x, y))


def test_bits():
    a, b = (np.random.default_rng(k).integers(0, 1 << 16, 6).astype(np.uint16) for k in (10, 11))
    out = run_tiled(bits, 1, a, b, np.zeros((5, 6), np.uint16))[-1]
    x = ((a & b) | 256) ^ b
    np.testing.assert_array_equal(out, np.stack([a & b, a | b, a ^ b, x, x ^ b]))


@wp.kernel
def of_vectors(
    a: wp.array[wp.vec3], s: wp.array[float], m: wp.mat22, out: wp.array2d[wp.vec3], mats: wp.array[wp.mat22]
):
    x, y = wp.tile_load(a, shape=4), wp.tile_load(s, shape=4)
    wp.tile_store(out[0], x + x * 2.0)
    wp.tile_store(out[1], x * y)
    wp.tile_store(out[2], y * wp.vec3(1.0, -1.0, 2.0))
    wp.tile_store(out[3], x / y)
    wp.tile_store(mats, wp.tile_load(s, shape=4) * m)


def test_operators_on_vectors():
    a, s, m = numbers(12, (4, 3)), numbers(13, 4), numbers(14, (2, 2))
    args = (a, s, m, np.zeros((4, 4, 3), np.float32), np.zeros((4, 2, 2), np.float32))
    out, mats = run_tiled(of_vectors, 1, *args)[-2:]
    expected = [a + a * 2, a * s[:, None], s[:, None] * np.float32([1, -1, 2]), a / s[:, None]]
    np.testing.assert_array_equal(out, np.stack(expected))
    np.testing.assert_array_equal(mats, s[:, None, None] * m)


# -- products


@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul(dtype):
    kind = KINDS[np.dtype(dtype)]

    @wp.kernel
    def products(a: wp.array2d[kind], b: wp.array2d[kind], s: kind, c: wp.array3d[kind]):
        x, y = wp.tile_load(a, shape=(3, 4)), wp.tile_load(b, shape=(4, 5))
        wp.tile_store(c[0], wp.tile_matmul(x, y))
        wp.tile_store(c[1], wp.tile_matmul(x, y, 0.5))
        out = wp.tile_load(c[2], shape=(3, 5))
        wp.tile_matmul(x, y, out)
        wp.tile_store(c[2], out)
        out = wp.tile_load(c[3], shape=(3, 5))
        wp.tile_matmul(x, y, out, alpha=s, beta=-2.0)
        wp.tile_store(c[3], out)
        out = wp.tile_load(c[4], shape=(3, 5))
        wp.tile_matmul(x, y, out, beta=0.0)
        wp.tile_store(c[4], out)
        out = wp.tile_load(c[4], shape=(3, 5)) * (s / (s - s))
        wp.tile_matmul(x, y, out, beta=s - s)
        wp.tile_store(c[6], out)
        turned = wp.tile_matmul(wp.tile_transpose(y), wp.tile_transpose(x), alpha=s)
        wp.tile_store(c[5], wp.tile_transpose(turned))

    a, b, c = (numbers(k, shape, dtype) for k, shape in ((15, (3, 4)), (16, (4, 5)), (17, (7, 3, 5))))
    c[4] = np.nan
    s = np.asarray(1.5, dtype)
    got = run_tiled(products, 1, a, b, s, c)[-1].astype(np.float64)
    wide = [x.astype(np.float64) for x in (a, b, c)]
    product = wide[0] @ wide[1]
    expected = [
        product,
        0.5 * product,
        product + wide[2][2],
        1.5 * product - 2 * wide[2][3],
        product,
        1.5 * product,
        product,
    ]
    close(got, np.stack(expected), dtype)


@wp.kernel
def accumulated(a: wp.array2d[wp.float16], b: wp.array2d[wp.float16], c: wp.array2d[float], n: int):
    total = wp.tile_zeros(shape=(4, 4), dtype=float)
    for k in range(n):
        x = wp.tile_load(a, shape=(4, 2), offset=(0, k * 2))
        y = wp.tile_load(b, shape=(2, 4), offset=(k * 2, 0))
        wp.tile_matmul(x, y, total)
    wp.tile_store(c, total)


def test_halves_are_added_up_in_float32():
    a, b = numbers(18, (4, 6), np.float16), numbers(19, (6, 4), np.float16)
    c = run_tiled(accumulated, 1, a, b, np.zeros((4, 4), np.float32), 3)[-1]
    close(c, a.astype(np.float64) @ b.astype(np.float64))


@wp.kernel
def mixed(a: wp.array2d[wp.float16], b: wp.array2d[float], c: wp.array2d[wp.float64]):
    x, y = wp.tile_load(a, shape=(2, 3)), wp.tile_load(b, shape=(3, 2))
    out = wp.tile_load(c, shape=(2, 2))
    wp.tile_matmul(x, y, out, alpha=2.0)
    wp.tile_store(c, out)


def test_factors_of_different_types():
    a, b, c = numbers(20, (2, 3), np.float16), numbers(21, (3, 2)), numbers(22, (2, 2), np.float64)
    got = run_tiled(mixed, 1, a, b, c)[-1]
    close(got, 2 * (a.astype(np.float64) @ b.astype(np.float64)) + c, np.float64)


@wp.kernel
def block_sizes(out: wp.array[int]):
    out[wp.tid()] = wp.block_dim()


def test_block_dim():
    for size in (1, 4, 32):
        np.testing.assert_array_equal(run_tiled(block_sizes, 3, np.zeros(3, np.int32), block_dim=size)[0], size)
    assert block_sizes.uses_tiles and not plain.uses_tiles and BLOCK == 8


@wp.kernel
def plain(out: wp.array[int]):
    out[wp.tid()] = 1
