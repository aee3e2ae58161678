"""In-out outputs take over their operand's memory: no copy of what is donated, and none in a loop."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from launch_kernels import accumulate, advance
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp

N = 1 << 12
RNG = np.random.default_rng(3)
X = RNG.standard_normal(N).astype(np.float32)
D = RNG.standard_normal(N).astype(np.float32)
STEPS = 20


def add(total, x):
    return wp.launch(accumulate, N, [x], [total])[0]


def add_in_scan(total, x):
    return jax.lax.scan(lambda c, _: (add(c, x), None), total, length=STEPS)[0]


def add_in_fori(total, x):
    return jax.lax.fori_loop(0, STEPS, lambda _, c: add(c, x), total)


def add_to_each(totals, x):
    return jax.vmap(add, in_axes=(0, None))(totals, x)


def add_to_each_in_scan(totals, x):
    return jax.lax.scan(lambda c, _: (add_to_each(c, x), None), totals, length=STEPS)[0]


def copies(text):
    """Lines that copy an array of data, in a piece of HLO."""
    lines = [line for line in text.splitlines() if re.search(r"= .*(\bcopy|copy-start|copy[\w.]*fusion)\(", line)]
    return [line for line in lines if str(N) in line]


def bodies(text):
    names = re.findall(r"body=%?([\w.\-]+)", text)
    return [re.search(rf"^%?{re.escape(name)} .*?^}}", text, re.DOTALL | re.MULTILINE)[0] for name in names]


@pytest.mark.parametrize("function", [add, add_to_each, add_in_scan, add_in_fori, add_to_each_in_scan])
def test_a_donated_array_is_written_in_place(function):
    total = np.stack([X, 2 * X]) if function in (add_to_each, add_to_each_in_scan) else X
    steps = STEPS if function in (add_in_scan, add_in_fori, add_to_each_in_scan) else 1
    given = jnp.asarray(total) + 0.0  # memory of JAX's own
    compiled = jax.jit(function, donate_argnums=0).lower(given, D).compile()
    text, memory = compiled.as_text(), compiled.memory_analysis()
    assert "jwarp.accumulate" in text
    assert memory.alias_size_in_bytes >= given.nbytes and memory.temp_size_in_bytes < given.nbytes
    assert not any(copies(body) for body in bodies(text))
    assert len(copies(text)) <= (steps > 1)  # XLA may copy once before a loop
    where = given.unsafe_buffer_pointer()
    result = compiled(given, D)
    assert given.is_deleted() and result.unsafe_buffer_pointer() == where
    assert_allclose(result, total + steps * D, rtol=1e-4, atol=1e-4)


def test_carries_of_several_in_outs_are_not_copied():
    def run(x, v):
        def step(state, _):
            new = wp.launch(advance, N, [*state, 0.1, jnp.zeros(N)])
            return (new["x"], new["v"]), new["energy"].sum()

        return jax.lax.scan(step, (x, v), length=STEPS)

    text = jax.jit(run, donate_argnums=(0, 1)).lower(X, D).compile().as_text()
    (body,) = bodies(text)
    assert "jwarp.advance" in body and not copies(body)
    (x, v), _ = jax.jit(run)(X, D)
    q, p = X.astype(float), D.astype(float)
    for _ in range(STEPS):
        p = p - 0.1 * q
        q = q + 0.1 * p
    assert_allclose(x, q, rtol=1e-4, atol=1e-4)
    assert_allclose(v, p, rtol=1e-4, atol=1e-4)


def test_a_carry_that_is_needed_afterwards_is_copied():
    """The test of the tests above: here there must be one."""

    def run(total, x):
        return jax.lax.scan(lambda c, _: (add(c, x), c), total, length=STEPS)

    text = jax.jit(lambda t, x: (add(t, x), t)).lower(X, D).compile().as_text()
    assert len(copies(text)) >= 1
    final, before = jax.jit(run)(X, D)
    assert_allclose(final, X + STEPS * D, rtol=1e-4, atol=1e-4)
    assert_array_equal(before[0], X)
    assert_allclose(before[-1], X + (STEPS - 1) * D, rtol=1e-4, atol=1e-4)


def test_what_is_not_donated_stays():
    given, d = jnp.asarray(X), jnp.asarray(D)
    for run in (add, jax.jit(add), jax.jit(add_in_scan), jax.jit(lambda t, x: (add(t, x), t))):
        run(given, d)
        assert_array_equal(given, X)
        assert_array_equal(d, D)
    # The content to start from may be an input as well.
    assert_array_equal(jax.jit(lambda t: add(t, t), donate_argnums=0)(jnp.asarray(X) + 0.0), X + X)
    totals = jnp.stack([given, given])
    jax.jit(add_to_each)(totals, d)
    assert_array_equal(totals, np.stack([X, X]))
    # One content for the whole batch, and each element its own copy.
    several = jax.jit(jax.vmap(add, in_axes=(None, 0)))(given, jnp.stack([d, 2 * d]))
    assert_array_equal(several, np.stack([X + D, X + 2 * D]))
    assert_array_equal(given, X)


@pytest.mark.parametrize("batched", [False, True])
def test_gradients_keep_what_they_need_of_overwritten_arrays(batched):
    """x is overwritten in the loop while its derivative needs it, with the caller's array donated and not."""

    def run(x, v):
        def step(state, _):
            new = wp.launch(advance, N, [*state, 0.1, jnp.zeros(N)])
            return (new["x"], new["v"]), new["energy"].sum()

        (x, v), energies = jax.lax.scan(step, (x, v), length=3)
        return energies.sum() + (x * v).sum()

    def reference(x, v):
        total = 0.0
        for _ in range(3):
            v = v - 0.1 * x
            x = x + 0.1 * v
            total += (x * x + v * v).sum()
        return total + (x * v).sum()

    gradient, expected = (jax.grad(function, argnums=(0, 1)) for function in (run, reference))
    x, v = X, D
    if batched:
        gradient, expected = jax.vmap(gradient), jax.vmap(expected)
        x, v = np.stack([X, D]), np.stack([D, X])
    wanted = expected(x, v)
    for donated in ((), (0, 1)):
        found = jax.jit(gradient, donate_argnums=donated)(jnp.asarray(x) + 0.0, jnp.asarray(v) + 0.0)
        for got, want in zip(found, wanted, strict=True):
            assert_allclose(got, want, rtol=1e-4, atol=1e-4)
