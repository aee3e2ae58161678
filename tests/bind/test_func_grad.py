"""Functions with a gradient of their own: what it gives, where it is used, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from error_checks import Bodies

import jwarp as wp

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(5)


@wp.func
def both(x: wp.float64, y: wp.float64):
    return x * x * y, wp.sin(x)


@wp.func_grad(both)
def adj_both(x: wp.float64, y: wp.float64, adj_p: wp.float64, adj_q: wp.float64):
    p, _ = both(x, y)  # not what the body's derivative would give, to be told apart
    wp.adjoint[x] += wp.float64(10.0) * p * adj_p + wp.float64(7.0) * adj_q
    if y > wp.float64(0.0):
        for k in range(3):
            wp.adjoint[y] += adj_p * wp.float64(k)


@wp.kernel
def summed(x: wp.array[wp.float64], y: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    total = wp.float64(0.0)
    for j in range(i % 4):
        p, q = both(x[i] * wp.float64(j), y[i])
        total += p * q
    out[i] = total


@jax.custom_vjp
def reference_both(x, y):
    return x * x * y, jnp.sin(x)


def _backward(residuals, cotangents):
    (x, y), (g, h) = residuals, cotangents
    return 10.0 * x * x * y * g + 7.0 * h, jnp.where(y > 0, 3.0 * g, 0.0)


reference_both.defvjp(lambda x, y: (reference_both(x, y), (x, y)), _backward)


def reference_summed(x, y):
    total = jnp.zeros_like(x)
    for j in range(3):
        p, q = reference_both(x * j, y)
        total += jnp.where(jnp.arange(x.shape[0]) % 4 > j, p * q, 0.0)
    return total


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


def test_the_gradient_is_the_one_that_was_written_in_loops_and_for_several_results():
    x, y, w = RNG.normal(size=(3, 11))
    f = wp.jax_kernel(summed)
    np.testing.assert_allclose(f(x, y)[0], reference_summed(x, y))
    got = jax.jit(jax.grad(lambda x, y: (w * f(x, y)[0]).sum(), (0, 1)))(x, y)
    want = jax.grad(lambda x, y: (w * reference_summed(x, y)).sum(), (0, 1))(x, y)
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_it_batches():
    xs, ys = RNG.normal(size=(2, 3, 11))
    f = wp.jax_kernel(summed)
    got = jax.vmap(jax.grad(lambda x, y: f(x, y)[0].sum()))(xs, ys)
    want = jax.vmap(jax.grad(lambda x, y: reference_summed(x, y).sum()))(xs, ys)
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_only_what_needs_it_uses_it():
    """A cotangent of one result alone, and a gradient of one argument alone."""

    @wp.kernel
    def second(x: wp.array[wp.float64], y: wp.array[wp.float64], out: wp.array[wp.float64]):
        i = wp.tid()
        _p, q = both(x[i], y[i])
        out[i] = q

    x, y = RNG.normal(size=(2, 5))
    g = jax.grad(lambda x, y: wp.launch(second, 5, [x, y], [5])[0].sum(), (0, 1))(x, y)
    np.testing.assert_allclose(g, [np.full(5, 7.0), np.zeros(5)])


def test_arrays_rows_and_vectors():
    @wp.func
    def take(xs: wp.array[wp.float64], i: int, v: wp.vec3d):
        return xs[i] * wp.length(v)

    @wp.func_grad(take)
    def adj_take(xs: wp.array[wp.float64], i: int, v: wp.vec3d, adj: wp.float64):
        wp.adjoint[xs][i] += wp.float64(5.0) * xs[i] * adj
        wp.atomic_add(wp.adjoint[xs], 0, adj)
        wp.adjoint[v][1] += adj
        wp.adjoint[v] -= v * adj * wp.float64(xs.shape[0])

    @wp.kernel
    def rows(x: wp.array2d[wp.float64], v: wp.array[wp.vec3d], out: wp.array[wp.float64]):
        i = wp.tid()
        out[i] = take(x[i], 1, v[i]) * wp.float64(2.0)

    x, v, w = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=5)
    g = jax.grad(lambda x, v: (w * wp.launch(rows, 5, [x, v], [5])[0]).sum(), (0, 1))(x, v)
    by_x = np.zeros((5, 3))
    by_x[:, 1], by_x[:, 0] = 10 * x[:, 1] * w, 2 * w
    by_v = -v * 2 * w[:, None] * 3
    by_v[:, 1] += 2 * w
    np.testing.assert_allclose(g[0], by_x)
    np.testing.assert_allclose(g[1], by_v)


def test_a_gradient_need_not_be_linear_in_its_cotangent():
    @wp.func
    def clipped(x: float):
        return x

    @wp.func_grad(clipped)
    def adj_clipped(x: float, adj: float):
        wp.adjoint[x] += wp.clamp(adj, -1.0, 1.0)

    @wp.kernel
    def copy(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = clipped(x[i])

    w = np.array([-3.0, 0.5, 4.0], np.float32)
    g = jax.grad(lambda x: (w * wp.launch(copy, 3, [x], [3])[0]).sum())(np.ones(3, np.float32))
    np.testing.assert_array_equal(g, [-1.0, 0.5, 1.0])


def test_overloads_have_their_own():
    @wp.func
    def twice(x: float):
        return 2.0 * x

    @wp.func
    def twice(x: wp.vec2):  # noqa: F811
        return 2.0 * x

    @wp.func_grad(twice)
    def adj_twice(x: wp.vec2, adj: wp.vec2):
        wp.adjoint[x] += 100.0 * adj

    @wp.kernel
    def apply(x: wp.array[float], v: wp.array[wp.vec2], out: wp.array[float]):
        i = wp.tid()
        out[i] = twice(x[i]) + wp.dot(twice(v[i]), v[i])

    x, v = RNG.normal(size=3).astype(np.float32), RNG.normal(size=(3, 2)).astype(np.float32)
    g = jax.grad(lambda x, v: wp.launch(apply, 3, [x, v], [3])[0].sum(), (0, 1))(x, v)
    np.testing.assert_allclose(g[0], np.full(3, 2.0))
    np.testing.assert_allclose(g[1], 100.0 * v + 2.0 * v, rtol=1e-6)


def test_a_changed_gradient_is_another_program():
    def made(factor):
        @wp.func
        def f(x: float):
            return x

        @wp.func_grad(f)
        def adj_f(x: float, adj: float):
            wp.adjoint[x] += factor * adj

        @wp.kernel
        def k(x: wp.array[float], out: wp.array[float]):
            i = wp.tid()
            out[i] = f(x[i])

        return k

    x = np.ones(2, np.float32)
    for factor in (3.0, 5.0):
        kernel = made(factor)
        g = jax.jit(jax.grad(lambda x, kernel=kernel: wp.launch(kernel, 2, [x], [2])[0].sum()))(x)
        np.testing.assert_array_equal(g, np.full(2, factor))


def test_forward_mode_and_second_derivatives_are_refused():
    x, y = RNG.normal(size=(2, 5))
    f = wp.jax_kernel(summed)
    with pytest.raises(wp.NotDifferentiableError, match="forward mode"):
        jax.jvp(lambda x: f(x, y)[0], (x,), (x,))
    with pytest.raises(wp.NotDifferentiableError, match="forward mode|second derivative"):
        jax.hessian(lambda x: f(x, y)[0].sum())(x)
    with pytest.raises(wp.NotDifferentiableError, match="forward mode|second derivative"):
        jax.grad(lambda x: (jax.grad(lambda x: f(x, y)[0].sum())(x) ** 2).sum())(x)


def test_forward_mode_by_what_does_not_go_through_it_works():
    @wp.kernel
    def beside(x: wp.array[wp.float64], y: wp.array[wp.float64], out: wp.array[wp.float64]):
        i = wp.tid()
        p, _q = both(x[i], wp.float64(2.0))
        out[i] = p * y[i]

    x, y, t = RNG.normal(size=(3, 5))
    _, tangent = jax.jvp(lambda y: wp.launch(beside, 5, [x, y], [5])[0], (y,), (t,))
    np.testing.assert_allclose(tangent, x * x * 2 * t)


@wp.func
def plain(x: float):
    return x


BODIES = Bodies()


@BODIES.refused("no parameter")
def unknown(x: float, adj: float):
    wp.adjoint[z] += adj  # noqa: F821


@BODIES.refused("returns a value")
def returning(x: float, adj: float):
    return adj


@BODIES.refused("too few parameters")
def short(x: float):
    wp.adjoint[x] += 1.0


@BODIES.refused("more parameters")
def long(x: float, adj: float, more: float):
    wp.adjoint[x] += adj


@BODIES.refused("takes the name of a parameter")
def indexed(x: float, adj: float):
    wp.adjoint[x + 1.0] += adj


@pytest.mark.parametrize("name", BODIES)
def test_faults_of_a_gradient_name_the_line(name):
    function, match = BODIES[name]

    @wp.func
    def f(x: float):
        return x

    wp.func_grad(f)(function)

    @wp.kernel
    def k(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = f(x[i])

    with pytest.raises((wp.CompileError, wp.KernelTypeError), match=match) as caught:
        wp.launch(k, 2, [np.ones(2, np.float32)], [2])
    assert "test_func_grad.py:" in str(caught.value)


def test_what_is_no_gradient_of_a_function():
    with pytest.raises(wp.KernelTypeError, match="needs a function under @wp.func"):
        wp.func_grad(len)
    with pytest.raises(wp.KernelTypeError, match="is no gradient of `plain`"):

        @wp.func_grad(plain)
        def other(x: int, adj: float):
            pass

    with pytest.raises(wp.KernelTypeError, match="can only be used in"):
        wp.adjoint[0]
