"""Derivatives of svd2, svd3, qr3 and eig3: first and second order against differences, and where there are none."""

# Without postponed annotations: those of these kernels name variables.

import functools
import types

import jax
import numpy as np
import pytest

import jwarp as wp
from jwarp.autodiff.custom_gradients import plain
from jwarp.compiler.cpu import CpuKernel
from jwarp.compiler.program import program_of
from jwarp.config import Settings
from jwarp.ir.nodes import is_plain, walk

WIDTHS = {"svd2": 2, "svd3": 3, "qr3": 3, "eig3": 3}


@functools.cache
def kernel_of(name, scalar):
    function, width = getattr(wp, name), WIDTHS[name]
    matrix, vector = wp.types.matrix((width, width), scalar), wp.types.vector(width, scalar)

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


def results(name, scalar, a):
    kernel = kernel_of(name, scalar)
    return wp.launch(kernel, len(a), [a], [len(a)] * (len(kernel.params) - 1))


@pytest.mark.parametrize("name", WIDTHS)
def test_first_and_second_derivatives(name):
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        a, t = rng.normal(size=(2, 6, WIDTHS[name], WIDTHS[name]))
        weights = [rng.normal(size=r.shape) for r in results(name, wp.float64, a)]

        def loss(a):
            return sum((w * r).sum() for w, r in zip(weights, results(name, wp.float64, a), strict=True))

        def difference(f, h=1e-6):
            return (f(a + h * t) - f(a - h * t)) / (2 * h)

        gradient = jax.grad(loss)
        np.testing.assert_allclose((gradient(a) * t).sum(), difference(loss), rtol=1e-7)
        np.testing.assert_allclose(jax.jvp(loss, (a,), (t,))[1], difference(loss), rtol=1e-7)
        expected = difference(gradient)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(jax.jvp(gradient, (a,), (t,))[1], expected, atol=1e-7 * scale)
        np.testing.assert_allclose(jax.grad(lambda a: (gradient(a) * t).sum())(a), expected, atol=1e-7 * scale)


@pytest.mark.parametrize("name", WIDTHS)
def test_float32_is_near_float64(name):
    a = np.random.default_rng(4).normal(size=(20, WIDTHS[name], WIDTHS[name])).astype(np.float32)

    def gradient(scalar, a):
        return jax.grad(lambda a: sum((r**3).sum() for r in results(name, scalar, a)))(a)

    narrow = np.asarray(gradient(wp.float32, a))
    with jax.enable_x64(True):
        wide = np.asarray(gradient(wp.float64, a.astype(np.float64)))
    error = np.abs(narrow - wide).max(axis=(1, 2)) / np.abs(wide).max(axis=(1, 2))
    assert np.median(error) < 1e-5
    assert error.max() < 1e-2  # where two singular values are near each other


@pytest.mark.parametrize("exponent", [127, 126, 120, -100, -126])
@pytest.mark.parametrize("name", WIDTHS)
def test_derivatives_of_matrices_at_the_ends_of_the_range(name, exponent):
    """Of a matrix times a power of two: those of the factors are by it, those of the values are the same."""
    rng = np.random.default_rng(9)
    a, t = rng.uniform(-0.5, 0.5, (2, 20, WIDTHS[name], WIDTHS[name])).astype(np.float32)
    factor, room = np.float32(2.0**exponent), np.float32(2.0 ** (-10 if exponent > 0 else 10))

    def derivatives(k, weights, factor, unit):
        def result(a):
            return results(name, wp.float32, a)[k]

        gradient = jax.grad(lambda a: (weights * unit * result(a)).sum())(a * factor)
        return np.asarray(gradient), np.asarray(jax.jvp(result, (a * factor,), (t * unit,))[1])

    for k, value in enumerate(results(name, wp.float32, a)):
        weights = rng.uniform(-50.0, 50.0, value.shape).astype(np.float32)
        unit = np.float32(1.0) if k == 1 else factor * room
        expected = derivatives(k, weights, np.float32(1.0), np.float32(1.0) if k == 1 else room)
        for found, right in zip(derivatives(k, weights, factor, unit), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5 * np.abs(right).max())


@pytest.mark.parametrize("name", ["svd2", "svd3", "eig3"])
def test_vectors_of_equal_values_do_not_turn_within_their_plane(name):
    """Vectors that are not shared have derivatives: that of a single one is finite, and so is the second."""
    width = WIDTHS[name]
    a = np.diag([1.0, 1.0, 3.0][:width]).astype(np.float32)[None]
    t = np.random.default_rng(8).normal(size=a.shape).astype(np.float32)

    def factors(a):
        return [results(name, wp.float32, a)[k] for k in ((0, 2) if name != "eig3" else (0,))]

    def both(a):
        value, tangent = jax.jvp(factors, (a,), (t,))
        return [np.swapaxes(v, 1, 2) @ d for v, d in zip(value, tangent, strict=True)]  # how each of them turns

    turns = np.asarray(sum(both(a)))[0]
    equal = np.flatnonzero(np.isclose(np.abs(np.asarray(results(name, wp.float32, a)[1][0])), 1.0))
    np.testing.assert_allclose(turns[np.ix_(equal, equal)], 0.0, atol=1e-6)
    assert np.abs(turns).max() > 0.1 or width == 2
    if width == 3:
        return
    second = jax.jvp(lambda a: jax.grad(lambda a: sum((f**3).sum() for f in factors(a)))(a), (a,), (t,))[1]
    assert np.isfinite(second).all()


def test_a_rotation_has_a_qr_gradient():
    """Columns with zeros, where the turns that eliminate them would jump."""
    with jax.enable_x64(True):
        a = np.eye(3)[[2, 0, 1]][None]
        t = np.random.default_rng(6).normal(size=a.shape)

        def loss(a):
            q, r = results("qr3", wp.float64, a)
            return (q * t).sum() + (r * t[:, ::-1]).sum()

        h = 1e-6
        difference = (loss(a + h * t) - loss(a - h * t)) / (2 * h)
        np.testing.assert_allclose((jax.grad(loss)(a) * t).sum(), difference, rtol=1e-7)


def test_the_launch_itself_computes_no_derivative():
    kernel = kernel_of("svd3", wp.float32)
    compiled = program_of(kernel, Settings()).kernel
    assert len(list(walk(compiled.body))) < len(list(walk(kernel.ir(Settings()).body))) / 1.5
    assert not any(getattr(node, "name", "") == "follow" for node in walk(compiled.body))


@pytest.mark.parametrize("scalar", [wp.float16, wp.float32, wp.float64])
@pytest.mark.parametrize("name", WIDTHS)
def test_what_is_for_derivatives_is_read_when_one_is_asked_for(name, scalar):
    settings = Settings(cache_dir="")
    kernel = kernel_of(name, scalar)
    values, read = kernel.values_ir(settings)
    program, whole = program_of(kernel, settings), kernel.ir(settings)
    assert read and is_plain(values) and not is_plain(whole)
    assert program.kernel is values and program.users_kernel is whole
    # What runs is the code that it would be of all that was read.
    assert CpuKernel(values, settings).text() == CpuKernel(plain(whole), settings).text()


# What the kernels below refer to: outer values that a test may change, and one that is computed each time.
constants = types.SimpleNamespace(scale=2.0, steps=0)


class Computed:
    @property
    def scale(self):
        return constants.scale


computed = Computed()


@wp.func
def squared(x: float):
    return x * x


@wp.func_grad(squared)
def adj_squared(x: float, adj: float):
    wp.adjoint[x] += constants.scale * adj


def scaled_kernels():
    def known(a: wp.array[wp.mat22], y: wp.array[float]):
        u, sigma, _v = wp.svd2(a[wp.tid()])
        y[wp.tid()] = constants.scale * sigma[0] * u[0, 0]

    def unknown(a: wp.array[wp.mat22], y: wp.array[float]):
        u, sigma, _v = wp.svd2(a[wp.tid()])
        y[wp.tid()] = computed.scale * sigma[0] * u[0, 0]

    def with_gradient(a: wp.array[wp.mat22], y: wp.array[float]):
        _u, sigma, _v = wp.svd2(a[wp.tid()])
        y[wp.tid()] = squared(sigma[0])

    return {function.__name__: wp.kernel(function) for function in (known, unknown, with_gradient)}


@pytest.mark.parametrize("name", ["known", "unknown"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_derivative_is_of_what_the_values_were_read_from(name, when, monkeypatch):
    """Or refused: a value that the kernel refers to changes between its first launch and its first derivative."""
    kernel = scaled_kernels()[name]
    a = np.random.default_rng(5).normal(size=(3, 2, 2)).astype(np.float32)

    def sizes(a):
        with wp.config(cache_dir=""):
            return wp.launch(kernel, 3, [a], [3])[0].sum()

    value = float(sizes(a))
    if when == "after":
        gradient = jax.grad(sizes)(a)
    monkeypatch.setattr(constants, "scale", 3.0)
    np.testing.assert_allclose(sizes(a), value)  # as it was first read
    if when == "before" and name == "known":
        with pytest.raises(wp.CompileError, match="changed since it was read"):
            jax.grad(sizes)(a)
        monkeypatch.setattr(constants, "scale", 2.0)
    # It is of the first degree in `a`.
    np.testing.assert_allclose((jax.grad(sizes)(a) * a).sum(), value, rtol=1e-4)
    if when == "after":
        np.testing.assert_array_equal(jax.grad(sizes)(a), gradient)


@pytest.mark.parametrize(("name", "value", "is_same"), [("steps", 1, True), ("scale", 5.0, False)])
def test_only_what_the_kernel_uses_counts(name, value, is_same, monkeypatch):
    """Of an object that a kernel names, another attribute may change; what a gradient function uses may not."""
    kernels, a = scaled_kernels(), np.ones((2, 2, 2), np.float32)  # whose sigma[0] is 2

    def sizes(a, kernel):
        with wp.config(cache_dir=""):
            return wp.launch(kernel, 2, [a], [2])[0].sum()

    for which, total in (("known", 32.0**0.5), ("with_gradient", 8.0)):
        np.testing.assert_allclose(sizes(a, kernels[which]), total, rtol=1e-5)
    monkeypatch.setattr(constants, name, value)
    for which, total in (("known", 32.0**0.5), ("with_gradient", 8.0)):
        if is_same:
            gradient = jax.grad(sizes)(a, kernels[which])
            np.testing.assert_allclose((gradient * a).sum(), total, rtol=1e-5)
        else:
            with pytest.raises(wp.CompileError, match="changed since it was read"):
                jax.grad(sizes)(a, kernels[which])


@wp.func
def mixed(a: wp.mat22d):
    u, s, v = wp.svd2(a)
    r = u @ wp.transpose(v)
    return s[0] * r[0, 1] + r[1, 1] * s[1]


@wp.kernel
def slopes(a: wp.array[wp.mat22d], g: wp.array[wp.mat22d]):
    i = wp.tid()
    g[i] = wp.grad(mixed)(a[i])


@wp.kernel
def values(a: wp.array[wp.mat22d], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = mixed(a[i])


def test_a_gradient_inside_a_kernel_has_a_derivative():
    a, t, w = np.random.default_rng(9).normal(size=(3, 4, 2, 2))
    with jax.enable_x64(True):

        def inside(a):
            return wp.launch(slopes, 4, [a], [4])[0]

        def outside(a):
            return jax.grad(lambda a: wp.launch(values, 4, [a], [4])[0].sum())(a)

        np.testing.assert_allclose(inside(a), outside(a), rtol=1e-9, atol=1e-12)
        expected = jax.jvp(outside, (a,), (t,))[1]
        np.testing.assert_allclose(jax.jvp(inside, (a,), (t,))[1], expected, rtol=1e-8, atol=1e-10)
        reverse = jax.grad(lambda a: (inside(a) * w).sum())(a)
        np.testing.assert_allclose((reverse * t).sum(), (expected * w).sum(), rtol=1e-8)
