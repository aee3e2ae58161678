"""Slices of arrays in kernels: what they show, that they change the array, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from run_three_ways import run_kernel

import jwarp as wp

pytestmark = pytest.mark.quick

BOUNDS = [(1, 7, 2), (-3, 100, 1), (8, 2, -1), (-1, -20, -3), (3, 3, 1), (5, 2, 1), (1, 5, 0), (20, -4, -2)]


@wp.struct
class Pair:
    u: float
    v: wp.vec2


@wp.func
def weighted(a: wp.array[float]):
    s = 0.0
    for k in range(len(a)):
        s += a[k] * float(k + 1)
    return s


@wp.kernel
def shown(x: wp.array2d[float], bounds: wp.array2d[int], of: int, r: wp.array2d[float]):
    i = wp.tid()
    start, stop, step = bounds[of, 0], bounds[of, 1], bounds[of, 2]
    row = x[i]
    r[i, 0] = weighted(row[start:stop:step])
    part = x[start:stop:step, i]
    r[i, 1] = weighted(part) + float(len(part) * 100)
    r[i, 2] = weighted(row[start:stop:step][1::2])
    r[i, 3] = part[1] + part[-1] + part[step] * 3.0
    inner = x[1:-1, 2:]
    r[i, 4] = inner[i, -1] + weighted(inner[:, 0]) + float(inner.shape[0] * 100 + inner.shape[1])
    both = part if i % 2 == 0 else x[stop:start:step, i]
    r[i, 5] = weighted(both)


@wp.kernel
def kept(x: wp.array[float], k: int, r: wp.array[float]):
    part = x[2:6]
    part[k] = 5.0
    wp.atomic_add(part, k, 1.0)
    back = x[6:1:-2]
    back[k] *= 2.0
    made = wp.zeros(shape=(4, 6), dtype=float)
    lower = made[1:, ::2]
    lower[k, 1] = 3.0
    r[0] = part[k] + back[k] + made[2, 2] + lower[1, 1]


@wp.kernel
def structs(p: wp.array2d[Pair], r: wp.array[float]):
    i = wp.tid()
    column = p[1:, i]
    column[0].v.x += 1.0
    column[1] = column[0]
    r[i] = column[1].u + column.v[1][0]


@wp.kernel
def mixed(x: wp.array2d[float], k: wp.array[int], r: wp.array[float]):
    i = wp.tid()
    part = x[1:6:2, i:]
    part[k[i], 0] *= part[k[i], 1]
    u, v, w = x[0:3, i]
    r[i] = weighted(part[:, 3]) * u + v * w * w


def at(a, k):
    """The element of a NumPy array, zero outside."""
    return a[k] if -len(a) <= k < len(a) else np.float32(0)


def expected(x, start, stop, step):
    n, out = x.shape[1], np.zeros((6, 6), np.float32)
    cut = slice(start, stop, step) if step else slice(0, 0)
    turned = slice(stop, start, step) if step else slice(0, 0)
    for i in range(6):
        row, part = x[i][cut], x[cut, i]
        other = part if i % 2 == 0 else x[turned, i]
        inner = x[1:-1, 2:]
        sums = [a @ np.arange(1, len(a) + 1) for a in (row, part, row[1::2], inner[:, 0], other)]
        shape = inner.shape[0] * 100 + inner.shape[1]
        last = inner[i, -1] if i < 4 else 0
        out[i] = [
            sums[0], sums[1] + len(part) * 100, sums[2], at(part, 1) + at(part, -1) + at(part, step) * 3,
            last + sums[3] + shape, sums[4],
        ]  # fmt: skip
    assert n == 9
    return out


def test_slices_show_what_those_of_numpy_do():
    x = np.random.default_rng(0).integers(-9, 10, (6, 9)).astype(np.float32)  # sums are exact in any order
    bounds = np.array(BOUNDS, np.int32)
    for of, given in enumerate(BOUNDS):
        got = run_kernel(shown, 6, x, bounds, of, np.zeros((6, 6), np.float32))[-1]
        np.testing.assert_allclose(got, expected(x, *given), rtol=1e-5, err_msg=str(given))


@pytest.mark.parametrize("k", [0, 1, 2, 3, -1, -4, 4, -5, 2**31 - 1, -(2**31)])
def test_a_change_through_a_slice_is_one_of_the_array_and_stays_inside(k):
    x = np.arange(10, dtype=np.float32)
    got, r = run_kernel(kept, 1, x, k, np.zeros(1, np.float32))
    y, made = x.copy(), np.zeros((4, 6))
    part, back, lower, total = y[2:6], y[6:1:-2], made[1:, ::2], 0.0
    if -4 <= k < 4:
        part[k] = 6.0
    if -3 <= k < 3:
        back[k] *= 2.0
        lower[k, 1] = 3.0
    total = at(part, k) + at(back, k) + made[2, 2] + lower[1, 1]
    np.testing.assert_array_equal(got, y)
    assert r[0] == total


def test_a_slice_of_structs_is_one_of_each_field():
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(3, 4, 2)).astype(np.float32)
    got = wp.launch(structs, 4, [Pair(u=jnp.asarray(u), v=jnp.asarray(v)), jnp.zeros(4)])
    v[1, :, 0] += 1.0
    u[2], v[2] = u[1], v[1]
    np.testing.assert_allclose(got["p"].v, v, rtol=1e-6)
    np.testing.assert_allclose(got["r"], u[2] + v[2, :, 0], rtol=1e-6)


def test_derivatives_go_through_slices_and_batches():
    rng = np.random.default_rng(2)
    x, k = jnp.asarray(rng.normal(size=(7, 6)), jnp.float32), jnp.asarray([0, -1, 1], jnp.int32)
    fn = wp.jax_kernel(mixed, num_outputs=2, in_out_argnames=["x"], launch_dims=3, output_dims={"r": 3})
    wp.check_grads(lambda x: fn(x, k), (x,))
    xs = jnp.stack([x, 2 * x, -x])
    for got, one in zip(jax.vmap(lambda x: fn(x, k)[1])(xs), xs, strict=True):
        np.testing.assert_allclose(got, fn(one, k)[1], rtol=1e-6)


def test_what_is_outside_of_a_slice_is_an_error_in_debug_mode():
    with wp.config(bounds="error"), pytest.raises(RuntimeError, match="index outside of `x`"):
        np.asarray(wp.launch(kept, 1, [jnp.zeros(10), 4, jnp.zeros(1)])["r"])


def test_a_loop_over_a_slice_needs_no_tests():
    @wp.kernel
    def sums(x: wp.array2d[float], r: wp.array[float]):
        i = wp.tid()
        r[i] = weighted(x[i, 2:]) + weighted(x[:, i]) + weighted(x[i, i:20:3])

    assert "select" not in str(wp.inspect(sums, "ir")).split("for %")[1]
    x = np.random.default_rng(3).normal(size=(8, 9)).astype(np.float32)
    (got,) = wp.jax_kernel(sums, launch_dims=8, output_dims=8)(x)
    want = [sum(a @ np.arange(1, len(a) + 1) for a in (x[i, 2:], x[:, i], x[i, i:20:3])) for i in range(8)]
    np.testing.assert_allclose(got, want, rtol=1e-5)
