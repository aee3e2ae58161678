"""Ids that are numbers where JAX traces: what they name is an operand; ids that are traced are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(5)
POINTS = RNG.uniform(0, 1, (5, 3)).astype(np.float32)
FACES = np.array([0, 1, 2, 1, 2, 3, 2, 3, 4], np.int32)
X = np.float32([1.5, -2.0, 3.0])


@wp.kernel
def of_many(ids: wp.array[wp.uint64], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * wp.mesh_get(ids[i]).points[i][1]


@wp.struct
class Model:
    mesh: wp.uint64
    scale: float


@wp.kernel
def of_one(mesh: wp.uint64, model: Model, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * wp.mesh_get(mesh).points[i][1] + model.scale * wp.mesh_get(model.mesh).points[0][0]


@pytest.fixture(autouse=True)
def wide_on_host():
    with jax.enable_x64(True), wp.ScopedDevice("cpu"):
        yield


def meshes(points=POINTS):
    return [wp.Mesh(points * s, FACES) for s in (1.0, 2.0, 3.0)]


def numbers(made):
    return np.array([int(mesh.id) for mesh in made], np.uint64)


def test_arrays_of_ids_that_are_known_are_operands():
    made = meshes()
    ids, function = numbers(made), wp.jax_kernel(of_many)
    rises = np.array([POINTS[i, 1] * (i + 1) for i in range(3)])
    for x in (X, 2 * X):
        for of, scales in ((ids, [1, 2, 3]), (ids[::-1].copy(), [3, 2, 1])):
            wanted = x * POINTS[:3, 1] * scales
            np.testing.assert_allclose(function(of, x)[0], wanted, rtol=1e-6)
            np.testing.assert_allclose(jax.jit(lambda x, of=of: function(of, x)[0])(x), wanted, rtol=1e-6)
            np.testing.assert_allclose(wp.launch(of_many, 3, [of, jnp.asarray(x)], [3])[0], wanted, rtol=1e-6)
    found = jax.grad(lambda x: function(ids, x)[0].sum())(jnp.asarray(X))
    np.testing.assert_allclose(found, rises, rtol=1e-6)


def test_derivatives_go_to_what_ids_name():
    cotangents = jnp.asarray(RNG.normal(size=3).astype(np.float32))

    def by_ids(points):
        made = meshes(points)
        return wp.jax_kernel(of_many)(numbers(made), X)[0] @ cotangents

    wanted = np.zeros((5, 3))
    wanted[[0, 1, 2], [1, 1, 1]] = X * [1, 2, 3] * np.asarray(cotangents)
    np.testing.assert_allclose(jax.grad(by_ids)(jnp.asarray(POINTS)), wanted, rtol=1e-6)

    def by_numbers(points):
        first, second, third = meshes(points)
        model = Model(mesh=int(third.id), scale=0.5)
        found = wp.jax_kernel(of_one)(np.uint64(int(first.id)), model, X)[0]
        again = wp.launch(of_one, 3, [int(second.id), model, jnp.asarray(X)], [3])[0]
        return (found + again) @ cotangents

    wanted = np.zeros((5, 3))
    wanted[[0, 1, 2], [1, 1, 1]] = X * 3 * np.asarray(cotangents)
    wanted[0, 0] += 2 * 0.5 * 3 * float(cotangents.sum())
    np.testing.assert_allclose(jax.grad(by_numbers)(jnp.asarray(POINTS)), wanted, rtol=1e-5)


def test_other_numbers_are_other_operands():
    made, function = meshes(), wp.jax_kernel(of_one)
    for _ in range(3):
        for scale, mesh in enumerate(made, 1):
            for number in (int(mesh.id), np.uint64(int(mesh.id)), jnp.uint64(int(mesh.id))):
                model = Model(mesh=number, scale=1.0)
                wanted = X * POINTS[:3, 1] * scale + scale * POINTS[0, 0]
                np.testing.assert_allclose(function(number, model, X)[0], wanted, rtol=1e-6)
                np.testing.assert_allclose(wp.launch(of_one, 3, [number, model, X], [3])[0], wanted, rtol=1e-6)


def test_traced_ids_are_refused_by_name():
    made = meshes()
    ids = jnp.asarray(numbers(made))
    with pytest.raises(wp.KernelTypeError, match="`mesh_get` is given a number, uint64, that is not known"):
        jax.jit(lambda ids: wp.jax_kernel(of_many)(ids, X)[0])(ids)
    with pytest.raises(wp.KernelTypeError, match="`mesh_get` is given a number, uint64, that is not known"):
        jax.jit(lambda id: wp.jax_kernel(of_one)(id, Model(), X)[0])(ids[0])
