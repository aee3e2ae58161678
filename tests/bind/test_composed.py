"""Launches inside JAX's own transformations of one another: loops, branches, remat, ahead-of-time, donation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from launch_kernels import accumulate, scale
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp

pytestmark = pytest.mark.quick

N = 6
accumulate_fn = wp.jax_kernel(accumulate, in_out_argnames=["total"])


@pytest.fixture
def random():
    """Random arrays of given shapes, the same for every test."""
    generator = np.random.default_rng(11)
    return lambda *shape: generator.normal(size=shape).astype(np.float32)


def scaled(x, k):
    return wp.launch(scale, N, [x, k], [N])[0]


def added(x, total):
    return accumulate_fn(x, total)[0]


@wp.kernel
def reverse(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[x.shape[0] - 1 - i]


# Loops


@pytest.mark.parametrize("reverse_order", [False, True])
def test_a_scan_inside_vmap(reverse_order, random):
    """The carry and the sequence have the batch axis in different places; the factors have none."""

    def run(total, rows, ks):
        def body(total, row_and_k):
            row, k = row_and_k
            total = added(scaled(row, k), total)
            return total, scaled(total, 2.0)

        return jax.lax.scan(body, total, (rows, ks), reverse=reverse_order)

    totals, rows, ks = random(3, N), random(5, N, 3), random(5)
    last, every = jax.jit(jax.vmap(run, in_axes=(0, 2, None)))(totals, rows, ks)
    steps = np.moveaxis(rows, 2, 0) * ks[:, None]
    if reverse_order:
        expected = totals[:, None] + np.cumsum(steps[:, ::-1], 1)[:, ::-1]
    else:
        expected = totals[:, None] + np.cumsum(steps, 1)
    assert_allclose(every, 2 * expected, rtol=1e-5, atol=1e-5)
    assert_allclose(last, expected[:, 0 if reverse_order else -1], rtol=1e-5, atol=1e-5)


def test_a_scan_whose_carry_only_becomes_a_batch_in_its_body(random):
    def run(row):
        return jax.lax.scan(lambda total, _: (added(row, total), None), jnp.zeros(N), length=4)[0]

    rows = random(3, N)
    assert_allclose(jax.vmap(run)(rows), 4 * rows, rtol=1e-6)


def test_nested_vmap_around_a_scan_of_vmaps(random):
    def run(x, k):
        def body(x, _):
            return jax.vmap(scaled, in_axes=(0, None))(x, k), None

        return jax.lax.scan(body, x, length=2)[0]

    x, k = random(2, 3, 4, N), random(2, 3)
    assert_allclose(jax.vmap(jax.vmap(run))(x, k), x * (k * k)[..., None, None], rtol=1e-5)


def test_while_loops_run_as_often_as_their_data_say(random):
    def run(x):
        def not_small(state):
            return jnp.abs(state[0]).max() > 0.1

        return jax.lax.while_loop(not_small, lambda state: (scaled(state[0], 0.5), state[1] + 1), (x, 0))

    for x in (random(N) * 10, random(N) * 1000, np.zeros(N, np.float32)):
        small, steps = jax.jit(run)(x)
        largest = np.abs(x).max()
        assert steps == (0 if largest <= 0.1 else int(np.ceil(np.log2(largest / 0.1))))
        assert_array_equal(small, x * np.float32(0.5) ** int(steps))


def test_fori_loops_carry_in_outs(random):
    x = random(N)
    total = jax.jit(lambda n, total: jax.lax.fori_loop(0, n, lambda _, t: added(x, t), total))
    for n in (0, 1, 7):
        expected = np.ones(N, np.float32)
        for _ in range(n):
            expected = expected + x
        assert_array_equal(total(n, jnp.ones(N)), expected)


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5])
def test_lax_map(batch_size, random):
    x, ks = random(5, N), random(5)
    result = jax.lax.map(lambda pair: scaled(*pair), (x, ks), batch_size=batch_size)
    assert_array_equal(result, x * ks[:, None])


# Branches


def test_cond_runs_the_branch_that_is_chosen(random):
    @jax.jit
    def run(choice, x, total):
        return jax.lax.cond(choice, added, lambda x, _: scaled(x, 3.0), x, total)

    x, total = random(N), random(N)
    for choice in (True, False):
        assert_array_equal(run(choice, x, total), x + total if choice else x * np.float32(3))


def test_switch_inside_scan_inside_vmap(random):
    branches = [lambda x: x, lambda x: scaled(x, -2.0), lambda x: added(x, x + 1)]

    def run(x, choices):
        return jax.lax.scan(lambda x, c: (jax.lax.switch(c, branches, x), None), x, choices)[0]

    x, choices = random(4, N), np.random.default_rng(12).integers(0, 3, (4, 6), np.int32)
    expected = x.copy()
    for b, c in np.ndindex(choices.shape):
        row = expected[b]
        expected[b] = (row, row * np.float32(-2), row + (row + 1))[choices[b, c]]
    assert_allclose(jax.jit(jax.vmap(run))(x, choices), expected, rtol=1e-6)
    # Without a batch of choices the branches stay branches.
    unbatched = jax.jit(jax.vmap(run, in_axes=(0, None))).lower(x, np.array([1, 1], np.int32))
    assert "stablehlo.case" in unbatched.as_text()
    assert_array_equal(unbatched.compile()(x, np.array([1, 1], np.int32)), 4 * x)


# Remat and derivatives


@jax.custom_vjp
def triple(x):
    return scaled(x, 3.0)


triple.defvjp(lambda x: (triple(x), None), lambda _, ct: (scaled(ct, 3.0),))


@pytest.mark.parametrize("policy", [None, jax.checkpoint_policies.everything_saveable])
def test_remat(policy, random):
    constant = random(N)

    @jax.checkpoint
    def plain(x):
        return scaled(x, 2.0)

    def block(x):
        # The launch of a constant has no derivative; that of x has the one which is given.
        return jnp.sin(triple(x)) * scaled(constant, 2.0)

    x = random(N)
    assert_array_equal(jax.jit(plain)(x), 2 * x)
    derive = jax.grad(lambda x: jax.checkpoint(block, policy=policy)(x).sum())
    expected = 3 * np.cos(3 * x) * 2 * constant
    assert_allclose(derive(x), expected, rtol=1e-4, atol=1e-5)
    rows = np.stack([x, -x])
    assert_allclose(jax.jit(jax.vmap(derive))(rows), [expected, expected], rtol=1e-4, atol=1e-5)
    assert_array_equal(jax.grad(lambda x: (plain(x) * constant).sum())(jnp.asarray(x)), 2 * constant)


def test_derivatives_of_a_scan_of_rematerialised_steps(random):
    step = jax.checkpoint(lambda x: jnp.sin(triple(x)))

    def loss(x):
        return jax.lax.scan(lambda x, _: (step(x), None), x, length=3)[0].sum()

    def reference(x):
        for _ in range(3):
            x = jnp.sin(3 * x)
        return x.sum()

    x = random(N)
    assert_allclose(jax.jit(jax.grad(loss))(x), jax.grad(reference)(x), rtol=1e-3, atol=1e-3)


# Ahead of time


def test_ahead_of_time(random):
    def run(x, k):
        return jax.vmap(scaled, in_axes=(0, None))(x, k), added(x[0], x[1])

    x = random(3, N)
    shapes = jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((), jnp.float32)
    compiled = jax.jit(run).lower(*shapes).compile()
    for k in (2.0, -0.5):
        rows, total = compiled(x, np.float32(k))
        assert_array_equal(rows, x * np.float32(k))
        assert_array_equal(total, x[0] + x[1])
    with pytest.raises(TypeError, match="Argument"):
        compiled(x[:2], np.float32(1))
    rows, _ = compiled(x, np.float32(4))
    assert_array_equal(rows, 4 * x)


def test_ahead_of_time_with_a_static_number(random):
    compiled = jax.jit(scaled, static_argnums=1).lower(jax.ShapeDtypeStruct((N,), jnp.float32), 2.5).compile()
    x = random(N)
    assert_array_equal(compiled(x), x * np.float32(2.5))


# Donation


def test_donated_in_outs_keep_their_memory(random):
    total, x = jnp.ones(N), jnp.asarray(random(N))
    compiled = jax.jit(added, donate_argnums=1).lower(x, total).compile()
    place = total.unsafe_buffer_pointer()
    result = compiled(x, total)
    assert total.is_deleted() and result.unsafe_buffer_pointer() == place
    assert_array_equal(result, x + 1)


def test_donated_carries_of_a_scan(random):
    def run(total, rows):
        return jax.lax.scan(lambda total, row: (added(row, total), None), total, rows)[0]

    total, rows = jnp.zeros((3, N)), random(3, 4, N)
    result = jax.jit(jax.vmap(run), donate_argnums=0)(total, rows)
    assert total.is_deleted()
    assert_allclose(result, rows.sum(1), rtol=1e-5, atol=1e-6)


def test_a_donated_input_is_not_overwritten_while_threads_read_it(random):
    x = random(1000)
    given = jnp.array(x)
    (y,) = jax.jit(wp.jax_kernel(reverse), donate_argnums=0)(given)
    assert given.is_deleted()
    assert_array_equal(y, x[::-1])


def test_a_donated_array_that_is_also_read(random):
    x = random(N)
    given = jnp.array(x)
    result, kept = jax.jit(lambda x: (added(x, x), scaled(x, 2.0)), donate_argnums=0)(given)
    assert_array_equal(result, 2 * x)
    assert_array_equal(kept, 2 * x)
