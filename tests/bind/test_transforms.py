"""Launches under jit, scan, donation, grad, threads and shard_map, and what eager calls compile."""

import threading
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from launch_kernels import accumulate, add_int, add_rows, advance, is_positive, scale
from numpy.testing import assert_allclose, assert_array_equal

import jwarp as wp

X = np.arange(6, dtype=np.float32)
scale_fn = wp.jax_kernel(scale)
accumulate_fn = wp.jax_kernel(accumulate, in_out_argnames=["total"])


@pytest.fixture
def compiles(monkeypatch):
    """The number of XLA compilations so far, as a function."""
    events = []
    listen = lambda name, *_, **__: events.append(name)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    yield lambda: sum(name == "/jax/core/compile/backend_compile_duration" for name in events)
    jax.monitoring.unregister_event_duration_listener(listen)


def test_eager_calls_compile_once(compiles):
    x, y = jnp.arange(11.0), jnp.ones(11)
    scale_fn(x, 2.0), wp.launch(accumulate, 11, [x], [y])
    before = compiles()
    for k in (3.0, 4, np.float64(5)):
        assert_array_equal(scale_fn(x, k)[0], k * np.arange(11))
        assert_array_equal(wp.launch(accumulate, 11, [x], [y])[0], np.arange(11) + 1)
        # A wrapper made anew is the same launch.
        wp.jax_kernel(scale)(x, k)
    assert compiles() == before
    scale_fn(jnp.arange(12.0), 2.0)
    assert compiles() > before


def test_traced_scalars_do_not_retrace():
    traces = []

    @jax.jit
    def run(x, k):
        traces.append(k)
        return scale_fn(x, k)[0]

    for k in (1.0, 2.0, 3.0):
        assert_array_equal(run(X, k), k * X)
    assert len(traces) == 1


def test_scan_over_arrays_and_scalars():
    def body(total, row_and_k):
        row, k = row_and_k
        (total,) = accumulate_fn(scale_fn(row, k)[0], total)
        return total, total

    rows = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    ks = np.arange(5, dtype=np.float32)
    last, every = jax.jit(partial(jax.lax.scan, body))(jnp.zeros(6), (rows, ks))
    assert_allclose(every, np.cumsum(ks[:, None] * rows, 0), rtol=1e-5, atol=1e-5)
    assert_array_equal(last, every[-1])


def test_an_array_that_is_still_needed_is_not_overwritten():
    @jax.jit
    def run(x):
        y = x + 1
        (a,) = accumulate_fn(X, y)
        (b,) = accumulate_fn(X, y)
        (c,) = wp.launch(accumulate, 6, [a], [a])
        return y, a, b, c

    y, a, b, c = run(jnp.asarray(X))
    assert_array_equal(y, X + 1)
    assert_array_equal(a, 2 * X + 1)
    assert_array_equal(b, a)
    assert_array_equal(c, 2 * np.asarray(a))


def test_donation():
    total = jnp.ones(6)
    (result,) = jax.jit(accumulate_fn, donate_argnums=1)(X, total)
    assert_array_equal(result, X + 1)
    assert total.is_deleted()


def test_in_outs_are_written_in_their_buffer():
    text = jax.jit(accumulate_fn).lower(X, X).as_text()
    assert "output_operand_alias" in text and "operand_index = 1" in text


def test_unused_launches_are_dropped():
    text = jax.jit(lambda x: (scale_fn(x, 2.0), x)[1]).lower(X).as_text()
    assert "jwarp_launch" not in text


def test_jit_caches_by_content():
    def make():
        @wp.kernel
        def triple(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[i] * 3.0

        return triple

    one, two = (jax.make_jaxpr(wp.jax_kernel(make()))(X).jaxpr.eqns[0].params for _ in range(2))
    assert one == two and hash(one["launch"]) == hash(two["launch"])
    other = jax.make_jaxpr(wp.jax_kernel(make(), launch_dims=5))(X).jaxpr.eqns[0].params
    assert other != one


def test_disable_jit_and_eval_shape():
    with jax.disable_jit():
        assert_array_equal(scale_fn(X, 2.0)[0], 2 * X)
    shapes = jax.eval_shape(lambda x: wp.launch(scale, 6, [x, 2.0], [9]), jnp.asarray(X))
    assert [(s.shape, s.dtype) for s in shapes] == [((9,), jnp.float32)]
    with jax.ensure_compile_time_eval():
        assert_array_equal(scale_fn(X, 2.0)[0], 2 * X)


def test_gradients_of_arrays_and_scalars():
    x, k = jnp.asarray(X), jnp.float32(2.5)
    weights = jnp.asarray(np.random.default_rng(5).uniform(1, 2, X.shape), jnp.float32)

    def loss(x, k):
        return (scale_fn(x, k)[0] ** 2 * weights).sum()

    for derive in (jax.grad, jax.jacfwd):
        by_x, by_k = jax.jit(derive(loss, argnums=(0, 1)))(x, k)
        assert_allclose(by_x, 2 * k**2 * x * weights, rtol=1e-6)
        assert_allclose(by_k, (2 * k * x**2 * weights).sum(), rtol=1e-6)
    assert_allclose(jax.hessian(loss)(x, k), np.diag(2 * k**2 * weights), rtol=1e-6)


@wp.kernel
def looked_at(w: wp.array[float], y: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * w[i]


def by_launch(w, x):
    y, x = wp.launch(looked_at, w.shape[0], [w], [w.shape, x])
    return y, x


def test_gradients_of_outputs_that_are_only_read():
    """The output's argument comes back unchanged, plus the gradient of the values that were read."""
    rng = np.random.default_rng(0)
    w, x, c = (jnp.asarray(v, jnp.float32) for v in rng.normal(size=(3, 3, 7)))

    def loss(call, w, x, c):
        y, x = call(w, x)
        return (y * c + x * c * c * 3.0).sum() ** 2

    found, expected = (partial(loss, call) for call in (by_launch, lambda w, x: (jnp.sin(x) * w, x)))
    for derive in (
        lambda f: jax.vmap(jax.grad(f, (0, 1)))(w, x, c),
        lambda f: jax.grad(lambda x: jax.vmap(f, (0, None, 0))(w, x, c).sum())(x[0]),
        lambda f: jax.jacrev(jax.grad(f, 1), (0, 1))(w[0], x[0], c[0]),
        lambda f: jax.hessian(f, 1)(w[0], x[0], c[0]),
    ):
        for one, other in zip(jax.tree.leaves(derive(found)), jax.tree.leaves(derive(expected)), strict=True):
            assert_allclose(one, other, rtol=2e-5, atol=1e-4)


def test_gradients_of_outputs_that_are_only_read_in_place():
    w, y, x, of_y, of_x = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    of_w, grad = np.zeros((2, 7), np.float32)
    wp.launch(looked_at, 7, [w], [y, x], adj_inputs={"w": of_w, "x": grad}, adj_outputs=[of_y, of_x], adjoint=True)
    assert_allclose(of_w, np.sin(x) * of_y, rtol=1e-5)
    assert_allclose(grad, np.cos(x) * w * of_y + of_x, rtol=1e-5, atol=1e-6)


def test_gradients_that_were_switched_off():
    @wp.kernel(enable_backward=False)
    def triple(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * 3.0

    for fn in (
        lambda x: wp.jax_kernel(scale, enable_backward=False)(x, 2.0),
        wp.jax_kernel(triple),
        lambda x: wp.launch(triple, 6, [x], [6]),
    ):
        with pytest.raises(wp.NotDifferentiableError, match=r"parameter 'x'.*enable_backward is False"):
            jax.grad(lambda x, fn=fn: fn(x)[0].sum())(jnp.asarray(X))


def test_launches_that_do_not_depend_on_the_variable_work_under_grad():
    numbers = jnp.arange(6)

    def loss(x):
        constant = scale_fn(X, 2.0)[0] + scale_fn(jax.lax.stop_gradient(x), 3.0)[0]
        whole = wp.launch(add_int, 6, [numbers, 1], [6])[0]
        positive = wp.launch(is_positive, 6, [x], [6])[0]
        shifted = wp.launch(add_int, 6, [(x > 2).astype(jnp.int32), 1], [6])[0]
        return jnp.sum(x * (constant + whole + shifted + positive))

    expected = 5 * X + np.arange(6) + 1 + (X > 2) + 1 + (X > 0)
    for derive in (jax.grad(loss), jax.jit(jax.grad(loss)), jax.jacfwd(loss)):
        assert_allclose(derive(jnp.asarray(X)), expected)
    batched = jax.vmap(jax.grad(loss))(jnp.stack([X, X]))
    assert_allclose(batched, np.stack([expected, expected]))


def test_a_custom_vjp_around_a_launch():
    @jax.custom_vjp
    def triple(x):
        return scale_fn(x, 3.0)[0]

    triple.defvjp(lambda x: (triple(x), None), lambda _, ct: (scale_fn(ct, 3.0)[0],))
    assert_array_equal(jax.grad(lambda x: triple(x).sum())(jnp.asarray(X)), np.full(6, 3))


def test_threads():
    results, errors = [None] * 8, []

    def work(index):
        try:
            for _ in range(20):
                results[index] = np.asarray(scale_fn(X, float(index))[0])
                assert_array_equal(results[index], index * X)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# Sharding

AXIS = PartitionSpec("d")


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices("cpu")[:2]), "d")


@pytest.mark.parametrize("check_vma", [True, False])
def test_shard_map(mesh, check_vma):
    x = np.arange(8, dtype=np.float32)

    def local(x, replicated, k):
        (y,) = scale_fn(x, k)
        (y,) = accumulate_fn(replicated, y)
        (y,) = wp.launch(accumulate, 4, [y], [jnp.ones(4)])
        total = jax.lax.psum(y, "d")
        return y, total

    sharded = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(AXIS, PartitionSpec(), PartitionSpec()),
        out_specs=(AXIS, PartitionSpec()),
        check_vma=check_vma,
    )
    for run in (sharded, jax.jit(sharded)):
        y, total = run(x, X[:4], 2.0)
        expected = 2 * x + np.tile(X[:4], 2) + 1
        assert_array_equal(y, expected)
        assert_array_equal(total, expected.reshape(2, 4).sum(0))


@pytest.mark.parametrize("check_vma", [True, False])
def test_vmap_inside_shard_map(mesh, check_vma):
    x = np.arange(16, dtype=np.float32).reshape(4, 4)

    def local(x, row):
        (y,) = jax.vmap(wp.jax_kernel(add_rows), in_axes=(0, None, None))(x[:, None], row, 1.0)
        return jax.vmap(lambda v: wp.launch(accumulate, 4, [v], [jnp.ones(4)])[0])(y[:, 0])

    run = jax.shard_map(local, mesh=mesh, in_specs=(AXIS, PartitionSpec()), out_specs=AXIS, check_vma=check_vma)
    assert_array_equal(jax.jit(run)(x, X[:4]), x + X[:4] + 1)


def test_sharded_inputs_of_a_plain_jit(mesh):
    x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, AXIS))
    (y,) = jax.jit(lambda x: wp.launch(scale, 8, [x, 2.0], [8]))(x)
    assert_array_equal(y, 2 * np.arange(8))
    assert_array_equal(scale_fn(x, 2.0)[0], 2 * np.arange(8))


def test_explicit_mesh():
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, AXIS))
        (y,) = jax.jit(scale_fn)(x, 2.0)
        assert_array_equal(y, 2 * np.arange(8))
        xs = jax.device_put(np.arange(16, dtype=np.float32).reshape(2, 8), NamedSharding(mesh, AXIS))
        (y,) = jax.jit(jax.vmap(scale_fn, in_axes=(0, None)))(xs, 2.0)
        assert_array_equal(y, 2 * np.arange(16).reshape(2, 8))


def test_in_outs_of_several_steps():
    fn = wp.jax_kernel(advance, 3, in_out_argnames=["x", "v"])

    def body(state, dt):
        x, v, energy = fn(*state, dt)
        return (x, v), energy.sum()

    (x, v), energies = jax.jit(partial(jax.lax.scan, body))((jnp.asarray(X), jnp.zeros(6)), jnp.full(50, 0.01))
    assert energies.shape == (50,)
    # A symplectic step: the energy of an oscillator stays close to where it began.
    assert_allclose(energies, np.sum(X**2), rtol=2e-2)
    assert_allclose(x, X * np.cos(0.5), rtol=2e-2)
    assert_allclose(v, -X * np.sin(0.5), rtol=2e-2)
