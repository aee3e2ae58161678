"""Gradients of launches through jax.grad, against central differences in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp

N = 5
F = wp.array[wp.float64]


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@wp.kernel
def recurrence(x: F, trips: int, y: F):
    i = wp.tid()
    value = x[i]
    for _ in range(trips):
        value = value + wp.float64(0.1) * wp.sin(value * x[i])
    y[i] = value


@wp.kernel
def norm_of_sum(x: F, trips: int, y: F):
    i = wp.tid()
    total = wp.float64(0.0)
    for k in range(trips):
        total += x[i] * x[(i + k) % 5]
    y[i] = wp.sqrt(wp.abs(total)) / wp.float64(trips + 1)


@wp.kernel
def breaks(x: F, trips: int, y: F):
    i = wp.tid()
    value = x[i]
    for _ in range(trips):
        value = value * x[i] + wp.float64(0.3)
        if value > wp.float64(2.0):
            break
    y[i] = value * value


@wp.kernel
def halved(x: F, trips: int, y: F):
    i = wp.tid()
    value = x[i] * wp.float64(20.0)
    k = wp.int32(0)
    while value > wp.float64(1.0) and k < trips:
        value = value * wp.float64(0.5) + wp.float64(0.01) * value * x[i]
        k += 1
    y[i] = value * value


@wp.kernel
def overwritten(x: F, trips: int, y: F):
    i = wp.tid()
    y[i] = x[i]
    for _ in range(trips):
        y[i] = y[i] * x[i] + wp.float64(0.2)
        y[i] += wp.float64(0.1) * y[i] * x[i]


@wp.kernel
def components(x: F, trips: int, y: F):
    i = wp.tid()
    v = wp.vec3d(x[i], x[i] * x[i], wp.float64(1.0))
    for _ in range(trips):
        v[0] = v[0] * wp.float64(0.9) + v[1] * x[i] * wp.float64(0.1)
        v[1] = wp.sin(v[0])
    y[i] = wp.dot(v, v)


@wp.kernel
def local_array(x: F, trips: int, y: F):
    i = wp.tid()
    a = wp.zeros(shape=4, dtype=wp.float64)
    for k in range(trips):
        a[k % 4] = a[(k + 1) % 4] * x[i] + x[(i + k) % 5]
    y[i] = a[0] * a[1] + a[2] * a[3]


KERNELS = [recurrence, norm_of_sum, breaks, halved, overwritten, components, local_array]


def differences(function, x, step=1e-6):
    columns = step * np.eye(len(x))
    return np.array([(function(x + c) - function(x - c)) / (2 * step) for c in columns])


@pytest.mark.quick
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_loops_of_any_length(kernel):
    @jax.jit
    def loss(x, trips):
        (y,) = wp.launch(kernel, N, [x, trips], [jax.ShapeDtypeStruct((N,), jnp.float64)])
        return jnp.sum(jnp.sin(y) * jnp.arange(1.0, N + 1))

    gradient = jax.jit(jax.grad(loss))
    tangent = jax.jit(lambda x, v, trips: jax.jvp(lambda x: loss(x, trips), (x,), (v,))[1])
    for trips in (0, 1, 16, 17, 1000):
        x = np.random.default_rng(trips).uniform(0.3, 0.8, N)
        # At a loss of up to 15, rounding leaves about 1e-15 * 15 / 1e-6; sums of 1000 trips add a digit or two.
        found, expected = gradient(x, trips), differences(lambda x: loss(x, trips), x)  # noqa: B023
        assert_allclose(found, expected, rtol=1e-6, atol=3e-7, err_msg=f"{trips} trips")
        along = np.random.default_rng(trips + 1).normal(size=N)
        assert_allclose(tangent(x, along, trips), found @ along, rtol=1e-9, atol=1e-11, err_msg=f"{trips} trips")


@wp.kernel
def added(x: F, y: F):
    i = wp.tid()
    wp.atomic_add(y, (i * 3) % 4, x[i] * x[(i + 1) % 5])


@pytest.mark.quick
def test_a_million_trips():
    x = np.random.default_rng(7).uniform(0.3, 0.8, N)

    def loss(x):
        return jnp.sum(wp.launch(halved_again, N, [x, 1_000_000], [jax.ShapeDtypeStruct((N,), jnp.float64)])[0])

    assert_allclose(jax.jit(jax.grad(loss))(x), np.full(N, 1 / (1 - 0.5)), rtol=1e-12)


@wp.kernel
def halved_again(x: F, trips: int, y: F):
    i = wp.tid()
    value = wp.float64(0.0)
    for _ in range(trips):
        value = value * wp.float64(0.5) + x[i]
    y[i] = value


def test_second_order_of_sums():
    x = np.random.default_rng(8).uniform(0.3, 0.8, N)

    def loss(x):
        return jnp.sum(wp.launch(added, N, [x], [jnp.zeros(4)])[0] ** 2)

    def reference(x):
        return jnp.sum(jnp.zeros(4).at[(jnp.arange(N) * 3) % 4].add(x * jnp.roll(x, -1)) ** 2)

    assert_allclose(jax.grad(loss)(x), jax.jit(jax.grad(reference))(x), rtol=1e-12)
    assert_allclose(jax.hessian(loss)(x), jax.jit(jax.hessian(reference))(x), rtol=1e-11, atol=1e-13)
