"""svd2, svd3, qr3 and eig3 on random and degenerate matrices, against NumPy in float64 and against Warp."""

# Without postponed annotations: those of these kernels name variables.

import functools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import jwarp as wp
from jwarp.backend.interpreter.machine import run

COUNT = 2000
WIDTHS = {"svd2": 2, "svd3": 3, "qr3": 3, "eig3": 3}
TYPES = {np.float16: wp.float16, ml_dtypes.bfloat16: wp.bfloat16, np.float32: wp.float32, np.float64: wp.float64}
# In units of the last place of 1.
ERROR = 16.0


@functools.cache
def kernel_of(name: str, dtype: type) -> wp.Kernel:
    function, width = getattr(wp, name), WIDTHS[name]
    matrix, vector = wp.types.matrix((width, width), TYPES[dtype]), wp.types.vector(width, TYPES[dtype])

    def svd(a: wp.array[matrix], u: wp.array[matrix], sigma: wp.array[vector], v: wp.array[matrix]):
        i = wp.tid()
        u[i], sigma[i], v[i] = function(a[i])

    def qr(a: wp.array[matrix], q: wp.array[matrix], r: wp.array[matrix]):
        i = wp.tid()
        q[i], r[i] = function(a[i])

    def eig(a: wp.array[matrix], q: wp.array[matrix], d: wp.array[vector]):
        i = wp.tid()
        q[i], d[i] = function(a[i])

    return wp.kernel({"svd": svd, "qr": qr, "eig": eig}[name.rstrip("23")])


def decompose(name: str, a: np.ndarray) -> list[np.ndarray]:
    """The results for each of the matrices `a`, in their dtype."""
    kernel = kernel_of(name, a.dtype.type)
    results = wp.launch(kernel, len(a), [a], [len(a)] * (len(kernel.params) - 1))
    return [np.asarray(r) for r in results]


def product(name: str, results: list[np.ndarray]) -> np.ndarray:
    """The matrices that were decomposed, put together again in float64."""
    left, middle, *rest = (r.astype(np.float64) for r in results)
    if name == "qr3":
        return left @ middle
    right = rest[0] if rest else left
    return left * middle[:, None] @ right.transpose(0, 2, 1)


def check(name: str, a: np.ndarray, results: list[np.ndarray]) -> None:
    """Check the properties of the decomposition of all finite matrices."""
    eps = float(ml_dtypes.finfo(a.dtype).eps)
    a, (left, *others) = a.astype(np.float64), [r.astype(np.float64) for r in results]
    size = np.abs(a).max((1, 2), keepdims=True) + float(ml_dtypes.finfo(results[0].dtype).tiny) / eps
    assert np.max(np.abs(product(name, results) - a) / size) < ERROR * eps
    unit = np.eye(a.shape[-1])
    for m in [left] if len(others) == 1 else [left, others[1]]:
        assert np.max(np.abs(m.transpose(0, 2, 1) @ m - unit)) < ERROR * eps
    assert np.all(np.linalg.det(left if name != "svd2" else others[1]) > 0.9)
    if name == "qr3":
        assert np.all(np.tril(others[0], -1) == 0.0)
        assert np.all(np.diagonal(others[0], axis1=1, axis2=2)[:, :2] >= 0.0)
    elif name == "eig3":
        expected = np.linalg.eigvalsh(a)
        assert np.max(np.abs(np.sort(others[0]) - expected) / size[:, 0]) < ERROR * eps
    else:
        sigma = others[0]
        assert np.all(np.diff(np.abs(sigma)) <= 0.0)
        assert np.all(sigma[:, : 3 if name == "svd2" else 2] >= 0.0)
        expected = np.linalg.svd(a)[1]
        assert np.max(np.abs(np.abs(sigma) - expected) / size[:, 0]) < ERROR * eps


def random_matrices(width: int, count: int, seed: int) -> np.ndarray:
    """Matrices of all ranks, with equal, graded and tiny singular values, and with small integer entries."""
    rng = np.random.default_rng(seed)

    def normal(n: int = count) -> np.ndarray:
        return rng.normal(size=(n, width, width))

    def graded(axis: int) -> np.ndarray:
        shape = (count, 1, width) if axis else (count, width, 1)
        return normal() * 10.0 ** rng.integers(-6, 4, shape)

    u, v = np.linalg.qr(normal())[0], np.linalg.qr(normal())[0]
    values = 10.0 ** (rng.uniform(-1, 0, (count, width)) * rng.choice([0, 1e-7, 1e-3, 1, 4, 8], (count, 1)))
    nearly = 1.0 + normal() * 10.0 ** rng.integers(-18, -1, (count, 1, 1))
    integers = rng.integers(-1, 2, (count, width, width)).astype(float)
    single = rng.normal(size=(count, width, 1)) @ rng.normal(size=(count, 1, width))
    return np.concatenate([normal(), u * values[:, None] @ v, graded(0), graded(1), nearly, integers, single])


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", WIDTHS)
def test_decompositions(name, dtype, x64):
    a = random_matrices(WIDTHS[name], COUNT, seed=len(name))
    if dtype is np.float16:
        a = np.clip(a, -2e4, 2e4)
    a = (a + a.transpose(0, 2, 1) if name == "eig3" else a).astype(dtype)
    check(name, a, decompose(name, a))


@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, (4, 3, 3), elements=st.floats(-(2.0**125), 2.0**125, width=32)))
@pytest.mark.parametrize("name", WIDTHS)
def test_any_matrices(name, a):
    if name == "eig3":
        a = np.tril(a) + np.tril(a, -1).transpose(0, 2, 1)
    a = np.ascontiguousarray(a[:, : WIDTHS[name], : WIDTHS[name]])
    check(name, a, decompose(name, a))


@pytest.mark.parametrize("name", WIDTHS)
def test_powers_of_two_scale_the_results(name, x64):
    a = random_matrices(WIDTHS[name], 100, seed=1)[:200]
    results = decompose(name, a)
    for power in (-900, 900):
        scaled = decompose(name, a * 2.0**power)
        for k, (x, y) in enumerate(zip(results, scaled, strict=True)):
            np.testing.assert_array_equal(y, x * 2.0**power if k == 1 else x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_diagonal_matrices_are_exact(dtype, x64):
    rng = np.random.default_rng(2)
    d = rng.normal(size=(50, 3)) * 10.0 ** rng.integers(-5, 5, (50, 3))
    d[::7, 1] = 0.0
    d[::5, 2] = d[::5, 0]
    a = (d[:, :, None] * np.eye(3)).astype(dtype)
    q, values = decompose("eig3", a)
    np.testing.assert_array_equal(values, d.astype(dtype))
    np.testing.assert_array_equal(q, np.broadcast_to(np.eye(3), q.shape))
    q, r = decompose("qr3", a)
    np.testing.assert_array_equal(np.abs(r), np.abs(a))
    for name in ("svd2", "svd3"):
        width = WIDTHS[name]
        results = decompose(name, np.ascontiguousarray(a[:, :width, :width]))
        expected = -np.sort(-np.abs(d[:, :width].astype(dtype)), axis=1)
        np.testing.assert_array_equal(np.abs(results[1]), expected)
        np.testing.assert_array_equal(product(name, results), a[:, :width, :width])


def test_the_last_singular_value_has_the_sign_of_the_determinant():
    a = np.random.default_rng(3).normal(size=(500, 3, 3)).astype(np.float32)
    _, sigma, _ = decompose("svd3", a)
    np.testing.assert_array_equal(np.sign(sigma[:, 2]), np.sign(np.linalg.det(a)))


@pytest.mark.parametrize("name", WIDTHS)
def test_no_numbers_and_infinities_give_nan(name):
    width = WIDTHS[name]
    good = np.random.default_rng(4).normal(size=(2 * width * width, width, width)).astype(np.float32)
    for k, m in enumerate(good):
        m.flat[k // 2] = np.nan if k % 2 else np.inf
    left, *others = decompose(name, good)
    if name == "qr3":
        others[0] = others[0][:, *np.triu_indices(3)]
    assert all(np.all(np.isnan(result)) for result in (left, *others))


@pytest.mark.parametrize("name", WIDTHS)
def test_the_interpreter(name):
    width = WIDTHS[name]
    a = random_matrices(width, 5, seed=6).astype(np.float32)
    a = a + a.transpose(0, 2, 1) if name == "eig3" else a
    shapes = [p.type.components for p in kernel_of(name, np.float32).params[1:]]
    outputs = [np.ones((len(a), *shape), np.float32) for shape in shapes]
    check(name, a, run(kernel_of(name, np.float32).ir(), (len(a),), [a, *outputs])[1:])


def test_results_as_arguments():
    @wp.kernel
    def both(a: wp.array[wp.mat33], one: wp.array[wp.mat33], other: wp.array[wp.mat33], r: wp.array[wp.mat33]):
        i = wp.tid()
        U = wp.mat33()
        sigma = wp.vec3()
        V = wp.mat33()
        Q = wp.mat33()
        for k in range(a.shape[0]):
            if k == i:
                wp.svd3(a[k], U, sigma, V)
                wp.qr3(a[k], R=r[k], Q=Q)
        one[i] = U * wp.diag(sigma) * wp.transpose(V)
        other[i] = Q * r[i]

    a = np.random.default_rng(7).normal(size=(9, 3, 3)).astype(np.float32)
    one, other, r = (np.asarray(x) for x in wp.launch(both, 9, [a], [9] * 3))
    np.testing.assert_allclose(one, a, atol=2e-6)
    np.testing.assert_allclose(other, a, atol=2e-6)
    np.testing.assert_array_equal(r, decompose("qr3", a)[1])


def test_results_as_arguments_change_no_captured_value():
    kept = wp.mat22(1.0, 2.0, 3.0, 4.0)

    @wp.func
    def values_only(m: wp.mat22):
        U, sigma, V = wp.svd2(m)
        V = m
        wp.svd2(kept, U, sigma, V)
        return sigma

    @wp.kernel
    def k(a: wp.array[wp.mat22], sigma: wp.array[wp.vec2]):
        sigma[0] = values_only(a[0])

    (sigma,) = wp.launch(k, 1, [np.ones((1, 2, 2), np.float32)], [1])
    np.testing.assert_allclose(sigma[0], np.linalg.svd([[1.0, 2.0], [3.0, 4.0]])[1], rtol=1e-6)


class TestRefusals:
    def test_other_than_matrices_of_floats(self):
        @wp.kernel
        def k(a: wp.array[wp.vec3], y: wp.array[wp.vec3]):
            _U, sigma, _V = wp.svd3(a[0])
            y[0] = sigma

        with pytest.raises(wp.KernelTypeError, match=r"`A` of `svd3` must be matrix\(\(3, 3\), Float\), not vec3"):
            k.ir()

    def test_a_matrix_of_integers(self):
        @wp.kernel
        def k(y: wp.array[float]):
            Q, _R = wp.qr3(wp.matrix(shape=(3, 3), dtype=int))
            y[0] = Q[0, 0]

        with pytest.raises(wp.KernelTypeError, match=r"must be matrix\(\(3, 3\), Float\), not mat33i"):
            k.ir()

    def test_too_few_results_named(self):
        @wp.kernel
        def k(a: wp.array[wp.mat33]):
            U = wp.mat33()
            wp.svd3(a[0], U)
            a[0] = U

        with pytest.raises(wp.KernelTypeError, match=r"write U, sigma, V = wp\.svd3"):
            k.ir()

    def test_a_variable_of_another_type(self):
        @wp.kernel
        def k(a: wp.array[wp.mat33]):
            U = wp.mat33()
            V = wp.mat33()
            wp.svd3(a[0], U, U, V)
            a[0] = U

        with pytest.raises(wp.KernelTypeError, match="`U` is mat33 and cannot become vec3"):
            k.ir()

    def test_what_cannot_be_assigned(self):
        @wp.kernel
        def k(a: wp.array[wp.mat33]):
            Q = wp.mat33()
            wp.qr3(a[0], Q, 2.0)
            a[0] = Q

        with pytest.raises(wp.CompileError, match="this cannot be assigned to"):
            k.ir()


def test_warp_gives_the_same():
    warp = pytest.importorskip("warp")
    warp.config.quiet = True
    warp.config.enable_backward = False
    warp.init()

    @warp.kernel
    def theirs(
        a: warp.array(dtype=warp.mat33d),
        b: warp.array(dtype=warp.mat22d),
        sigma: warp.array(dtype=warp.vec3d),
        values: warp.array(dtype=warp.vec3d),
        q: warp.array(dtype=warp.mat33d),
        r: warp.array(dtype=warp.mat33d),
        polar: warp.array(dtype=warp.mat33d),
        two: warp.array(dtype=warp.vec2d),
        v: warp.array(dtype=warp.mat22d),
    ):
        i = warp.tid()
        u3, s3, v3 = warp.svd3(a[i])
        sigma[i] = s3
        polar[i] = u3 * warp.transpose(v3)
        q3, r3 = warp.qr3(a[i])
        q[i] = q3
        r[i] = r3
        _e3, d3 = warp.eig3((a[i] + warp.transpose(a[i])) * warp.float64(0.5))
        values[i] = d3
        _u2, s2, v2 = warp.svd2(b[i])
        two[i] = s2
        v[i] = v2

    @wp.kernel
    def ours(
        a: wp.array[wp.mat33d],
        b: wp.array[wp.mat22d],
        sigma: wp.array[wp.vec3d],
        values: wp.array[wp.vec3d],
        q: wp.array[wp.mat33d],
        r: wp.array[wp.mat33d],
        polar: wp.array[wp.mat33d],
        two: wp.array[wp.vec2d],
        v: wp.array[wp.mat22d],
    ):
        i = wp.tid()
        u3, s3, v3 = wp.svd3(a[i])
        sigma[i] = s3
        polar[i] = u3 * wp.transpose(v3)
        q[i], r[i] = wp.qr3(a[i])
        _e3, d3 = wp.eig3((a[i] + wp.transpose(a[i])) * wp.float64(0.5))
        values[i] = d3
        _u2, s2, v2 = wp.svd2(b[i])
        two[i] = s2
        v[i] = v2

    rng = np.random.default_rng(8)
    count = 40
    a, b = rng.normal(size=(count, 3, 3)), rng.normal(size=(count, 2, 2))
    kinds = [warp.vec3d, warp.vec3d, warp.mat33d, warp.mat33d, warp.mat33d, warp.vec2d, warp.mat22d]
    outs = [warp.zeros(count, dtype=t, device="cpu") for t in kinds]
    inputs = [warp.array(a, dtype=warp.mat33d, device="cpu"), warp.array(b, dtype=warp.mat22d, device="cpu")]
    warp.launch(theirs, count, inputs=[*inputs, *outs], device="cpu")
    expected = [o.numpy() for o in outs]
    mine = run(ours.ir(), (count,), [a, b, *(np.zeros_like(x) for x in expected)])[2:]
    for x, y in zip(mine[:-1], expected[:-1], strict=True):
        np.testing.assert_allclose(*(np.sort(z) if z.shape == (count, 3) else z for z in (x, y)), atol=1e-9)
    np.testing.assert_allclose(np.linalg.det(mine[-1]), np.linalg.det(expected[-1]), atol=1e-9)


@wp.kernel
def stretches(a: wp.array[wp.mat33], b: wp.array[wp.mat22d], r: wp.array[wp.mat33], s: wp.array[wp.mat33],
              q: wp.array[wp.mat22d], t: wp.array[wp.mat22d]):  # fmt: skip
    i = wp.tid()
    r[i], s[i] = wp.polar(a[i])
    q[i], t[i] = wp.polar(b[i])


def test_polar():
    rng = np.random.default_rng(15)
    a, b = rng.normal(size=(200, 3, 3)).astype(np.float32), rng.normal(size=(200, 2, 2))
    outputs = [np.empty_like(x) for x in (a, a, b, b)]
    wp.launch(stretches, 200, [a, b], outputs)
    for matrix, rotation, stretch, bound in ((a, *outputs[:2], 2e-6), (b, *outputs[2:], 1e-14)):
        u, s, vt = np.linalg.svd(matrix.astype(float))
        if matrix is a:
            s[:, 2] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))
            u[:, :, 2] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))[:, None]
        gap = 1 / np.abs(s[:, -1] + s[:, -2])[:, None, None]  # where it is small, the rotation is not well known
        assert np.abs((rotation - u @ vt) / gap).max() < bound
        assert np.abs((stretch - vt.transpose(0, 2, 1) * s[:, None] @ vt) / (1 + gap)).max() < bound
