"""Loops over the components of long vectors and matrices: read once for each iteration, since an index is a choice."""

import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

Q = 19
STEPS = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)] * 3)[:Q]
RATES = np.linspace(0.1, 1.9, Q).astype(np.float32)
step_of = wp.types.matrix((Q, 2), wp.int32)(STEPS)
rate_of = wp.types.vector(Q, float)(RATES)
Populations = wp.types.vector(Q, float)


@wp.func
def pulled(f: wp.array3d[float], at: wp.vec2i):
    values = Populations()
    for q in range(Q):
        place = wp.vec2i()
        for d in range(2):
            place[d] = at[d] - step_of[q, d]
            if place[d] < 0:
                place[d] = f.shape[d + 1] - 1
            elif place[d] >= f.shape[d + 1]:
                place[d] = 0
        values[q] = f[q, place[0], place[1]] * rate_of[q]
    return values


@wp.kernel
def streamed(f: wp.array3d[float], g: wp.array3d[float]):
    i, j = wp.tid()
    values = pulled(f, wp.vec2i(i, j))
    total = float(0.0)
    for q in range(Q):
        total += values[q]
    for q in range(Q):
        g[q, i, j] = values[Q - 1 - q] * total


def test_long_vectors_are_as_numpy_has_them():
    f = np.random.default_rng(0).normal(size=(Q, 5, 7)).astype(np.float32)
    (g,) = wp.launch(streamed, (5, 7), [f], [f.shape])
    values = np.stack([np.roll(f[q], STEPS[q], (0, 1)) * RATES[q] for q in range(Q)])
    np.testing.assert_allclose(g, values[::-1] * values.sum(0), rtol=1e-4, atol=1e-4)
    wp.check_grads(lambda f: wp.launch(streamed, (5, 7), [f], [f.shape])[0], (jnp.asarray(f),))


@wp.kernel
def long(x: wp.array[wp.types.vector(70, float)], y: wp.array[float]):
    i = wp.tid()
    for q in range(70):
        y[i] += x[i][q]


@wp.kernel(module="unique", module_options={"max_unroll": 4})
def asked_for(x: wp.array[Populations], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    for q in range(Q):
        y[i] += v[q]


def test_no_choice_among_components_is_left():
    text = str(wp.inspect(streamed, "ir"))
    assert "for %" not in text and " = eq " not in text
    assert text.count(" = select ") <= 2 * Q  # one where a neighbour may lie beyond an edge


@pytest.mark.parametrize("kernel, size", [(long, 70), (asked_for, Q)])
def test_loops_that_stay_loops(kernel, size):
    text = str(wp.inspect(kernel, "ir"))
    assert f".. {size} step 1" in text
    x = np.random.default_rng(1).normal(size=(3, size)).astype(np.float32)
    (y,) = wp.launch(kernel, 3, [x], [3])
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-5)
