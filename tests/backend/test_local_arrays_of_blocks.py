"""Local arrays of kernels with tiles, in kernels so long that their loads are written as functions."""

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp
from jwarp.backend.cpu import body

BLOCK, N = 8, 16


@wp.kernel
def picked(x: wp.array[wp.vec4], places: wp.array[int], out: wp.array[float]):
    """An array of four components that each thread of a block has for itself, read at a place of its own."""
    i = wp.tid()
    kept = wp.zeros(shape=3, dtype=wp.vec4)
    for k in range(3):
        kept[k] = x[i] * float(k + 1)
    v = kept[places[i]] + x[places[i]]
    total = wp.tile_sum(wp.tile(v[0] * v[1]))
    out[i] = total[0] + v[2] * v[3]


def test_they_are_read_in_line(monkeypatch):
    """Such a function is given parameters of the kernel alone: the name of another array was a KeyError."""
    monkeypatch.setattr(body, "MAX_NODES", 0)  # as if the kernel were long
    random = np.random.default_rng(3)
    x = random.normal(size=(N, 4)).astype(np.float32)
    places = random.integers(0, 3, N).astype(np.int32)
    with wp.config(cache_dir=""):
        run = wp.jax_kernel(picked, launch_dims=N, block_dim=BLOCK, output_dims=N)
        found, pull = jax.vjp(lambda x: run(x, places)[0], jnp.asarray(x))
        (gradient,) = pull(jnp.ones(N))

    def same(x):
        v = x * (places[:, None] + 1.0) + x[places]
        sums = (v[:, 0] * v[:, 1]).reshape(-1, BLOCK).sum(1)
        return jnp.repeat(sums, BLOCK) + v[:, 2] * v[:, 3]

    expected, pull = jax.vjp(same, jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, pull(jnp.ones(N))[0], rtol=1e-4, atol=1e-4)
