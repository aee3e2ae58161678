"""Forward mode where only some results are used."""

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp


@wp.kernel
def pair(x: wp.array[float], y: wp.array[float], a: wp.array[float], b: wp.array[float]):
    i = wp.tid()
    a[i] = wp.sin(x[i])
    if y[i] > 0.5:
        b[i] = wp.cos(x[i]) * y[i]


def test_a_result_that_nothing_uses_needs_no_operands():
    x, y, dx = np.random.default_rng(2).uniform(0.1, 1.0, (3, 9)).astype(np.float32)

    def both(x):
        return wp.launch(pair, 9, [x, y], [9, 9])

    for k, slope in enumerate((np.cos(x), np.where(y > 0.5, -np.sin(x) * y, 0.0))):
        run = jax.jit(lambda dx, k=k: jax.linearize(both, jnp.asarray(x))[1](dx)[k])
        np.testing.assert_allclose(run(dx), slope * dx, rtol=1e-5, atol=1e-6)
        tangent = jax.jit(lambda x, dx, k=k: jax.jvp(lambda x: both(x)[k], (x,), (dx,))[1])
        np.testing.assert_allclose(tangent(x, dx), slope * dx, rtol=1e-5, atol=1e-6)
