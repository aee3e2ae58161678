"""Launches on several devices, with their gradients by hand."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import jwarp as wp


@wp.kernel
def couple(x: wp.array2d[float], w: wp.array[float], k: float, y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = k * x[i, j] * x[i, j] * w[j]


@wp.kernel
def decay(w: wp.array[float], rate: float, x: wp.array2d[float]):
    i, j = wp.tid()
    x[i, j] = x[i, j] * (1.0 - rate * w[j])


def couple_fn(x, w, k):
    return wp.launch(couple, x.shape, [x, w, k], [x.shape])[0]


def decay_fn(x, w, rate):
    return wp.launch(decay, x.shape, [w, rate], [x])[0]


RNG = np.random.default_rng(7)


X = RNG.standard_normal((8, 5)).astype(np.float32)


W = RNG.standard_normal(5).astype(np.float32)


K = np.float32(0.7)


def mesh_of(kind=AxisType.Auto, shape=(2,)):
    return jax.make_mesh(shape, ("d", "e")[: len(shape)], axis_types=(kind,) * len(shape))


def expected_gradients(x=X, w=W, k=K):
    """Of sum((k x² w)²) by hand, in float64."""
    x, w, k = (np.asarray(a, np.float64) for a in (x, w, k))
    y = k * x**2 * w
    return 2 * y * 2 * k * x * w, (2 * y * k * x**2).sum(0), (2 * y * x**2 * w).sum()


def assert_gradients(found):
    for got, want in zip(found, expected_gradients(), strict=True):
        np.testing.assert_allclose(np.asarray(got), want, rtol=2e-5, atol=1e-6)


def loss_on(mesh, check_vma):
    def local(x, w, k):
        return jax.lax.psum(jnp.sum(couple_fn(x, w, k) ** 2), "d")

    return jax.shard_map(local, mesh=mesh, in_specs=(P("d"), P(), P()), out_specs=P(), check_vma=check_vma)
