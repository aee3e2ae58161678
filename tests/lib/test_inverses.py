"""`wp.inverse` from the smallest to the largest matrices: value and derivatives against exact arithmetic."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import jwarp as wp

SCALES = {
    wp.float16: (1e-3, 1.0, 1e3),
    wp.bfloat16: (1e-30, 1.0, 1e30),
    wp.float32: (1e-36, 1e-30, 1e-22, 1e-15, 1.0, 1e15, 1e30, 1e37),
    wp.float64: (1e-300, 1e-160, 1.0, 1e200),
}
# Relative to the greatest entry.
TOLERANCE = {wp.float16: 4e-2, wp.bfloat16: 3e-1, wp.float32: 2e-5, wp.float64: 1e-13}


def inverse_kernel(F, n):
    mat = wp.types.matrix((n, n), F)

    @wp.kernel
    def kernel(x: wp.array[mat], y: wp.array[mat]):
        i = wp.tid()
        y[i] = wp.inverse(x[i])

    return lambda x: wp.jax_kernel(kernel)(x)[0]


def matrices(F, n, scale, rng, count=3):
    """Matrices that are not far from orthogonal."""
    made = [np.linalg.qr(rng.normal(size=(n, n)))[0] + 0.1 * rng.normal(size=(n, n)) for _ in range(count)]
    return np.asarray(np.array(made) * scale, F.dtype)


def exact(x):
    with mpmath.workdps(60):
        return mpmath.matrix([[mpmath.mpf(float(v)) for v in row] for row in x]) ** -1


def rounded(values, dtype):
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values, np.float64).astype(dtype).astype(np.float64)


def close(found, expected, dtype, tolerance):
    """Assert that values are right, up to the least number of the type, and infinite where the type ends."""
    found, expected = np.asarray(found).astype(np.float64), rounded(expected, dtype)
    lost = 4 * float(np.asarray(jnp.finfo(dtype).smallest_subnormal, np.float64))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max() + lost)


@pytest.mark.parametrize("n", (1, 2, 3, 4))
@pytest.mark.parametrize("F", SCALES, ids=lambda F: F.__name__)
def test_values(F, n):
    rng = np.random.default_rng(n)
    with jax.enable_x64(True):
        inverse = inverse_kernel(F, n)
        for scale in SCALES[F]:
            x = matrices(F, n, scale, rng)
            y = np.asarray(inverse(jnp.asarray(x)))
            for a, b in zip(x, y, strict=True):
                close(b, np.array(exact(a).tolist(), float), F.dtype, TOLERANCE[F])


@pytest.mark.parametrize("n", (1, 2, 3, 4))
@pytest.mark.parametrize("F", (wp.float32, wp.float64), ids=lambda F: F.__name__)
def test_derivatives(F, n):
    """By the formula -X dA X in exact arithmetic; in both modes."""
    rng = np.random.default_rng(n)
    with jax.enable_x64(True):
        inverse = inverse_kernel(F, n)
        for scale in {wp.float32: (1e-15, 1.0, 1e15), wp.float64: (1e-150, 1.0, 1e150)}[F]:
            x = matrices(F, n, scale, rng, 1)
            t, g = rng.normal(size=(2, 1, n, n)).astype(F.dtype)
            with mpmath.workdps(60):
                known = exact(x[0])
                forward = np.array((-known * mpmath.matrix(t[0].tolist()) * known).tolist(), float)
                reverse = np.array((-known.T * mpmath.matrix(g[0].tolist()) * known.T).tolist(), float)
            close(jax.jvp(inverse, (x,), (t,))[1][0], forward, F.dtype, TOLERANCE[F])
            close(jax.vjp(inverse, x)[1](g)[0][0], reverse, F.dtype, TOLERANCE[F])


@pytest.mark.parametrize("n", (2, 3, 4))
def test_derivatives_of_higher_order(n):
    """The second one is X (s X t + t X s) X, which is of the size of X to the power 3."""
    rng = np.random.default_rng(n)
    inverse = inverse_kernel(wp.float32, n)
    for scale in (1e-12, 1.0, 1e12):
        x = matrices(wp.float32, n, scale, rng, 1)
        t, s, g = rng.normal(size=(3, 1, n, n)).astype(np.float32)
        with mpmath.workdps(60):
            known, first, second = exact(x[0]), mpmath.matrix(t[0].tolist()), mpmath.matrix(s[0].tolist())
            both = first * known * second + second * known * first
            expected = np.array((known * both * known).tolist(), float)
        moved = lambda x: jax.jvp(inverse, (x,), (t,))[1]  # noqa: B023, E731
        close(jax.jvp(moved, (x,), (s,))[1][0], expected, np.float32, 1e-4)
        slope = jax.grad(lambda x: (inverse(x) * g).sum())  # noqa: B023
        mixed = jax.jvp(slope, (x,), (s,))[1]
        np.testing.assert_allclose(
            np.sum(np.float64(mixed) * t), np.sum(expected * g), rtol=2e-3, atol=1e-4 * np.abs(expected).max()
        )


def test_entries_of_all_sizes():
    """Where entries of the inverse are in range, so are their derivatives, whatever others are."""
    inverse = inverse_kernel(wp.float32, 2)
    x = jnp.asarray([np.diag([1.0, 1e-20])], jnp.float32)
    np.testing.assert_allclose(inverse(x)[0], np.diag([1.0, 1e20]), rtol=1e-5)
    slope = jax.grad(lambda x: inverse(x).sum())(x)[0]
    np.testing.assert_allclose(slope, [[-1.0, -1e20], [-1e20, -np.inf]], rtol=1e-5)


@pytest.mark.parametrize("n", (1, 2, 3, 4))
def test_singular_and_not_a_number(n):
    rng = np.random.default_rng(n)
    inverse = inverse_kernel(wp.float32, n)
    x = matrices(wp.float32, n, 1.0, rng)
    x[0, 0], x[1, 0, 0] = 0.0, np.nan
    y = np.asarray(inverse(x))
    assert not y[0].any() and np.isnan(y[1]).any() and np.isfinite(y[2]).all()
    assert not np.asarray(jax.grad(lambda x: inverse(x).sum())(x))[0].any()


def test_powers_of_two_change_no_digit():
    """An inverse is the same digits at every scale, and those of the cofactors as they stand at ordinary ones."""

    @wp.kernel
    def plain(x: wp.array[wp.mat22], y: wp.array[wp.mat22]):
        i = wp.tid()
        m = x[i]
        det = m[0, 0] * m[1, 1] + m[0, 1] * -m[1, 0]
        share = 1.0 / det
        y[i] = wp.mat22(m[1, 1] * share, -m[0, 1] * share, -m[1, 0] * share, m[0, 0] * share)

    inverse = inverse_kernel(wp.float32, 2)
    x = matrices(wp.float32, 2, 1.0, np.random.default_rng(0), 100)
    y = np.asarray(inverse(x))
    np.testing.assert_array_equal(y, wp.jax_kernel(plain)(x)[0])
    for power in (-100, -20, 20, 100):
        factor = np.float32(2.0) ** power
        np.testing.assert_array_equal(inverse(x * factor), y / factor)
