"""The block's barrier: what its threads stored before it, all of them see after it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tile_running import BLOCK, run_blocks

import jwarp as wp
from jwarp.frontend.builtins.table import Builtin

sync = Builtin("sync() -> None", "", lambda ctx, args, spans, span: ctx.barrier(span) or ())


@wp.kernel
def prefix_sums(x: wp.array2d[float], work: wp.array2d[float]):
    row, lane = wp.tid()
    for k in range(lane, x.shape[1], wp.block_dim()):
        work[row, k] = x[row, k]
    sync()
    step = int(1)
    while step < x.shape[1]:
        mine = float(0.0)
        if lane >= step and lane < x.shape[1]:
            mine = work[row, lane - step]
        sync()
        if lane < x.shape[1]:
            work[row, lane] = work[row, lane] + mine
        sync()
        step *= 2


@wp.kernel
def parted(x: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.0:
        sync()
    x[i] = 0.0


def test_threads_see_what_others_stored_before_a_barrier():
    x = np.random.default_rng(0).normal(size=(3, BLOCK)).astype(np.float32)
    _, got = run_blocks(prefix_sums, (3, BLOCK), x, np.zeros_like(x))
    np.testing.assert_allclose(got, np.cumsum(x, 1), rtol=1e-5, atol=1e-6)


def test_the_derivative_goes_through_barriers():
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, BLOCK)), jnp.float32)
    sums = wp.jax_kernel(prefix_sums, launch_dims=(2, BLOCK), block_dim=BLOCK, output_dims=(2, BLOCK))
    weights = jnp.arange(2.0 * BLOCK).reshape(2, BLOCK)
    got = jax.grad(lambda x: (sums(x)[0] * weights).sum())(x)
    np.testing.assert_allclose(got, np.cumsum(weights[:, ::-1], 1)[:, ::-1], rtol=1e-6)


def test_a_barrier_that_some_threads_miss_is_refused():
    with pytest.raises(wp.CompileError, match="must reach a tile operation together"):
        wp.launch(parted, BLOCK, [np.zeros(BLOCK, np.float32)], block_dim=BLOCK)
