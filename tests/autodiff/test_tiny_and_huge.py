"""Derivatives of what squares its arguments, where squares leave the range of their type or nearly do."""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import jwarp as wp

# At the greatest and the smallest of these, squares are hardly in range; their inverses, or those of products, are not.
SCALES = {wp.float16: (6e-3, 30.0), wp.float32: (3e-21, 1e-19, 1e-10, 1e10, 3e18), wp.float64: (1e-160, 1e-155, 1e100)}
TOLERANCE = {wp.float16: 4e-2, wp.float32: 2e-3, wp.float64: 2e-3}
MODES = (jax.jacrev, jax.jacfwd)


def function_of(kernel):
    """A kernel of one input and one result as a function."""
    return lambda x: wp.jax_kernel(kernel)(x)[0]


@functools.cache
def kernels(F):
    """Kernels of vectors and quaternions of one type of floats, and what they compute in exact arithmetic."""
    vec3, quat = wp.types.vector(3, F), wp.types.quaternion(F)

    @wp.kernel
    def length(x: wp.array[vec3], y: wp.array[F]):
        y[0] = wp.length(x[0])

    @wp.kernel
    def normalize(x: wp.array[vec3], y: wp.array[vec3]):
        y[0] = wp.normalize(x[0])

    @wp.kernel
    def turn(x: wp.array[quat], y: wp.array[quat]):
        y[0] = wp.normalize(x[0])

    @wp.kernel
    def angle(x: wp.array[quat], y: wp.array[F]):
        _axis, angle = wp.quat_to_axis_angle(x[0])
        y[0] = angle

    def size(v):
        return mpmath.sqrt(mpmath.fsum(x * x for x in v))

    def unit(v):
        return [x / size(v) for x in v]

    return {
        length: (3, lambda v: [size(v)]),
        normalize: (3, unit),
        turn: (4, unit),
        angle: (4, lambda q: [2 * mpmath.atan2(size(q[:3]), abs(q[3]))]),
    }


def jacobian(f, x):
    """By differences in 80 digits."""
    with mpmath.workdps(80):
        at = [mpmath.mpf(float(v)) for v in x]
        size = max(map(abs, at)) * mpmath.mpf("1e-25")
        columns = []
        for k in range(len(at)):
            sides = [f([v + (side * size if j == k else 0) for j, v in enumerate(at)]) for side in (1, -1)]
            columns.append([float((a - b) / (2 * size)) for a, b in zip(*sides, strict=True)])
        return np.array(columns).T


@pytest.mark.parametrize("F", SCALES, ids=lambda F: F.__name__)
def test_where_the_value_is_right_so_is_its_derivative(F):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for kernel, (n, exact) in kernels(F).items():
            call = function_of(kernel)
            modes = [jax.jit(mode(call)) for mode in MODES]
            for scale in SCALES[F]:
                x = jnp.asarray(rng.uniform(0.3, 1.0, (1, n)) * scale * rng.choice([-1, 1], n), F.dtype)
                expected = jacobian(exact, x[0])
                value = [float(y) for y in exact([mpmath.mpf(float(v)) for v in x[0]])]
                atol = TOLERANCE[F] * max(map(abs, value))
                np.testing.assert_allclose(np.ravel(call(x)), value, rtol=TOLERANCE[F], atol=atol)
                for found in (mode(x) for mode in modes):
                    error = np.abs(found.reshape(expected.shape).astype(float) - expected).max()
                    assert error <= TOLERANCE[F] * np.abs(expected).max(), (kernel.key, scale, found, expected)


def test_at_zero():
    """There is no direction: the derivative is zero."""
    for kernel, (n, _) in kernels(wp.float32).items():
        x = jnp.zeros((1, n), jnp.float32)
        assert not any(np.any(mode(function_of(kernel))(x)) for mode in MODES)


def test_what_is_not_a_number_has_no_derivative():
    @wp.kernel
    def length(x: wp.array[wp.vec3], y: wp.array[float]):
        i = wp.tid()
        y[i] = wp.length(x[i])

    x = jnp.asarray([[np.nan, 1.0, 2.0], [1.0, -2.0, 2.0]], jnp.float32)
    for mode in MODES:
        slopes = np.asarray(mode(function_of(length))(x))
        assert np.isnan(slopes[0, 0]).all()
        np.testing.assert_allclose(slopes[1, 1], np.array([1.0, -2.0, 2.0]) / 3.0, rtol=1e-6)


@functools.cache
def wider_kernels(F):
    """Kernels of one type of floats, by the scales of their arguments at which values are right in float32."""
    mat22, mat33, mat44 = (wp.types.matrix((n, n), F) for n in (2, 3, 4))
    vec3, quat = wp.types.vector(3, F), wp.types.quaternion(F)

    @wp.kernel
    def inverse2(a: wp.array[mat22], y: wp.array[mat22]):
        y[0] = wp.inverse(a[0])

    @wp.kernel
    def inverse3(a: wp.array[mat33], y: wp.array[mat33]):
        y[0] = wp.inverse(a[0])

    @wp.kernel
    def inverse4(a: wp.array[mat44], y: wp.array[mat44]):
        y[0] = wp.inverse(a[0])

    @wp.kernel
    def singular(a: wp.array[mat33], y: wp.array[vec3]):
        _U, sigma, _V = wp.svd3(a[0])
        y[0] = sigma

    @wp.kernel
    def turn(a: wp.array[mat33], y: wp.array[mat33]):
        R, _S = wp.polar(a[0])
        y[0] = R

    @wp.kernel
    def upper(a: wp.array[mat33], y: wp.array[mat33]):
        _Q, R = wp.qr3(a[0])
        y[0] = R

    @wp.kernel
    def vectors(a: wp.array[mat33], y: wp.array[mat33]):
        Q, _d = wp.eig3(a[0])
        y[0] = Q

    @wp.kernel
    def slerp(a: wp.array[quat], y: wp.array[quat]):
        i = wp.tid()
        y[i] = wp.quat_slerp(a[i], a[1 - i], F(0.3))

    @wp.kernel
    def euler(a: wp.array[quat], y: wp.array[vec3]):
        y[0] = wp.quat_to_euler(a[0], 0, 1, 2)

    @wp.kernel
    def huber(a: wp.array[F], y: wp.array[F]):
        y[0] = wp.norm_pseudo_huber(vec3(a[0], F(1e6), F(-3e5)), F(1e-6) * a[0])

    decomposed = (1e-30, 1e-20, 1e20, 1e30)
    return {
        "inverse2": (inverse2, (1, 2, 2), (1e-18, 1e-15, 1.0, 1e17)),
        "inverse3": (inverse3, (1, 3, 3), (1e-12, 1e-10, 1.0, 1e11)),
        "inverse4": (inverse4, (1, 4, 4), (2e-9, 1e-8, 1.0, 1e8)),
        "singular": (singular, (1, 3, 3), decomposed),
        "turn": (turn, (1, 3, 3), decomposed),
        "upper": (upper, (1, 3, 3), decomposed),
        "vectors": (vectors, (1, 3, 3), decomposed),
        "slerp": (slerp, (2, 4), (1e-25, 1e-20, 1e20, 1e25)),
        "huber": (huber, (1,), (1.0, 1e8, 1e14)),
        "euler": (euler, (1, 4), decomposed),
    }


@pytest.mark.parametrize("name", wider_kernels(wp.float32))
def test_derivatives_in_float32_are_those_in_float64(name):
    """The same kernel in float64, whose range is wide enough for everything."""
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        narrow, wide = (function_of(wider_kernels(F)[name][0]) for F in (wp.float32, wp.float64))
        _, shape, scales = wider_kernels(wp.float32)[name]
        square = len(shape) == 3 and shape[1] == shape[2]
        for scale in scales:
            a = rng.standard_normal(shape) + (2.0 * np.eye(shape[1]) if square else 0.0)
            a = (a * scale).astype(np.float32)
            for f in (lambda f: f, *MODES):
                found = np.asarray(f(narrow)(jnp.asarray(a, np.float32)), np.float64)
                expected = np.asarray(f(wide)(jnp.asarray(a, np.float64)))
                error = np.abs(found - expected).max()
                assert error <= 2e-4 * np.abs(expected).max(), (scale, f, found, expected)


def test_second_derivatives_of_inverses():
    kernel = wider_kernels(wp.float64)["inverse3"][0]
    with jax.enable_x64(True):
        a = jnp.asarray(np.random.default_rng(2).standard_normal((1, 3, 3)) + 2.0 * np.eye(3))
        expected = jax.jit(jax.hessian(lambda a: jnp.sum(jnp.sin(jnp.linalg.inv(a)))))(a)
        for second in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f)), lambda f: jax.jacfwd(jax.jacfwd(f))):
            found = jax.jit(second(lambda a: jnp.sum(jnp.sin(function_of(kernel)(a)))))(a)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_matrix_without_an_inverse_has_derivative_zero():
    kernel = wider_kernels(wp.float32)["inverse3"][0]
    a = jnp.ones((1, 3, 3), jnp.float32)
    for mode in MODES:
        assert not np.any(mode(function_of(kernel))(a))
