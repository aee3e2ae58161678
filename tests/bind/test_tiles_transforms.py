"""Kernels with tiles as JAX functions: jit, vmap, gradients, export, records, and what is compiled for them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

TM, TN, TK = 8, 12, 16
LANES = 32


@wp.kernel
def product(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(TM, TN), dtype=float)
    for k in range(a.shape[1] // TK):
        left = wp.tile_load(a, shape=(TM, TK), offset=(i * TM, k * TK))
        right = wp.tile_load(b, shape=(TK, TN), offset=(k * TK, j * TN))
        wp.tile_matmul(left, right, total)
    wp.tile_store(c, total, offset=(i * TM, j * TN))


@wp.kernel
def softmax(x: wp.array2d[float], y: wp.array2d[float]):
    i = wp.tid()
    row = wp.tile_load(x[i], shape=24)
    largest = wp.tile_broadcast(wp.tile_max(row), shape=24)
    e = wp.tile_map(wp.exp, row - largest)
    wp.tile_store(y[i], wp.tile_map(wp.div, e, wp.tile_broadcast(wp.tile_sum(e), shape=24)))


@wp.kernel
def lanes(x: wp.array2d[float], scale: float, y: wp.array2d[float], total: wp.array[float]):
    i, lane = wp.tid()
    value = scale * x[i, lane]
    if lane % 2 == 0:
        value = value * value
    t = wp.tile(value)
    y[i, lane] = wp.untile(t) + t[0]
    wp.tile_store(total, wp.tile_sum(t), offset=i)


@wp.kernel
def recurrence(x: wp.array2d[float], n: int, y: wp.array2d[float]):
    i = wp.tid()
    a = wp.tile_load(x[i], shape=5)
    for k in range(n):
        a[k % 5] = a[(k + 1) % 5] * wp.sin(a[k % 5])
        a[(k + 2) % 5] += a[k % 5] * 0.5
    wp.tile_store(y[i], a)


def multiply(a, b):
    dims = (a.shape[0] // TM, b.shape[1] // TN)
    return wp.launch_tiled(product, dims, [a, b], [(a.shape[0], b.shape[1])], block_dim=LANES)[0]


@pytest.fixture
def matrices():
    rng = np.random.default_rng(3)
    return [jnp.asarray(rng.normal(size=s).astype(np.float32)) for s in ((16, 32), (32, 24))]


def test_a_product(matrices):
    a, b = matrices
    np.testing.assert_allclose(multiply(a, b), a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(jax.jit(multiply)(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_gradients_of_a_product(matrices):
    a, b = matrices
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(16, 24)).astype(np.float32))
    found = jax.jit(jax.grad(lambda a, b: (weights * jnp.sin(multiply(a, b))).sum(), (0, 1)))(a, b)
    expected = jax.grad(lambda a, b: (weights * jnp.sin(a @ b)).sum(), (0, 1))(a, b)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)


def test_a_batch_of_products(matrices):
    rng = np.random.default_rng(5)
    _, b = matrices
    batch = jnp.asarray(rng.normal(size=(3, 16, 32)).astype(np.float32))
    found = jax.vmap(multiply, in_axes=(0, None))(batch, b)
    np.testing.assert_allclose(found, batch @ b, rtol=1e-4, atol=1e-4)
    gradient = jax.grad(lambda b: jax.vmap(multiply, in_axes=(0, None))(batch, b).sum())(b)
    np.testing.assert_allclose(gradient, jax.grad(lambda b: (batch @ b).sum())(b), rtol=1e-3, atol=1e-3)


def test_softmax_and_its_derivatives():
    x = jnp.asarray(np.random.default_rng(2).normal(size=(6, 24)).astype(np.float32))

    def f(x):
        return wp.launch_tiled(softmax, 6, [x], [x.shape], block_dim=LANES)[0]

    np.testing.assert_allclose(f(x), jax.nn.softmax(x, axis=1), rtol=1e-5, atol=1e-6)
    g = jnp.asarray(np.random.default_rng(4).normal(size=(6, 24)).astype(np.float32))
    for mode in (lambda f: jax.vjp(f, x)[1](g)[0], lambda f: jax.jvp(f, (x,), (g,))[1]):
        np.testing.assert_allclose(mode(f), mode(lambda x: jax.nn.softmax(x, axis=1)), rtol=1e-4, atol=1e-5)

    def hessian(f):
        return jax.jvp(jax.grad(lambda x: (f(x) * g).sum()), (x,), (g,))[1]

    np.testing.assert_allclose(hessian(f), hessian(lambda x: jax.nn.softmax(x, axis=1)), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("block_dim", [1, 4, 32, 40])
def test_values_of_threads(block_dim):
    rng = np.random.default_rng(block_dim)
    x = rng.normal(size=(3, block_dim)).astype(np.float32)
    scale = 1.5

    def f(x, scale):
        return wp.launch_tiled(lanes, [3], [x, scale], [x.shape, 3], block_dim=block_dim)

    value = scale * x
    value[:, ::2] **= 2
    y, total = f(x, scale)
    np.testing.assert_allclose(y, value + value[:, :1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total, value.sum(1), rtol=1e-4, atol=1e-5)
    weights, w = rng.normal(size=x.shape).astype(np.float32), rng.normal(size=3).astype(np.float32)

    def reference(x, scale):
        value = scale * x
        value = jnp.where(jnp.arange(block_dim) % 2 == 0, value**2, value)
        return value + value[:, :1], value.sum(1)

    def loss(f):
        return lambda x, scale: sum((a * b).sum() for a, b in zip(f(x, scale), (weights, w), strict=True))

    found = jax.grad(loss(f), (0, 1))(jnp.asarray(x), scale)
    for a, b in zip(found, jax.grad(loss(reference), (0, 1))(jnp.asarray(x), scale), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_element_assignment_in_a_loop():
    rng = np.random.default_rng(9)
    x = jnp.asarray(rng.normal(size=(4, 5)).astype(np.float32))
    n = 17

    def f(x):
        return wp.launch_tiled(recurrence, [4], [x, n], [x.shape], block_dim=LANES)[0]

    def reference(x):
        for k in range(n):
            x = x.at[:, k % 5].set(x[:, (k + 1) % 5] * jnp.sin(x[:, k % 5]))
            x = x.at[:, (k + 2) % 5].add(x[:, k % 5] * 0.5)
        return x

    np.testing.assert_allclose(f(x), reference(x), rtol=1e-5, atol=1e-6)
    g = jnp.asarray(rng.normal(size=(4, 5)).astype(np.float32))
    np.testing.assert_allclose(jax.vjp(f, x)[1](g)[0], jax.vjp(reference, x)[1](g)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jvp(f, (x,), (g,))[1], jax.jvp(reference, (x,), (g,))[1], rtol=1e-4, atol=1e-5)


# -- what is compiled


def compiled(function, *args):
    """The variants that lowering `function` needs, and all their bytes and seconds."""
    with wp.record_compiles() as events:
        jax.jit(lambda *args: function(*args)).lower(*args).compile()  # nothing of it is traced yet
    return {e.variant for e in events}, list(events)


def units(m, n, k, layout):
    return f"tile_matmul[float32 {m}x{n}x{k} {layout}"


def starts(variants, *prefixes):
    """True if there is one variant for each prefix, and no other."""
    return len(variants) == len(prefixes) and all(any(v.startswith(p) for v in variants) for p in prefixes)


def test_only_the_products_that_are_needed_are_compiled(matrices):
    a, b = matrices
    forward, grad_a = units(TM, TN, TK, "nn"), units(TM, TK, TN, "nt")
    grad_b = units(TK, TN, TM, "tn")

    def loss(a, b):
        return multiply(a, b).sum()

    assert starts(compiled(multiply, a, b)[0], "forward", forward)
    # The product itself is linear: its gradients do not need it.
    assert starts(compiled(jax.grad(loss), a, b)[0], "adjoint(a)", grad_a)
    assert starts(compiled(jax.grad(loss, 1), a, b)[0], "adjoint(b)", grad_b)
    assert starts(compiled(jax.grad(loss, (0, 1)), a, b)[0], "adjoint(a, b)", grad_a, grad_b)
    both = compiled(jax.value_and_grad(loss, (0, 1)), a, b)[0]
    assert starts(both, "forward", "adjoint(a, b)", forward, grad_a, grad_b)
    batch = jnp.stack([a, a + 1])
    found = compiled(jax.vmap(jax.grad(loss, (0, 1)), in_axes=(0, None)), batch, b)[0]
    assert starts(found, "adjoint(a, b)", grad_a, grad_b)


def test_forward_code_is_smaller_than_forward_and_adjoint(matrices):
    a, b = matrices
    _, forward = compiled(multiply, a, b)
    _, whole = compiled(jax.value_and_grad(lambda a, b: multiply(a, b).sum(), (0, 1)), a, b)
    assert sum(e.bytes for e in forward) < 0.7 * sum(e.bytes for e in whole)


# -- launches


def test_records_in_place_and_adjoint():
    rng = np.random.default_rng(11)
    x = rng.normal(size=(6, 24)).astype(np.float32)
    y = np.zeros_like(x)
    launch = wp.launch_tiled(softmax, 6, [x], [y], block_dim=LANES, record_cmd=True)
    launch.launch()
    np.testing.assert_allclose(y, jax.nn.softmax(x, axis=1), rtol=1e-5, atol=1e-6)
    launch.set_dim((3, LANES))
    y[:] = 0
    launch.launch()
    np.testing.assert_allclose(y[:3], jax.nn.softmax(x[:3], axis=1), rtol=1e-5, atol=1e-6)
    assert not y[3:].any()
    g = rng.normal(size=x.shape).astype(np.float32)
    (found,) = wp.launch_tiled(
        softmax, 6, [x], [jax.ShapeDtypeStruct(x.shape, x.dtype)], block_dim=LANES, adjoint=True, adj_outputs=[g]
    )
    expected = jax.vjp(lambda x: jax.nn.softmax(x, axis=1), x)[1](g)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_jax_kernel():
    x = jnp.asarray(np.random.default_rng(12).normal(size=(6, 24)).astype(np.float32))
    f = wp.jax_kernel(softmax, launch_dims=(6, LANES), output_dims=(6, 24), block_dim=LANES)
    np.testing.assert_allclose(jax.jit(f)(x)[0], jax.nn.softmax(x, axis=1), rtol=1e-5, atol=1e-6)


def test_export():
    x = jnp.asarray(np.random.default_rng(13).normal(size=(6, 24)).astype(np.float32))

    def f(x):
        return wp.launch_tiled(softmax, 6, [x], [x.shape], block_dim=LANES)[0]

    exported = jax.export.export(jax.jit(f), disabled_checks=wp.EXPORT_CHECKS)(x)
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_allclose(again.call(x), jax.nn.softmax(x, axis=1), rtol=1e-5, atol=1e-6)


def test_refusals(matrices):
    a, b = matrices
    with pytest.raises(wp.LaunchError, match="no multiple"):
        wp.launch(product, (2, 3), [a, b], [(16, 24)], block_dim=LANES)
    with pytest.raises(wp.LaunchError, match="at most 1024"):
        wp.launch_tiled(product, (2, 2), [a, b], [(16, 24)], block_dim=2048)
    with pytest.raises(wp.LaunchError, match="block_dim"):
        wp.launch_tiled(product, (2, 2), [a, b], [(16, 24)], block_dim=None)
    with pytest.raises(wp.LaunchError, match="at most"):
        wp.launch_tiled(product, (1, 1, 1, 1), [a, b], [(16, 24)], block_dim=4)
