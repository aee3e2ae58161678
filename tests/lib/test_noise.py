"""Derivatives of noise and its curl, first and second, and what noise is at its lattice. Its values: test_random.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(8)


@wp.kernel
def noises(p: wp.array[wp.vec4], x: wp.array2d[float]):
    i = wp.tid()
    s = wp.rand_init(7)
    v = p[i]
    x[i, 0] = wp.noise(s, v[0])
    x[i, 1] = wp.noise(s, v)
    x[i, 2] = wp.noise(s, wp.vec3(v[0], v[1], v[2]))
    x[i, 3] = wp.pnoise(s, wp.vec3(v[0], v[1], v[2]), 2, 1, 3)


@wp.kernel
def flat_curls(p: wp.array[wp.vec4], x: wp.array[wp.vec2]):
    i = wp.tid()
    x[i] = wp.curlnoise(wp.rand_init(7), wp.vec2(p[i][0], p[i][1]), wp.uint32(2))


@wp.kernel
def curls(p: wp.array[wp.vec4], x: wp.array[wp.vec3]):
    i = wp.tid()
    x[i] = wp.curlnoise(wp.rand_init(7), wp.vec3(p[i][0], p[i][1], p[i][2]), wp.uint32(2), 2.0, 0.7)


def values(p):
    return wp.launch(noises, len(p), [p], [(len(p), 4)])[0]


def flatly_curled(p):
    return wp.launch(flat_curls, len(p), [p], [len(p)])[0]


def curled(p):
    return wp.launch(curls, len(p), [p], [len(p)])[0]


def inside_cells(count):
    """Places at some distance from the faces of the cells of two octaves."""
    return (RNG.integers(-10, 10, (count, 4)) / 2 + RNG.uniform(0.1, 0.4, (count, 4))).astype(np.float32)


def gradients(f, p, columns):
    """The gradient of each column at each place, (columns, places, 4)."""
    result, pull = jax.vjp(f, p)
    cotangents = jnp.eye(result.shape[1], dtype=p.dtype)[jnp.asarray(columns)]
    return jax.vmap(lambda row: pull(jnp.broadcast_to(row, result.shape))[0])(cotangents)


def differences(f, p, columns, h=1e-2):
    """By central differences, of fourth order in h."""
    result = np.zeros((len(columns), *p.shape))
    for axis in range(4):
        step = np.zeros(4, np.float32)
        step[axis] = h
        near, far = (np.asarray(f(p + k * step) - f(p - k * step), np.float64) / (2 * k * h) for k in (1, 2))
        result[:, :, axis] = ((4 * near - far) / 3).T[list(columns)]
    return result


@pytest.mark.parametrize("f, columns", [(values, (0, 1, 3)), (flatly_curled, (0, 1))], ids=["noise", "curl"])
def test_first_and_second_derivatives(f, columns):
    p = jnp.asarray(inside_cells(12))
    np.testing.assert_allclose(gradients(f, p, columns), differences(f, p, columns), atol=5e-3, rtol=5e-3)
    t = jnp.asarray(RNG.normal(size=p.shape).astype(np.float32))
    k, h = columns[-1], 1e-2

    def gradient(p):
        return jax.grad(lambda p: f(p)[:, k].sum())(p)

    second = jax.jvp(gradient, (p,), (t,))[1]
    near, far = (
        np.asarray(gradient(p + m * h * t) - gradient(p - m * h * t), np.float64) / (2 * m * h) for m in (1, 2)
    )
    np.testing.assert_allclose(second, (4 * near - far) / 3, atol=5e-2, rtol=1e-2)


def test_noise_is_zero_at_the_lattice_and_continuous_there():
    p = RNG.integers(-9, 9, (50, 4)).astype(np.float32)
    np.testing.assert_array_equal(values(jnp.asarray(p)), 0.0)
    sides = [values(jnp.asarray(p + 0.3 + s * np.eye(4, dtype=np.float32)[1] * (1e-4 + 0.0))) for s in (-1, 1)]
    np.testing.assert_allclose(*sides, atol=2e-3)


def test_periodic_noise_repeats():
    p = RNG.uniform(0, 6, (50, 4)).astype(np.float32)
    shifted = p + np.array([2.0, 1.0, 3.0, 0.0], np.float32)
    np.testing.assert_allclose(values(jnp.asarray(shifted))[:, 3], values(jnp.asarray(p))[:, 3], atol=1e-5)
    assert np.abs(values(jnp.asarray(shifted))[:, 2] - values(jnp.asarray(p))[:, 2]).max() > 0.1


def test_a_curl_has_no_divergence():
    p = jnp.asarray(inside_cells(20))
    slopes = gradients(curled, p, range(3))
    np.testing.assert_allclose(slopes, differences(curled, p, range(3)), atol=5e-3, rtol=5e-3)
    np.testing.assert_allclose(jnp.trace(slopes[:, :, :3], axis1=0, axis2=2), 0.0, atol=1e-4)
