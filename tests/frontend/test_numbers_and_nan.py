"""min, max and clamp of a number and NaN are the number, as C's fmin and fmax, and the derivative goes to it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.interpreter.machine import run

NAN = float("nan")
SPECIAL = [NAN, -NAN, 0.0, -0.0, 1.5, -2.0, float("inf"), float("-inf")]


@wp.func
def both(a: float, b: float, c: float):
    return wp.min(a, b), wp.max(a, b), wp.clamp(a, b, c)


@wp.kernel
def extrema(x: wp.array[float], y: wp.array[float], z: wp.array[float], low: wp.array[float], high: wp.array[float],
            between: wp.array[float], c: wp.array2d[float]):  # fmt: skip
    i = wp.tid()
    a, b, d = both(x[i], y[i], z[i])
    low[i] = a
    high[i] = b
    between[i] = d
    c[i, 0] = wp.min(x[i], 1.5)
    c[i, 1] = wp.max(-2.0, x[i])
    c[i, 2] = wp.clamp(x[i], 0.0, 1.0)
    c[i, 3] = wp.min(0.0, x[i])
    c[i, 4] = wp.max(x[i], -0.0)


def smaller(x, y):
    """The smaller of two arrays, by NumPy, with -0 below 0."""
    return np.where((x == 0) & (y == 0), np.where(np.signbit(x), x, y), np.fmin(x, y))


def larger(x, y):
    return -smaller(-x, -y)


def triples():
    return (np.array(column, np.float32) for column in zip(*itertools.product(SPECIAL, repeat=3), strict=True))


def expected_extrema(x, y, z):
    one, two, zero = np.float32(1.5), np.float32(-2.0), np.float32(0.0)
    columns = [
        smaller(x, one), larger(x, two), smaller(larger(x, zero), np.float32(1.0)), smaller(x, zero), larger(x, -zero)
    ]  # fmt: skip
    return smaller(x, y), larger(x, y), smaller(larger(y, x), z), np.stack(columns, -1)


def same(a, b):
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.signbit(a) | np.isnan(a), np.signbit(b) | np.isnan(b))


@pytest.mark.quick
def test_a_number_wins_over_nan_in_vectors_of_threads_and_alone():
    x, y, z = triples()
    made = wp.launch(extrema, len(x), [x, y, z], [np.empty_like(x) for _ in range(3)] + [np.empty((len(x), 5), "f")])
    for found, wanted in zip(made, expected_extrema(x, y, z), strict=True):
        same(found, wanted)
    for i in range(0, len(x), 37):
        one = [a[i : i + 1] for a in (x, y, z)]
        alone = wp.launch(extrema, 1, one, [np.empty(1, "f") for _ in range(3)] + [np.empty((1, 5), "f")])
        for found, wanted in zip(alone, expected_extrema(*one), strict=True):
            same(found, wanted)


@pytest.mark.quick
def test_the_interpreter_agrees():
    x, y, z = triples()
    n = len(x)
    args = [x, y, z, *(np.zeros(n, np.float32) for _ in range(3)), np.zeros((n, 5), np.float32)]
    for found, wanted in zip(run(extrema.ir(), (n,), args)[3:], expected_extrema(x, y, z), strict=True):
        same(found, wanted)


def test_against_warp():
    warp = pytest.importorskip("warp")
    x, y, _ = triples()
    number = ~(np.isnan(x) & np.isnan(y))
    for name, ours in (("min", smaller), ("max", larger)):
        theirs = np.array([getattr(warp, name)(float(a), float(b)) for a, b in zip(x, y, strict=True)], np.float32)
        np.testing.assert_array_equal(theirs[number], ours(x, y)[number])


@wp.kernel
def of_vectors(x: wp.array[wp.vec4], y: wp.array[wp.vec4], low: wp.array[wp.vec4], least: wp.array[float],
               greatest: wp.array[float], place: wp.array[wp.uint32]):  # fmt: skip
    i = wp.tid()
    low[i] = wp.min(x[i], y[i])
    least[i] = wp.min(x[i])
    greatest[i] = wp.max(x[i])
    place[i] = wp.argmax(x[i])


def test_vectors_by_component():
    rng = np.random.default_rng(1)
    x, y = (np.where(rng.random((200, 4)) < 0.5, NAN, rng.normal(size=(200, 4))).astype(np.float32) for _ in range(2))
    outs = [np.empty_like(x), np.empty(200, "f"), np.empty(200, "f"), np.empty(200, np.uint32)]
    low, least, greatest, place = wp.launch(of_vectors, 200, [x, y], outs)
    np.testing.assert_array_equal(low, np.fmin(x, y))
    np.testing.assert_array_equal(least, np.fmin.reduce(x, 1))
    np.testing.assert_array_equal(greatest, np.fmax.reduce(x, 1))
    np.testing.assert_array_equal(place, np.where(np.isnan(x), -np.inf, x).argmax(1))


@wp.kernel
def atomics(x: wp.array[float], slot: wp.array[int], low: wp.array[float], high: wp.array[float]):
    i = wp.tid()
    wp.atomic_min(low, slot[i], x[i])
    wp.atomic_max(high, slot[i], x[i])
    wp.atomic_min(low, 9, x[i])
    wp.atomic_max(high, 9, x[i])


def test_atomics_pass_over_nan_given_and_found():
    rng = np.random.default_rng(2)
    x = rng.choice(np.array(SPECIAL, np.float32), 300)
    slot = rng.integers(0, 9, 300).astype(np.int32)
    x[slot == 4] = NAN
    low, high = (rng.choice(np.array(SPECIAL, np.float32), 10) for _ in range(2))
    low[4] = high[4] = NAN
    expected = [low.copy(), high.copy()]
    for value, place in [*zip(x, slot, strict=True), *((value, 9) for value in x)]:
        expected[0][place] = smaller(expected[0][place], value)
        expected[1][place] = larger(expected[1][place], value)
    for found, wanted in zip(wp.launch(atomics, 300, [x, slot], [low, high]), expected, strict=True):
        same(found, wanted)
    assert np.isnan(low[4]) and np.isnan(high[4])


@wp.kernel
def of_tiles(x: wp.array2d[float], low: wp.array[float], high: wp.array[float], place: wp.array[int],
             running: wp.array2d[float]):  # fmt: skip
    i = wp.tid()
    t = wp.tile_load(x[i], 48)
    wp.tile_store(low, wp.tile_min(t), offset=i)
    wp.tile_store(high, wp.tile_reduce(wp.max, t), offset=i)
    wp.tile_store(place, wp.tile_argmin(t), offset=i)
    wp.tile_store(running[i], wp.tile_scan_max_inclusive(t))


@pytest.mark.parametrize("block_dim", [1, 32])
def test_tiles(block_dim):
    rng = np.random.default_rng(3)
    x = np.where(rng.random((40, 48)) < 0.7, NAN, rng.integers(-9, 9, (40, 48))).astype(np.float32)
    x[7] = NAN
    outs = [np.empty(40, "f"), np.empty(40, "f"), np.empty(40, np.int32), np.empty((40, 48), "f")]
    low, high, place, running = wp.launch_tiled(of_tiles, [40], [x], outs, block_dim=block_dim)
    np.testing.assert_array_equal(low, np.fmin.reduce(x, 1))
    np.testing.assert_array_equal(high, np.fmax.reduce(x, 1))
    np.testing.assert_array_equal(place, np.where(np.isnan(x), np.inf, x).argmin(1))
    np.testing.assert_array_equal(running, np.fmax.accumulate(x, 1))


@wp.kernel
def pair(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    low = wp.min(x[i], y[i])
    z[i] = low * low * wp.max(y[i], x[i])


def test_the_derivative_goes_to_the_number_in_all_modes():
    """A square times a number, where both extrema are that number: the cube of what is no NaN."""
    x, y = jnp.array([NAN, 3.0, 2.0]), jnp.array([2.0, NAN, 5.0])
    pair_fn = wp.jax_kernel(pair)

    def f(x, y):
        return pair_fn(x, y)[0]

    wanted_x, wanted_y = np.array([0.0, 27.0, 20.0]), np.array([12.0, 0.0, 4.0])
    by_x, by_y = jax.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(by_x, wanted_x)
    np.testing.assert_array_equal(by_y, wanted_y)
    ones, zeros = jnp.ones(3), jnp.zeros(3)
    np.testing.assert_array_equal(jax.jvp(f, (x, y), (ones, zeros))[1], wanted_x)
    np.testing.assert_array_equal(jax.jvp(f, (x, y), (zeros, ones))[1], wanted_y)
    twice = jax.hessian(lambda x, y: f(x, y).sum(), argnums=0)(x, y)
    np.testing.assert_array_equal(np.diag(twice), [0.0, 18.0, 10.0])


def test_the_derivative_of_an_atomic_minimum_goes_to_the_number():
    @wp.kernel
    def least(x: wp.array[float], y: wp.array[float]):
        wp.atomic_min(y, 0, x[wp.tid()])

    least_fn = wp.jax_kernel(least, in_out_argnames=["y"])
    start = jnp.array([NAN])
    value, (gradient,) = jax.value_and_grad(lambda x: least_fn(x, start)[0].sum(), argnums=(0,))(
        jnp.array([NAN, 3.0, 2.0, NAN])
    )
    assert value == 2.0
    np.testing.assert_array_equal(gradient, [0.0, 0.0, 1.0, 0.0])


@wp.jax_func
def by_jax(x, y):
    return jnp.minimum(x, y) + jnp.clip(x, 0.0, 1.0) + jnp.max(jnp.stack([x, y]))


@wp.kernel
def jax_extrema(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    z[i] = by_jax(x[i], y[i])


def test_jax_functions_keep_their_own_meaning():
    x, y, _ = triples()
    (z,) = wp.launch(jax_extrema, len(x), [x, y], [np.empty_like(x)])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(z, np.asarray(jax.jit(jax.vmap(by_jax))(x, y)))
    assert np.isnan(z[np.isnan(x) | np.isnan(y)]).all()


@wp.kernel
def directions(x: wp.array[wp.vec3], q: wp.array[wp.quat], y: wp.array[wp.vec3], r: wp.array[wp.quat]):
    i = wp.tid()
    y[i] = wp.normalize(x[i])
    r[i] = wp.normalize(q[i])


def test_the_direction_of_a_vector_with_nan_is_zero():
    rng = np.random.default_rng(5)
    x, q = rng.normal(size=(40, 3)).astype(np.float32), rng.normal(size=(40, 4)).astype(np.float32)
    for k in range(20):
        x[k, k % 3] = q[k, k % 4] = NAN
    x[39] = 0.0
    y, r = wp.launch(directions, 40, [x, q], [np.empty_like(x), np.empty_like(q)])
    with np.errstate(invalid="ignore"):
        size = np.linalg.norm(x, axis=1, keepdims=True)
        np.testing.assert_allclose(y, np.where(size > 0, x / size, 0.0), rtol=1e-6)
        size = np.linalg.norm(q, axis=1, keepdims=True)
        np.testing.assert_allclose(r, np.where(size > 0, q / size, [0.0, 0.0, 0.0, 1.0]), rtol=1e-6)
    wanted = jnp.asarray(rng.normal(size=(40, 3)), jnp.float32)
    gradient = jax.grad(lambda x: (wp.jax_kernel(directions, num_outputs=2)(x, q)[0] * wanted).sum())(jnp.asarray(x))
    np.testing.assert_array_equal(gradient[:20], np.zeros((20, 3)))
    assert np.isfinite(gradient).all() and (gradient[20:39] != 0).all()


def test_the_direction_of_a_vector_along_an_axis_is_that_axis():
    rng = np.random.default_rng(6)
    x, q = np.zeros((3000, 3), np.float32), np.zeros((3000, 4), np.float32)
    along = rng.normal(size=3000) * 10.0 ** rng.integers(-12, 12, 3000)
    x[np.arange(3000), np.arange(3000) % 3] = along
    q[np.arange(3000), np.arange(3000) % 4] = along
    y, r = wp.launch(directions, 3000, [x, q], [np.empty_like(x), np.empty_like(q)])
    np.testing.assert_array_equal(y, np.sign(x))
    np.testing.assert_array_equal(r, np.sign(q))
