"""Launches on several devices and in several processes: shard_map, explicit meshes, sharded inputs of jit."""

import os
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from sharded_launches import (
    K,
    W,
    X,
    assert_gradients,
    couple_fn,
    decay_fn,
    expected_gradients,
    loss_on,
    mesh_of,
)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("jitted", [True, False])
def test_gradients_of_replicated_inputs_are_summed_over_the_devices(check_vma, jitted):
    loss = loss_on(mesh_of(), check_vma)
    gradients = jax.grad(loss, argnums=(0, 1, 2))
    assert_gradients((jax.jit(gradients) if jitted else gradients)(X, W, K))


@pytest.mark.parametrize("check_vma", [True, False])
def test_a_gradient_taken_inside_shard_map(check_vma):
    """Of what each device has, summed over them by the user."""

    def local(x, w, k):
        if check_vma:
            w, k = (jax.lax.pcast(a, ("d",), to="varying") for a in (w, k))
        dx, dw, dk = jax.grad(lambda *a: jnp.sum(couple_fn(*a) ** 2), argnums=(0, 1, 2))(x, w, k)
        return dx, jax.lax.psum(dw, "d"), jax.lax.psum(dk, "d")

    run = jax.shard_map(
        local, mesh=mesh_of(), in_specs=(P("d"), P(), P()), out_specs=(P("d"), P(), P()), check_vma=check_vma
    )
    assert_gradients(jax.jit(run)(X, W, K))


@pytest.mark.parametrize("check_vma", [True, False])
def test_scan_of_in_out_launches_with_gradients(check_vma):
    def local(x, w, rate):
        y, _ = jax.lax.scan(lambda c, _: (decay_fn(c, w, rate), None), x, length=4)
        return jax.lax.psum(jnp.sum(y**2), "d")

    run = jax.shard_map(local, mesh=mesh_of(), in_specs=(P("d"), P(), P()), out_specs=P(), check_vma=check_vma)
    rate = np.float32(0.1)
    dx, dw, dr = jax.jit(jax.grad(run, argnums=(0, 1, 2)))(X, W, rate)
    x, w, r = X.astype(float), W.astype(float), float(rate)
    factor = 1 - r * w
    np.testing.assert_allclose(dx, 2 * x * factor**8, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(dw, (x**2).sum(0) * 8 * factor**7 * -r, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(dr, ((x**2).sum(0) * 8 * factor**7 * -w).sum(), rtol=2e-5)


@pytest.mark.parametrize("check_vma", [True, False])
def test_forward_mode_and_batches_inside_shard_map(check_vma):
    def local(x, ks):
        rows = jax.vmap(couple_fn, in_axes=(None, None, 0))(x, jnp.asarray(W), ks)
        tangent = jax.jvp(lambda a: couple_fn(a, jnp.asarray(W), K), (x,), (jnp.ones_like(x),))[1]
        return rows, tangent

    run = jax.shard_map(
        local, mesh=mesh_of(), in_specs=(P("d"), P()), out_specs=(P(None, "d"), P("d")), check_vma=check_vma
    )
    ks = np.arange(3, dtype=np.float32)
    rows, tangent = jax.jit(run)(X, ks)
    np.testing.assert_allclose(rows, ks[:, None, None] * X**2 * W, rtol=1e-6)
    np.testing.assert_allclose(tangent, K * 2 * X * W, rtol=1e-6)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_sharded_inputs_under_plain_jit(kind):
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("d", None)))
        w, k = (jax.device_put(a, NamedSharding(mesh, P())) for a in (W, K))
        y = jax.jit(couple_fn)(x, w, k)
        np.testing.assert_allclose(np.asarray(y), K * X**2 * W, rtol=1e-6)
        for factor in (1, 2, 1):  # again: eager launches that repeat take a shorter way
            np.testing.assert_allclose(np.asarray(couple_fn(x, w, factor * k)), factor * K * X**2 * W, rtol=1e-6)

        def loss(*a):
            return jnp.sum(couple_fn(*a) ** 2)

        assert_gradients(jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(x, w, k))
        for decays in (jax.jit(lambda x: decay_fn(x, w, 0.5)), lambda x: decay_fn(x, w, 0.5)):
            for _ in range(3):
                np.testing.assert_allclose(np.asarray(decays(x)), X * (1 - 0.5 * W), rtol=1e-6)
    # The same launches without the mesh, and on one device.
    np.testing.assert_allclose(np.asarray(couple_fn(jnp.asarray(X), W, K)), K * X**2 * W, rtol=1e-6)


def test_shard_map_on_an_explicit_mesh():
    mesh = mesh_of(AxisType.Explicit)
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("d", None)))
        run = jax.shard_map(couple_fn, in_specs=(P("d"), P(), P()), out_specs=P("d"))
        y = jax.jit(run)(x, W, K)
        assert y.sharding.is_equivalent_to(x.sharding, 2)
        np.testing.assert_allclose(np.asarray(y), K * X**2 * W, rtol=1e-6)
        assert_gradients(jax.jit(jax.grad(lambda *a: jnp.sum(run(*a) ** 2), argnums=(0, 1, 2)))(x, W, K))


@pytest.mark.parametrize("inner", [False, True])
def test_a_batch_that_is_sharded_over_an_explicit_mesh(inner):
    mesh = mesh_of(AxisType.Explicit)
    xs = np.stack([X, 2 * X, 3 * X, -X])
    with jax.set_mesh(mesh):
        sharded = jax.device_put(xs, NamedSharding(mesh, P(None, "d") if inner else P("d")))

        def total(xs, w, k):
            return jnp.sum(jax.vmap(couple_fn, in_axes=(0, None, None))(xs, w, k) ** 2)

        value, found = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2)))(sharded, W, K)
        assert found[0].sharding.is_equivalent_to(sharded.sharding, 3)
    each = [expected_gradients(x) for x in xs]
    np.testing.assert_allclose(value, sum(((K * x**2 * W) ** 2).sum() for x in xs), rtol=1e-5)
    np.testing.assert_allclose(found[0], [dx for dx, _, _ in each], rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], sum(dw for _, dw, _ in each), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(found[2], sum(dk for _, _, dk in each), rtol=2e-5)


def test_shard_map_gathers_nothing_and_plain_jit_gathers():
    """The claims of docs/sharding.md hold."""
    mesh = mesh_of()
    x = jax.device_put(X, NamedSharding(mesh, P("d")))
    sharded = jax.shard_map(couple_fn, mesh=mesh, in_specs=(P("d"), P(), P()), out_specs=P("d"))
    assert "all-gather" not in jax.jit(sharded).lower(x, W, K).compile().as_text()
    assert "all-gather" in jax.jit(couple_fn).lower(x, W, K).compile().as_text()


EIGHT = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
from jax.sharding import NamedSharding
from sharded_launches import *
assert jax.device_count() == 8
mesh = mesh_of(shape=(4, 2))
x = jax.device_put(X, NamedSharding(mesh, P("d")))
np.testing.assert_allclose(np.asarray(jax.jit(couple_fn)(x, W, K)), K * X**2 * W, rtol=1e-6)
for check_vma in (True, False):
    assert_gradients(jax.jit(jax.grad(loss_on(mesh, check_vma), argnums=(0, 1, 2)))(x, W, K))
assert_gradients(jax.jit(jax.grad(loss_on(mesh_of(shape=(8,)), True), argnums=(0, 1, 2)))(X, W, K))
print("right")
"""


def start(program, *args):
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-c", program, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_eight_devices():
    child = start(EIGHT)
    out, err = child.communicate(timeout=180)
    assert child.returncode == 0 and out.split() == ["right"], err


DISTRIBUTED = """
import sys
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.config.update("jax_num_cpu_devices", 2)
jax.distributed.initialize(f"localhost:{sys.argv[1]}", 2, int(sys.argv[2]), initialization_timeout=60)
from jax.sharding import NamedSharding
from sharded_launches import *
if sys.argv[2] == "1":
    # Other kernels first: nothing may depend on the order in which processes meet kernels.
    decay_fn(jnp.asarray(X), W, 0.5)
assert (jax.device_count(), jax.local_device_count()) == (4, 2)
mesh = mesh_of(shape=(4,))
x = jax.make_array_from_callback(X.shape, NamedSharding(mesh, P("d")), lambda index: X[index])
w, k = (jax.make_array_from_callback(a.shape, NamedSharding(mesh, P()), lambda index, a=a: a[index]) for a in (W, K))
dx, dw, dk = jax.jit(jax.grad(loss_on(mesh, True), argnums=(0, 1, 2)))(x, w, k)
want = expected_gradients()
for shard in dx.addressable_shards:
    np.testing.assert_allclose(np.asarray(shard.data), want[0][shard.index], rtol=2e-5, atol=1e-6)
for got, right in ((dw, want[1]), (dk, want[2])):
    np.testing.assert_allclose(np.asarray(got.addressable_data(0)), right, rtol=2e-5, atol=1e-6)
jax.distributed.shutdown()
print("right")
"""


def test_two_processes():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    children = [start(DISTRIBUTED, port, number) for number in range(2)]
    try:
        for child in children:
            out, err = child.communicate(timeout=180)
            assert child.returncode == 0 and out.split()[-1] == "right", err
    finally:
        for child in children:
            child.kill()
