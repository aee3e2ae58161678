"""Vectors and matrices in statements: assigned, changed in place, carried by loops, passed to functions, captured."""

import numpy as np
import pytest
from run_three_ways import run_kernel, values_of

import jwarp as wp
from jwarp.backend.interpreter.machine import run

pytestmark = pytest.mark.quick

N = 23
GRAVITY = wp.vec3(0.0, 0.0, -9.5)
TURN = wp.constant(wp.mat22(0.0, -1.0, 1.0, 0.0))
vec5 = wp.types.vector(length=5, dtype=wp.float32)
mat23 = wp.types.matrix(shape=(2, 3), dtype=wp.float32)


def quarters(seed, *shape):
    """Random numbers of which sums and products are exact."""
    return (np.random.default_rng(seed).integers(-16, 17, shape) / 4).astype(np.float32)


def indices(seed, low, high):
    return np.random.default_rng(seed).integers(low, high, N).astype(np.int32)


def test_components_of_variables_are_assigned():
    @wp.kernel
    def kernel(a: wp.array[wp.vec3], ks: wp.array[int], out: wp.array2d[wp.vec3]):
        i = wp.tid()
        v = a[i]
        w = v
        v[0] = 7.0
        v.y = v.x + v.z
        out[0, i] = v
        out[1, i] = w
        w[ks[i]] = 9.0
        out[2, i] = w
        w[1:3] = wp.vec2(v.z, v.x)
        out[3, i] = w
        w[::2] += wp.vec2(1.0, 2.0)
        w[-2] *= 2.0
        w.x -= 0.5
        out[4, i] = w

    a, ks = quarters(1, N, 3), indices(2, -5, 6)
    result = run_kernel(kernel, N, a, ks, np.zeros((5, N, 3), np.float32))[-1]
    v = np.stack([np.full(N, 7, np.float32), 7 + a[:, 2], a[:, 2]], 1)
    w = a.copy()
    for i in range(N):
        if -3 <= ks[i] < 3:
            w[i, ks[i]] = 9
    x = w.copy()
    x[:, 1], x[:, 2] = v[:, 2], v[:, 0]
    y = x + np.array([1, 0, 2], np.float32)
    y[:, 1] *= 2
    y[:, 0] -= 0.5
    np.testing.assert_array_equal(result, [v, a, w, x, y])


def test_entries_and_rows_of_matrices_are_assigned(x64):
    @wp.kernel
    def kernel(a: wp.array[mat23], rows: wp.array[wp.int64], cols: wp.array[wp.uint8], out: wp.array2d[mat23]):
        i = wp.tid()
        m = a[i]
        m[0, 1] = 1.5
        m[1][2] = m[0][1] + m[0, 0]
        out[0, i] = m
        m[rows[i], cols[i]] = -3.0
        out[1, i] = m
        m[rows[i]] = wp.vec3(1.0, 2.0, 3.0)
        out[2, i] = m
        m[:, 1] = wp.vec2(5.0, 6.0)
        m[1, 0:2] += wp.vec2(0.5, 0.25)
        m[:, ::2] = wp.mat22(1.0, 2.0, 3.0, 4.0)
        out[3, i] = m

    a, rows = quarters(3, N, 2, 3), indices(4, -3, 4).astype(np.int64)
    cols = indices(5, 0, 5).astype(np.uint8)
    result = run_kernel(kernel, N, a, rows, cols, np.zeros((4, N, 2, 3), np.float32))[-1]
    m = a.copy()
    m[:, 0, 1] = 1.5
    m[:, 1, 2] = 1.5 + m[:, 0, 0]
    expected = [m.copy()]
    for i in range(N):
        if -2 <= rows[i] < 2 and cols[i] < 3:
            m[i, rows[i], cols[i]] = -3
    expected.append(m.copy())
    for i in range(N):
        if -2 <= rows[i] < 2:
            m[i, rows[i]] = [1, 2, 3]
    expected.append(m.copy())
    m[:, :, 1] = [5, 6]
    m[:, 1, 0:2] += np.array([0.5, 0.25], np.float32)
    m[:, :, ::2] = [[1, 2], [3, 4]]
    np.testing.assert_array_equal(result, [*expected, m])


def test_components_of_elements_are_assigned(x64):
    @wp.kernel
    def kernel(ks: wp.array[wp.int64], a: wp.array[wp.vec3], b: wp.array[wp.mat22]):
        i = wp.tid()
        a[i][1] = a[i].x + 1.0
        a[i][ks[i]] = 8.0
        a[i].z *= 2.0
        a[i][0:2] *= 0.5
        b[i][0, 1] = 3.0
        b[i][1] = wp.vec2(float(i), a[i].x)
        b[i][1][0] -= 0.5
        b[i][:, 1] = b[i][:, 0]

    a, b, ks = quarters(6, N, 3), quarters(7, N, 2, 2), indices(8, -4, 5).astype(np.int64)
    ks[3] = 1 << 32  # not component 0
    _, got_a, got_b = run_kernel(kernel, N, ks, a, b)
    wanted_a, wanted_b = a.copy(), b.copy()
    wanted_a[:, 1] = a[:, 0] + 1
    for i in range(N):
        if -3 <= ks[i] < 3:
            wanted_a[i, ks[i]] = 8
    wanted_a[:, 2] *= 2
    wanted_a[:, :2] *= 0.5
    wanted_b[:, 1, 0] = np.arange(N) - 0.5
    wanted_b[:, :, 1] = wanted_b[:, :, 0]
    np.testing.assert_array_equal(got_a, wanted_a)
    np.testing.assert_array_equal(got_b, wanted_b)


def test_adding_to_elements_is_atomic_for_each_component():
    @wp.kernel
    def kernel(x: wp.array[wp.vec2], bins: wp.array[int], a: wp.array[wp.vec2], b: wp.array[wp.mat22]):
        i = wp.tid()
        a[bins[i]] += x[i]
        a[bins[i]] -= 2.0 * x[i]
        a[bins[i]].y += 1.0
        a[bins[i]][0] -= 1.0
        b[bins[i]][1] += x[i]
        b[bins[i]] -= wp.mat22(1.0)
        b[bins[i]][:, 0] += x[i]

    x, bins = quarters(9, N, 2), indices(10, 0, 3)
    _, _, got_a, got_b = run_kernel(kernel, N, x, bins, np.zeros((3, 2), np.float32), np.zeros((3, 2, 2), np.float32))
    a, b = np.zeros((3, 2)), np.zeros((3, 2, 2))
    for i in range(N):
        a[bins[i]] += [-1, 1] - x[i]
        b[bins[i]] += np.array([[x[i, 0], 0], [x[i, 0] + x[i, 1], x[i, 1]]]) - 1
    np.testing.assert_array_equal(got_a, a)
    np.testing.assert_array_equal(got_b, b)


def test_loops_and_branches_carry_vectors_and_matrices():
    @wp.kernel
    def kernel(n: int, a: wp.array[wp.vec2], out: wp.array[wp.vec2], power: wp.array[wp.mat22]):
        i = wp.tid()
        total = wp.vec2()
        m = wp.identity(n=2, dtype=float)
        for k in range(n + i % 3):
            if a[k].x > 0.0:
                total += a[k]
            elif a[k].y > 1.0:
                total[0] -= 1.0
                continue
            m = m @ TURN
        while wp.dot(total, total) > 64.0:
            total = total / 2.0
        out[i] = total
        power[i] = m

    a = quarters(11, 8, 2)
    _, out, power = run_kernel(kernel, N, 6, a, np.zeros((N, 2), np.float32), np.zeros((N, 2, 2), np.float32))
    for i in range(N):
        total, turns = np.zeros(2), 0
        for k in range(6 + i % 3):
            if a[k, 0] > 0:
                total += a[k]
            elif a[k, 1] > 1:
                total[0] -= 1
                continue
            turns += 1
        while total @ total > 64:
            total /= 2
        np.testing.assert_array_equal(out[i], total)
        np.testing.assert_array_equal(power[i], np.linalg.matrix_power(np.array([[0, -1], [1, 0]]), turns))


@wp.func
def reflect(v: wp.vec3, normal: wp.vec3) -> wp.vec3:
    if wp.dot(v, normal) >= 0.0:
        return v
    return v - 2.0 * wp.dot(v, normal) * normal


@wp.func
def split(m: wp.mat22):
    return m[0], m[1], wp.trace(m)


STEP = wp.vec2(1.0, 2.0)


@wp.func
def shifted(v: wp.vec2, by: wp.vec2 = STEP):
    v[0] += by[0]
    return v + wp.vec2(0.0, by[1])


def test_functions_take_and_give_vectors():
    @wp.kernel
    def kernel(a: wp.array[wp.vec3], m: wp.array[wp.mat22], out: wp.array[wp.vec3], other: wp.array[wp.vec3]):
        i = wp.tid()
        out[i] = reflect(a[i], wp.vec3(0.0, 0.0, 1.0)) + GRAVITY
        top, bottom, trace = split(m[i])
        moved = shifted(top)
        x, y = moved
        other[i] = wp.vec3(x, y + bottom.x + top.x, trace)

    a, m = quarters(12, N, 3), quarters(13, N, 2, 2)
    empty = np.zeros((N, 3), np.float32)
    _, _, out, other = run_kernel(kernel, N, a, m, empty, empty)
    np.testing.assert_array_equal(out, np.stack([a[:, 0], a[:, 1], np.abs(a[:, 2]) - 9.5], 1))
    columns = [m[:, 0, 0] + 1, m[:, 0, 1] + 2 + m[:, 1, 0] + m[:, 0, 0], np.trace(m, axis1=1, axis2=2)]
    np.testing.assert_array_equal(other, np.stack(columns, 1))


def test_arrays_of_vectors_have_the_dimensions_of_their_indices():
    @wp.kernel
    def kernel(a: wp.array2d[wp.vec3], m: wp.array[mat23], out: wp.array2d[wp.vec2]):
        i, j = wp.tid()
        out[i, j] = m[i] @ a[i, j] + wp.vec2(float(a.shape[0]), float(len(m)))

    a, m = quarters(14, 3, 5, 3), quarters(15, 3, 2, 3)
    out = run_kernel(kernel, (3, 5), a, m, np.zeros((3, 5, 2), np.float32))[-1]
    np.testing.assert_array_equal(out, np.einsum("nij,nkj->nki", m, a) + 3)


def test_long_vectors_in_loops():
    @wp.kernel
    def kernel(a: wp.array[vec5], out: wp.array[vec5]):
        i = wp.tid()
        v = a[i]
        sums = vec5()
        for k in range(len(v)):
            for j in range(k + 1):
                sums[k] += v[j]
        out[i] = sums

    a = quarters(16, N, 5)
    np.testing.assert_array_equal(run_kernel(kernel, N, a, np.zeros_like(a))[-1], np.cumsum(a, 1))


def test_literals_keep_their_precision():
    @wp.kernel
    def kernel(out: wp.array[wp.vec2d]):
        out[0] = wp.vec2d(0.1, 1)
        out[1] = wp.vector(0.1, 2, dtype=wp.float64)

    assert run(kernel.ir(), (1,), [np.zeros((2, 2))])[-1].tolist() == [[0.1, 1.0], [0.1, 2.0]]


def test_constructors_say_their_extents_again():
    @wp.kernel
    def kernel(a: wp.array[wp.mat22], v: wp.array[wp.vec3], m: wp.array[wp.mat22]):
        v[0] = wp.vec3(1.0, 2.0, 3.0, length=3)
        v[1] = wp.vec3(4.0, length=3)
        v[2] = wp.vec3(length=3)
        m[0] = wp.mat22(a[0], shape=(2, 2))
        m[1] = wp.mat22(5.0, shape=(2, 2))

    a = quarters(7, 1, 2, 2)
    _, v, m = run(kernel.ir(), (1,), [a, np.ones((3, 3), np.float32), np.ones((2, 2, 2), np.float32)])
    assert v.tolist() == [[1, 2, 3], [4, 4, 4], [0, 0, 0]]
    np.testing.assert_array_equal(m, [a[0], np.full((2, 2), 5)])


def test_transforms_outside_kernels_are_made_of_either_part():
    p, q = np.float32([1, 2, 3]), np.float32([0.5, -0.5, 0.5, -0.5])
    assert wp.transform(q=wp.quat(*q)).tolist() == [0, 0, 0, *q]
    assert wp.transform(p=wp.vec3(*p)).tolist() == [*p, 0, 0, 0, 1]
    assert wp.transform(q=wp.quat(*q), p=p).tolist() == [*p, *q]
    assert wp.transformd(q=q).dtype == np.float64
    with pytest.raises(wp.KernelTypeError, match="got an unexpected keyword argument .r."):
        wp.transform(q=q, r=p)


def test_nans_are_passed_over_when_a_position_is_sought():
    @wp.kernel
    def kernel(a: wp.array[wp.vec4], out: wp.array[int]):
        for i in range(4):
            out[2 * i] = int(wp.argmin(a[i]))
            out[2 * i + 1] = int(wp.argmax(a[i]))

    nan = np.nan
    a = np.array([[nan, 2, 1, 3], [1, nan, 1, 5], [nan] * 4, [nan, nan, 0, nan]], np.float32)
    assert values_of(kernel, a, count=8) == [2, 3, 0, 3, 0, 0, 2, 2]


def test_bits_of_vectors_are_reread():
    @wp.kernel
    def kernel(a: wp.array[wp.vec2], out: wp.array[wp.vec2i]):
        out[0] = wp.cast(a[0], wp.vec2i)

    a = np.array([[1.5, -2.0]], np.float32)
    assert run_kernel(kernel, 1, a, np.zeros((1, 2), np.int32))[-1].tolist() == a.view(np.int32).tolist()


def test_captured_vectors_keep_the_value_they_had():
    offset = wp.vec2(1.0, 2.0)

    @wp.kernel
    def kernel(out: wp.array[wp.vec2]):
        out[0] = offset + wp.static(2.0 * offset)

    offset[0] = 50.0
    assert run_kernel(kernel, 1, np.zeros((1, 2), np.float32))[-1].tolist() == [[3.0, 6.0]]


@pytest.mark.parametrize("own", [wp.vec3, wp.vec3d, wp.vec3i, wp.vec2ub, wp.mat33, mat23, vec5])
def test_outside_kernels_a_type_makes_numpy_arrays(own):
    filled, given = own(3), own(*range(own.size))
    assert isinstance(given, np.ndarray) and given.dtype == own.dtype.dtype and given.shape == own.shape
    np.testing.assert_array_equal(given.ravel(), np.arange(own.size))
    np.testing.assert_array_equal(filled, np.full(own.shape, 3))
    np.testing.assert_array_equal(own(), np.zeros(own.shape))
    np.testing.assert_array_equal(own(given.tolist()), given)
    with pytest.raises(wp.KernelTypeError, match="elements"):
        own(1, 2, 3, 4)


def test_types_are_the_same_however_they_are_named():
    assert wp.types.vector(3, float) is wp.vec3 is wp.vec3f and wp.types.matrix((2, 2), wp.float64) is wp.mat22d
    assert repr(wp.types.vector(3, wp.uint8)) == "vec3ub" and repr(mat23) == "matrix((2, 3), float32)"
    for wrong in (lambda: wp.types.vector(-1, float), lambda: wp.types.vector(3, str), lambda: wp.types.matrix(3, int)):
        with pytest.raises(wp.KernelTypeError):
            wrong()


def test_loops_carry_what_is_assigned_by_component_only():
    @wp.kernel
    def kernel(a: wp.array[wp.vec3], n: int, out: wp.array[wp.vec3], out2: wp.array[wp.mat22]):
        i = wp.tid()
        v = a[i]
        m = wp.mat22(1.0, 0.0, 0.0, 1.0)
        for k in range(n):
            v[k % 3] = v[(k + 1) % 3] + 1.0
            if k == 4:
                m[1].x += v.y
        c = int(0)
        while c < n:
            c += 1
            v.z -= 0.5
            m[0, c % 2] += v[1:3][0]
        out[i] = v
        out2[i] = m

    a = quarters(17, N, 3)
    for n in (0, 1, 6):
        v, m = a.copy(), np.tile(np.eye(2, dtype=np.float32), (N, 1, 1))
        for k in range(n):
            v[:, k % 3] = v[:, (k + 1) % 3] + 1
            if k == 4:
                m[:, 1, 0] += v[:, 1]
        for c in range(1, n + 1):
            v[:, 2] -= 0.5
            m[:, 0, c % 2] += v[:, 1]
        found = run_kernel(kernel, N, a, n, np.zeros((N, 3), np.float32), np.zeros((N, 2, 2), np.float32))
        np.testing.assert_array_equal(found[1], v)
        np.testing.assert_array_equal(found[2], m)
