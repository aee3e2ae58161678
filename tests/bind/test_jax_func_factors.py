"""Factors of small matrices, and convolutions, in functions of jax.numpy in kernels: values and gradients of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(4)
N = 5


def many(m):
    """A function of a 3 x 3 matrix that does not depend on the signs of its vectors."""
    s = m @ m.T + 0.5 * jnp.eye(3, dtype=m.dtype)
    w, v = jnp.linalg.eigh(s)
    u, sigma, vt = jnp.linalg.svd(m)
    q, r = jnp.linalg.qr(m[:, :2])
    logarithm = v @ jnp.diag(jnp.log(w)) @ v.T
    parts = [
        w, sigma, jnp.ravel(logarithm), jnp.ravel(u @ vt), jnp.ravel(q), r[0, 1][None], r[1, 1][None],
        jnp.ravel(jnp.linalg.pinv(m[:2])), jnp.linalg.norm(m, 2)[None], jnp.linalg.svd(m[:2], compute_uv=False),
        jnp.convolve(m[0], m[1, :2]), jnp.linalg.eigvalsh(s[:2, :2]),
    ]  # fmt: skip
    return jnp.concatenate(parts)


COUNT = len(jax.eval_shape(many, jax.ShapeDtypeStruct((3, 3), np.float32)))
results = wp.types.vector(COUNT, float)
many_in_kernel = wp.jax_func(many)


@wp.kernel
def apply_many(m: wp.array[wp.mat33], out: wp.array[results]):
    i = wp.tid()
    out[i] = many_in_kernel(m[i])


def test_values_and_gradients_are_those_of_jax():
    m = RNG.normal(size=(N, 3, 3)).astype(np.float32) + 2.0 * np.diag([1.0, 2.0, 3.5]).astype(np.float32)
    found, pull = jax.vjp(lambda m: wp.jax_kernel(apply_many)(m)[0], jnp.asarray(m))
    with jax.enable_x64(True):
        expected, wanted = jax.vjp(jax.vmap(many), jnp.asarray(m, np.float64))
        g = RNG.normal(size=expected.shape)
        gradient = np.asarray(wanted(jnp.asarray(g))[0])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(
        pull(jnp.asarray(g, np.float32))[0], gradient, rtol=2e-3, atol=2e-3 * np.abs(gradient).max()
    )


SHAPES = [(3, 3, True), (4, 2, False), (2, 4, False)]


def factored(a, b):
    """All factors of a 3 x 3 matrix, of a 4 x 2 one and of the transpose of that, in a row."""
    parts = [*jnp.linalg.eigh(a + a.T), *jnp.linalg.eigh(b.T @ b, UPLO="U")]
    for x, (_, _, full) in zip((a, b, b.T), SHAPES, strict=True):
        parts += [*jnp.linalg.svd(x, full_matrices=full), *jnp.linalg.qr(x, mode="complete" if full else "reduced")]
    return jnp.concatenate([jnp.ravel(x) for x in parts])


a_type, b_type = wp.types.matrix((3, 3), wp.float64), wp.types.matrix((4, 2), wp.float64)
COUNT_OF_FACTORS = jax.eval_shape(factored, np.zeros((3, 3), np.float32), np.zeros((4, 2), np.float32)).shape[0]
all_factors = wp.types.vector(COUNT_OF_FACTORS, wp.float64)
factored_in_kernel = wp.jax_func(factored)


@wp.kernel
def apply_factored(a: wp.array[a_type], b: wp.array[b_type], out: wp.array[all_factors]):
    i = wp.tid()
    out[i] = factored_in_kernel(a[i], b[i])


def test_factors_of_any_shape_and_rank():
    a, b = RNG.normal(size=(200, 3, 3)), RNG.normal(size=(200, 4, 2))
    for x in (a, b):
        x[0] = 1.0  # of rank one
        x[1] = 0.0
        x[2] *= 1e-9
        x[3:40] *= np.logspace(-6, 3, x.shape[1])[:, None]
    with jax.enable_x64(True):
        left = np.asarray(wp.jax_kernel(apply_factored)(jnp.asarray(a), jnp.asarray(b))[0])

    def taken(*shapes):
        nonlocal left
        for shape in shapes:
            size = int(np.prod(shape))
            yield left[:, :size].reshape(200, *shape)
            left = left[:, size:]

    def is_near(x, y, scale):
        assert (np.abs(x - y).reshape(200, -1).max(1) <= 1e-14 * np.linalg.norm(scale, axis=(1, 2))).all()

    t = np.swapaxes
    for symmetric in (a + t(a, 1, 2), t(b, 1, 2) @ b):
        n = symmetric.shape[1]
        w, v = taken((n,), (n, n))
        is_near(w, np.linalg.eigvalsh(symmetric), symmetric)
        is_near(v @ (w[..., None] * t(v, 1, 2)), symmetric, symmetric)
    for x, (m, n, full) in zip((a, b, t(b, 1, 2)), SHAPES, strict=True):
        k = min(m, n)
        wide, high = (m, n) if full else (k, k)
        u, s, vt, q, r = taken((m, wide), (k,), (high, n), (m, wide), (wide, n))
        is_near(s, np.linalg.svd(x, compute_uv=False), x)
        is_near(u[..., :k] @ (s[..., None] * vt[:, :k]), x, x)
        is_near(q @ r, x, x)
        for side in (t(u, 1, 2) @ u, vt @ t(vt, 1, 2), t(q, 1, 2) @ q):
            np.testing.assert_allclose(side, np.broadcast_to(np.eye(side.shape[-1]), side.shape), atol=4e-15)
        own = np.linalg.qr(x[40:], mode="complete" if full else "reduced")
        np.testing.assert_allclose(q[40:], own[0], atol=1e-12)
        np.testing.assert_allclose(r[40:], own[1], atol=1e-12)
    assert left.shape[1] == 0


def test_convolutions_of_every_layout():
    conv = jax.lax.conv_general_dilated

    def all_of(x):
        a, b = jnp.sin(x * jnp.arange(1, 25.0)), jnp.cos(x * jnp.arange(1, 13.0))
        return jnp.concatenate([
            jnp.ravel(conv(a.reshape(1, 2, 3, 4), b[:8].reshape(2, 2, 2, 1), (1, 2), "SAME")),
            jnp.ravel(conv(a.reshape(1, 4, 6), b[:8].reshape(2, 2, 2), (2,), [(1, 2)], (2,), (3,),
                           feature_group_count=2)),
            jnp.ravel(conv(a.reshape(2, 4, 3), b.reshape(2, 3, 2), (1,), "VALID",
                           dimension_numbers=("NWC", "WIO", "NWC"))),
            jnp.convolve(a[:5], b[:3], mode="same"), jnp.correlate(a[:5], b[:3]),
        ])  # fmt: skip

    summed = wp.jax_func(lambda x: jnp.sum(all_of(x) * jnp.cos(jnp.arange(len(all_of(x)), dtype=x.dtype))))
    x = np.float32([0.3, 0.7])
    with jax.enable_x64(True):
        expected = jax.jit(jax.vmap(summed.python))(jnp.asarray(x, np.float64))
    np.testing.assert_allclose(wp.map(summed, jnp.asarray(x)), expected, rtol=1e-5, atol=1e-5)


def of_inverse(m):
    return jnp.sum(jnp.linalg.inv(m) * jnp.arange(4.0).reshape(2, 2))


def of_solution(m):
    return jnp.sum(jnp.linalg.solve(m, m[0] * m[1]) ** 2)


def of_determinant(m):
    return jnp.linalg.slogdet(jnp.outer(m[0], m[1]) + jnp.linalg.inv(m))[1]


def of_own_solver(m):
    """With factors that have no derivatives of their own, as those of jnp.linalg.solve."""
    a = m[0, 0] ** 2 + 1.0
    solved = jax.lax.custom_linear_solve(
        lambda x: a * x, m, lambda _, b: b / jax.lax.stop_gradient(a), lambda _, b: b / jax.lax.stop_gradient(a)
    )
    return jnp.sum(solved**2)


@pytest.mark.parametrize("function", [of_inverse, of_solution, of_determinant, of_own_solver])
def test_second_derivatives_of_solved_equations(function):
    traced = wp.jax_func(function)

    @wp.kernel
    def k(m: wp.array[wp.mat22d], y: wp.array[wp.float64]):
        i = wp.tid()
        y[i] = traced(m[i])

    def second(f, m, d, e):
        along = lambda m: jax.jvp(f, (m,), (d,))[1]  # noqa: E731
        found = [jax.grad(f)(m), jax.jvp(jax.grad(f), (m,), (d,))[1], jax.jvp(along, (m,), (e,))[1]]
        if function is not of_own_solver:  # a rule that JAX does not own: refused
            found += [jax.grad(along)(m), jax.grad(lambda m: jnp.sum(jax.grad(f)(m) * d))(m)]
        return found

    with jax.enable_x64(True):
        m, d, e = (jnp.asarray(RNG.normal(size=(3, 2, 2))) for _ in range(3))
        own = second(lambda m: jnp.sum(wp.jax_kernel(k)(m)[0]), m + 2.0 * jnp.eye(2), d, e)
        expected = second(lambda m: jnp.sum(jax.vmap(function)(m)), m + 2.0 * jnp.eye(2), d, e)
    for x, y in zip(own, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10 * np.abs(y).max())
