"""`wp.grad` in kernels: the gradient of a function as a function, itself differentiable."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from run_three_ways import values_of

import jwarp as wp

d = wp.float64


@wp.func
def square(x: d):
    return x * x


@wp.func
def looped(x: d, n: int):
    s = d(0.0)
    p = x
    for k in range(n):
        if p > d(0.5):
            s += wp.sin(p) * x
        p = p * d(0.9)
    while p > d(0.1):
        p = p * x * d(0.5)
        s = s + p
    return s


@wp.func
def turned(v: wp.vec3d, m: wp.mat33d):
    return wp.normalize(m * v), wp.dot(v, v)


@wp.func
def own(x: d):
    return x


@wp.func_grad(own)
def own_gradient(x: d, g: d):
    wp.adjoint[x] += d(7.0) * g * x


@wp.func
def uses_own(x: d):
    return wp.sin(own(x)) + own(x)


@wp.struct
class Spring:
    k: d
    n: int
    rest: wp.vec2d


@wp.func
def energy(s: Spring, x: wp.vec2d):
    return s.k * wp.length_sq(x - s.rest) * d(s.n)


@wp.func
def applied(f: Callable, x: d):
    return f(f(x))


slope = wp.grad(square)


@wp.kernel
def everything(x: wp.array[d], y: wp.array[d]):
    i = wp.tid()
    along_y, _along_x = wp.grad(wp.atan2)(x[i], d(2.0))
    of_loop, of_count = wp.grad(looped)(n=7, x=x[i])
    again = wp.grad(square)
    v = wp.vec3d(x[i], x[i] * x[i], d(1.0))
    m = wp.identity(n=3, dtype=d) * x[i]
    m[0, 1] = x[i]
    of_v, of_m = wp.grad(turned)(v, m)
    s = Spring(x[i], 3, wp.vec2d(x[i], d(1.0)))
    of_s, of_p = wp.grad(energy)(s, wp.vec2d(d(2.0), x[i]))
    total = slope(x[i]) + again(x[i]) * along_y + of_loop + d(of_count) + of_v[1] * of_m[0, 1]
    total += of_s.k * of_s.rest[0] + d(of_s.n) + of_p[1]
    y[i] = total + wp.grad(uses_own)(x[i]) + wp.grad(applied)(square, x[i])


@jax.custom_jvp
def own_in_jax(x):
    return x


own_in_jax.defjvp(lambda at, along: (at[0], 7 * at[0] * along[0]))


def looped_in_jax(x):
    s, p = 0.0, x
    for _ in range(7):
        s = s + jnp.where(p > 0.5, jnp.sin(p) * x, 0.0)
        p = p * 0.9
    for _ in range(30):
        goes_on = p > 0.1
        p = jnp.where(goes_on, p * x * 0.5, p)
        s = s + jnp.where(goes_on, p, 0.0)
    return s


def everything_in_jax(x):
    v, m = jnp.array([x, x * x, 1.0]), (jnp.eye(3) * x).at[0, 1].set(x)
    of_v, of_m = jax.grad(lambda v, m: (m @ v / jnp.linalg.norm(m @ v)).sum() + v @ v, (0, 1))(v, m)
    rest, p = jnp.array([x, 1.0]), jnp.array([2.0, x])
    of_s, of_p = 3 * ((p - rest) @ (p - rest)) * (-6 * x * (p - rest)[0]), 6 * x * (p - rest)
    total = 2 * x + 2 * x * jax.grad(jnp.arctan2)(x, 2.0) + jax.grad(looped_in_jax)(x) + of_v[1] * of_m[0, 1]
    return total + of_s + of_p[1] + jnp.cos(own_in_jax(x)) * 7 * x + 7 * x + 4 * x**3


def test_gradients_and_derivatives_of_them(x64):
    x = jnp.asarray(np.random.default_rng(0).uniform(0.3, 1.5, 6))
    everything_fn = wp.jax_kernel(everything)
    wanted = jax.vmap(everything_in_jax)
    np.testing.assert_allclose(everything_fn(x)[0], wanted(x), rtol=1e-10)
    expected = jax.grad(lambda x: wanted(x).sum())(x)
    np.testing.assert_allclose(jax.grad(lambda x: everything_fn(x)[0].sum())(x), expected, rtol=1e-9)


def test_arrays_and_integers():
    @wp.func
    def weighted(a: wp.array[float], i: int, x: float, scale: float = 3.0):
        return a[i] * x * scale

    @wp.kernel
    def kernel(a: wp.array[float], out: wp.array[float]):
        _of_a, of_i, of_x, of_scale = wp.grad(weighted)(a, 1, 5.0)
        out[0] = of_x
        out[1] = of_scale
        out[2] = float(of_i)
        out[3] = wp.grad(wp.abs)(-2.0)

    assert values_of(kernel, np.array([1.0, 2.0], np.float32), count=4) == [6, 10, 0, -1]


@wp.func
def nothing(x: float):
    y = x  # noqa: F841


@wp.func
def writes(a: wp.array[float], x: float):
    a[0] = x
    return x


@wp.func
def with_local(x: d, v: wp.vec2d, n: int):
    a = wp.zeros(4, dtype=d)
    b = wp.zeros(shape=(2, 2), dtype=wp.vec2d)
    count = wp.zeros(2, dtype=int)
    a[0] = d(2.0)
    for k in range(n):
        p = a if k % 2 == 0 else a[1:]
        a[(k + 1) % 4] = wp.sin(p[k % 3]) * x + a[-1]
        b[k % 2, 0] = v * a[k % 4]
        a[1] += x * b[0][0][1]
        count[k % 2] += 1
    s = d(0.0)
    for i in range(2):
        c = wp.zeros(2, dtype=d)
        c[i] += s + x
        s += c[0] * c[1] + d(count[i]) * c[i] + b[i, 0][0] * a[2]
    wp.atomic_add(a, 3, x)
    return s * a[3]


@wp.func
def stores_one(a: wp.array[float], x: float):
    a[0] = 1.0
    return x


@wp.func
def through_bits(x: float):
    return wp.cast(wp.cast(x, int), float)


def test_what_is_refused():
    def refused(error, words, use):
        @wp.kernel
        def kernel(a: wp.array[float], out: wp.array[float]):
            use(a, out)

        with pytest.raises(error, match=words) as caught:
            kernel.ir()
        assert caught.value.diagnostic.span.line > 0

    @wp.func
    def of_nothing(a: wp.array[float], out: wp.array[float]):
        out[0] = wp.grad(nothing)(a[0])

    @wp.func
    def of_writes(a: wp.array[float], out: wp.array[float]):
        _, out[0] = wp.grad(writes)(a, a[0])

    @wp.func
    def of_one(a: wp.array[float], out: wp.array[float]):
        _, out[0] = wp.grad(stores_one)(a, a[0])

    @wp.func
    def of_bits(a: wp.array[float], out: wp.array[float]):
        out[0] = wp.grad(through_bits)(a[0])

    @wp.func
    def of_array(a: wp.array[float], out: wp.array[float]):
        of_a, _of_x = wp.grad(reads)(a, 1.0)
        out[0] = of_a

    @wp.func
    def of_number(a: wp.array[float], out: wp.array[float]):
        out[0] = wp.grad(3.0)(a[0])

    @wp.func
    def reads(a: wp.array[float], x: float):
        return a[0] * x

    refused(wp.CompileError, "`nothing` gives nothing, which has no gradient", of_nothing)
    refused(wp.CompileError, "`writes` writes to an array, so wp.grad cannot take", of_writes)
    refused(wp.CompileError, "`stores_one` writes to an array, so wp.grad cannot take", of_one)
    refused(wp.NotDifferentiableError, r"wp.grad\(through_bits\): there is no derivative of bitcast", of_bits)
    refused(wp.KernelTypeError, "the value is a Python NoGradient", of_array)
    refused(wp.KernelTypeError, "wp.grad takes a function of the kernel language, not float32", of_number)
    with pytest.raises(wp.KernelTypeError, match="wp.grad needs a function of the kernel language"):
        wp.grad(len)
    with pytest.raises(wp.KernelTypeError, match=r"wp.grad\(square\) can only be called inside a kernel"):
        wp.grad(square)(1.0)


@wp.kernel
def local_gradients(x: wp.array[d], v: wp.array[wp.vec2d], y: wp.array[d], g: wp.array2d[d]):
    i = wp.tid()
    y[i] = with_local(x[i], v[i], i)
    of_x, of_v, _ = wp.grad(with_local)(x[i], v[i], i)
    g[0, i] = of_x
    g[1, i] = of_v[0]
    g[2, i] = of_v[1]


def test_functions_with_local_arrays(x64):
    rng = np.random.default_rng(3)
    x, v = jnp.asarray(rng.uniform(0.5, 1, 7)), jnp.asarray(rng.normal(size=(7, 2)))
    _, g = wp.launch(local_gradients, 7, [x, v], [7, (3, 7)])
    by_x, by_v = jax.grad(lambda x, v: wp.launch(local_gradients, 7, [x, v], [7, (3, 7)])[0].sum(), (0, 1))(x, v)
    np.testing.assert_allclose(g, np.stack([by_x, *by_v.T]), rtol=1e-10)
    wp.check_grads(lambda x, v: wp.launch(local_gradients, 7, [x, v], [7, (3, 7)])[1], (x, v), order=1)
