"""Batches whose elements become threads: what each element gets is what it gets alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.bind import primitive

RNG = np.random.default_rng(31)
B = 37


@pytest.fixture
def spreads(monkeypatch):
    """The launches that were lowered, and whether their batch became threads."""
    seen = []
    original = primitive.spread_launch

    def noted(*args):
        found = original(*args)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(primitive, "spread_launch", noted)
    return seen


def floats(*shape):
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


@wp.kernel
def body(
    v: wp.vec3,
    k: float,
    n: int,
    table: wp.array[float],
    state: wp.array[float],
    out: wp.array2d[float],
    total: wp.array[float],
):
    i = wp.tid()
    own = wp.zeros(shape=4, dtype=float)
    s = 0.0
    for j in range(n):
        own[j % 4] += wp.sin(v[j % 3]) * k
        s += own[(j + 1) % 4] + table[j % table.shape[0]] + table[-1 - j]
        if s > 3.0:
            break
    state[i] = state[i] * s + state[i + 1]
    out[i, 2] = s
    out[i, out.shape[1] - 1] = own[1]
    out[i, 90 + n] = 1.0  # outside, and so dropped
    wp.atomic_add(total, n % 2, s)


def launch(v, k, n, table, state):
    return wp.launch(body, 1, [v, k, n, table], [state, (1, 5), 2])


def arguments():
    n = jnp.asarray(RNG.integers(0, 30, B), jnp.int32)
    return floats(B, 3), floats(B), n, floats(B, 7), floats(B, 2)


def element(x, axis, b):
    return x if axis is None else x[b]


@pytest.mark.parametrize(
    "axes", [(0, 0, 0, 0, 0), (0, None, 0, None, 0), (None, 0, None, 0, None), (None, None, None, 0, None)]
)
def test_every_element_gets_what_it_gets_alone(spreads, axes):
    given = [x if axis is not None else x[0] for x, axis in zip(arguments(), axes, strict=True)]
    found = jax.jit(jax.vmap(launch, axes))(*given)
    assert spreads == [True]
    for b in (0, 1, 17, B - 1):
        alone = launch(*(element(x, axis, b) for x, axis in zip(given, axes, strict=True)))
        for x, y in zip(found, alone, strict=True):
            np.testing.assert_allclose(x[b], y, rtol=1e-5, atol=1e-5)


def test_gradients_of_batched_and_of_shared_arguments(spreads):
    v, k, n, table, state = arguments()
    w = floats(5)

    def loss(v, k, table, state):
        outs = jax.vmap(launch, (0, 0, 0, None, 0))(v, k, n, table, state)
        return (outs[0] ** 2).sum() + (outs[1] @ w).sum() + outs[2].sum()

    found = jax.jit(jax.grad(loss, range(4)))(v, k, table[0], state)
    assert spreads and all(spreads)
    expected = [np.zeros(x.shape) for x in (v, k, table[0], state)]
    for b in range(B):

        def alone(v, k, table, state, b=b):
            outs = launch(v, k, n[b], table, state)
            return (outs[0] ** 2).sum() + (outs[1] @ w).sum() + outs[2].sum()

        parts = jax.grad(alone, range(4))(v[b], k[b], table[0], state[b])
        for total, part, shared in zip(expected, parts, (False, False, True, False), strict=True):
            if shared:
                total += np.asarray(part)
            else:
                total[b] = part
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)


def test_columns_of_threads(spreads):
    @wp.kernel
    def column(x: wp.array2d[float], k: float, y: wp.array2d[float]):
        i, j = wp.tid()
        y[i, j] = x[i, j] * k + float(i) + 10.0 * float(j)

    x, k = floats(B, 6, 1), floats(B)
    y = jax.jit(jax.vmap(lambda x, k: wp.launch(column, (6, 1), [x, k], [(6, 1)])[0]))(x, k)
    assert spreads == [True]
    np.testing.assert_allclose(y, x * k[:, None, None] + jnp.arange(6.0)[None, :, None], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*reads [0-9] coordinate:jwarp.errors.KernelWarning")  # on purpose
def test_what_stays_as_it_is(spreads):
    @wp.kernel
    def scale(x: wp.array[float], k: float, y: wp.array[float]):
        i = wp.tid()
        y[i] = k * x[i]

    def run(dim, x, k):
        return wp.launch(scale, dim, [x, k], [x.shape])[0]

    x, k = floats(B, 4), floats(B)
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda x, k: run(4, x, k)))(x, k), x * k[:, None])
    jax.jit(jax.vmap(lambda x, k: run(1, x, k)))(x[:3], k[:3])  # too few to fill vectors
    nested = jax.jit(jax.vmap(jax.vmap(lambda x, k: run(1, x, k))))(x.reshape(1, B, 4), k.reshape(1, B))
    np.testing.assert_allclose(nested[0, :, 0], x[:, 0] * k)
    jax.jit(jax.vmap(lambda x, k: run((1, 2), x, k)))(x, k)
    with wp.config(debug=True):
        jax.jit(jax.vmap(lambda x, k: run(1, x, k)))(x, k)
    assert spreads == [False] * 5
    assert jax.jit(jax.vmap(lambda x, k: run(1, x, k)))(x, k).shape == (B, 4)
    assert spreads[-1]


def test_explain_shows_what_runs():
    @wp.kernel
    def scale(x: wp.array[float], k: float, y: wp.array[float]):
        i = wp.tid()
        y[i] = k * x[i]

    fn = jax.vmap(lambda x, k: wp.launch(scale, 1, [x, k], [1])[0])
    (found,) = wp.explain(fn)(floats(B, 1), floats(B)).launches
    assert "vector" in str(found) or "gather" in str(found)
