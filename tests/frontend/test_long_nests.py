"""Nests of loops over constants with much code in them stay loops, and give what unrolled ones give."""

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.frontend.lowering import long_nests
from jwarp.ir.nodes import For, walk

COUNT, GRID = 37, 6


@wp.func
def weights(d: wp.vec3):
    return wp.matrix_from_rows(
        0.5 * wp.cw_mul(wp.vec3(1.5) - d, wp.vec3(1.5) - d),
        wp.vec3(0.75) - wp.cw_mul(d - wp.vec3(1.0), d - wp.vec3(1.0)),
        0.5 * wp.cw_mul(d - wp.vec3(0.5), d - wp.vec3(0.5)),
    )


@wp.kernel
def scatter(x: wp.array[wp.vec3], v: wp.array[wp.vec3], momenta: wp.array3d[wp.vec3], masses: wp.array3d[float]):
    i = wp.tid()
    base = wp.vec3(wp.floor(x[i][0] - 0.5), wp.floor(x[i][1] - 0.5), wp.floor(x[i][2] - 0.5))
    d = x[i] - base
    w = weights(d)
    for a in range(3):
        for b in range(3):
            for k in range(3):
                weight = w[a, 0] * w[b, 1] * w[k, 2]
                offset = wp.vec3(float(a), float(b), float(k)) - d
                wp.atomic_add(momenta, int(base[0]) + a, int(base[1]) + b, int(base[2]) + k, weight * (v[i] + offset))
                wp.atomic_add(masses, int(base[0]) + a, int(base[1]) + b, int(base[2]) + k, weight)


@wp.kernel
def gather(x: wp.array[wp.vec3], grid: wp.array3d[wp.vec3], v: wp.array[wp.vec3], c: wp.array[wp.mat33]):
    i = wp.tid()
    base = wp.vec3(wp.floor(x[i][0] - 0.5), wp.floor(x[i][1] - 0.5), wp.floor(x[i][2] - 0.5))
    d = x[i] - base
    w = weights(d)
    total = wp.vec3()
    affine = wp.mat33()
    for a in range(3):
        for b in range(3):
            for k in range(3):
                weight = w[a, 0] * w[b, 1] * w[k, 2]
                g = weight * grid[int(base[0]) + a, int(base[1]) + b, int(base[2]) + k]
                total += g
                affine += 4.0 * wp.outer(g, wp.vec3(float(a), float(b), float(k)) - d)
    v[i] = total
    c[i] = affine


def loops_of(kernel) -> int:
    return sum(isinstance(node, For) for node in walk(kernel.ir().body))


def neighbours(x):
    base = np.floor(x - 0.5)
    d = x - base
    w = np.stack([0.5 * (1.5 - d) ** 2, 0.75 - (d - 1) ** 2, 0.5 * (d - 0.5) ** 2], 1)  # particle, node, axis
    for a, b, k in np.ndindex(3, 3, 3):
        yield base.astype(int) + (a, b, k), w[:, a, 0] * w[:, b, 1] * w[:, k, 2], np.array([a, b, k]) - d


@pytest.fixture
def particles():
    rng = np.random.default_rng(0)
    return rng.uniform(1.0, 4.0, (COUNT, 3)).astype(np.float32), rng.normal(size=(COUNT, 3)).astype(np.float32)


def test_neighbours_are_loops_and_scatter_and_gather_what_numpy_does(particles):
    x, v = particles
    assert loops_of(scatter) == loops_of(gather) == 3
    dims = {"momenta": (GRID,) * 3, "masses": (GRID,) * 3}
    momenta, masses = wp.jax_kernel(scatter, num_outputs=2)(x, v, launch_dims=COUNT, output_dims=dims)
    grid = np.random.default_rng(1).normal(size=(GRID, GRID, GRID, 3)).astype(np.float32)
    got_v, got_c = wp.jax_kernel(gather, num_outputs=2)(x, grid)
    want = np.zeros((GRID,) * 3 + (3,)), np.zeros((GRID,) * 3), np.zeros((COUNT, 3)), np.zeros((COUNT, 3, 3))
    for place, weight, offset in neighbours(x.astype(np.float64)):
        np.add.at(want[0], tuple(place.T), weight[:, None] * (v + offset))
        np.add.at(want[1], tuple(place.T), weight)
        g = weight[:, None] * grid[tuple(place.T)]
        want[2][:] += g
        want[3][:] += 4.0 * g[:, :, None] * offset[:, None, :]
    for got, wanted in zip((momenta, masses, got_v, got_c), want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


def test_their_derivatives_are_those_of_differences(particles):
    x, v = (jnp.asarray(part[:5]) for part in particles)
    dims = {"momenta": (GRID,) * 3, "masses": (GRID,) * 3}
    scattered = wp.jax_kernel(scatter, num_outputs=2)
    wp.check_grads(lambda x, v: scattered(x, v, launch_dims=5, output_dims=dims), (x, v), order=1, modes="rev")
    grid = jnp.asarray(np.random.default_rng(1).normal(size=(GRID, GRID, GRID, 3)), jnp.float32)
    wp.check_grads(wp.jax_kernel(gather, num_outputs=2), (x, grid), order=1, modes="rev")


@wp.kernel
def choices(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    m = wp.mat33()
    s = float(0.0)
    last = float(0.0)
    for a in range(3):
        for b in range(3):
            m[a, b] = x[i] * float(a) + wp.sin(x[i] + float(b))
            s += 0.5 * x[i] + m[a, b]
            last = s * 0.25 + last * 0.5
    y[i] = m[1, 2] + s + last


def test_loops_that_set_components_or_carry_more_than_sums_are_unrolled(monkeypatch):
    monkeypatch.setattr(long_nests, "LONG_NEST", 0)
    assert loops_of(choices) == 0
    x = np.linspace(-1, 1, 9).astype(np.float32)
    m = x[:, None, None] * np.arange(3)[:, None] + np.sin(x[:, None, None] + np.arange(3))
    s, last = np.zeros(9), np.zeros(9)
    for a, b in np.ndindex(3, 3):
        s = s + 0.5 * x + m[:, a, b]
        last = s * 0.25 + last * 0.5
    np.testing.assert_allclose(wp.jax_kernel(choices)(x)[0], m[:, 1, 2] + s + last, rtol=1e-5, atol=1e-5)


SCALES = tuple(1.5 + k for k in range(9))


@wp.kernel
def numbered(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = x[i]
    for a in range(3):
        first = 3 * a
        for b in range(3):
            k = first
            k += b
            terms = (x[i], 2.0 * x[i], 3.0 * x[i])
            s += SCALES[k] * terms[2 - a] + wp.sin(x[i])
    y[i] = s


def test_loops_whose_numbers_choose_among_constants_are_unrolled(monkeypatch):
    monkeypatch.setattr(long_nests, "LONG_NEST", 0)
    monkeypatch.setattr(long_nests, "SHORT_LOOP", 0)
    assert loops_of(numbered) == 0
    x = np.linspace(-1, 1, 9).astype(np.float32)
    s = x + 9 * np.sin(x) + sum(SCALES[3 * a + b] * (3 - a) * x for a, b in np.ndindex(3, 3))
    np.testing.assert_allclose(wp.jax_kernel(numbered)(x)[0], s, rtol=1e-5, atol=1e-5)
