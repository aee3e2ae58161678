"""Local arrays in kernels with tiles, of which each thread of a block has another one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_on_host import BACKWARD, FORWARD, HostCompiled
from tile_running import BLOCK, run_blocks

import jwarp as wp

N = 2 * BLOCK


@wp.func
def chain(x: float, n: int):
    c = wp.zeros(shape=4, dtype=float)
    for k in range(n):
        c[k] = x * float(k + 1)
    for k in range(1, n):
        c[k] = c[k] * c[k - 1] + x
    c[0] += 1.0
    return c[0] + c[n - 1] + c[-1]


@wp.kernel
def own(x: wp.array[float], counts: wp.array[int], out: wp.array[float], total: wp.array[float]):
    i = wp.tid()
    z = wp.zeros(shape=(3, 2), dtype=wp.vec2)
    z[i % 3, 1] = wp.vec2(x[i], 1.0)
    same = wp.zeros(shape=2, dtype=float)
    same[0] = 2.0
    y = float(0.0)
    if x[i] > 0.0:
        y = chain(x[i], counts[i])
        z[0, 0][1] = y
    t = wp.tile(y + z[i % 3, 1][0])
    total[i] = wp.tile_sum(t)[0]
    s = z[0, 0] * same[0]
    out[i] = y * s[1] + z[i % 3, 1][0]


def in_python(x, counts, np=np):
    ys = []
    for value, n in zip(x, counts, strict=True):
        c = [value * (k + 1) if k < n else 0.0 for k in range(4)]
        for k in range(1, n):
            c[k] = c[k] * c[k - 1] + value
        c[0] = c[0] + 1.0
        ys.append(np.where(value > 0, c[0] + c[n - 1] + c[3], 0.0))
    y = np.stack(ys)
    sums = (y + x).reshape(-1, BLOCK).sum(1)
    return 2 * y * y + x, np.repeat(sums, BLOCK)


def some():
    rng = np.random.default_rng(0)
    return rng.normal(size=N).astype(np.float32), rng.integers(1, 5, N).astype(np.int32)


def test_each_thread_has_its_own():
    x, counts = some()
    *_, out, total = run_blocks(own, N, x, counts, np.zeros(N, np.float32), np.zeros(N, np.float32))
    for got, wanted in zip((out, total), in_python(x, counts), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_derivatives():
    x, counts = some()
    fn = wp.jax_kernel(own, num_outputs=2, launch_dims=N, block_dim=BLOCK, output_dims={"out": N, "total": N})
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(2, N)), jnp.float32)

    def loss(f, x):
        return sum((w * y).sum() for w, y in zip(weights, f(x), strict=True))

    found = jax.grad(lambda x: loss(lambda x: fn(x, counts), x))(jnp.asarray(x))
    wanted = jax.grad(lambda x: loss(lambda x: in_python(x, counts, jnp), x))(jnp.asarray(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    tangent = jax.jvp(lambda x: fn(x, counts), (jnp.asarray(x),), (weights[0],))[1]
    expected = jax.jvp(lambda x: in_python(x, counts, jnp), (jnp.asarray(x),), (weights[0],))[1]
    for a, b in zip(tangent, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_on_a_gpu():
    x, counts = some()
    made = HostCompiled(own.block_ir(None, BLOCK, 0), "checked")
    for order in (FORWARD, BACKWARD, 3):
        *_, out, total = made.run((2,), [x, counts, np.zeros(N, np.float32), np.zeros(N, np.float32)], order)
        for got, wanted in zip((out, total), in_python(x, counts), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@wp.kernel
def too_large(x: wp.array[float]):
    i = wp.tid()
    z = wp.zeros(shape=1000, dtype=float)
    z[i] = x[i]
    x[i] = wp.tile_sum(wp.tile(z[0]))[0]


@wp.kernel
def four_dimensions(x: wp.array[float]):
    i = wp.tid()
    z = wp.zeros(shape=(2, 2, 2, 2), dtype=float)
    z[i, 0, 0, 0] = x[i]
    x[i] = wp.tile_sum(wp.tile(z[0, 0, 0, 0]))[0]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [(too_large, r"the local arrays of a block of 512 threads need"), (four_dimensions, "`z` has 4 dimensions")],
)
def test_what_cannot_be_is_refused(kernel, message):
    with pytest.raises(wp.CompileError, match=message):
        kernel.block_ir(None, 512, 0)
