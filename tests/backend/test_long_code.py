"""Long code, in which LLVM combines no instructions, does what is written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.cpu import optimize


@wp.kernel
def rows(
    x: wp.array2d[float],
    scale: wp.array2d[float],
    ids: wp.array[int],
    ends: wp.array[int],
    y: wp.array2d[float],
):
    wp.tid()
    before, count = -1, 0
    for k in range(ends[0], ends[1]):
        row = ids[k]
        if row != before:
            before = row
            count = 3
            loaded = wp.tile_load(x[row], shape=8)
            first = wp.tile_map(wp.mul, loaded, scale[row, 0])
            second = wp.tile_map(wp.mul, loaded, scale[row, 1])
        made = first
        if count > 1:
            if k % 4 < 2:
                made = wp.tile_map(wp.mul, first, scale[row, k % 4])
            else:
                made = wp.tile_map(wp.mul, second, scale[row, k % 4])
        wp.tile_store(y[k], made)


@pytest.mark.filterwarnings("ignore:.*may have no value:jwarp.KernelWarning")  # the first trip loads
def test_what_a_loop_carries(monkeypatch):
    """The adjoint keeps `count` of each iteration, which LLVM took for a constant where it was copied as bits."""
    monkeypatch.setattr(optimize, "MAX_COMBINED", 0)
    rng = np.random.default_rng(0)
    x, scale, dx, ds, g = (
        jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((2, 8), (2, 4), (2, 8), (2, 4), (8, 8))
    )
    ids, ends = jnp.array([0, 0, 0, 0, 1, 1, 1, 1]), jnp.array([0, 8])

    def f(x, scale):
        return wp.launch(rows, (1, 32), inputs=[x, scale, ids, ends], outputs=[(8, 8)], block_dim=32)[0]

    with wp.config(cache_dir=""):
        along = jnp.vdot(g, jax.jvp(f, (x, scale), (dx, ds))[1])
        back = jax.vjp(f, x, scale)[1](g)
    np.testing.assert_allclose(jnp.vdot(back[0], dx) + jnp.vdot(back[1], ds), along, rtol=1e-4)
