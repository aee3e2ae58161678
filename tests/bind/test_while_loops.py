"""Launches that are all that the body of a loop does: XLA must not take what they change for what they do not."""

import jax
import jax.numpy as jnp
import numpy as np

import jwarp as wp


@wp.kernel
def step(c: wp.array[int], s: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] + s[i]
    c[i] += 1


@wp.kernel
def swapped(x: wp.array[float], y: wp.array[float], a: wp.array[float], b: wp.array[float]):
    i = wp.tid()
    a[i] = y[i] + 1.0
    b[i] = 2.0 * x[i]


def test_two_arrays_in_out():
    kernel = wp.jax_kernel(step, num_outputs=2, in_out_argnames=["c", "x"])

    def run(c, x, limit):
        def body(state):
            return tuple(kernel(state[0], state[0].astype(jnp.float32), state[1], launch_dims=1))

        return jax.lax.while_loop(lambda state: state[0][0] < limit, body, (c, x))

    start = jnp.zeros(1, jnp.int32), jnp.zeros(1)
    for limit in (0, 1, 4):
        c, x = jax.jit(run)(*start, limit)
        assert (int(c[0]), float(x[0])) == (limit, sum(range(limit)))
    c, x = jax.jit(jax.vmap(run, in_axes=(None, None, 0)))(*start, jnp.array([2, 5]))
    np.testing.assert_array_equal(c[:, 0], [2, 5])
    np.testing.assert_array_equal(x[:, 0], [1, 10])


def test_new_arrays_for_all_that_is_carried():
    def body(_, state):
        return tuple(wp.launch(swapped, 3, [*state], [3, 3]))

    x, y = np.arange(3.0, dtype=np.float32), np.ones(3, np.float32)
    found = jax.jit(lambda *state: jax.lax.fori_loop(0, 5, body, state))(x, y)
    for _ in range(5):
        x, y = y + 1, 2 * x
    np.testing.assert_array_equal(found, [x, y])


def test_loops_of_functionalized_programs():
    @wp.kernel
    def copied(c: wp.array[int], t: wp.array[float]):
        t[0] = float(c[0])

    def program(c: wp.array(dtype=int), x: wp.array(dtype=float)):
        def body():
            t = wp.zeros(1, dtype=float)
            wp.launch(copied, 1, inputs=[c, t])
            wp.launch(step, 1, inputs=[c, t, x])

        wp.capture_while(c, body)

    c, x = wp.array([-4], dtype=int), wp.zeros(1, dtype=float)
    changed = wp.functionalize(program)(c, x)[1]
    program(c, x)
    assert float(changed["x"].numpy()[0]) == float(x.numpy()[0]) == -10.0
