"""Names that stand for one of several arrays, chosen when the kernel runs; compared with NumPy, also derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from warp_parity_arrays import several_arrays

import jwarp as wp


@wp.kernel
def exchanged(x: wp.array2d[float], a: wp.array2d[float], b: wp.array2d[float], n: int, out: wp.array2d[float]):
    i = wp.tid()
    p = a[i]
    q = b[i]
    m = p.shape[0]
    for j in range(m):
        p[j] = x[i, j]
    for _ in range(n):
        for j in range(m):
            if p[j] > 100.0:
                continue
            q[j] = p[j] * 2.0 + p[(j + 1) % m]
        t = p
        p = q
        q = t
    for j in range(m):
        out[i, j] = p[j]


def exchange(x, n):
    shape = x.shape
    return wp.launch(exchanged, len(x), {"x": x, "n": n}, {"a": shape, "b": shape, "out": shape})["out"]


def test_two_arrays_that_a_loop_exchanges():
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    expected = x
    for n in range(5):
        np.testing.assert_allclose(exchange(x, n), expected, rtol=1e-5)
        expected = expected * 2 + np.roll(expected, -1, 1)
    wp.check_grads(lambda x: exchange(x, 3), (x,))


@wp.kernel
def turned(x: wp.array[float], a: wp.array[float], b: wp.array[float], c: wp.array[float], n: int):
    """Three arrays in turn, in a loop with an end that is met."""
    p, q, r = a, b, c
    k = int(0)
    while k < 100:
        wp.atomic_add(p, 0, x[k])
        p[1:2][0] += 1.0
        t = p
        p = q
        q = r
        r = t
        k += 1
        if k == n:
            break


def test_three_arrays_in_turn():
    x = np.arange(1.0, 8.0, dtype=np.float32)
    outputs = wp.launch(turned, 1, {"x": x, "n": 7}, {"a": 2, "b": 2, "c": 2})
    for k, name in enumerate("abc"):
        np.testing.assert_array_equal(outputs[name], [x[k::3].sum(), len(x[k::3])])


@wp.struct
class Held:
    a: wp.array[float]
    k: float


@wp.func
def picked(x: wp.array[float], y: wp.array[float], c: float) -> wp.array[float]:
    if c > 0.0:
        return x
    return y


@wp.kernel
def chosen(
    x: wp.array[float], y: wp.array[float], z: wp.array2d[wp.vec2], c: wp.array[float],
    out: wp.array[float], up: wp.array[int], down: wp.array[int],
):  # fmt: skip
    i = wp.tid()
    a = x
    if c[i] > 0.5:
        a = y
    s = Held(x, 1.0)
    r = z[i]
    if c[i] < -0.5:
        s.a = y
        s.k = 2.0
        r = z[0]
    h = up
    if c[i] > 0.0:
        h = down
    t = wp.zeros(2, float)
    t[0] = 1.0
    if c[i] > 0.2:
        t = wp.zeros(3, float)
        t[0] = 5.0
    wp.atomic_add(h, 0, 1)
    out[i] = a[i] + 10.0 * s.a[i] * s.k + 100.0 * picked(x, y, c[i])[i] + r[1][0] + t[0]
    out[i] += 1000.0 * float(a.shape[0]) + float(t.shape[0])


def test_branches_that_choose():
    rng = np.random.default_rng(1)
    n = 16
    x, y, c = rng.normal(size=(3, n)).astype(np.float32)
    z = rng.normal(size=(n, 2, 2)).astype(np.float32)
    twice = np.concatenate([y, y])
    out, up, down = wp.launch(chosen, n, [x, twice, z, c], [n, 1, 1])
    expected = np.where(c > 0.5, y, x) + 10 * np.where(c < -0.5, 2 * y, x) + 100 * np.where(c > 0, x, y)
    expected += np.where(c < -0.5, z[0, 1, 0], z[:, 1, 0]) + np.where(c > 0.2, 5, 1)
    expected += 1000 * np.where(c > 0.5, 2 * n, n) + np.where(c > 0.2, 3, 2)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert (up[0], down[0]) == (sum(c <= 0), sum(c > 0))
    given = jnp.asarray(x), jnp.asarray(twice), jnp.asarray(z)
    wp.check_grads(lambda x, y, z: wp.launch(chosen, n, [x, y, z, c], [n, 1, 1])[0], given, order=1)


def test_a_tile_is_loaded_from_one_array():
    @wp.kernel
    def loaded(x: wp.array[float], y: wp.array[float], c: wp.array[float], out: wp.array[float]):
        a = x
        if c[0] > 0.0:
            a = y
        wp.tile_store(out, wp.tile_load(a, shape=4))

    with pytest.raises(wp.KernelTypeError, match="`y or x` is one of several arrays"):
        wp.inspect(loaded, "ir")


@wp.func
def second(values: wp.array[float]):
    return values[1] * float(values.shape[0])


@wp.kernel
def conditional(
    x: wp.array[float], y: wp.array[float], z: wp.array2d[float], c: wp.array[float], n: int,
    out: wp.array[float], up: wp.array[int], down: wp.array[int],
):  # fmt: skip
    i = wp.tid()
    a = x if c[i] > 0.5 else y
    r = z[i] if c[i] > 0.0 else x
    s = Held(x, 1.0) if c[i] < -0.5 else Held(y, 3.0)
    three = x if c[i] > 0.7 else (y if c[i] > -0.7 else z[0])
    literal = y if n > 0 else x
    wp.atomic_add(up if c[i] > 0.0 else down, 0, 1)
    out[i] = a[i] + 10.0 * r[1] + 100.0 * s.a[i] * s.k + three[0] + second(x if c[i] > 0.1 else y) + literal[i]
    out[i] += float(a.shape[0] + a.shape[1] + z.shape[3]) + (y if c[i] > 0.5 else x)[i]


def test_conditional_expressions_of_arrays():
    rng = np.random.default_rng(2)
    n = 16
    x, y, c = rng.normal(size=(3, n)).astype(np.float32)
    z = rng.normal(size=(n, n)).astype(np.float32)
    twice = np.concatenate([y, y])
    out, up, down = wp.launch(conditional, n, [x, twice, z, c, 1], [n, 1, 1])
    expected = x + y + 10 * np.where(c > 0, z[:, 1], x[1]) + 100 * np.where(c < -0.5, x, 3 * y)
    expected += np.where(c > 0.7, x[0], np.where(c > -0.7, y[0], z[0, 0])) + np.where(c > 0.1, x[1] * n, y[1] * 2 * n)
    expected += y + np.where(c > 0.5, n, 2 * n)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    assert (up[0], down[0]) == (sum(c > 0), sum(c <= 0))
    given = jnp.asarray(x), jnp.asarray(twice), jnp.asarray(z)
    wp.check_grads(lambda x, y, z: wp.launch(conditional, n, [x, y, z, c, 1], [n, 1, 1])[0], given, order=1)


@pytest.mark.filterwarnings("ignore:.*may have no value here")
def test_derivatives_wherever_arrays_meet():
    """The kernel that Warp runs in test_against_warp."""
    rng = np.random.default_rng(5)
    a, b = (jnp.asarray(rng.integers(-100, 100, 32), jnp.int32) for _ in range(2))
    x, y = jnp.asarray(rng.integers(-20, 20, (2, 32)) / 2 + 0.25, jnp.float32)
    # A row that is given is written by no thread.
    wp.check_grads(lambda x, y: wp.launch(several_arrays, 32, [a, b, x, y], [(1, 1), (10, 32)])[1], (x, y), order=1)


def refused(kernel, error, *words):
    with pytest.raises(error) as caught:
        wp.inspect(kernel, "ir")
    for word in words:
        assert word in str(caught.value)


def test_what_has_no_common_type_is_refused():
    @wp.kernel
    def types(x: wp.array[float], y: wp.array[int], c: wp.array[float], out: wp.array[float]):
        a = x if c[0] > 0.0 else y
        out[0] = float(a[0])

    @wp.kernel
    def branches(x: wp.array[float], y: wp.array2d[float], c: wp.array[float], out: wp.array[float]):
        a = x
        if c[0] > 0.0:
            a = y
        out[0] = a[0]

    @wp.kernel
    def trips(x: wp.array[float], y: wp.array2d[float], c: wp.array[float], out: wp.array[float]):
        a = x
        for _ in range(int(c[0])):
            a = y
        out[0] = a[0]

    refused(types, wp.KernelTypeError, "the two values have types", "write an if statement that uses each array")
    found = "array2d[float32] and array[float32]"
    refused(branches, wp.CompileError, "`a` is not of one type in both branches", found, "use two names")
    refused(trips, wp.KernelTypeError, "`a` is array[float32] before the loop and array2d[float32] after one iteration")


def test_an_array_that_a_trip_makes_is_what_the_name_from_before_the_loop_holds_in_the_next():
    @wp.kernel
    def made(out: wp.array[float], n: int, m: int):
        a = wp.zeros(2, float)
        b = a
        for k in range(n):
            a = wp.zeros(2, float)
            a[0] = float(k)
            out[k] = b[0] + 10.0 * b[1]
            if k != m:
                b = a
            else:
                b[1] += 1.0
                c = b
                c[1] += 1.0
                b = c
        while n < 9:
            a, b = b, a
            a[1] += 0.5
            n += 3
        out[7] = a[0] + 10.0 * a[1]
        out[8] = b[0] + 10.0 * b[1]

    (out,) = wp.launch(made, 1, {"n": 6, "m": 4}, {"out": 9}).values()
    # After the loop a is (5, 0) and b as well; they are exchanged, and one is changed, once.
    np.testing.assert_array_equal(out, [0, 0, 1, 2, 3, 23, 0, 10, 5])

    @wp.kernel
    def other(out: wp.array[float], n: int):
        a = wp.zeros(2, float)
        for _k in range(n):
            a = wp.zeros(3, float)
        out[0] = a[0]

    refused(other, wp.CompileError, "`a` does not stand for the same array", "of another kind", "of the same shape")


def test_an_array_that_a_trip_may_make_is_none_before_the_loop():
    @wp.kernel
    def left(out: wp.array[float], n: int):
        for k in range(n):
            if k % 2 == 0:
                a = wp.zeros(2, float)
            out[k] = a[0]

    refused(left, wp.CompileError, "`a` is no number or array from before the loop", "set it before the loop")


def test_local_arrays_that_loops_carry_have_derivatives():
    @wp.kernel
    def carried(x: wp.array[float], n: int, y: wp.array[float]):
        i = wp.tid()
        a = wp.zeros(3, dtype=float)
        b = wp.zeros(3, dtype=float)
        for j in range(3):
            a[j] = x[3 * i + j]
        for j in range(n):
            c = a
            c[j % 3] = c[(j + 1) % 3] * x[i] + wp.sin(b[j % 3])
            if j % 2 == 0:
                b = a
            a = c
            a[0] += b[2]
        for j in range(3):
            y[3 * i + j] = a[j] + b[j] * a[j]

    def expected(x, n):
        a, b = x.reshape(2, 3), jnp.zeros((2, 3))
        for j in range(n):
            c = a.at[:, j % 3].set(a[:, (j + 1) % 3] * x[:2] + jnp.sin(b[:, j % 3]))
            b = a if j % 2 == 0 else b
            a = c.at[:, 0].add(b[:, 2])
        return (a + b * a).ravel()

    rng = np.random.default_rng(5)
    x, g = jnp.asarray(rng.uniform(0.5, 1.2, 6), jnp.float32), jnp.asarray(rng.normal(size=6), jnp.float32)
    found, back = jax.vjp(lambda x: wp.launch(carried, 2, [x, 5], [6])[0], x)
    wanted, wanted_back = jax.vjp(lambda x: expected(x, 5), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(back(g)[0], wanted_back(g)[0], rtol=1e-4, atol=1e-5)
