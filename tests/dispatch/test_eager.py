"""Repeated eager launches: quick, and as right and as careful as the first."""

import importlib
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.dispatch.executables import route
from jwarp.dispatch.executables.array_launch import ArrayLaunch

pytestmark = pytest.mark.quick


@wp.kernel
def affine(x: wp.array[float], a: float, n: int, flag: bool, y: wp.array[float]):
    i = wp.tid()
    if flag:
        y[i] = a * x[i] + float(n)


@wp.kernel
def bump(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = y[i] + x[i]


X = jnp.arange(4.0)


@pytest.fixture
def slow(monkeypatch):
    """The calls that had no executable."""
    calls = []
    ready = route.ready

    def counted(call):
        calls.append(call)
        return ready(call)

    def counted_on_arrays(launch):
        calls.append(launch)
        return ready_on_arrays(launch)

    ready_on_arrays = ArrayLaunch.ready
    monkeypatch.setattr(route, "ready", counted)
    monkeypatch.setattr(ArrayLaunch, "ready", counted_on_arrays)
    return calls


def test_other_values_of_the_same_kind_need_no_checks(slow):
    affine.executables.clear()
    for a, n, flag in ((2.0, 1, True), (3.5, -7, True), (-1.0, 9, False)):
        (y,) = wp.launch(affine, 4, [X * a, a, n, flag], [4])
        np.testing.assert_allclose(y, (X * a * a + n) * flag, rtol=1e-6)
    assert len(slow) == 1


def test_other_kinds_and_shapes_are_other_calls(slow):
    affine.executables.clear()
    (y,) = wp.launch(affine, 4, [X, 2, 1, True], [4])
    np.testing.assert_allclose(y, 2 * X + 1)
    (y,) = wp.launch(affine, (4,), [np.asarray(X), 2, 1, True], [6])
    assert y.shape == (6,)
    (y,) = wp.launch(affine, 3, [X, 2, 1, True], [jnp.full(4, 9.0)])
    np.testing.assert_allclose(y, [1, 3, 5, 9])
    with wp.config(bounds="unchecked"):
        wp.launch(affine, 4, [X, 2, 1, True], [4])
    assert len(slow) == 4


def test_values_that_do_not_fit_are_refused_every_time():
    wp.launch(affine, 4, [X, 2.0, 1, True], [4])
    wp.launch(bump, 4, [X], [X])
    for _ in range(2):
        with pytest.raises(wp.LaunchError, match="outside"):
            wp.launch(affine, 4, [X, 2.0, 1 << 40, True], [4])
        with pytest.raises(wp.KernelTypeError, match="'n'"):
            wp.launch(affine, 4, [X, 2.0, 1.5, True], [4])
        with pytest.raises(wp.KernelTypeError, match="'x'"):
            wp.launch(affine, 4, [X.astype(jnp.int32), 2.0, 1, True], [4])
        with pytest.raises(wp.LaunchError):
            wp.launch(bump, 5, [X], [X])
    (y,) = wp.launch(affine, 4, [X, 1e39, 1, True], [4])
    assert np.isinf(y[1:]).all() and np.isnan(y[0])


def test_traced_values_and_transformations_after_eager_calls():
    wp.launch(bump, 4, [X], [X])
    (y,) = jax.jit(lambda x: wp.launch(bump, 4, [x], [X]))(X)
    np.testing.assert_allclose(y, 2 * X)
    g = jax.grad(lambda x: wp.launch(bump, 4, [x], [X])[0].sum())(X)
    np.testing.assert_allclose(g, np.ones(4))
    assert jax.vmap(lambda x: wp.launch(bump, 4, [x], [X])[0])(jnp.stack([X, X])).shape == (2, 4)
    (y,) = jax.jit(lambda: wp.launch(bump, 4, [X], [X]))()  # concrete values while a function is traced
    np.testing.assert_allclose(y, 2 * X)


def test_initial_contents_stay(slow):
    bump.executables.clear()
    for _ in range(3):
        (y,) = wp.launch(bump, 4, [X], [X])
        np.testing.assert_allclose(y, 2 * X)
        named = wp.launch(bump, 4, [X, X])
        np.testing.assert_allclose(named["y"], 2 * X)
    assert len(slow) == 2
    np.testing.assert_allclose(X, np.arange(4.0))


def test_jax_kernel_functions_are_told_apart(slow):
    bump.executables.clear()
    plain, shaped = wp.jax_kernel(bump), wp.jax_kernel(bump, launch_dims=2, output_dims=4)
    for _ in range(2):
        np.testing.assert_allclose(plain(X)[0], X)
        np.testing.assert_allclose(shaped(X)[0], [0, 1, 0, 0])
        np.testing.assert_allclose(plain(X, launch_dims=3, output_dims=4)[0], [0, 1, 2, 0])
    assert len(slow) == 4


def test_run_time_errors_have_their_class_every_time():
    @wp.kernel
    def far(x: wp.array[float], n: int, y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i + n]

    with wp.config(debug=True):
        for _ in range(3):
            with pytest.raises(RuntimeError, match="far"):
                jax.block_until_ready(wp.launch(far, 4, [X, 100], [4]))


@wp.kernel
def times_factor(x: wp.array[Any], y: wp.array[Any]):
    i = wp.tid()
    y[i] = x.dtype(factors.FACTOR) * x[i]  # noqa: F821


@wp.kernel
def nearest(mesh: wp.uint64, y: wp.array[float]):
    query = wp.mesh_query_point(mesh, wp.vec3(0.1, 0.1, 1.0), 1e6)
    if query.result:
        y[0] = factors.FACTOR  # noqa: F821


def test_repeated_calls_of_other_kernels_see_a_module_that_is_reloaded(tmp_path, monkeypatch):
    """A generic kernel runs instances, and one with meshes the kernel for their arrays, whose code names the module."""
    source = tmp_path / "factors_of_a_test.py"
    source.write_text("FACTOR = 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(globals(), "factors", importlib.import_module("factors_of_a_test"))
    points = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=wp.vec3)
    mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    function = wp.jax_kernel(times_factor)
    x, y, z, w = np.ones(4, np.float32), np.zeros(4, np.float32), wp.zeros(4), wp.zeros(1)
    for factor in (2.0, 3.0):
        for _ in range(3):
            assert function(jnp.asarray(x))[0].tolist() == [factor] * 4
            assert wp.launch(times_factor, 4, [jnp.asarray(x)], [4])[0].tolist() == [factor] * 4
            assert wp.launch(times_factor, 4, [x], [y])[0].tolist() == [factor] * 4
            wp.launch(times_factor, 4, [wp.array(x)], [z])
            wp.launch(nearest, 1, [mesh.id], [w])
            assert z.numpy().tolist() == [factor] * 4 and w.numpy().tolist() == [factor]
        source.write_text("FACTOR = 3.0\n")
        importlib.reload(factors)  # noqa: F821


@wp.kernel
def moved(x: wp.array[wp.vec3], by: wp.vec3, turn: wp.mat22, y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = x[i] + by
    y[i][0] += turn[0, 1]


def test_vectors_as_numpy_arrays_need_no_checks_again(slow):
    moved.executables.clear()
    rng = np.random.default_rng(3)
    x = wp.array(rng.normal(size=(5, 3)), dtype=wp.vec3)
    y = wp.zeros(5, dtype=wp.vec3)
    for _ in range(4):
        by, turn = rng.normal(size=3).astype(np.float32), rng.normal(size=(2, 2)).astype(np.float32)
        wp.launch(moved, 5, [x, by, turn], [y])
        want = x.numpy() + by
        want[:, 0] += turn[0, 1]
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
    # Besides it, the kernel knows there that it looks no numbers up.
    (executable,) = [each for each in moved.executables.recent.values() if each is not False]
    assert len(slow) == 1
    assert executable.call([x, by, turn, y]) is True  # it has learnt it: nothing is left to Python


def test_a_vector_in_the_memory_that_is_written_keeps_its_first_value():
    moved.executables.clear()
    x = wp.array(np.arange(600.0).reshape(200, 3), dtype=wp.vec3)
    for _ in range(3):
        there = np.full((200, 3), 0.5, np.float32)
        y = wp.array(there, dtype=wp.vec3, copy=False)
        wp.launch(moved, 200, [x, there[0], np.zeros((2, 2), np.float32)], [y])
        np.testing.assert_allclose(y.numpy(), x.numpy() + 0.5)
