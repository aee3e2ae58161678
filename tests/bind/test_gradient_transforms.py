"""Derivatives of launches in JAX's transformations: batches, scans, second order, what is compiled and kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp

N = 11
F = wp.float64


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


@wp.kernel
def recurrence(x: wp.array[F], k: F, y: wp.array[F]):
    i = wp.tid()
    v = x[i]
    s = F(0.0)
    for _ in range(5):
        v = wp.sin(v) * x[i] + k * v
        s += v * v
    y[i] = s / (v + F(3.0))


@wp.kernel
def overwriting(x: wp.array[F], k: F, y: wp.array[F]):
    i = wp.tid()
    y[i] = x[i]
    for j in range(3):
        y[i] = y[i] * k + wp.cos(y[i]) * F(j + 1)
        y[i] += y[i] * x[i]


@wp.kernel
def neighbours(x: wp.array[F], k: F, y: wp.array[F]):
    i = wp.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] * x[i + 1] - k * x[i] * x[i]


@wp.kernel
def scattered(x: wp.array[F], k: F, y: wp.array[F]):
    i = wp.tid()
    wp.atomic_add(y, i % 4, x[i] * x[(i + 3) % 11] * k)


KERNELS = (recurrence, overwriting, neighbours, scattered)


def function_of(kernel):
    return lambda x, k: wp.launch(kernel, N, [x, k], [(N,)])[0]


@pytest.fixture
def point():
    rng = np.random.default_rng(4)
    return jnp.asarray(rng.uniform(0.3, 1.2, N)), jnp.asarray(0.7)


def by_differences(loss, args, step=1e-6):
    """Central differences of `loss` by every component of the first argument and by the second."""
    x, k = args
    rows = [(loss(x.at[i].add(step), k) - loss(x.at[i].add(-step), k)) / (2 * step) for i in range(x.size)]
    return np.array(rows), float((loss(x, k + step) - loss(x, k - step)) / (2 * step))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_gradients_by_arrays_and_scalars(kernel, point):
    loss = lambda x, k: (function_of(kernel)(x, k) ** 2).sum()  # noqa: E731
    for derive in (jax.grad, jax.jit, jax.jacfwd):
        derived = jax.jit(jax.grad(loss, (0, 1))) if derive is jax.jit else derive(loss, (0, 1))
        for found, expected in zip(derived(*point), by_differences(loss, point), strict=True):
            assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_second_derivatives_in_every_nesting(kernel, point):
    loss = lambda x: (function_of(kernel)(x, point[1]) ** 2).sum()  # noqa: E731
    gradient, x = jax.jit(jax.grad(loss)), np.asarray(point[0])
    expected = np.array([(gradient(x + step) - gradient(x - step)) / 2e-6 for step in 1e-6 * np.eye(N)])
    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            assert_allclose(jax.jit(outer(inner(loss)))(point[0]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_batches_of_gradients(kernel, point):
    x, k = point
    xs = jnp.stack([x, 0.9 * x, x[::-1]])
    loss = lambda x, k: (function_of(kernel)(x, k) ** 2).sum()  # noqa: E731
    each = [jax.grad(loss, (0, 1))(row, k) for row in xs]
    rows, scalars = jax.jit(jax.vmap(jax.grad(loss, (0, 1)), (0, None)))(xs, k)
    assert_allclose(rows, [g[0] for g in each], rtol=1e-12)
    assert_allclose(scalars, [g[1] for g in each], rtol=1e-12)
    # What the batch shares is summed over it.
    total = lambda xs, k: jax.vmap(loss, (0, None))(xs, k).sum()  # noqa: E731
    rows, scalar = jax.grad(total, (0, 1))(xs, k)
    assert_allclose(rows, [g[0] for g in each], rtol=1e-12)
    assert_allclose(scalar, sum(g[1] for g in each), rtol=1e-12)
    ks = jnp.array([0.3, 0.7, 1.1])
    shared = jax.grad(lambda x: jax.vmap(loss, (None, 0))(x, ks).sum())(x)
    assert_allclose(shared, sum(jax.grad(loss)(x, k) for k in ks), rtol=1e-12)


@wp.kernel
def powers(x: wp.array[F], n: int, y: wp.array[F]):
    i = wp.tid()
    v = F(1.0)
    for _ in range(n):
        v = v * x[i]
    y[i] = v


@wp.kernel
def between(x: wp.array[F], n: int, y: wp.array[F]):
    i = wp.tid()
    if i >= n and i + n < x.shape[0]:
        y[i] = x[i - n] - x[i + n]


def test_integers_that_are_known_and_differ_in_the_batch(point):
    """Derivatives are taken outside of the batch, where these integers are arrays of numbers."""
    xs, counts = jnp.stack([point[0], 0.9 * point[0], point[0][::-1]]), jnp.array([3, 1, 2], jnp.int32)
    for kernel in (powers, between):
        loss = lambda x, n, kernel=kernel: (wp.launch(kernel, N, [x, n], [N])[0] ** 2).sum()  # noqa: E731
        batch = lambda xs, loss=loss: jax.vmap(loss)(xs, counts)  # noqa: E731
        expected = np.stack([jax.grad(loss)(x, int(n)) for x, n in zip(xs, counts, strict=True)])
        assert_allclose(jax.grad(lambda xs, batch=batch: batch(xs).sum())(xs), expected, rtol=1e-12)
        found = jax.jvp(batch, (xs,), (jnp.cos(xs),))[1]
        assert_allclose(found, (expected * np.cos(xs)).sum(1), rtol=1e-12)
    (back,) = jax.linear_transpose(
        lambda xs: jax.vmap(lambda x, n: wp.launch(between, N, [x, n], [N])[0])(xs, counts), xs
    )(xs)
    for x, n, row in zip(xs, counts, back, strict=True):
        (one,) = jax.linear_transpose(lambda x, n=int(n): wp.launch(between, N, [x, n], [N])[0], x)(x)
        assert_allclose(row, one, rtol=1e-12)


def test_scans_and_checkpoints(point):
    x, k = point
    step = function_of(recurrence)
    scanned = lambda f: lambda x, k: jax.lax.scan(lambda x, _: (f(x, k), None), x, None, 4)[0].sum()  # noqa: E731
    unrolled = lambda x, k: step(step(step(step(x, k), k), k), k).sum()  # noqa: E731
    expected = jax.grad(unrolled, (0, 1))(x, k)
    for f in (step, jax.checkpoint(step)):
        for found, wanted in zip(jax.jit(jax.grad(scanned(f), (0, 1)))(x, k), expected, strict=True):
            assert_allclose(found, wanted, rtol=1e-12)


@wp.kernel
def doubled(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[i] = F(2.0) * x[i]


def test_a_linear_kernel_keeps_nothing_for_the_way_back():
    double = lambda x: wp.launch(doubled, 1000, [x], [1000])[0]  # noqa: E731
    loss = lambda x: jax.lax.scan(lambda x, _: (0.5 * double(x), None), x, None, 500)[0].sum()  # noqa: E731
    compiled = jax.jit(jax.grad(loss)).lower(jnp.ones(1000)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 100 * 1000 * 8
    assert_allclose(compiled(jnp.ones(1000)), np.ones(1000))


def test_only_what_is_asked_for_is_compiled(point):
    @wp.kernel
    def product(x: wp.array[F], k: F, y: wp.array[F]):
        i = wp.tid()
        y[i] = x[i] * x[i] * k

    run = function_of(product)
    with wp.record_compiles() as events:
        jax.jit(run)(*point)
        assert {e.variant for e in events} == {"forward"}
        jax.jit(jax.grad(lambda x, k: run(x, k).sum()))(*point)
        assert {e.variant for e in events} == {"forward", "adjoint(x)"}
        jax.jit(lambda x, k: jax.jvp(lambda x: run(x, k), (x,), (x,)))(*point)
        assert {e.variant for e in events} == {"forward", "adjoint(x)", "tangent(x)"}


@wp.kernel
def raced(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i // 2] = y[0] + x[i]


@wp.kernel
def returned_old(x: wp.array[float], total: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.atomic_add(total, 0, x[i])


@wp.kernel
def through_bits(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.cast(wp.cast(x[i], int) + 1, float)


@pytest.mark.parametrize(
    "kernel, outputs, line",
    [
        (raced, [8], "y[i // 2] = y[0] + x[i]"),
        (returned_old, [1, 8], "wp.atomic_add(total, 0, x[i])"),
        (through_bits, [8], "wp.cast("),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_what_has_no_exact_rule_is_refused_under_grad_only(kernel, outputs, line):
    x = jnp.linspace(1, 2, 8, dtype=jnp.float32)
    run = lambda x: wp.launch(kernel, 8, [x], outputs)[-1].sum()  # noqa: E731
    assert np.isfinite(run(x))
    with pytest.raises(wp.NotDifferentiableError) as error:
        jax.grad(run)(x)
    assert line in str(error.value) and "help:" in str(error.value)


@pytest.mark.parametrize("batched", [False, True])
def test_second_derivatives_of_extrema(batched):
    """Over the atomic minimum and maximum of many threads, the curvature is that of the winner."""

    @wp.kernel
    def extrema(x: wp.array[float], low: wp.array[float], high: wp.array[float]):
        i = wp.tid()
        wp.atomic_max(high, 0, wp.sin(x[i]) * x[i])
        wp.atomic_min(low, i % 2, wp.cos(x[i]) * x[i])

    def ours(x):
        low, high = wp.launch(extrema, 6, [x], [jnp.full(2, 1e9, x.dtype), jnp.full(1, -1e9, x.dtype)])
        return (low * low).sum() + 3.0 * high[0]

    def plain(x):
        value = jnp.cos(x) * x
        return value[::2].min() ** 2 + value[1::2].min() ** 2 + 3.0 * (jnp.sin(x) * x).max()

    x = jnp.asarray(np.random.default_rng(4).normal(size=(3, 6)), jnp.float32)
    modes = (jax.hessian, lambda f: jax.jacrev(jax.grad(f)), lambda f: jax.jacfwd(jax.jacfwd(f)))
    for second in modes if batched else modes[:1]:
        found, expected = (jax.jit(jax.vmap(second(f)))(x) if batched else second(f)(x[0]) for f in (ours, plain))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
