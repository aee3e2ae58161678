"""Derivatives of svd2, svd3, qr3 and eig3: first and second order against differences, and where there are none."""

# Without postponed annotations: those of these kernels name variables.

import functools

import jax
import numpy as np
import pytest

import jwarp as wp
from jwarp.config import Settings
from jwarp.ir.nodes import walk
from jwarp.launching.program import program_of

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


@pytest.mark.parametrize("name", ["svd2", "svd3", "eig3"])
def test_equal_singular_values_give_nan_and_no_wrong_number(name):
    a = np.eye(WIDTHS[name], dtype=np.float32)[None]
    gradient = jax.grad(lambda a: results(name, wp.float32, a)[0].sum())(a)
    assert np.isnan(gradient).all()


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
