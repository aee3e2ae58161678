"""Threads that return before tile operations: the block goes on without them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cuda_on_host import BACKWARD, FORWARD, HostCompiled
from tile_running import BLOCK, run_blocks

import jwarp as wp

N = 3 * BLOCK


@wp.kernel
def survivors(x: wp.array[float], sums: wp.array[float], slots: wp.array[int], left: wp.array[int],
              reached: wp.array[int]):  # fmt: skip
    i = wp.tid()
    lane = i % wp.block_dim()
    block = i // wp.block_dim()
    z = wp.zeros(shape=2, dtype=float)
    z[lane % 2] = x[i]
    before = wp.tile_sum(wp.tile(x[i]))[0]
    if x[i] < -0.5:
        wp.atomic_add(left, block, 1)
        return
    if block == 5:
        return
    s = wp.tile_stack(capacity=64, dtype=float)
    slots[i] = wp.tile_stack_push(s, x[i], True)
    reached[block] = wp.tile_stack_count(s)
    if lane % 3 == 1:
        slots[i] = slots[i] + 100
        return
    total = wp.tile_sum(wp.tile(x[i] + z[1]))[0]
    sums[i] = before * total


def in_python(x, sums, slots, left, reached):
    for block in range(len(x) // BLOCK):
        lanes = np.arange(BLOCK)
        mine = x[block * BLOCK :][:BLOCK]
        stay = mine >= np.float32(-0.5)
        left[block] += (~stay).sum()
        if not stay.any():
            continue
        reached[block] = stay.sum()
        order = np.cumsum(stay) - 1
        slots[block * BLOCK + lanes[stay]] = order[stay] + 100 * (lanes[stay] % 3 == 1)
        rest = lanes[stay & (lanes % 3 != 1)]
        total = sum(mine[k] + (mine[k] if k % 2 else np.float32(0)) for k in rest)
        sums[block * BLOCK + rest] = mine.sum() * total


def some():
    x = np.random.default_rng(3).normal(size=N).astype(np.float32)
    x[BLOCK : 2 * BLOCK] = -1.0  # all of them leave
    return [x, np.zeros(N, np.float32), np.full(N, -1, np.int32), np.zeros(3, np.int32), np.full(3, -7, np.int32)]


def check(found):
    wanted = some()
    in_python(*wanted)
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_those_that_stay_work_together():
    check(run_blocks(survivors, N, *some()))


def test_on_a_gpu():
    made = HostCompiled(survivors.block_ir(None, BLOCK, 0), "checked")
    for order in (FORWARD, BACKWARD):
        check(made.run((3,), some(), order))


@wp.kernel
def weighted(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if x[i] < 0.0:
        y[i] = x[i] * 3.0
        return
    y[i] = x[i] * wp.tile_sum(wp.tile(x[i] * x[i]))[0]


def test_derivatives():
    x = jnp.asarray(np.random.default_rng(0).normal(size=N), jnp.float32)
    fn = wp.jax_kernel(weighted, launch_dims=N, block_dim=BLOCK, output_dims=N)

    def same(x):
        square = jnp.where(x < 0, 0.0, x * x).reshape(-1, BLOCK).sum(1)
        return jnp.where(x < 0, 3 * x, x * jnp.repeat(square, BLOCK))

    c = jnp.arange(float(N))
    np.testing.assert_allclose(fn(x)[0], same(x), rtol=1e-5)
    for f in (lambda f: jax.grad(lambda x: (f(x) * c).sum())(x), lambda f: jax.jvp(f, (x,), (c,))[1]):
        np.testing.assert_allclose(f(lambda x: fn(x)[0]), f(same), rtol=1e-3, atol=1e-3)


def test_part_of_a_block():
    args = [a[: N - 3] if len(a) == N else a for a in some()]
    wanted = [a.copy() for a in args]
    wp.launch(survivors, N - 3, args, block_dim=BLOCK)
    padded = [np.concatenate([a, np.full(3, -9, a.dtype)]) if len(a) == N - 3 else a for a in wanted]
    in_python(*padded)
    np.testing.assert_array_equal(args[4][:2], padded[4][:2])
    assert args[4][2] == (args[0][2 * BLOCK :] >= -0.5).sum()


@wp.kernel
def both_sides(x: wp.array[float]):
    i = wp.tid()
    if x[i] < 0.0:
        x[i] = wp.tile_sum(wp.tile(1.0))[0]
    else:
        x[i] = wp.tile_sum(wp.tile(2.0))[0]


@wp.kernel
def they_come_back(x: wp.array[float]):
    i = wp.tid()
    if x[i] < 0.0:
        x[i] = wp.tile_sum(wp.tile(1.0))[0]
    x[i] += 1.0


@pytest.mark.parametrize("kernel", [both_sides, they_come_back])
def test_what_only_some_reach_is_refused(kernel):
    with pytest.raises(wp.CompileError, match="must reach a tile operation together"):
        kernel.block_ir(None, BLOCK, 0)
