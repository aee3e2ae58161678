"""wp.tile_sort, wp.tile_fft and wp.tile_ifft against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tile_running import run_tiled

import jwarp as wp

KEYS = (np.float32, np.float64, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.int8)


def sorting(dtype, shape):
    kind = wp.types.vector(2, wp.int32)

    @wp.kernel
    def sort(k: wp.array2d[dtype], v: wp.array2d[kind], w: wp.array2d[float], k_out: wp.array2d[dtype],
             v_out: wp.array2d[kind], w_out: wp.array2d[float]):  # fmt: skip
        keys = wp.tile_load(k, shape=shape)
        values = wp.tile_load(v, shape=shape)
        wp.tile_sort(keys, values)
        wp.tile_store(k_out, keys)
        wp.tile_store(v_out, values)
        again = wp.tile_load(k, shape=shape)
        numbers = wp.tile_load(w, shape=shape)
        wp.tile_sort(again, numbers)
        wp.tile_store(w_out, numbers)

    return sort


def some_keys(rng, dtype, shape):
    kind = np.dtype(dtype)
    if kind.kind == "f":
        keys = rng.integers(-9, 9, shape).astype(dtype)
        keys[rng.random(shape) < 0.1] = np.nan
        keys[rng.random(shape) < 0.1] = -np.inf
        keys[rng.random(shape) < 0.1] = -0.0
        return keys
    info = np.iinfo(kind)
    ends = rng.choice(np.array([info.min, info.max], dtype), shape)
    return np.where(rng.random(shape) < 0.3, ends, rng.integers(0, 9, shape).astype(dtype))


@pytest.mark.parametrize("dtype", KEYS, ids=lambda dtype: dtype.__name__)
def test_keys_are_sorted_and_values_go_with_them(dtype):
    rng = np.random.default_rng(len(dtype.__name__))
    shape = [(1, 64), (3, 7), (1, 1), (2, 50)][KEYS.index(dtype) % 4]
    keys, values = some_keys(rng, dtype, shape), rng.integers(0, 99, (*shape, 2)).astype(np.int32)
    numbers = rng.normal(size=shape).astype(np.float32)
    outs = [np.zeros_like(x) for x in (keys, values, numbers)]
    *_, k, v, w = run_tiled(sorting(wp.types.SCALARS[np.dtype(dtype).name], shape), 1, keys, values, numbers, *outs,
                            debug=False)  # fmt: skip
    order = np.argsort(keys.ravel(), kind="stable")
    np.testing.assert_array_equal(k.ravel(), keys.ravel()[order])
    np.testing.assert_array_equal(v.reshape(-1, 2), values.reshape(-1, 2)[order])
    np.testing.assert_array_equal(w.ravel(), numbers.ravel()[order])


@wp.kernel
def weighted(k: wp.array[float], v: wp.array[wp.vec2], out: wp.array[float]):
    keys = wp.tile_load(k, shape=20)
    values = wp.tile_load(v, shape=20)
    wp.tile_sort(keys, values)
    for i in range(20):
        value = values[i]
        out[i] = float(i) * keys[i] * keys[i] + value[0] * value[1]


def test_the_derivative_goes_by_the_permutation():
    rng = np.random.default_rng(3)
    k, v = jnp.asarray(rng.normal(size=20), jnp.float32), jnp.asarray(rng.normal(size=(20, 2)), jnp.float32)
    fn = wp.jax_kernel(weighted, launch_dims=8, block_dim=8, output_dims=20)

    def same(k, v):
        order = jnp.argsort(k)
        return jnp.arange(20) * k[order] ** 2 + v[order, 0] * v[order, 1]

    c = jnp.asarray(rng.normal(size=20), jnp.float32)
    found, wanted = (
        jax.grad(lambda k, v, f=f: (f(k, v) * c).sum(), (0, 1))(k, v) for f in (lambda *a: fn(*a)[0], same)
    )
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    wp.check_grads(fn, (k, v))


@wp.kernel
def keyed_by_vectors(x: wp.array[wp.vec2]):
    t = wp.tile_load(x, shape=4)
    wp.tile_sort(t, t)


@wp.kernel
def of_two_shapes(x: wp.array[float]):
    wp.tile_sort(wp.tile_load(x, shape=4), wp.tile_load(x, shape=8))


@wp.kernel
def of_length_17(x: wp.array[wp.vec2]):
    t = wp.tile_load(x, shape=17)
    wp.tile_fft(t)
    wp.tile_store(x, t)


@wp.kernel
def of_halves(x: wp.array[wp.vec2h]):
    t = wp.tile_load(x, shape=4)
    wp.tile_ifft(t)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (keyed_by_vectors, "`keys` must be a tile of numbers"),
        (of_two_shapes, r"`keys` have shape \(4,\) and `values` \(8,\)"),
        (of_length_17, "length 17 has a prime factor above 13"),
        (of_halves, "`inout` must be a tile of vec2f or vec2d"),
    ],
)
def test_what_cannot_be_is_refused(kernel, message):
    with pytest.raises(wp.KernelTypeError, match=message):
        wp.inspect(kernel, "ir")


def transforming(dtype, rows, length):
    @wp.kernel
    def both(x: wp.array2d[dtype], y: wp.array2d[dtype]):
        t = wp.tile_load(x, shape=(rows, length))
        wp.tile_fft(t)
        wp.tile_store(y, t)
        wp.tile_ifft(t)
        wp.tile_store(x, t)

    return both


LENGTHS = [(wp.vec2f, 3, 8), (wp.vec2d, 1, 60), (wp.vec2f, 1, 128), (wp.vec2d, 2, 27), (wp.vec2f, 2, 1)]
LENGTHS += [(wp.vec2d, 1, 154), (wp.vec2f, 1, 2), (wp.vec2d, 1, 26)]
# Sixteen elements at a time are transformed first, in vectors of places, of places of several rows, or row by row.
LENGTHS += [(wp.vec2d, 1, 256), (wp.vec2d, 3, 128), (wp.vec2d, 2, 240), (wp.vec2d, 2, 512)]


@pytest.mark.parametrize(("dtype", "rows", "length"), LENGTHS)
def test_transforms_of_all_lengths(dtype, rows, length):
    single = dtype is wp.vec2f
    x = np.random.default_rng(length).normal(size=(rows, length, 2)).astype(np.float32 if single else np.float64)
    back, found = run_tiled(transforming(dtype, rows, length), 1, x, np.zeros_like(x), debug=False)
    wanted = np.fft.fft(x[..., 0].astype(np.float64) + 1j * x[..., 1])
    digits = 3e-6 if single else 1e-13
    np.testing.assert_allclose(found[..., 0], wanted.real, rtol=digits, atol=digits * length)
    np.testing.assert_allclose(found[..., 1], wanted.imag, rtol=digits, atol=digits * length)
    np.testing.assert_allclose(back / length, x, rtol=digits, atol=digits)


@wp.kernel
def filtered(x: wp.array2d[wp.vec2], gains: wp.array[float], y: wp.array2d[wp.vec2]):
    t = wp.tile_load(x, shape=(2, 12))
    wp.tile_fft(t)
    for row in range(2):
        for k in range(12):
            t[row, k] = t[row, k] * gains[k]
    wp.tile_ifft(t)
    wp.tile_store(y, t)


def test_derivatives_of_transforms():
    rng = np.random.default_rng(5)
    x, gains = jnp.asarray(rng.normal(size=(2, 12, 2)), jnp.float32), jnp.asarray(rng.normal(size=12), jnp.float32)
    fn = wp.jax_kernel(filtered, launch_dims=4, block_dim=4, output_dims=(2, 12))

    def same(x, gains):
        z = jnp.fft.ifft(jnp.fft.fft(x[..., 0] + 1j * x[..., 1]) * gains) * 12
        return jnp.stack((z.real, z.imag), -1)

    c = jnp.asarray(rng.normal(size=(2, 12, 2)), jnp.float32)
    found, wanted = (jax.grad(lambda x, g, f=f: (f(x, g) ** 2 * c).sum(), (0, 1))(x, gains)
                     for f in (lambda *a: fn(*a)[0], same))  # fmt: skip
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-3)
