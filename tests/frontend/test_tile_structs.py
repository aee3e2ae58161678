"""Tiles of structs: what is done to a struct is done to each of its fields."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tile_running import BLOCK

import jwarp as wp

M = 6


@wp.struct
class Inner:
    v: wp.vec2
    flag: wp.bool
    small: wp.int8


@wp.struct
class Outer:
    x: float
    inner: Inner
    n: wp.int64


@wp.func
def changed(s: Outer) -> Outer:
    out = Outer()
    out.x = s.x * 2.0
    out.inner.v = s.inner.v + wp.vec2(1.0, s.x)
    out.inner.flag = not s.inner.flag
    out.n = s.n + wp.int64(1)
    return out


@wp.func
def plus(a: Outer, b: Outer) -> Outer:
    return Outer(a.x + b.x, a.inner, a.n - b.n)


@wp.kernel
def everything(a: wp.array[Outer], keys: wp.array[int], one: Outer, out: wp.array2d[Outer], total: wp.array[Outer],
               own: wp.array[Outer]):  # fmt: skip
    i = wp.tid()
    t = wp.tile_load(a, shape=M, offset=-1)
    wp.tile_store(out[0], wp.tile_map(plus, wp.tile_map(changed, t), one))
    wp.tile_store(out[1], t - (t + t))
    u = wp.tile_zeros(shape=M, dtype=Outer)
    u += t
    u[2] += one
    u[3] -= one
    u[4] = one
    wp.tile_store(out[2], u)
    order = wp.tile_load(keys, shape=M)
    wp.tile_sort(order, t)
    wp.tile_store(out[3], t)
    wp.tile_store(total, wp.tile_sum(t))
    wp.tile_store(out[4], wp.tile_reduce(plus, t), offset=1)
    wp.tile_store(out[5], wp.tile_broadcast(wp.tile_view(t, offset=(1,), shape=(1,)), shape=(M,)))
    mine = changed(a[i])
    w = wp.tile(mine)
    w[1] = one
    own[i] = wp.untile(w)
    wp.tile_scatter_add(u, i % 2, mine, i < 5)
    wp.tile_store(out[6], u)
    wp.tile_atomic_add(total, wp.tile_full(1, one), offset=1)
    wp.tile_store(out[7], wp.tile_from_thread(shape=2, value=mine, thread_idx=3))
    wp.tile_store(out[8], wp.tile_load_indexed(a, wp.tile_load(keys, shape=M), shape=M))


def some(rng, *shape):
    return Outer(
        rng.normal(size=shape).astype(np.float32),
        Inner(rng.normal(size=(*shape, 2)).astype(np.float32), rng.random(shape) < 0.5,
              rng.integers(-9, 9, shape).astype(np.int8)),
        rng.integers(-9, 9, shape),
    )  # fmt: skip


def leaves(s):
    return [s.x, s.inner.v, s.inner.flag, s.inner.small, s.n]


def in_numpy(a, keys, one, out, total, own):
    a, one, out, total, own = map(leaves, (a, one, out, total, own))
    ups = [True, True, False, False, True]  # the fields that add up

    def change(s):
        x, v, flag, small, n = s
        return [x * 2, v + np.stack([np.ones_like(x), x], -1), ~flag, np.zeros_like(small), n + 1]

    def add(s, t, sign=1):
        return [x + sign * y if up else x for x, y, up in zip(s, t, ups, strict=True)]

    def put(row, s, start=0):
        for target, x in zip(out, s, strict=True):
            target[row, start : start + len(x)] = x

    t = [np.concatenate([np.zeros_like(x[:1]), x[: M - 1]]) for x in a]
    c = change(t)
    put(0, [c[0] + one[0], *c[1:4], c[4] - one[4]])
    put(1, [x - (x + x) if up else x for x, up in zip(t, ups, strict=True)])
    u = [x.copy() if up else np.zeros_like(x) for x, up in zip(t, ups, strict=True)]
    for k, sign in ((2, 1), (3, -1)):
        for target, x, up in zip(u, one, ups, strict=True):
            if up:
                target[k] += sign * x
    for target, x in zip(u, one, strict=True):
        target[4] = x
    put(2, u)
    order = np.argsort(keys[:M], kind="stable")
    t = [x[order] for x in t]
    put(3, t)
    for target, x, up in zip(total, t, ups, strict=True):
        target[0] = x.sum(0) if up else x[0]
    folded = [x[0] for x in t]
    for k in range(1, M):
        folded = [folded[0] + t[0][k], *folded[1:4], folded[4] - t[4][k]]
    put(4, [np.asarray(x)[None] for x in folded], 1)
    put(5, [np.repeat(x[1:2], M, 0) for x in t])
    mine = change([x[:BLOCK] for x in a])
    for target, x, new in zip(own, mine, one, strict=True):
        target[:] = x
        target[1] = new
    for k in range(5):
        for target, x, up in zip(u, mine, ups, strict=True):
            if up:
                target[k % 2] += x[k]
    put(6, u)
    for target, new, up in zip(total, one, ups, strict=True):
        if up:
            target[1] += new
    put(7, [np.repeat(x[3:4], 2, 0) for x in mine])
    put(8, [x[keys[:M]] for x in a])


def test_every_function_takes_tiles_of_structs():
    rng = np.random.default_rng(0)
    keys = rng.permutation(M).astype(np.int32)
    args = [some(rng, BLOCK), keys, some(rng), some(rng, 9, M + 1), some(rng, 2), some(rng, BLOCK)]
    wanted = jax.tree.map(lambda x: x.copy(), args)
    in_numpy(*wanted)
    wp.launch(everything, BLOCK, args, block_dim=BLOCK)
    for got, expected in zip(args, wanted, strict=True):
        for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


@wp.func
def weight(s: Outer) -> float:
    return s.x * s.inner.v[0] + s.inner.v[1] * s.inner.v[1]


@wp.kernel
def loss(a: wp.array[Outer], out: wp.array[float]):
    t = wp.tile_load(a, shape=M)
    wp.tile_store(out, wp.tile_map(weight, wp.tile_map(changed, t + t)))


def test_tiles_of_structs_have_derivatives():
    rng = np.random.default_rng(1)
    x, v = jnp.asarray(rng.normal(size=M), jnp.float32), jnp.asarray(rng.normal(size=(M, 2)), jnp.float32)
    rest = jnp.zeros(M, bool), jnp.zeros(M, jnp.int8)
    fn = wp.jax_kernel(loss, launch_dims=BLOCK, block_dim=BLOCK, output_dims=M)

    def same(x, v):
        w = 2 * v + jnp.stack([jnp.ones(M), 2 * x], -1)
        return 4 * x * w[:, 0] + w[:, 1] ** 2

    def ours(x, v):
        return fn(Outer(x, Inner(v, *rest), jnp.zeros(M, jnp.int64)))[0]

    with jax.enable_x64(True):
        found, wanted = (jax.grad(lambda x, v, f=f: (f(x, v) ** 2).sum(), (0, 1))(x, v) for f in (ours, same))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@wp.struct
class WithArray:
    data: wp.array[float]


@wp.kernel
def of_ones(out: wp.array[Inner]):
    wp.tile_store(out, wp.tile_ones(4, dtype=Inner))


@wp.kernel
def of_arrays(out: wp.array[float]):
    wp.tile_zeros(4, dtype=WithArray)
    out[0] = 1.0


@wp.kernel
def smallest(a: wp.array[Inner], out: wp.array[Inner]):
    wp.tile_store(out, wp.tile_min(wp.tile_load(a, shape=4)))


@wp.kernel
def scaled(a: wp.array[Inner]):
    wp.tile_store(a, wp.tile_load(a, shape=4) * 2.0)


@wp.kernel
def bits(a: wp.array[Inner]):
    t = wp.tile_load(a, shape=4)
    t[0] &= a[1]


@wp.kernel
def bits_of_tiles(a: wp.array[Inner]):
    t = wp.tile_load(a, shape=4)
    t ^= t


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (of_ones, "`dtype` must be a scalar, vector or matrix type, not the type `Inner`, a Warp struct"),
        (of_arrays, "has arrays, which elements of tiles cannot hold"),
        (smallest, "`a` must be a tile of scalars, .* of a Warp struct"),
        (scaled, "does not take tiles of structs"),
        (bits, "`&=` does not take structs: no bitwise inplace operation takes a Warp struct"),
        (bits_of_tiles, "no bitwise inplace operation takes tiles of a Warp struct"),
    ],
)
def test_what_structs_do_not_have_is_refused(kernel, message):
    with pytest.raises(wp.KernelTypeError, match=message):
        wp.inspect(kernel, "ir")


@wp.func
def product(a: wp.quat, b: wp.quat):
    return a * b


@wp.kernel
def other_composites(q: wp.array[wp.quat], t: wp.array[wp.transform], s: wp.array[wp.spatial_vector],
                     products: wp.array[wp.quat], sums: wp.array[wp.quat], put: wp.array[wp.transform],
                     total: wp.array[wp.spatial_vector]):  # fmt: skip
    a = wp.tile_load(q, 8)
    wp.tile_store(products, wp.tile_map(product, a, a))
    wp.tile_store(sums, a + a * 2.0)
    wp.tile_store(sums, wp.tile_full(2, wp.quat(1.0, 2.0, 3.0, 4.0)), offset=6)
    b = wp.tile_zeros(8, dtype=wp.transform)
    b[1] = t[0]
    wp.tile_store(put, b)
    c = wp.tile_load(s, 8)
    c += c
    wp.tile_store(total, wp.tile_sum(c))


def test_tiles_of_quaternions_transforms_and_spatial_vectors():
    rng = np.random.default_rng(4)
    q, t, s = (rng.normal(size=(8, n)).astype(np.float32) for n in (4, 7, 6))
    outs = [np.zeros_like(x) for x in (q, q, t, s[:1])]
    wp.launch(other_composites, BLOCK, [q, t, s, *outs], block_dim=BLOCK)
    products, sums, put, total = outs
    x, y, z, w = q.T
    np.testing.assert_allclose(products[:, 3], w * w - x * x - y * y - z * z, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sums, [*(3 * q[:6]), *[[1, 2, 3, 4]] * 2], rtol=1e-5)
    np.testing.assert_array_equal(put, [np.zeros(7), t[0], *np.zeros((6, 7))])
    np.testing.assert_allclose(total[0], 2 * s.sum(0), rtol=1e-4, atol=1e-5)
