"""Launches whose number of threads is no multiple of that of a block: the last block has fewer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_on_host import BACKWARD, FORWARD, HostCompiled
from tile_running import BLOCK

import jwarp as wp
import jwarp.frontend.kernel as kernel_module
from jwarp.backend.interpreter.machine import run
from jwarp.config import config
from jwarp.ir.row_groups import Stage
from jwarp.ir.serialize import fingerprint
from jwarp.ir.verify import verify

N = 2 * BLOCK + 3


@wp.kernel
def everything(x: wp.array[float], out: wp.array[float], sums: wp.array[float], counts: wp.array[int],
               held: wp.array2d[float], popped: wp.array[int]):  # fmt: skip
    i = wp.tid()
    block = i // wp.block_dim()
    lane = i % wp.block_dim()
    y = x[i] * 2.0
    z = wp.zeros(shape=2, dtype=float)
    if y > 0.0:
        y = y + 1.0
        z[lane % 2] = y
        steps = int(0)
        while float(steps) < y:
            steps += 1
        wp.atomic_add(counts, block, steps)
    total = wp.tile_sum(wp.tile(y + z[0]))[0]
    wp.atomic_add(sums, block, 1.0)
    out[i] = total * y + float(lane)
    t = wp.tile_full(shape=BLOCK, value=-1.0, dtype=float)
    t[lane] = y
    t[0] += 1.0
    if y < 0.0:
        t[lane] += 5.0
    wp.tile_scatter_masked(t, 1, 7.0, lane == 6)
    wp.tile_store(held[block], t)
    s = wp.tile_stack(capacity=64, dtype=int)
    for k in range(3):
        wp.tile_stack_push(s, i + 100 * k, True)
    value, slot = wp.tile_stack_pop(s)
    popped[i] = value * 100 + slot
    wp.atomic_max(counts, 9 + block, wp.tile_stack_count(s))


def in_python(x, out, sums, counts, held, popped):
    for block in range(-(len(x) // -BLOCK)):
        lanes = range(min(BLOCK, len(x) - block * BLOCK))
        ys, zs = [], []
        for lane in lanes:
            y = x[block * BLOCK + lane] * np.float32(2)
            z = np.float32(0)
            if y > 0:
                y = y + np.float32(1)
                z = y if lane % 2 == 0 else z
                counts[block] += int(np.ceil(y))
            ys.append(y)
            zs.append(z)
        total = np.float32(sum(ys) + sum(zs))
        sums[block] += len(lanes)
        held[block] = -1
        stack = [block * BLOCK + lane + 100 * k for k in range(3) for lane in lanes]
        for lane in lanes:
            out[block * BLOCK + lane] = total * ys[lane] + np.float32(lane)
            held[block, lane] = ys[lane]
        held[block, 0] += len(lanes) * 0 + 1
        for lane in lanes:
            if ys[lane] < 0:
                held[block, lane] += 5
            popped[block * BLOCK + lane] = stack[-1] * 100 + len(stack) - 1
            stack.pop()
        if len(lanes) > 6:
            held[block, 1] = 7
        counts[9 + block] = max(counts[9 + block], len(stack))


def some(n):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    return [x, np.zeros(n, np.float32), np.zeros(3, np.float32), np.zeros(12, np.int32),
            np.zeros((3, BLOCK), np.float32), np.zeros(n, np.int32)]  # fmt: skip


@pytest.mark.parametrize("n", [N, 3, 2 * BLOCK - 1])
def test_threads_that_are_not_there_do_nothing(n):
    wanted, args = some(n), some(n)
    in_python(*wanted)
    ir = everything.block_ir(None, BLOCK, 0, n)
    verify(ir, Stage.WRITTEN)
    results = run(ir, (-(n // -BLOCK),), some(n))
    wp.launch(everything, n, args, block_dim=BLOCK)
    for got in (results, args):
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_on_a_gpu():
    wanted = some(N)
    in_python(*wanted)
    made = HostCompiled(everything.block_ir(None, BLOCK, 0, N), "checked")
    for order in (FORWARD, BACKWARD):
        for a, b in zip(made.run((3,), some(N), order), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@wp.kernel
def normalized(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    e = wp.exp(x[i])
    y[i] = e / wp.tile_sum(wp.tile(e))[0]


def test_derivatives():
    x = jnp.asarray(np.random.default_rng(0).normal(size=N), jnp.float32)
    fn = wp.jax_kernel(normalized, launch_dims=N, block_dim=BLOCK, output_dims=N)
    c = jnp.arange(float(N))

    def same(x):
        return jnp.concatenate([jax.nn.softmax(x[k : k + BLOCK]) for k in range(0, N, BLOCK)])

    np.testing.assert_allclose(fn(x)[0], same(x), rtol=1e-5)
    for f in (lambda f: jax.grad(lambda x: (f(x) * c).sum())(x), lambda f: jax.jvp(f, (x,), (c,))[1]):
        np.testing.assert_allclose(f(lambda x: fn(x)[0]), f(same), rtol=1e-3, atol=1e-4)


@wp.kernel
def across_rows(x: wp.array3d[float], out: wp.array3d[float], sums: wp.array[float], counts: wp.array[int]):
    i, j, k = wp.tid()
    number = (i * x.shape[1] + j) * x.shape[2] + k
    value = x[i, j, k] * float(1 + j)
    total = wp.tile_sum(wp.tile(value))[0]
    if value > 0.0:
        wp.atomic_add(counts, i, 1)
    out[i, j, k] = total * value
    wp.atomic_add(sums, number // BLOCK, value)


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 8, 6), (1, 1, 5), (0, 3, 2)])
def test_blocks_go_from_one_row_of_a_launch_to_the_next(shape):
    x = jnp.asarray(np.random.default_rng(1).normal(size=shape), jnp.float32)
    size, blocks = x.size, max(1, -(-x.size // BLOCK))

    def launch(x):
        return wp.launch(across_rows, shape, [x], [shape, blocks, max(1, shape[0])], block_dim=BLOCK)

    def same(x):
        value = x * (1.0 + jnp.arange(shape[1])[:, None])
        each = jnp.zeros(blocks * BLOCK).at[:size].set(value.ravel()).reshape(blocks, BLOCK).sum(1)
        return each[jnp.arange(size) // BLOCK].reshape(shape) * value, each

    out, sums, counts = launch(x)
    expected, each = same(x)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sums, each, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(counts[: shape[0]], (np.asarray(x) > 0).sum((1, 2)))
    weights = jnp.asarray(np.random.default_rng(2).normal(size=shape), jnp.float32)
    found, wanted = (jax.grad(lambda x, f=f: (f(x)[0] * weights).sum())(x) for f in (launch, same))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_rows_of_a_launch_are_not_cut_where_blocks_need_them_whole():
    with pytest.raises(
        wp.LaunchError, match="is no multiple of that.*differs between the threads of a block"
    ) as caught:
        wp.launch(by_rows, (4, 6), [jnp.ones((4, 64))], [(4,)], block_dim=BLOCK)
    assert "wp.launch_tiled" in caught.value.diagnostic.hint


@wp.kernel
def by_rows(x: wp.array2d[float], out: wp.array[float]):
    row, _lane = wp.tid()
    t = wp.tile_load(x[row], shape=64)
    out[row] = wp.tile_sum(t)[0]


@wp.kernel
def shifted_sums(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.tile_sum(wp.tile(x[i] + 1.0))[0]


def test_a_kernel_is_read_once_for_all_launches_with_blocks_of_one_size(monkeypatch):
    read, settings = [], config.with_values(cache_dir="")
    original = kernel_module.lower_kernel_source
    monkeypatch.setattr(kernel_module, "lower_kernel_source", lambda *a, **k: read.append(a) or original(*a, **k))
    made = [shifted_sums.block_ir(settings, BLOCK, axis, count) for axis, count in ((None, None), (0, None), (0, N))]
    assert len(read) == 1
    assert len({fingerprint(kernel) for kernel in made}) == 3
    shifted_sums.block_ir(settings, 2 * BLOCK, 0)
    assert len(read) == 2
