"""Derivatives of a small simulator are those of differences in float64, where its kernels' floats are made that."""

import jax
import jax.numpy as jnp
import numpy as np
from in_float64 import in_float64

import jwarp as wp

BALLS = 6


@wp.kernel
def contacts(x: wp.array[wp.vec3], radius: wp.array[float], depth: wp.array[float], normal: wp.array[wp.vec3]):
    i = wp.tid()
    closest = wp.vec3(wp.clamp(x[i][0], -0.3, 0.3), wp.clamp(x[i][1], -0.3, 0.3), wp.min(x[i][2], 0.0))
    away = x[i] - closest
    depth[i] = radius[i] - wp.length(away)
    normal[i] = wp.normalize(away)


@wp.kernel
def relax(depth: wp.array[float], impulse: wp.array[float], left: wp.array[int]):
    i = wp.tid()
    impulse[i] = 0.5 * impulse[i] + 2.0 * wp.max(depth[i], 0.0) ** 2.0
    if i == 0:
        left[0] = left[0] - 1


@wp.kernel
def move(x: wp.array[wp.vec3], normal: wp.array[wp.vec3], impulse: wp.array[float], dt: float):
    i = wp.tid()
    x[i] = x[i] + dt * (impulse[i] * normal[i] + wp.vec3(0.0, 0.0, -1.0))


def step(x, radius, dt: float):
    depth, impulse = wp.zeros(BALLS, dtype=float), wp.zeros(BALLS, dtype=float)
    normal, left = wp.zeros(BALLS, dtype=wp.vec3), wp.full(1, 4, dtype=int)
    wp.launch(contacts, BALLS, inputs=[x, radius], outputs=[depth, normal])
    wp.capture_while(left, lambda: wp.launch(relax, BALLS, inputs=[depth, impulse, left]))
    wp.launch(move, BALLS, inputs=[x, normal, impulse, dt])


def test_a_step_with_contacts():
    rng = np.random.default_rng(0)
    radius = jnp.asarray(rng.uniform(0.2, 0.4, BALLS), jnp.float32)
    x = jnp.asarray(rng.uniform(0.05, 0.25, (BALLS, 3)) + [0.2, 0.2, 0.0], jnp.float32)
    one_step = wp.functionalize(step, returns="x")

    def after(x):
        return wp.to_jax(one_step(wp.from_jax(x, dtype=wp.vec3), wp.from_jax(radius), 0.1))

    found = np.asarray(jax.jacfwd(after)(x), float)
    wide, wanted, h = in_float64(after, x), np.zeros(found.shape), 1e-6
    with jax.enable_x64(True):
        run = jax.jit(wide)
        np.testing.assert_allclose(run(x), after(x), rtol=1e-5)
        for at in np.ndindex(x.shape):
            up, down = (np.asarray(run(jnp.asarray(np.asarray(x, float)).at[at].add(s * h))) for s in (1, -1))
            wanted[..., *at] = (up - down) / (2 * h)
    assert np.abs(wanted - np.eye(BALLS * 3).reshape(wanted.shape)).max() > 1e-2
    np.testing.assert_allclose(found, wanted, atol=1e-5)
