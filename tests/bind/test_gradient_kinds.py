"""Every kind of kernel whose gradient is easily wrong: both modes and second order, with loops of any length."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_profiles import ALL
from gradient_kernels import KINDS
from numpy.testing import assert_allclose

import jwarp as wp

N = 5
STEP = 1e-6
F = wp.float64
WEIGHTS = np.arange(1.0, N + 1)
FIRST = [kernels[0] for kernels in KINDS.values()]
KERNELS = [pytest.param(kernel, id=f"{kind}-{kernel.name}") for kind, kernels in KINDS.items() for kernel in kernels]
# Second derivatives compile most: of each kind the first, the third, ... kernel, and all in the long profile.
EVERY = 1 if ALL else 2
TWICE = [pytest.param(kernel, id=f"{kind}-{kernel.name}") for kind, ks in KINDS.items() for kernel in ks[::EVERY]]


@pytest.fixture(autouse=True)
def double_precision(x64):
    yield


def loss_of(kernel):
    """A function of the input, the initial content of the in-out output, and the number of iterations."""

    def loss(x, y, trips):
        (after,) = wp.launch(kernel, N, [x, trips], [y])
        return jnp.sum(jnp.sin(after) * WEIGHTS)

    return loss


def point(seed):
    return np.random.default_rng(seed).uniform(0.35, 0.8, (2, N))


def slopes(function, at, directions):
    """Central differences along each row of `directions` of a function of a batch."""
    ends = [function(at + sign * STEP * directions) for sign in (1, -1)]
    return (np.asarray(ends[0]) - np.asarray(ends[1])) / (2 * STEP)


@pytest.mark.parametrize("kernel", KERNELS)
def test_first_order(kernel):
    loss = loss_of(kernel)
    reverse = jax.jit(jax.grad(loss, (0, 1)))
    forward = jax.jit(lambda p, v, trips: jax.jvp(lambda x, y: loss(x, y, trips), tuple(p), tuple(v))[1])
    values = jax.jit(jax.vmap(lambda p, trips: loss(p[0], p[1], trips), (0, None)))
    for trips in (0, 1, 16, 17, 1000):
        at = point(trips)
        basis = np.eye(2 * N).reshape(2 * N, 2, N)
        # Of numbers up to 15, rounding leaves 1e-15 * 15 / STEP; sums of a thousand trips add a digit or two.
        expected = slopes(lambda p: values(p, trips), at, basis).reshape(2, N)  # noqa: B023
        found = np.array(reverse(*at, trips))
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=f"{trips} trips")
        along = np.random.default_rng(trips + 1).normal(size=(2, N))
        assert_allclose(forward(at, along, trips), np.sum(found * along), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kernel", TWICE)
def test_second_order(kernel):
    loss, trips = loss_of(kernel), 6
    gradient = jax.grad(lambda p: loss(p[0], p[1], trips))
    at = jnp.asarray(point(3))
    along = np.random.default_rng(4).normal(size=(2, N))
    (expected,) = slopes(jax.vmap(gradient), at, along[None])
    size = 1 + np.abs(expected).max()
    _, over_reverse = jax.jvp(gradient, (at,), (jnp.asarray(along),))
    assert_allclose(over_reverse / size, expected / size, atol=1e-6)
    if kernel not in FIRST:
        return
    reverse_twice = jax.grad(lambda p: jnp.vdot(gradient(p), along))(at)
    assert_allclose(reverse_twice, over_reverse, rtol=1e-9, atol=1e-10)
    forward = jax.grad(lambda p: jax.jvp(lambda q: loss(q[0], q[1], trips), (p,), (jnp.asarray(along),))[1])(at)
    assert_allclose(forward, over_reverse, rtol=1e-9, atol=1e-10)


# Unrolled by the reader: bounds that are known, up to `max_unroll` trips.


@wp.kernel
def sixteen(x: wp.array[F], trips: int, y: wp.array[F]):
    i = wp.tid()
    v = y[i]
    for _ in range(16):
        v = v * x[i] + F(0.1)
    y[i] = v


@wp.kernel
def seventeen(x: wp.array[F], trips: int, y: wp.array[F]):
    i = wp.tid()
    v = y[i]
    for _ in range(17):
        v = v * x[i] + F(0.1)
    y[i] = v


@pytest.mark.parametrize("kernel, trips", [(sixteen, 16), (seventeen, 17)], ids=["unrolled", "loop"])
def test_one_trip_more_than_is_unrolled(kernel, trips):
    def reference(x, y):
        for _ in range(trips):
            y = y * x + 0.1
        return jnp.sum(jnp.sin(y) * WEIGHTS)

    x, y = point(5)
    found = jax.grad(loss_of(kernel), (0, 1))(x, y, 0)
    for g, expected in zip(found, jax.jit(jax.grad(reference, (0, 1)))(jnp.asarray(x), jnp.asarray(y)), strict=True):
        assert_allclose(g, expected, rtol=1e-12)


@wp.kernel
def long_while(x: wp.array[F], trips: int, y: wp.array[F]):
    i = wp.tid()
    v, k = y[i], wp.int32(0)
    while k < trips:
        k += 1
        if k % 3 == 0:
            continue
        v = v * x[i] + F(0.1)
    y[i] = v


def test_a_million_trips():
    """A fixed point v = b (b v + c) + c: two steps, and one that is skipped."""
    x, y = point(6)

    def fixed_point(x):
        return jnp.sum(jnp.sin(0.1 * (1 + x) / (1 - x * x)) * WEIGHTS)

    by_x, by_y = jax.grad(loss_of(long_while), (0, 1))(x, y, 1_000_002)
    assert_allclose(by_x, jax.grad(fixed_point)(jnp.asarray(x)), rtol=1e-9)
    assert_allclose(by_y, np.zeros(N), atol=1e-12)


# What has no exact rule


@wp.kernel
def old_of_shared(x: wp.array[F], count: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    before = wp.atomic_add(y, 0, x[i])
    wp.atomic_add(y, 1, before * x[i])


@wp.kernel
def exchanged_shared(x: wp.array[F], count: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    before = wp.atomic_exch(y, 0, x[i])
    y[i + 1] = before


@wp.kernel
def compared_and_swapped(x: wp.array[F], count: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    wp.atomic_cas(y, i, F(0.0), x[i])


@wp.kernel
def smallest_read(x: wp.array[F], count: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    wp.atomic_min(y, 0, x[i])
    y[i + 1] = y[0] * x[i]


@wp.kernel
def two_to_one(x: wp.array[F], count: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    y[i // 2] = y[i // 2] + x[i] * x[i]


@wp.kernel
def all_to_one(x: wp.array[F], count: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    y[0] = y[0] * x[i]


@wp.kernel
def last_wins(x: wp.array[F], count: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    for k in range(2):
        y[(i + k) % 5] = y[5] + x[i] * F(k + 1)


@wp.kernel
def through_bits(x: wp.array[F], count: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    y[i] = wp.cast(wp.cast(x[i], wp.int64) ^ wp.int64(1), F)


REFUSED = [
    (old_of_shared, "wp.atomic_add(y, 0, x[i])", "order of the threads"),
    (exchanged_shared, "wp.atomic_exch(y, 0, x[i])", "order of the threads"),
    (compared_and_swapped, "wp.atomic_cas(y, i, F(0.0), x[i])", "order of the threads"),
    (smallest_read, "wp.atomic_min(y, 0, x[i])", "order of the threads"),
    (two_to_one, "y[i // 2] = y[i // 2] + x[i] * x[i]", "both store to y[0]"),
    (all_to_one, "y[0] = y[0] * x[i]", "both store to y[0]"),
    (last_wins, "y[(i + k) % 5] = y[5] + x[i] * F(k + 1)", "both store to y"),
    (through_bits, "wp.cast(", "bits of a float"),
]


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("kernel, line, reason", REFUSED, ids=lambda v: getattr(v, "name", ""))
def test_refused_by_name(kernel, line, reason, mode):
    x, count, after = jnp.asarray(point(7)[0]), jnp.zeros(1, jnp.int32), jnp.zeros(N + 1)

    def run(x):
        return wp.launch(kernel, N, [x, count], [after])[-1].sum()

    assert np.isfinite(run(x))
    with pytest.raises(wp.NotDifferentiableError) as error:
        jax.grad(run)(x) if mode == "reverse" else jax.jvp(run, (x,), (x,))
    assert line in str(error.value)
    assert reason in str(error.value)
    assert "help:" in str(error.value)
