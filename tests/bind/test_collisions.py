"""Plain stores of several threads to one element: the gradient goes to the thread whose value is there, once."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp

F = wp.float64
N, M = 70, 9  # threads of several vectors, and elements: a few of each are hit by many, and some by none


@pytest.fixture(autouse=True)
def double_precision(x64):
    pass


TYPES = (wp.float16, wp.bfloat16, wp.float32, wp.float64)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def places(*shape: int, seed: int = 0, below: int = M - 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.int32)


def polynomial_of(type):
    @wp.kernel
    def polynomial(x: wp.array[type], p: wp.array[int], y: wp.array[type]):
        i = wp.tid()
        v = x[i]
        y[p[i]] = v * v * type(0.7) + wp.sin(v) * v + type(0.3)

    return polynomial


@functools.cache
def polynomials():
    return {type.__name__: wp.jax_kernel(polynomial_of(type), output_dims=M) for type in TYPES}


def winners(values: np.ndarray, p: np.ndarray, content: np.ndarray) -> np.ndarray:
    """By thread, whether its value is what is nearest to the content of its element."""
    gaps = np.abs(np.asarray(values, np.float64) - np.asarray(content, np.float64)[p])
    least = {e: gaps[p == e].min() for e in set(p.tolist())}
    return np.array([gap == least[e] for gap, e in zip(gaps, p.tolist(), strict=True)])


@pytest.mark.parametrize("name", [t.__name__ for t in TYPES])
def test_the_thread_whose_value_is_there(name):
    """Values that round differently where a product and a sum become one; half precision has equal ones."""
    fn, dtype = polynomials()[name], jnp.dtype(name)
    x, p = jnp.asarray(random(N), dtype), jnp.asarray(places(N))
    w, v = jnp.asarray(random(M, seed=1), dtype), jnp.asarray(random(N, seed=2), dtype)
    xs = np.asarray(x, np.float64)
    values = xs * xs * 0.7 + np.sin(xs) * xs + 0.3
    slope = 1.4 * xs + np.cos(xs) * xs + np.sin(xs)
    accuracy = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-12}[name]
    for run in (lambda f: f, jax.jit):
        content, pull = run(lambda x: jax.vjp(lambda x: fn(x, p)[0], x))(x)
        (found,) = pull(w)
        wins = winners(values, np.asarray(p), content)
        totals = np.zeros(M)
        np.add.at(totals, np.asarray(p), np.asarray(found, np.float64) / slope)
        hit = np.isin(np.arange(M), p)
        # Each element gives its cotangent once, to a thread that has its value.
        assert_allclose(totals[hit], np.asarray(w, np.float64)[hit], rtol=accuracy, atol=accuracy)
        assert not totals[~hit].any()
        assert np.sum(np.asarray(found) != 0) == hit.sum()
        if name in ("float32", "float64"):
            assert_array_equal(np.asarray(found) != 0, wins)
        _, tangent = run(lambda x, v: jax.jvp(lambda x: fn(x, p)[0], (x,), (v,)))(x, v)
        expected = np.zeros(M)
        expected[np.asarray(p)[wins]] = (slope * np.asarray(v, np.float64))[wins]
        if name in ("float32", "float64"):
            assert_allclose(tangent, expected, rtol=accuracy, atol=accuracy)
        # Of half precision, the tangent of one of those whose value may be the one that is there.
        near = np.isclose(values, np.asarray(content, np.float64)[np.asarray(p)], rtol=accuracy, atol=accuracy)
        for e, one in enumerate(np.asarray(tangent, np.float64)):
            allowed = (slope * np.asarray(v, np.float64))[near & (np.asarray(p) == e)] if hit[e] else np.zeros(1)
            assert np.isclose(one, allowed, rtol=accuracy, atol=accuracy).any()


@wp.kernel
def copied(x: wp.array[float], p: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[p[i]] = x[i]


copied_fn = wp.jax_kernel(copied, output_dims=M)


def test_equal_values_once():
    """Whatever the bits are: those of zeros differ, those of NaNs may."""
    p = jnp.asarray(places(N))
    for value in (1.5, 0.0, np.nan, np.inf):
        content, pull = jax.vjp(lambda x: copied_fn(x, p)[0], jnp.full(N, value, jnp.float32))
        (found,) = pull(jnp.arange(1, M + 1, dtype=jnp.float32))
        assert_array_equal(np.bincount(p, found, M), np.where(np.isin(np.arange(M), p), np.arange(1.0, M + 1), 0))
        assert np.sum(np.asarray(found) != 0) == len(set(p.tolist()))
    zeros = np.where(np.arange(N) % 3 == 0, -0.0, 0.0).astype(np.float32)
    content, pull = jax.vjp(lambda x: copied_fn(x, p)[0], jnp.asarray(zeros))
    (found,) = pull(jnp.ones(M, jnp.float32))
    signs = np.signbit(np.asarray(content))
    for i in np.flatnonzero(found):
        assert signs[p[i]] == np.signbit(zeros[i])


@wp.struct
class Ball:
    at: wp.vec2d
    mass: F


@wp.kernel
def composites(
    x: wp.array2d[F],
    p: wp.array2d[int],
    v: wp.array[wp.vec3d],
    m: wp.array2d[wp.mat22d],
    b: wp.array[Ball],
    before: wp.array2d[F],
):
    i, j = wp.tid()
    a = x[i, j]
    v[p[i, j]] = wp.vec3d(wp.sin(a), wp.max(a, F(0.0)), a * a)
    m[p[i, j] % 3, p[j % 4, i] % 2] = wp.mat22d(a, F(1.0), a * F(2.0), wp.cos(a))
    ball = Ball()
    ball.at = wp.vec2d(a * a, F(3.0) * a)
    ball.mass = wp.exp(a)
    b[p[i, j]] = ball
    before[i, p[i, j]] = a * F(0.5)


def reference_of_composites(x, p, outputs):
    """The same with each element a function of the thread whose value is there, which is the first one that has it."""
    v, m, b, before = outputs
    made = {}
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            e, mi, mj = p[i, j], p[i, j] % 3, p[j % 4, i] % 2
            for key, f in {
                ("v", e, 0): jnp.sin, ("v", e, 1): lambda a: jnp.maximum(a, 0.0), ("v", e, 2): lambda a: a * a,
                ("m", mi, mj, 0, 0): lambda a: a, ("m", mi, mj, 0, 1): lambda a: 0 * a + 1.0,
                ("m", mi, mj, 1, 0): lambda a: 2 * a, ("m", mi, mj, 1, 1): jnp.cos,
                ("at", e, 0): lambda a: a * a, ("at", e, 1): lambda a: 3 * a, ("mass", e): jnp.exp,
                ("before", i, e): lambda a: 0.5 * a,
            }.items():  # fmt: skip
                made.setdefault(key, []).append((i, j, f))
    content = {"v": v, "m": m, "at": b.at, "mass": b.mass, "before": before}
    chosen = {}
    for (name, *place), writers in made.items():
        there = float(content[name][tuple(place)])
        chosen[name, *place] = min(writers, key=lambda w: abs(float(w[2](x[w[0], w[1]])) - there))
    return chosen


def test_components_structs_and_two_dimensions():
    x, p = jnp.asarray(random(5, 8)), jnp.asarray(places(5, 8))
    start = (jnp.asarray(random(M, 3, seed=1)), jnp.asarray(random(3, 2, 2, 2, seed=2)),
             Ball(at=jnp.asarray(random(M, 2, seed=3)), mass=jnp.asarray(random(M, seed=4))),
             jnp.asarray(random(5, M, seed=5)))  # fmt: skip

    def run(x, start):
        return wp.launch(composites, (5, 8), [x, p], list(start))

    outputs, pull = jax.vjp(run, x, start)
    weights = jax.tree.map(lambda a: jnp.asarray(random(*a.shape, seed=6)), outputs)
    found, of_start = pull(weights)
    chosen = reference_of_composites(np.asarray(x), np.asarray(p), outputs)
    v, m, b, before = weights
    named = {"v": v, "m": m, "at": b.at, "mass": b.mass, "before": before}
    expected = np.zeros((5, 8))
    left = {name: np.array(w) for name, w in named.items()}
    for (name, *place), (i, j, f) in chosen.items():
        expected[i, j] += float(named[name][tuple(place)]) * float(jax.grad(f)(x[i, j]))
        left[name][tuple(place)] = 0
    # Of the values max(a, 0) many are zero: the one that has the gradient has none of x there.
    assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    sv, sm, sb, sbefore = of_start
    for name, g in {"v": sv, "m": sm, "at": sb.at, "mass": sb.mass, "before": sbefore}.items():
        assert_array_equal(g, left[name])
    along = jnp.asarray(random(5, 8, seed=7)), jax.tree.map(lambda a: jnp.asarray(random(*a.shape, seed=8)), start)
    _, tangent = jax.jvp(run, (x, start), along)
    both = zip(jax.tree.leaves(tangent), jax.tree.leaves(weights), strict=True)
    back = zip(jax.tree.leaves((found, of_start)), jax.tree.leaves(along), strict=True)
    assert_allclose(sum(jnp.vdot(a, b) for a, b in both), sum(jnp.vdot(a, b) for a, b in back), rtol=1e-12)


@wp.kernel
def twice(x: wp.array[F], p: wp.array2d[int], y: wp.array[F]):
    i = wp.tid()
    for k in range(p.shape[1]):
        y[p[i, k]] = x[i] * F(k + 1) + F(0.1)
    if x[i] > F(0.5):
        y[p[i, 0]] = x[i] * x[i]
    wp.atomic_exch(y, p[i, 1], wp.sin(x[i]) + F(5.0))


def test_elements_overwritten_again():
    """Several stores of one thread, some to one element, in a loop and after it; the array starts with a content."""
    x, p, y = jnp.asarray(random(N)), jnp.asarray(places(N, 3)), jnp.asarray(random(M, seed=3))
    w = random(M, seed=1)
    content, pull = jax.vjp(lambda x, y: wp.launch(twice, N, [x, p], [y])[0], x, y)
    by_x, by_y = pull(jnp.asarray(w))
    expected, left = np.zeros(N), w.copy()
    for e in range(M):
        for i in range(N):
            made = {}
            for k in range(3):
                made[int(p[i, k])] = (x[i] * (k + 1) + 0.1, k + 1)
            if x[i] > 0.5:
                made[int(p[i, 0])] = (x[i] * x[i], 2 * x[i])
            made[int(p[i, 1])] = (jnp.sin(x[i]) + 5, jnp.cos(x[i]))
            if e in made and abs(made[e][0] - content[e]) < 1e-14:
                expected[i] += w[e] * made[e][1]
                left[e] = 0
    assert left.astype(bool).sum() == 2
    assert_allclose(by_x, expected, rtol=1e-12)
    assert_array_equal(by_y, left)


def loss_of(p, weights):
    def loss(x):
        return jnp.vdot(jnp.sin(polynomials()["float64"](x, p)[0]), weights)

    return loss


def one_thread_each(x, p, weights):
    """The loss with threads chosen that have the values which are there, for JAX to differentiate."""
    content = polynomials()["float64"](x, p)[0]
    wins = winners(x * x * 0.7 + np.sin(x) * x + 0.3, np.asarray(p), content)

    def loss(x):
        values = x * x * 0.7 + jnp.sin(x) * x + 0.3
        return jnp.vdot(jnp.sin(jnp.zeros(M).at[jnp.where(wins, p, M)].set(values, mode="drop")), weights)

    return loss


def test_second_order_and_loops_of_jax():
    x, p, weights = jnp.asarray(random(N)), jnp.asarray(places(N)), jnp.asarray(random(M, seed=1))
    loss, reference = loss_of(p, weights), one_thread_each(x, p, weights)
    expected = jax.jit(jax.hessian(reference))(x)  # op by op, each would be compiled
    for hessian in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f))):
        assert_allclose(jax.jit(hessian(loss))(x), expected, rtol=1e-10, atol=1e-10)

    def steps(f):
        def total(x):
            last, _ = jax.lax.scan(lambda x, _: (x - 0.01 * jax.grad(f)(x), None), x, None, length=3)
            return jnp.sum(last**2)

        return total

    assert_allclose(jax.jit(jax.grad(steps(loss)))(x), jax.jit(jax.grad(steps(reference)))(x), rtol=1e-9)
    assert_allclose(jax.grad(jax.checkpoint(loss))(x), jax.jit(jax.grad(reference))(x), rtol=1e-12)


def test_batches():
    xs, ps = jnp.asarray(random(10, N)), jnp.asarray(np.stack([places(N, seed=k) for k in range(10)]))
    weights = jnp.asarray(random(M, seed=1))
    gradient = lambda x, p: jax.grad(loss_of(p, weights))(x)  # noqa: E731
    for axes in ((0, 0), (0, None), (None, 0)):
        found = jax.vmap(gradient, axes)(xs if axes[0] == 0 else xs[0], ps if axes[1] == 0 else ps[0])
        for k in range(10):
            x, p = xs[k if axes[0] == 0 else 0], ps[k if axes[1] == 0 else 0]
            assert_allclose(found[k], jax.grad(one_thread_each(x, p, weights))(x), rtol=1e-12)
    shared = jax.grad(lambda x: jax.vmap(lambda p: loss_of(p, weights)(x))(ps).sum())(xs[0])
    each = sum(jax.grad(one_thread_each(xs[0], p, weights))(xs[0]) for p in ps)
    assert_allclose(shared, each, rtol=1e-11)
    nested = jax.vmap(jax.vmap(gradient, (0, None)), (None, 0))(xs, ps[:2])
    assert_allclose(nested[1, 3], jax.grad(one_thread_each(xs[3], ps[1], weights))(xs[3]), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_threads_with_the_same_coordinates():
    @wp.kernel
    def squares(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * x[i]

    x = jnp.asarray(random(N), jnp.float32)
    run = lambda x: wp.launch(squares, (N, 3), [x], [N])[0].sum()  # noqa: E731
    assert_allclose(jax.grad(run)(x), 2 * x)
    assert_allclose(jax.jvp(run, (x,), (x,))[1], 2 * jnp.vdot(x, x), rtol=1e-6)


def test_two_launches_on_one_array():
    x, z = jnp.asarray(random(N), jnp.float32), jnp.asarray(random(N, seed=1), jnp.float32)
    p, q = jnp.asarray(places(N)), jnp.asarray(places(N, seed=1, below=4))

    def run(x, z):
        (y,) = wp.launch(copied, N, [x, p], [M])
        return wp.launch(copied, N, [z, q], [y])[0]

    content, pull = jax.vjp(run, x, z)
    by_x, by_z = pull(jnp.arange(1, M + 1, dtype=jnp.float32))
    for g, values, at in ((by_x, x, p), (by_z, z, q)):
        for i in np.flatnonzero(g):
            assert values[i] == content[at[i]] and g[i] == at[i] + 1
    assert np.sum(by_z != 0) == len(set(q.tolist()))
    assert np.sum(by_x != 0) == len(set(p.tolist()) - set(q.tolist()))


def test_explicit_adjoints():
    """They run the launch first, in scratch where outputs are in place."""
    x, p, w = random(N).astype(np.float32), places(N), random(M, seed=1).astype(np.float32)
    (expected,) = jax.vjp(lambda x: copied_fn(x, p)[0], jnp.asarray(x))[1](jnp.asarray(w))
    (found,) = wp.launch(copied, N, [jnp.asarray(x), jnp.asarray(p)], [M], adjoint=True, adj_outputs=[jnp.asarray(w)])
    assert_array_equal(found, expected)
    start, total = np.full(M, 7, np.float32), np.zeros(N, np.float32)
    record = wp.launch(
        copied, N, [x, p], [start], adjoint=True, adj_inputs=[total, None], adj_outputs=[w], record_cmd=True
    )
    record.launch()
    record.launch()
    assert_array_equal(total, 2 * expected)
    assert_array_equal(start, 7)


@wp.kernel
def scaled_in_place(x: wp.array[float], p: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[p[i]] = y[p[i]] * x[i]


@wp.func
def half(x: float):
    return x * 0.5


@wp.func_replay(half)
def half_again(x: float):
    return x / 2.0


@wp.kernel
def replayed(x: wp.array[float], p: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[p[i]] = half(x[i])


@pytest.mark.parametrize("kernel", [scaled_in_place, replayed], ids=lambda k: k.__name__)
def test_where_nothing_tells_the_launch_ends(kernel):
    """Threads that meet nobody are differentiated; two that meet end it, by name, in forward and in reverse mode."""
    x, y = jnp.asarray(random(N), jnp.float32), jnp.asarray(random(N, seed=1), jnp.float32)
    apart, weights = jnp.asarray(np.random.default_rng(2).permutation(N).astype(np.int32)), jnp.arange(1.0, N + 1)

    def loss(x, y, p):
        return jnp.vdot(jnp.sin(wp.launch(kernel, N, [x, p], [y])[0]), weights)

    def reference(x, y, p):
        return jnp.vdot(jnp.sin(y.at[p].set(y[p] * x if kernel is scaled_in_place else x / 2)), weights)

    gradient = jax.jit(jax.grad(reference, (0, 1)))
    for found, expected in zip(jax.grad(loss, (0, 1))(x, y, apart), gradient(x, y, apart), strict=True):
        assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    second = (jax.jit(jax.hessian(f))(x, y, apart) for f in (loss, reference))
    assert_allclose(*second, rtol=1e-4, atol=1e-4)
    batched = jax.vmap(jax.grad(loss), (0, None, None))(jnp.stack([x, -x]), y, apart)
    assert_allclose(batched[1], gradient(-x, y, apart)[0], rtol=1e-4, atol=1e-5)
    met = apart.at[5].set(apart[50])
    assert np.isfinite(loss(x, y, met))
    for run in (
        lambda: jax.grad(loss)(x, y, met),
        lambda: jax.jvp(lambda x: loss(x, y, met), (x,), (x,)),
        lambda: jax.jit(jax.hessian(loss))(x, y, met),
    ):
        with pytest.raises(RuntimeError) as error:
            jax.block_until_ready(run())
        assert f"kernel '{kernel.__name__}'" in str(error.value) and "test_collisions.py" in str(error.value)
        assert "two threads store to one element of `y`" in str(error.value)
    total = np.zeros(N, np.float32)
    arrays = [np.asarray(x), np.asarray(met)], [np.asarray(y).copy()]
    with pytest.raises(RuntimeError, match="two threads store to one element"):
        wp.launch(kernel, N, *arrays, adjoint=True, adj_inputs=[total, None], adj_outputs=[np.ones(N, np.float32)])
