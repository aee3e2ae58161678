"""`jax.vmap` of launches: one launch, equal to a Python loop over the batch."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from launch_kernels import accumulate, add_int, add_rows, advance, fill, scale
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(3)
add_rows_fn = wp.jax_kernel(add_rows)


def random(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def launches(fn, *args):
    """The launches in the jaxpr of `fn`, as equations."""

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "jwarp_launch":
                yield eqn
            for inner in jaxprs_in_params(eqn.params):
                yield from walk(inner)

    return list(walk(jax.make_jaxpr(fn)(*args).jaxpr))


def stacked(shape, axis, size):
    """Random data of `shape`, with a batch axis at `axis` unless that is None."""
    return random(*shape) if axis is None else random(*shape[:axis], size, *shape[axis:])


def loop(fn, in_axes, args, size):
    """The definition of vmap: the results of `fn` for each element of the batch, stacked."""
    picked = [
        [a if axis is None else np.take(a, b, axis) for a, axis in zip(args, in_axes, strict=True)] for b in range(size)
    ]
    return np.stack([fn(*one) for one in picked])


AXES = [axes for axes in itertools.product([None, 0, 1, 2], [None, 0, 1], [None, 0]) if axes != (None, None, None)]


def reference(x, row, k):
    return x + k * row


@pytest.mark.parametrize("axes", AXES)
def test_every_axis_of_every_operand(axes):
    args = [stacked(shape, axis, 3) for shape, axis in zip([(2, 4), (4,), ()], axes, strict=True)]
    batched = jax.vmap(lambda *a: add_rows_fn(*a)[0], in_axes=axes)
    assert_allclose(batched(*args), loop(reference, axes, args, 3), rtol=1e-6, atol=1e-6)
    (launch,) = launches(batched, *args)
    # Operands without a batch axis reach the launch as they are.
    assert [v.aval.ndim for v in launch.invars] == [
        n + (axis is not None) for n, axis in zip([2, 1, 0], axes, strict=True)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_nested(seed):
    rng = np.random.default_rng(seed)
    shapes, sizes = [(2, 4), (4,), ()], [3, 2, 2][: rng.integers(2, 4)]
    fn, expected = (lambda *a: add_rows_fn(*a)[0]), reference
    levels = []
    for size in sizes:
        axes = [rng.choice([-1, *range(len(s) + 1)]) for s in shapes]
        axes = [None if a < 0 else int(a) for a in axes]
        if all(a is None for a in axes):
            axes[0] = 0
        shapes = [s if a is None else (*s[:a], size, *s[a:]) for s, a in zip(shapes, axes, strict=True)]
        levels.append((axes, size))
    for axes, size in levels:
        fn = jax.vmap(fn, in_axes=axes)
        expected = lambda *a, f=expected, axes=axes, size=size: loop(f, axes, a, size)  # noqa: E731
    args = [rng.normal(size=s).astype(np.float32) for s in shapes]
    assert_allclose(fn(*args), expected(*args), rtol=1e-5, atol=1e-6)
    assert_allclose(jax.jit(fn)(*args), expected(*args), rtol=1e-5, atol=1e-6)
    assert len(launches(fn, *args)) == 1


@pytest.mark.parametrize("axes", [(0, 0), (1, None), (None, 0), (None, 1), (0, 1)])
def test_initial_contents(axes):
    x, total = stacked((4,), axes[0], 3), jnp.asarray(stacked((4,), axes[1], 3))
    before = np.asarray(total)
    fn = jax.vmap(lambda x, t: wp.launch(accumulate, 4, [x], [t])[0], in_axes=axes)
    for call in (fn, jax.jit(fn)):
        assert_allclose(call(x, total), loop(lambda x, t: x + t, axes, [x, before], 3), rtol=1e-6)
    assert_array_equal(total, before)


def test_out_axes_and_spmd_axis_name():
    x = random(3, 5)
    fn = lambda v: wp.launch(scale, 5, [v, 2.0], [5])[0]  # noqa: E731
    assert_allclose(jax.vmap(fn, out_axes=1)(x), 2 * x.T)
    assert_allclose(jax.vmap(fn, spmd_axis_name="batch")(x), 2 * x)
    summed = jax.vmap(lambda v: jax.lax.psum(fn(v), "batch"), axis_name="batch")(x)
    assert_allclose(summed, np.broadcast_to(2 * x.sum(0), x.shape), rtol=1e-5, atol=1e-5)


def test_several_outputs_and_in_outs():
    fn = wp.jax_kernel(advance, 3, in_out_argnames=["x", "v"])
    x, v, dt = random(3, 4), random(4), random(3)
    new_x, new_v, energy = jax.vmap(fn, in_axes=(0, None, 0))(x, v, dt)
    expected_v = v - dt[:, None] * x
    expected_x = x + dt[:, None] * expected_v
    assert_allclose(new_v, expected_v, rtol=1e-5, atol=1e-6)
    assert_allclose(new_x, expected_x, rtol=1e-5, atol=1e-6)
    assert_allclose(energy, expected_x**2 + expected_v**2, rtol=1e-4, atol=1e-5)


def test_partial_launches_keep_zeros_and_contents_in_every_element():
    x = random(3, 6)
    zeros = jax.vmap(lambda v: wp.launch(scale, 2, [v, 1.0], [6])[0])(x)
    assert_array_equal(zeros, np.where(np.arange(6) < 2, x, 0))
    kept = jax.vmap(lambda v: wp.launch(scale, 2, [v, 1.0], [jnp.full(6, 7.0)])[0])(x)
    assert_array_equal(kept, np.where(np.arange(6) < 2, x, 7))


def test_only_scalars_in_the_batch():
    values = np.arange(4, dtype=np.float32)
    (y,) = jax.vmap(wp.jax_kernel(fill, launch_dims=3))(values)
    assert_array_equal(y, np.repeat(values[:, None], 3, 1))
    numbers = np.arange(3, dtype=np.int8)
    (y,) = jax.vmap(wp.jax_kernel(add_int), in_axes=(None, 0))(np.arange(4, dtype=np.int32), numbers)
    assert_array_equal(y, np.arange(4) + np.arange(3)[:, None])


def test_empty_batches_and_empty_launches():
    assert jax.vmap(lambda v: wp.launch(scale, 5, [v, 2.0], [5])[0])(random(0, 5)).shape == (0, 5)
    assert jax.vmap(lambda v: wp.launch(scale, 0, [v, 2.0], [0])[0])(random(3, 0)).shape == (3, 0)


def test_inside_control_flow():
    x = random(3, 4)

    def body(carry, _):
        return jax.vmap(lambda v: wp.launch(scale, 4, [v, 0.5], [4])[0])(carry), None

    assert_allclose(jax.lax.scan(body, x, None, length=3)[0], x / 8, rtol=1e-6)
    halve = lambda v: wp.launch(scale, 4, [v, 0.5], [4])[0]  # noqa: E731
    branch = jax.vmap(lambda c, v: jax.lax.cond(c, halve, lambda v: v, v))
    chosen = np.array([True, False, True])
    assert_allclose(branch(chosen, x), np.where(chosen[:, None], x / 2, x))
    small = jax.vmap(lambda v: jax.lax.while_loop(lambda u: jnp.abs(u).max() > 0.1, halve, v))(x)
    assert np.all(np.abs(small).max(1) <= 0.1)
