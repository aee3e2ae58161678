"""Choices: the values that they leave out contribute nothing to a derivative, whatever its own derivative would be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.attributes import Origin

F = wp.float64
vec3 = wp.vec3d


@pytest.fixture(autouse=True)
def _in_float64():
    with jax.enable_x64(True):
        yield


@wp.kernel
def root(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[i] = wp.where(x[i] > F(0.0), wp.sqrt(x[i]), F(0.0))


@wp.kernel
def shared_by_two(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    r = F(2.0) / x[i]
    y[i] = wp.where(x[i] != F(0.0), r, F(0.0)) + wp.where(x[i] > F(0.0), r * r, F(1.0))


@wp.kernel
def before_branches(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    s = wp.log(x[i])
    t = F(0.0)
    if x[i] > F(0.0):
        t = s
    for j in range(3):
        if x[i] > F(1.0):
            t += s * F(j)
    y[i] = t


@wp.kernel
def after_loop(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    s = x[i]
    for j in range(4):
        s = wp.sqrt(s) + F(j) / x[i]
    y[i] = wp.where(x[i] > F(0.0), s, x[i] * x[i])


@wp.kernel
def within_loop(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    s = F(1.0)
    for j in range(4):
        s = wp.where(x[i] > F(j), wp.sqrt(x[i] - F(j)) * s, F(j) + s)
        s = wp.where(s > F(0.0), s, wp.log(s))
    y[i] = s


@wp.kernel
def replaced_in_loop(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    s = x[i] + F(1.0)
    for j in range(3):
        s = wp.where(j < 2, F(1.0) / (s + x[i]), x[i] * x[i])
    y[i] = s


@wp.kernel
def no_trip(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    r = F(1.0) / x[i]
    s = F(0.0)
    for _ in range(wp.where(x[i] > F(0.0), 3, 0)):
        s += r * x[i] * r
    y[i] = s


@wp.kernel
def own_array(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    t = wp.zeros(shape=2, dtype=F)
    t[0] = x[i] * x[i]
    t[1] = wp.log(x[i])
    y[i] = t[wp.where(x[i] > F(0.0), 1, 0)]


@wp.kernel
def infinite(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    big = F(1.0) / (x[i] - x[i])
    y[i] = wp.where(x[i] > F(100.0), x[i] * big, x[i] * x[i])


@wp.kernel
def smaller(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[i] = wp.min(F(1.0) / wp.abs(x[i]), F(3.0)) + wp.max(wp.log(wp.abs(x[i])), F(-4.0))


@wp.kernel
def constant_of_argument(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    z = wp.where(x[i] > F(0.0), x[i], F(0.0))
    y[i] = wp.exp(F(-1.0) / (z * z))


@wp.kernel
def constant_of_branch(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    z = F(0.0)
    if x[i] > F(0.0):
        z = x[i]
    for _ in range(2):
        z = wp.exp(F(-1.0) / (z * z))
    y[i] = z


@wp.kernel
def direction(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    v = vec3(x[i], F(2.0) * x[i], x[i] * x[i])
    size = wp.sqrt(wp.dot(v, v))
    n = wp.where(size > F(0.0), v / size, vec3())
    y[i] = n[0] + F(2.0) * n[1] * n[2]


@wp.func
def inverse(x: F):
    return F(1.0) / x


@wp.func_grad(inverse)
def adj_inverse(x: F, adj: F):
    wp.adjoint[x] += -adj / (x * x)


@wp.kernel
def authored(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[i] = wp.where(x[i] != F(0.0), inverse(x[i] * x[i]), x[i])


@wp.kernel
def zero_by_chance(x: wp.array[F], y: wp.array[F]):
    """Its cotangents of `s` are zero at x = 2.5, and their derivatives are not."""
    i = wp.tid()
    s = x[i] * x[i] - F(6.25)
    t = F(0.0)
    for j in range(3):
        if x[i] > F(j):
            t += s
    y[i] = wp.where(x[i] > F(-1.0), t * t, F(0.0))


def sqrt(x):
    return np.sqrt(np.maximum(x, 0.0))


def loop_of_roots(x):
    s = x
    for j in range(4):
        s = sqrt(s) + j / x
    return np.where(x > 0, s, x * x)


def chosen_in_loop(x):
    s = np.ones_like(x)
    for j in range(4):
        s = np.where(x > j, sqrt(x - j) * s, j + s)
    return s


def bell(x):
    z = np.where(x > 0, x, np.nan)
    return np.nan_to_num(np.exp(-1 / (z * z)))


def unit(x):
    v = np.stack([x, 2 * x, x * x])
    n = v / np.maximum(np.sqrt((v * v).sum(0)), 1e-300)
    return n[0] + 2 * n[1] * n[2]


POSITIVE = lambda x: np.where(x > 0, x, np.nan)  # noqa: E731
REFERENCES = {
    root: lambda x: sqrt(x),
    shared_by_two: lambda x: np.nan_to_num(2 / x, posinf=0) + np.where(x > 0, (2 / x) ** 2, 1),
    before_branches: lambda x: np.nan_to_num(np.log(POSITIVE(x))) * np.where(x > 1, 4, 1),
    after_loop: loop_of_roots,
    within_loop: chosen_in_loop,
    replaced_in_loop: lambda x: x * x,
    no_trip: lambda x: np.nan_to_num(3 / POSITIVE(x)),
    own_array: lambda x: np.where(x > 0, np.log(np.abs(x)), x * x),
    infinite: lambda x: x * x,
    smaller: lambda x: np.minimum(1 / np.abs(x), 3) + np.maximum(np.log(np.abs(x)), -4),
    constant_of_argument: bell,
    constant_of_branch: lambda x: bell(bell(x)),
    authored: lambda x: np.where(x != 0, 1 / (x * x), x),
    direction: unit,
    zero_by_chance: lambda x: np.where(x > -1, ((x * x - 6.25) * np.clip(np.ceil(x), 0, 3)) ** 2, 0),
}
POINTS = np.array([-3.3, -0.7, 0.21, 0.9, 1.31, 2.6, 3.7])


def differences(f, x, order):
    """Central differences, of fourth order."""
    h = 1e-3
    at = {k: f(x + k * h) for k in (-2, -1, 0, 1, 2)}
    if order == 1:
        return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h)
    return (16 * (at[1] + at[-1]) - (at[2] + at[-2]) - 30 * at[0]) / (12 * h * h)


@pytest.mark.parametrize("kernel", REFERENCES, ids=lambda kernel: kernel.key)
@np.errstate(all="ignore")
def test_what_was_not_chosen_contributes_nothing(kernel):
    """In reverse and forward mode and in second order, by differences, and at zero, where most are infinite."""
    reference = REFERENCES[kernel]
    f = wp.jax_kernel(kernel)
    x = np.concatenate([POINTS, [2.5]]) if kernel is zero_by_chance else POINTS
    np.testing.assert_allclose(f(x)[0], reference(x), rtol=1e-12, atol=1e-12)
    first = differences(reference, x, 1)
    total = lambda x: f(x)[0].sum()  # noqa: E731
    ends = jnp.array([0.0, -0.0])
    np.testing.assert_allclose(jax.grad(total)(x), first, rtol=1e-6, atol=1e-6)
    assert np.isfinite(jax.grad(total)(ends)).all()
    if kernel is authored:  # its gradient is known in reverse mode alone
        return
    tangent = lambda x: jax.jvp(lambda x: f(x)[0], (x,), (jnp.ones_like(x),))[1]  # noqa: E731
    np.testing.assert_allclose(tangent(x), first, rtol=1e-6, atol=1e-6)
    assert np.isfinite(tangent(ends)).all()
    second = np.diagonal(jax.hessian(total)(x))
    np.testing.assert_allclose(second, differences(reference, x, 2), rtol=1e-4, atol=1e-4)
    if kernel is zero_by_chance:
        assert second[-1] == 2 * (3 * 2 * 2.5) ** 2


@wp.kernel
def masked_tile(x: wp.array[F], y: wp.array[F]):
    t = wp.tile_load(x, shape=8)
    roots = wp.tile_map(wp.sqrt, t)
    keep = wp.tile_map(positive, t)
    wp.tile_store(y, wp.tile_map(chosen, keep, roots, t) + wp.tile_map(inverse_or_zero, t))


@wp.func
def positive(x: F):
    return x > F(0.0)


@wp.func
def chosen(keep: bool, x: F, y: F):
    return wp.where(keep, x, y)


@wp.func
def inverse_or_zero(x: F):
    return wp.where(x != F(0.0), F(1.0) / x, F(0.0))


def test_elements_of_tiles():
    f = wp.jax_kernel(masked_tile, launch_dims=(1, 4), block_dim=4, output_dims=8)
    x = jnp.asarray(np.concatenate([POINTS, [0.0]]))
    slopes = np.where(POINTS > 0, 0.5 / np.sqrt(np.abs(POINTS)), 1.0) - 1 / POINTS**2
    np.testing.assert_allclose(jax.grad(lambda x: f(x)[0].sum())(x), [*slopes, 1.0], rtol=1e-12)
    np.testing.assert_allclose(jax.jvp(lambda x: f(x)[0], (x,), (jnp.ones(8),))[1], [*slopes, 1.0], rtol=1e-12)


def test_by_the_interpreter():
    """The same in the oracle, which shares no code with compiled kernels."""
    x = np.array([*POINTS, 0.0])
    for kernel in (root, within_loop, own_array):
        adjoint = vjp(kernel.ir(), [0], [1])
        given = {Origin("primal", 0): x, Origin("cotangent", 1): np.ones(8), Origin("gradient", 0): np.zeros(8)}
        results = run(adjoint.kernel, (8,), [given[slot] for slot in adjoint.origins])
        expected = jax.grad(lambda x, kernel=kernel: wp.jax_kernel(kernel)(x)[0].sum())(x)
        np.testing.assert_allclose(results[adjoint.origins.index(Origin("gradient", 0))], expected, rtol=1e-12)


@wp.kernel
def through_bits(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    bits = wp.cast(x[i], wp.int64)
    rounded = bits & wp.int64(-256)
    y[i] = F(2.0) * wp.cast(rounded, F)


@wp.kernel
def beyond(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[i] = wp.where(i + 1 < x.shape[0], x[i + 1], F(0.0))


def test_a_refusal_stands_where_bits_are_taken():
    x = jnp.ones(3)
    for derivative in (
        jax.grad(lambda x: wp.jax_kernel(through_bits)(x)[0].sum()),
        jax.jacfwd(wp.jax_kernel(through_bits)),
    ):
        with pytest.raises(wp.NotDifferentiableError, match=r"bits = wp.cast\(x\[i\], wp.int64\)"):
            derivative(x)


def test_an_access_beside_where_is_told_of_conditional_expressions():
    with pytest.raises(wp.LaunchError, match=r"`a if c else b`"):
        wp.jax_kernel(beyond)(jnp.ones(3))
