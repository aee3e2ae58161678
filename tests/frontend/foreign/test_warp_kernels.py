"""Kernels that were defined with NVIDIA Warp, where that is installed: jwarp runs them, and Warp says what is right."""

import enum

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp

wp = pytest.importorskip("warp")
wp.config.quiet = True

N = 16


@wp.struct
class Inner:
    k: float
    v: wp.vec3


@wp.struct
class Outer:
    inner: Inner
    m: wp.mat22
    x: wp.array(dtype=wp.vec3)


class Mode(enum.IntEnum):
    PLAIN = 3
    OTHER = 5


class Limits:
    LOW = 0.25
    offset = wp.vec3(1.0, 2.0, 3.0)


SCALE = wp.constant(1.5)
AXIS = wp.vec3(0.5, -1.0, 2.0)
COUNT = wp.int32(3)
TURN = wp.mat22(0.0, -1.0, 1.0, 0.0)


@wp.func
def scaled(x: float):
    return x * SCALE


@wp.func
def scaled(x: wp.vec3):  # noqa: F811 an overload
    return x * SCALE + AXIS


@wp.func
def with_default(x: float, power: int = 3) -> float:
    r = float(1.0)
    for _ in range(power):
        r *= x
    return r


@wp.func
def two_results(x: float) -> tuple[float, wp.vec3]:
    return -x, wp.vec3(x, x * x, 1.0)


@wp.kernel(enable_backward=False)
def mixed(s: Outer, x: wp.array(dtype=float), y: wp.array[float], z: wp.array2d[wp.vec3]):
    i = wp.tid()
    minus, v = two_results(x[i])
    y[i] = scaled(x[i]) + minus * with_default(x[i]) + s.inner.k * float(Mode.OTHER)
    if x[i] > Limits.LOW:
        y[i] = y[i] * float(COUNT) + float(wp.static(Mode.PLAIN))
    r = s.m * TURN * wp.vec2(x[i], 1.0)
    z[i, 1] = scaled(s.inner.v) + s.x[i] + Limits.offset + vec3(r[0], r[1], v[1])  # noqa: F821 found in Warp


def of_warp(kernel, inputs, outputs):
    """The `outputs` after Warp's launch."""
    made = [wp.array(o, dtype=kind) for o, kind in outputs]
    wp.launch(kernel, N, inputs, made, device="cpu")
    return [o.numpy() for o in made]


def test_a_kernel_of_warp_gives_what_warp_gives():
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=N).astype(np.float32), rng.normal(size=(N, 3)).astype(np.float32)
    s = Outer()
    s.inner.k, s.inner.v, s.m, s.x = 0.75, wp.vec3(1.0, 2.0, -3.0), wp.mat22(1.0, 2.0, 3.0, 4.0), wp.array(w, wp.vec3)
    empty = np.zeros(N, np.float32), np.zeros((N, 2, 3), np.float32)
    expected = of_warp(mixed, [s, wp.array(x)], [(empty[0], float), (empty[1], wp.vec3)])
    given = {"inner": {"k": 0.75, "v": (1.0, 2.0, -3.0)}, "m": np.array([[1, 2], [3, 4]], np.float32), "x": w}
    got = jwarp.launch(mixed, N, [given, x], [N, (N, 2)])
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)


def test_the_same_kernel_is_the_same_each_time():
    record = jwarp.Launch(mixed)
    assert record.kernel is jwarp.Launch(mixed).kernel is jwarp.jax_kernel(mixed, 2).kernel
    assert "kernel mixed(s.inner.k: float32" in jwarp.inspect(mixed, "ir")


@wp.func
def square(x: float) -> float:
    return x * x


@wp.func_grad(square)
def adj_square(x: float, adj: float):
    wp.adjoint[x] += 10.0 * adj


@wp.kernel
def squares(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = square(x[i])


def test_a_gradient_of_its_own_is_taken():
    x = jnp.arange(4.0)
    np.testing.assert_array_equal(jax.grad(lambda x: jwarp.jax_kernel(squares)(x)[0].sum())(x), [10.0] * 4)


@wp.func
def hump(x: float, y: float) -> float:
    return wp.exp(-x * x) * y


hump_gradient = wp.grad(hump)


@wp.kernel(enable_backward=False, module="unique")
def slopes(x: wp.array[float], y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    dx, dy = hump_gradient(x[i], 2.0)
    y[i] = wp.vec3(dx, dy, wp.grad(wp.sin)(x[i]))


def test_gradients_inside_of_kernels():
    x = np.random.default_rng(4).normal(size=N).astype(np.float32)
    e = np.exp(-x * x)  # Warp 1.19 does not build such kernels for the CPU
    expected = np.stack([-4 * x * e, e, np.cos(x)], 1)
    np.testing.assert_allclose(jwarp.launch(slopes, N, [x], [N])[0], expected, rtol=1e-5, atol=1e-6)


def scaled_by(factors):
    """Kernels whose `wp.static` was another one where each was defined."""
    made = []
    for factor in factors:

        @wp.kernel(module="unique")
        def times(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[i] * wp.static(float(factor))

        made.append(times)
    return made


def test_static_is_what_it_was_where_the_kernel_was_defined():
    for factor, kernel in zip((2, 3), scaled_by((2, 3)), strict=True):
        np.testing.assert_array_equal(jwarp.launch(kernel, 3, [np.ones(3, np.float32)], [3])[0], [factor] * 3)


@wp.kernel
def by_value(v: wp.vec3, q: wp.quat, t: wp.transform, f: wp.float32, n: wp.int32, s: Outer, y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = wp.quat_rotate(q, v) * f + wp.transform_point(t, s.inner.v) * float(n) + s.x[i] + wp.vec3(s.m[0, 1])


def test_arguments_may_be_values_of_warp():
    rng = np.random.default_rng(2)
    w = rng.normal(size=(N, 3)).astype(np.float32)
    s = Outer()
    s.inner.v, s.m, s.x = wp.vec3(1.0, 2.0, -3.0), wp.mat22(1.0, 2.0, 3.0, 4.0), wp.array(w, wp.vec3)
    q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.6, 0.8), 0.3)
    given = [wp.vec3(1.0, 2.0, 3.0), q, wp.transform(wp.vec3(1.0, 0.0, 2.0), q), wp.float32(1.5), wp.int32(3)]
    (expected,) = of_warp(by_value, [*given, s], [(np.zeros((N, 3), np.float32), wp.vec3)])
    made = wp.zeros(N, dtype=wp.vec3, device="cpu")
    (got,) = jwarp.launch(by_value, N, [*given, s], [made])
    assert got is made
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-6)
    fields = {"inner": s.inner, "m": s.m, "x": w}
    np.testing.assert_allclose(jwarp.launch(by_value, N, [*given, fields], [N])[0], expected, rtol=1e-5, atol=1e-6)


@wp.func
def next_place(counter: wp.array[int], places: wp.array[int], i: int):
    place = wp.atomic_add(counter, 0, 1)
    places[i] = place
    return place


@wp.func_replay(next_place)
def replay_next_place(counter: wp.array[int], places: wp.array[int], i: int):
    return places[i]


@wp.kernel
def placed(x: wp.array[float], counter: wp.array[int], places: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        y[next_place(counter, places, i)] = x[i] * x[i]


def test_a_replay_gives_the_places_of_the_launch():
    x = np.random.default_rng(3).normal(size=N).astype(np.float32)
    weights = np.arange(1.0, N + 1, dtype=np.float32)

    def total(x):
        _, places, y = jwarp.launch(placed, N, [x], [1, N, N])
        return (y * weights).sum(), (places, y)

    gradient, (places, y) = jax.grad(total, has_aux=True)(x)
    np.testing.assert_allclose(np.sort(y)[N - (x > 0).sum() :], np.sort(x[x > 0] ** 2), rtol=1e-6)
    np.testing.assert_allclose(gradient, np.where(x > 0, 2 * x * weights[places], 0), rtol=1e-6)


def test_values_of_half_precision():
    wp.init()  # which takes 100 MB, and without which there are no such values
    pair = wp.vec2h(wp.float16(1.0), wp.float16(3.0))
    short = wp.types.vector(2, wp.bfloat16)

    @wp.struct
    class Halves:
        v: wp.vec2h

    @wp.kernel
    def halves(v: wp.vec2h, m: wp.mat22h, q: wp.quath, b: short, s: Halves, y: wp.array(dtype=float)):
        y[0] = float(v[1])
        y[1] = float(m[1, 0])
        y[2] = float(q[2])
        y[3] = float(b[0])
        y[4] = float(s.v[1])
        y[5] = float(pair[1])
        y[6] = float(wp.static(pair)[0])

    s = Halves()
    s.v = wp.vec2h(0.25, 6.5)
    given = [wp.vec2h(0.5, 2.5), wp.mat22h(1.0, 2.0, 4.5, 8.0), wp.quath(0.0, 1.0, 5.5, 0.0), short(7.5, 1.0), s]
    (y,) = jwarp.launch(halves, 1, given, [7])
    np.testing.assert_array_equal(y, [2.5, 4.5, 5.5, 7.5, 6.5, 3.0, 1.0])


def test_functions_of_warp_are_mapped():
    x = jnp.arange(4.0)
    np.testing.assert_allclose(jwarp.map(with_default, x, 2), x**2, rtol=1e-6)
    np.testing.assert_allclose(jwarp.map(wp.sin, x), jnp.sin(x), rtol=1e-6)
