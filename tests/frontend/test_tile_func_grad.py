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


@wp.struct
class Inner:
    v: wp.vec2
    n: int


@wp.struct
class Spring:
    k: float
    inner: Inner
    weights: wp.array[float]


@wp.func
def energies(s: Spring, x: float):
    made = Inner()
    made.v = s.inner.v * (s.k * x)
    made.n = s.inner.n
    return made, s.weights[s.inner.n] * x


@wp.func_grad(energies)
def adj_energies(s: Spring, x: float, g: Inner, h: float):
    wp.adjoint[s.k] += 3.0 * wp.dot(g.v, s.inner.v) * x
    wp.adjoint[s.inner.v] += g.v * (s.k * x)
    wp.adjoint[s.inner.v][1] += 1.0
    wp.adjoint[s.weights][s.inner.n] += h * x
    wp.adjoint[x] += 2.0 * h * s.weights[g.n + s.inner.n]  # g.n is zero


@wp.kernel
def of_structs(s: Spring, x: wp.array[float], y: wp.array[float], tiled: wp.array[float]):
    i = wp.tid()
    made, b = energies(s, x[i])
    y[i] = made.v[0] * made.v[1] + b
    wp.tile_store(tiled, wp.tile(b))


@wp.kernel
def of_structs_alone(s: Spring, x: wp.array[float], y: wp.array[float], tiled: wp.array[float]):
    i = wp.tid()
    made, b = energies(s, x[i])
    y[i] = made.v[0] * made.v[1] + b
    tiled[i] = b


@pytest.mark.parametrize("kernel", [of_structs, of_structs_alone])
def test_functions_of_structs(kernel):
    rng = np.random.default_rng(2)
    x, w = (jnp.asarray(rng.normal(size=n), jnp.float32) for n in (BLOCK, 3))
    v, c = jnp.asarray(rng.normal(size=2), jnp.float32), jnp.asarray(rng.normal(size=(2, BLOCK)), jnp.float32)
    k = 0.7
    block = {"block_dim": BLOCK} if kernel is of_structs else {}
    fn = wp.jax_kernel(kernel, num_outputs=2, launch_dims=BLOCK, output_dims=BLOCK, **block)

    def loss(k, v, w, x):
        y, b = fn(Spring(k, Inner(v, 1), w), x)
        return (y * c[0]).sum() + (b * c[1]).sum()

    by_k, by_v, by_w, by_x = jax.grad(loss, (0, 1, 2, 3))(k, v, w, x)
    made = v[None] * (k * x)[:, None]
    g, h = c[0][:, None] * made[:, ::-1], c[0] + c[1]
    np.testing.assert_allclose(by_k, (3 * (g @ v) * x).sum(), rtol=1e-4)
    np.testing.assert_allclose(by_v, (g * (k * x)[:, None]).sum(0) + jnp.array([0.0, BLOCK]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_w, jnp.zeros(3).at[1].set((h * x).sum()), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_x, 2 * h * w[1], rtol=1e-4, atol=1e-5)


@wp.func
def weight(s: Inner):
    return s.v[0]


@wp.func_grad(weight)
def adj_weight(s: Inner, g: float):
    wp.adjoint[s] += s


@wp.kernel
def of_a_whole_struct(s: Inner, y: wp.array[float]):
    y[0] = weight(s)


def test_the_gradient_of_a_struct_is_that_of_its_fields():
    with pytest.raises(wp.CompileError, match="`s` is a struct, whose gradient is that of its fields"):
        wp.inspect(of_a_whole_struct, "ir")


@wp.func
def copied_rows(x: wp.array2d[float], y: wp.array2d[float], i: int):
    wp.tile_store(y, wp.tile_load(x, shape=(4, 4), offset=(i * 4, 0)), offset=(i * 4, 0))


@wp.func_grad(copied_rows)
def adj_copied_rows(x: wp.array2d[float], y: wp.array2d[float], i: int):
    grad = wp.tile_load(wp.adjoint[y], shape=(4, 4), offset=(i * 4, 0))
    wp.tile_atomic_add(wp.adjoint[x], grad, offset=(i * 4, 0))


def test_a_gradient_with_tiles_is_refused_by_name():
    @wp.kernel
    def copies(x: wp.array2d[float], y: wp.array2d[float]):
        copied_rows(x, y, wp.tid())

    with pytest.raises(wp.CompileError, match="the gradient function `adj_copied_rows` uses tiles"):
        wp.inspect(copies, "ir")
