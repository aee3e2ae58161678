"""Functions with a gradient of their own in kernels with tiles, called by each thread and for the block."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tile_running import BLOCK, run_blocks

import jwarp as wp

N = 2 * BLOCK


@wp.func
def clipped(x: float, limit: float, weights: wp.array[float], i: int):
    y = wp.min(x, limit)
    return y * weights[i], y * y


@wp.func_grad(clipped)
def adj_clipped(x: float, limit: float, weights: wp.array[float], i: int, g: float, h: float):
    # As if nothing were clipped, and twice as large by the weights.
    if h != 0.0:
        wp.adjoint[x] += 2.0 * x * h
    for k in range(3):
        wp.adjoint[x] += g * weights[i] / 3.0
    wp.adjoint[limit] += g * float(weights.shape[0])
    wp.adjoint[weights][i] += 2.0 * x * g


@wp.kernel
def layered(x: wp.array[float], w: wp.array[float], limit: float, y: wp.array[float], z: wp.array[float]):
    block, lane = wp.tid()
    i = block * wp.block_dim() + lane
    a, b = clipped(x[i], limit, w, i % 3)
    t = wp.tile(a)
    total = wp.tile_sum(t)[0]
    c = float(0.0)
    if b > 0.1:  # taken by some threads
        c, d = clipped(a, limit, w, 1)
        c += d
    y[i] = total * b + c
    e, f = clipped(total, limit, w, 2)  # the same for all of the block
    z[block] = e + f


def in_jax(x, w, limit):
    @jax.custom_vjp
    def clip(x, limit, w, i):
        y = jnp.minimum(x, limit)
        return y * w[i], y * y

    def back(saved, g):
        x, _, w, i = saved
        by_x = 2 * x * g[1] + g[0] * w[i]
        return by_x, g[0] * len(w), jnp.zeros_like(w).at[i].add(2 * x * g[0]), None

    clip.defvjp(lambda *args: (clip(*args), args), back)
    ys, zs = [], []
    for block in range(N // BLOCK):
        lanes = range(block * BLOCK, (block + 1) * BLOCK)
        pairs = [clip(x[i], limit, w, i % 3) for i in lanes]
        total = sum(a for a, _ in pairs)
        for a, b in pairs:
            c, d = clip(a, limit, w, 1)
            ys.append(total * b + jnp.where(b > 0.1, c + d, 0.0))
        zs.append(sum(clip(total, limit, w, 2)))
    return jnp.stack(ys), jnp.stack(zs)


def some():
    rng = np.random.default_rng(0)
    return rng.normal(size=N).astype(np.float32), rng.normal(size=3).astype(np.float32), np.float32(0.7)


def test_values():
    x, w, limit = some()
    got = run_blocks(layered, (2, BLOCK), x, w, limit, np.zeros(N, np.float32), np.zeros(2, np.float32))
    for a, b in zip(got[2:], in_jax(x, w, limit), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_the_author():
    args = tuple(map(jnp.asarray, some()))
    fn = wp.jax_kernel(layered, num_outputs=2, launch_dims=(2, BLOCK), block_dim=BLOCK, output_dims={"y": N, "z": 2})
    rng = np.random.default_rng(1)
    cotangents = [jnp.asarray(rng.normal(size=n), jnp.float32) for n in (N, 2)]
    found, wanted = (
        jax.grad(lambda *a, f=f: sum((c * y).sum() for c, y in zip(cotangents, f(*a), strict=True)), (0, 1, 2))(*args)
        for f in (fn, in_jax)
    )
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@wp.func
def first(z: wp.array[float]):
    return z[0]


@wp.func_grad(first)
def adj_first(z: wp.array[float], g: float):
    wp.adjoint[z][0] += g


@wp.kernel
def of_own_arrays(x: wp.array[float]):
    i = wp.tid()
    z = wp.zeros(shape=2, dtype=float)
    z[0] = x[i]
    x[i] = wp.tile_sum(wp.tile(first(z)))[0]


def test_own_arrays_are_refused():
    with pytest.raises(wp.CompileError, match="with a local array of the thread"):
        of_own_arrays.block_ir(None, BLOCK, 0)
