"""`sharding_rule=`: launches that XLA cuts over two devices under plain jit, with gradients and batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from sharded_launches import K, W, X, assert_gradients, couple, decay, mesh_of

import jwarp as wp

RNG = np.random.default_rng(9)
couple_fn = wp.jax_kernel(couple, sharding_rule="auto")
decay_fn = wp.jax_kernel(decay, in_out_argnames=["x"], launch_dims=X.shape, sharding_rule=0)


@wp.kernel
def numbered(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + float(i)


@wp.kernel
def spring(x: wp.array[wp.vec3], stiffness: float, f: wp.array[wp.vec3]):
    i = wp.tid()
    f[i] = -stiffness * wp.length(x[i]) * x[i]


def on(mesh, x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


def compiled(run, *args):
    """The text of the program of one device."""
    return jax.jit(run).lower(*args).compile().as_text()


def is_cut(text, *shape):
    """True if launches of the program give arrays of this shape, and nothing is gathered."""
    wanted = f"f32[{','.join(map(str, shape))}]"
    calls = [line for line in text.splitlines() if 'custom_call_target="jwarp_launch' in line]
    return bool(calls) and all(wanted in line for line in calls) and "all-gather" not in text


def test_a_launch_is_cut_along_either_axis_or_both():
    x = RNG.normal(size=(8, 6)).astype(np.float32)
    w = RNG.normal(size=6).astype(np.float32)
    for shape, spec, cut in (((2,), ("d",), (4, 6)), ((2,), (None, "d"), (8, 3)), ((1, 2), ("d", "e"), (8, 3))):
        mesh = mesh_of(shape=shape)
        args = on(mesh, x, *spec), on(mesh, w), on(mesh, K)
        run = jax.jit(lambda *a: couple_fn(*a)[0])
        y = run(*args)
        np.testing.assert_allclose(np.asarray(y), K * x**2 * w, rtol=1e-6)
        assert y.sharding.is_equivalent_to(args[0].sharding, 2)
        assert is_cut(compiled(lambda *a: couple_fn(*a)[0], *args), *cut)
    # The same by itself, where the operands say where it runs.
    eager = couple_fn(on(mesh_of(), x, "d"), w, K)[0]
    np.testing.assert_allclose(np.asarray(eager), K * x**2 * w, rtol=1e-6)


def test_without_the_rule_it_is_gathered():
    mesh = mesh_of()
    text = compiled(lambda x: wp.jax_kernel(couple)(x, W, K)[0], on(mesh, X, "d"))
    assert "all-gather" in text


def test_gradients_are_cut_and_those_of_what_pieces_share_are_summed():
    mesh = mesh_of()
    args = on(mesh, X, "d"), on(mesh, W), on(mesh, K)
    run = jax.jit(jax.grad(lambda *a: jnp.sum(couple_fn(*a)[0] ** 2), argnums=(0, 1, 2)))
    found = run(*args)
    assert_gradients(found)
    assert found[0].sharding.is_equivalent_to(args[0].sharding, 2)
    text = run.lower(*args).compile().as_text()
    assert "all-gather" not in text and "all-reduce" in text and "f32[4,5]" in text
    # Forward over reverse, and reverse by one argument alone.
    hessian = jax.jit(lambda x, w, k: jax.jvp(jax.grad(lambda k: jnp.sum(couple_fn(x, w, k)[0] ** 2)), (k,), (1.0,))[1])
    np.testing.assert_allclose(hessian(*args), 2 * ((X**2 * W).astype(float) ** 2).sum(), rtol=1e-5)


def test_batches_are_cut_along_their_own_axis_too():
    mesh = mesh_of()
    xs = np.stack([X, 2 * X, 3 * X, -X])
    ks = np.arange(1, 5, dtype=np.float32)
    run = jax.vmap(lambda x, k: couple_fn(x, W, k)[0])
    args = on(mesh, xs, "d"), on(mesh, ks, "d")
    np.testing.assert_allclose(np.asarray(jax.jit(run)(*args)), ks[:, None, None] * xs**2 * W, rtol=1e-6)
    assert is_cut(compiled(run, *args), 2, 8, 5)
    inner = on(mesh, xs, None, "d"), on(mesh, ks)
    assert is_cut(compiled(run, *inner), 4, 4, 5)

    def loss(x, w, k):
        return jnp.sum(jax.vmap(lambda x, k: couple_fn(x, w, k)[0])(x, k) ** 2)

    for x, k in (args, inner):
        dx, dw, dk = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(x, W, k)
        y = (ks[:, None, None] * xs**2 * W).astype(float)
        np.testing.assert_allclose(dx, 2 * y * 2 * ks[:, None, None] * xs * W, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(dw, (2 * y * ks[:, None, None] * xs**2).sum((0, 1)), rtol=2e-5)
        np.testing.assert_allclose(dk, (2 * y * xs**2 * W).sum((1, 2)), rtol=2e-5)


def test_in_out_parameters_and_loops():
    mesh = mesh_of()

    def run(x, w, rate):
        return jax.lax.scan(lambda c, _: (decay_fn(w, rate, c)[0], None), x, length=3)[0]

    args = on(mesh, X, "d"), on(mesh, W), np.float32(0.1)
    np.testing.assert_allclose(jax.jit(run)(*args), X * (1 - 0.1 * W) ** 3, rtol=1e-5)
    assert is_cut(compiled(run, *args), 4, 5)
    dx, dw = jax.jit(jax.grad(lambda *a: jnp.sum(run(*a)), argnums=(0, 1)))(*args)
    np.testing.assert_allclose(dx, np.broadcast_to((1 - 0.1 * W) ** 3, X.shape), rtol=1e-5)
    np.testing.assert_allclose(dw, (X.astype(float) * 3 * (1 - 0.1 * W) ** 2 * -0.1).sum(0), rtol=2e-4, atol=1e-6)


def test_vectors_and_shardings_that_do_not_divide_or_do_not_fit():
    spring_fn = wp.jax_kernel(spring, sharding_rule="auto")
    mesh = mesh_of()
    for n, spec in ((8, ("d",)), (8, ()), (6, (None, None))):
        x = RNG.normal(size=(n, 3)).astype(np.float32)
        expected = -2.0 * np.linalg.norm(x, axis=1, keepdims=True) * x
        run = jax.jit(lambda x: spring_fn(x, 2.0)[0])
        np.testing.assert_allclose(run(on(mesh, x, *spec)), expected, rtol=1e-5)
    # Components of vectors go to no device of their own.
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    three = jax.jit(lambda x: spring_fn(jnp.concatenate([x, x[:1]])[:5], 2.0)[0])  # 5 rows on 2 devices
    rows = np.concatenate([x, x[:1]])[:5]
    np.testing.assert_allclose(
        three(on(mesh, x, "d")), -2.0 * np.linalg.norm(rows, axis=1, keepdims=True) * rows, rtol=1e-5
    )


def test_inside_shard_map_it_is_a_launch_as_any():
    mesh = mesh_of()
    run = jax.shard_map(lambda x, w, k: couple_fn(x, w, k)[0], mesh=mesh, in_specs=(P("d"), P(), P()), out_specs=P("d"))
    np.testing.assert_allclose(jax.jit(run)(X, W, K), K * X**2 * W, rtol=1e-6)


def test_a_kernel_that_is_not_independent():
    mesh = mesh_of()
    whole = wp.jax_kernel(numbered, sharding_rule="auto")
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(jax.jit(lambda x: whole(x)[0])(on(mesh, x, "d")), 2 * x)
    rows = jax.jit(jax.vmap(lambda x: whole(x)[0]))(on(mesh, np.stack([x, -x]), "d"))
    np.testing.assert_array_equal(rows, [2 * x, 0 * x])
    with pytest.raises(wp.CompileError, match="(?s)not independent along axis 0 .* as a number.*float\\(i\\)"):
        wp.jax_kernel(numbered, sharding_rule=0)(x)
    for rule in (1, "i", (), (0, 0.5)):
        with pytest.raises(wp.LaunchError, match="sharding_rule must be 'auto' or launch axes"):
            wp.jax_kernel(numbered, sharding_rule=rule)(x)


def test_it_cannot_be_exported():
    run = jax.jit(lambda x: couple_fn(x, W, K)[0])
    with pytest.raises(
        wp.LaunchError, match="'couple' is launched with sharding_rule=, and such launches cannot be exp"
    ):
        jax.export.export(run, disabled_checks=wp.EXPORT_CHECKS)(X)
    with pytest.raises(wp.LaunchError, match="cannot be exported"):
        jax.export.export(jax.jit(jax.grad(lambda x: run(x).sum())), disabled_checks=wp.EXPORT_CHECKS)(X)
