"""Elements, rows, slices and other views of tiles, read and changed: NumPy's arrays and views do the same."""

import numpy as np
import pytest
from numpy_tiles import check
from tile_running import run_tiled

import jwarp as wp


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@wp.kernel
def elements(x: wp.array2d[float], i: int, j: int, out: wp.array[float]):
    t = wp.tile_load(x, (3, 4))
    out[0] = t[1, 2]
    out[1] = t[-1, -4]
    out[2] = t[i, j]
    out[3] = t[i - 3, 1]
    out[4] = t[i][j]
    out[5] = t[:, 1:][i, j - 1]
    out[6] = wp.tile_extract(t, i, 0)
    out[7] = t[::-1, ::2][i][1]
    out[8] = t[2][1:3][0]
    out[9] = wp.tile_reshape(t, 12)[i * 4 + j]
    out[10] = wp.tile_transpose(t)[j, i]


@pytest.mark.parametrize("place", [(0, 1), (2, 3), (1, 2)])
def test_elements(place):
    check(elements, numbers(0, 3, 4), *place, np.zeros(11, np.float32))


@wp.kernel
def outside(x: wp.array2d[float], i: int, out: wp.array[float]):
    t = wp.tile_load(x, (3, 4))
    out[0] = t[i, 0]
    out[1] = wp.tile_view(t, (i, 1), (2, 2))[1, 1]
    out[2] = wp.tile_view(t, (1, 1), (2, 2))[i, 1]
    out[3] = wp.tile_reshape(t, (6, 2))[2:5][i][0]
    t[i, 1] = 5.0
    t[1][i] += 5.0
    wp.tile_store(out, wp.tile_reshape(t, 12), 4)


def test_what_is_outside_is_zero_and_not_changed():
    x = numbers(1, 3, 4)
    for i in (7, -9):
        out = run_tiled(outside, 1, x, i, np.ones(16, np.float32), debug=False)[-1]
        np.testing.assert_array_equal(out[:4], 0)
        np.testing.assert_array_equal(out[4:], x.reshape(-1))


@wp.kernel
def slices(x: wp.array2d[float], i: int, out: wp.array3d[float]):
    t = wp.tile_load(x, (6, 6))
    wp.tile_store(out[0], t[1:4])
    wp.tile_store(out[1], t[:, 2:])
    wp.tile_store(out[2], t[::2, ::-1])
    wp.tile_store(out[3][0], t[i])
    wp.tile_store(out[3][1], t[:, i])
    wp.tile_store(out[3][2], t[-2, 1::3])
    wp.tile_store(out[4], t[::-1][1:][::2])
    wp.tile_store(out[5][0], t[i][1:5:2])
    wp.tile_store(out[5][1], t[5:0:-2][i - 2][::-1])
    wp.tile_store(out[6], wp.tile_view(t, (i, 1), (2, 4)))
    wp.tile_store(out[7], wp.tile_view(t, (1, i), (4, 2))[1:][::-1])
    wp.tile_store(out[8][0], wp.tile_view(t, offset=(i,)))
    wp.tile_store(out[8][1], wp.tile_view(t, (slice(0, -1, 2), 3)))
    wp.tile_store(out[9], t[1:3, 0:2] if i < 3 else wp.tile_view(t, (i, i - 1), (2, 2)))


def test_slices():
    for i in (2, 3, 4):
        check(slices, numbers(2, 6, 6), i, np.zeros((10, 6, 6), np.float32))


@wp.kernel
def other_shapes(x: wp.array3d[float], out: wp.array3d[float]):
    t = wp.tile_load(x, (1, 4, 6))
    s = wp.tile_squeeze(t)
    wp.tile_store(out[0], s)
    wp.tile_store(out[1], wp.tile_reshape(s, (6, -1)))
    wp.tile_store(out[2], wp.tile_transpose(s))
    wp.tile_store(out[3], wp.tile_squeeze(t, axis=0))
    wp.tile_store(out[4], wp.tile_broadcast(s[0], (3, 6)))
    wp.tile_store(out[5], wp.tile_broadcast(wp.tile_view(s, (1, 2), (1, 1)), (2, 5)))
    wp.tile_store(out[6], wp.tile_broadcast(s[1:4, 2:3], (3, 4)))
    wp.tile_store(out[7], wp.tile_reshape(s[1:3], (3, 4)))
    wp.tile_store(out[8], wp.tile_transpose(wp.tile_reshape(wp.tile_transpose(wp.tile_transpose(s)), (3, 8))))
    wp.tile_store(out[9], wp.tile_transpose(s)[1:4, ::2])


def test_other_shapes():
    check(other_shapes, numbers(3, 1, 4, 6), np.zeros((10, 8, 8), np.float32))


@wp.kernel
def gathered(x: wp.array2d[float], rows: wp.array[int], out: wp.array3d[float]):
    t, i = wp.tile_load(x, (5, 4)), wp.tile_load(rows, 3)
    wp.tile_store(out[0], t[i, :])
    wp.tile_store(out[1], t[i])
    wp.tile_store(out[2], t[:, i])
    wp.tile_store(out[3], t[i][::-1])
    wp.tile_store(out[4][0], t[2][i])
    u = t[i]
    u[0, 0] = 9.0
    wp.tile_store(out[5], t)
    wp.tile_store(out[6], wp.tile_slice_indexed(t, (i, slice(None))))


def test_gathered_rows():
    check(gathered, numbers(4, 5, 4), np.int32([3, 0, -1]), np.zeros((7, 5, 4), np.float32))


# -- changes


@wp.kernel
def changed(x: wp.array2d[float], y: wp.array2d[float], i: int, out: wp.array3d[float]):
    t, u = wp.tile_load(x, (6, 6)), wp.tile_load(y, (6, 6))
    t[1, 2] = 5.0
    t[i, -1] = t[0, 0] * 2.0
    t[i][1] = 3.0
    t[2] = u[3]
    t[i] = u[i, ::-1]
    wp.tile_store(out[0], t)
    t[::2, 1:3] = u[3:, 2:4]
    t[:, 5] = u[4]
    t[:, i] = u[i]
    wp.tile_store(out[1], t)
    wp.tile_assign(t, u[1:3, 2:6])
    wp.tile_assign(t, u[1:3, 2:6], offset=(4, 1))
    wp.tile_assign(t, u[0:2, 0:3], (i, i - 1))
    wp.tile_store(out[2], t)
    t[1:] = t[:-1]
    t[0] = t[0, ::-1]
    wp.tile_store(out[3], t)


def test_changed_parts():
    for i in (2, 3, 1):
        check(changed, numbers(5, 6, 6), numbers(6, 6, 6), i, np.zeros((4, 6, 6), np.float32))


@wp.kernel
def views_change_what_they_show(x: wp.array2d[float], i: int, out: wp.array3d[float]):
    t = wp.tile_load(x, (4, 6))
    row = t[i]
    column = t[:, 2]
    turned = wp.tile_transpose(t)
    flat = wp.tile_reshape(t, (24,))
    part = wp.tile_view(t, (1, i), (2, 3))
    row[0] = 1.0
    column[1] = 2.0
    turned[3, i] = 3.0
    flat[23] = 4.0
    part[0, 1] = 5.0
    part[1, i - 1] = 6.0
    wp.tile_store(out[0], t)
    t[i, 0] = 7.0
    part += row[0:6:2][0:1][0] * part if i < 0 else part[::-1]
    row -= t[0]
    turned[0:2] = turned[2:4] * 2.0
    wp.tile_store(out[1], t)
    wp.tile_store(out[2][0], row)
    wp.tile_store(out[2][1], column)
    wp.tile_store(out[3], part)
    wp.tile_store(out[4], wp.tile_reshape(flat, (4, 6)))


def test_views_change_what_they_show():
    for i in (1, 2, 3):
        check(views_change_what_they_show, numbers(7, 4, 6), i, np.zeros((5, 6, 6), np.float32))


@wp.kernel
def augmented(x: wp.array2d[float], i: int, out: wp.array2d[float]):
    t = wp.tile_load(x, (3, 4))
    t[0, 0] += 1.5
    t[i, 1] -= 2.0
    t[i][2] *= 3.0
    t[-1, i] /= 2.0
    t[0, 3] **= 2.0
    t[1:] += t[:2]
    t[i] -= t[0]
    wp.tile_store(out, t)


def test_augmented_assignments():
    for i in (0, 1, 2):
        check(augmented, np.abs(numbers(8, 3, 4)), i, np.zeros((3, 4), np.float32))


@wp.kernel
def integers(x: wp.array[int], i: int, out: wp.array[int]):
    t = wp.tile_load(x, 6)
    t[0] &= 6
    t[i] |= 9
    t[2] ^= t[1]
    t[3] %= 4
    t[4] <<= 2
    t[i] //= 2
    wp.tile_store(out, t)


def test_augmented_assignments_of_integers():
    for i in (1, 5):
        check(integers, np.random.default_rng(9).integers(0, 99, 6).astype(np.int32), i, np.zeros(6, np.int32))


@wp.kernel
def copies(x: wp.array[float], out: wp.array2d[float]):
    t = wp.tile_load(x, 4)
    u = t
    u[0] = 9.0
    v = t[1:3]
    w = v
    w[0] = 8.0
    v[1] = 7.0
    a, b = t, u
    a, b = b, a
    a[3] = 6.0
    wp.tile_store(out[0], t)
    wp.tile_store(out[1], u)
    wp.tile_store(out[2], w)
    wp.tile_store(out[3], a)
    wp.tile_store(out[4], b)


def test_a_name_given_to_another_is_a_copy():
    x = np.arange(4, dtype=np.float32)
    out = run_tiled(copies, 1, x, np.zeros((5, 4), np.float32))[-1]
    expected = [[0, 1, 7, 3], [9, 1, 2, 3], [8, 2, 0, 0], [9, 1, 2, 6], [0, 1, 7, 3]]
    np.testing.assert_array_equal(out, np.float32(expected))


# -- tiles of vectors and matrices


@wp.kernel
def vectors(x: wp.array2d[wp.vec3], m: wp.array[wp.mat22], i: int, out: wp.array2d[wp.vec3], mats: wp.array[wp.mat22]):
    t, q = wp.tile_load(x, (2, 3)), wp.tile_load(m, 3)
    t[0, 1] = wp.vec3(1.0, 2.0, 3.0)
    t[i, 0][1] = 4.0
    t[1, i].x = t[0, i][2] + t[1, 0, 2]
    t[0, 2, i] = 5.0
    t[1, 2] += wp.vec3(1.0, 1.0, 2.0)
    t[0, 0].z -= 1.0
    t[1][1][0:2] = wp.vec2(6.0, 7.0)
    wp.tile_store(out, t)
    q[0][1, 0] = 2.0
    q[1, 0] = wp.vec2(3.0, q[2, i, 1])
    q[2][i] += wp.vec2(1.0, 2.0)
    q[i] = q[i] * 2.0
    wp.tile_store(mats, q)


def test_components():
    x, m = numbers(10, 2, 3, 3), numbers(11, 3, 2, 2)
    for i in (0, 1):
        t, q = x.copy(), m.copy()
        t[0, 1] = 1, 2, 3
        t[i, 0, 1] = 4
        t[1, i, 0] = t[0, i, 2] + t[1, 0, 2]
        t[0, 2, i] = 5
        t[1, 2] += np.float32([1, 1, 2])
        t[0, 0, 2] -= 1
        t[1, 1, 0:2] = 6, 7
        q[0, 1, 0] = 2
        q[1, 0] = 3, q[2, i, 1]
        q[2, i] += np.float32([1, 2])
        q[i] = q[i] * 2
        got = run_tiled(vectors, 1, x, m, i, np.zeros_like(x), np.zeros_like(m))[-2:]
        np.testing.assert_array_equal(got[0], t)
        np.testing.assert_array_equal(got[1], q)


@wp.kernel
def converted(x: wp.array[float], out: wp.array[int], mixed: wp.array[wp.float64]):
    t = wp.tile_load(x, 5)
    wp.tile_store(out, wp.tile_astype(t, dtype=int))
    u = wp.tile_zeros(7, dtype=wp.float64)
    wp.tile_assign(u, t, offset=1)
    wp.tile_store(mixed, u)


def test_conversions():
    x = np.float32([-1.7, -0.5, 0.5, 2.7, 1e20])
    out, mixed = run_tiled(converted, 1, x, np.zeros(5, np.int32), np.zeros(7))[1:]
    np.testing.assert_array_equal(out, [-1, 0, 0, 2, 2**31 - 1])
    np.testing.assert_array_equal(mixed, [0, *x.astype(np.float64), 0])


@wp.kernel
def about_tiles(x: wp.array2d[wp.vec2], out: wp.array[int]):
    t = wp.tile_load(x, (3, 4))
    out[0] = t.shape[0] * 10 + t.shape[1]
    out[1] = len(t)
    u = wp.tile_zeros(t[1].shape, t.dtype)
    out[2] = len(u)


def test_shapes_are_constants():
    out = run_tiled(about_tiles, 1, numbers(12, 3, 4, 2), np.zeros(3, np.int32))[-1]
    np.testing.assert_array_equal(out, [34, 3, 4])


@wp.kernel
def slices_of_arrays(a: wp.array2d[float], out: wp.array2d[float], n: int):
    wp.tile_store(out, wp.tile_load(a[::2, n:7], shape=(4, 4), offset=(-1, 1)))
    wp.tile_store(a[1], wp.tile_load(a[3, ::-1], shape=4, offset=2))
    wp.tile_store(a[5:, 1::3], wp.tile_ones(shape=(3, 2)), offset=(1, 0))


def test_tiles_of_slices_end_where_these_do():
    a = numbers(13, 7, 9)
    after, out = run_tiled(slices_of_arrays, 1, a, np.zeros((4, 4), np.float32), 2)
    wanted = np.zeros((4, 4), np.float32)
    wanted[1:] = a[::2, 2:7][:3, 1:5]
    np.testing.assert_array_equal(out, wanted)
    changed = a.copy()
    changed[1, :4] = a[3, ::-1][2:6]
    changed[6:, 1::3][:, :2] = 1
    np.testing.assert_array_equal(after, changed)
