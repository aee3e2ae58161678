"""Ids in functions of `wp.functionalize`: arrays of them, and numbers, name what is among the arguments or around."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(11)
POINTS = RNG.uniform(0, 1, (5, 3)).astype(np.float32)
FACES = np.array([0, 1, 2, 1, 2, 3, 2, 3, 4], np.int32)
X = RNG.normal(size=6).astype(np.float32)
WEIGHTS = RNG.normal(size=6).astype(np.float32)


@wp.kernel
def of_many(ids: wp.array[wp.uint64], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * wp.mesh_get(ids[i % 2]).points[i % 5][1]


@wp.kernel
def of_one(id: wp.uint64, x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * wp.mesh_get(id).points[i % 5][1]


@wp.kernel
def double(points: wp.array[wp.vec3]):
    points[wp.tid()] = points[wp.tid()] * 2.0


@dataclasses.dataclass
class Model:
    meshes: list[wp.Mesh]
    ids: wp.array[wp.uint64]
    first: int = 0


def model_of(points=POINTS):
    points = [wp.from_jax(jnp.asarray(points) * s, dtype=wp.vec3) for s in (1.0, 3.0)]
    meshes = [wp.Mesh(p, wp.array(FACES, dtype=int)) for p in points]
    ids = wp.array(np.array([int(m.id) for m in meshes], np.uint64), dtype=wp.uint64)
    return Model(meshes, ids, int(meshes[0].id))


def by_ids(model: Model, x: wp.array[float], y: wp.array[float]):
    wp.launch(of_many, 6, inputs=[model.ids, x], outputs=[y])


def by_number(model: Model, x: wp.array[float], y: wp.array[float]):
    wp.launch(of_one, 6, inputs=[model.first, x], outputs=[y])


def after_a_change(model: Model, x: wp.array[float], y: wp.array[float]):
    wp.launch(double, 5, inputs=[model.meshes[0].points])
    wp.launch(of_many, 6, inputs=[model.ids, x], outputs=[y])


SCALES = {by_ids: (1, 3), by_number: (1, 1), after_a_change: (2, 3)}


def expected(function, points=POINTS):
    i = np.arange(6)
    return X * points[i % 5, 1] * np.array(SCALES[function])[i % 2]


def slopes(function):
    """By the points, of the weighted sum."""
    found = np.zeros((5, 3), np.float32)
    for i in range(6):
        found[i % 5, 1] += X[i] * WEIGHTS[i] * SCALES[function][i % 2]
    return found


@pytest.fixture(params=[False, True], ids=["narrow", "wide"], autouse=True)
def wide_or_not(request):
    with jax.enable_x64(request.param), wp.ScopedDevice("cpu"):
        yield


@pytest.mark.parametrize("function", SCALES)
def test_ids_name_the_objects_among_the_arguments(function):
    run = wp.functionalize(function)
    zeros = jnp.zeros(6, jnp.float32)
    for points in (POINTS, POINTS[::-1].copy()):
        model = model_of(points)
        np.testing.assert_allclose(run(model, X, zeros)[1]["y"], expected(function, points), rtol=1e-6)

    def loss(points):
        return run(model_of(points), jnp.asarray(X), zeros)[1]["y"] @ WEIGHTS

    for f in (jax.grad(loss), jax.jit(jax.grad(loss))):
        np.testing.assert_allclose(f(jnp.asarray(POINTS)), slopes(function), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", [by_ids, by_number])
def test_models_that_jit_refers_to_are_operands(function):
    run, model, zeros = wp.functionalize(function), model_of(), jnp.zeros(6, jnp.float32)
    f = lambda x: run(model, x, zeros)[1]["y"]  # noqa: E731
    np.testing.assert_allclose(jax.jit(f)(X), expected(function), rtol=1e-6)
    found = jax.vmap(f)(jnp.stack([X, 2 * X]))
    np.testing.assert_allclose(found, np.stack([expected(function), 2 * expected(function)]), rtol=1e-6)
    slope = jax.jit(jax.grad(lambda x: f(x) @ WEIGHTS))(jnp.asarray(X))
    np.testing.assert_allclose(slope, WEIGHTS * expected(function) / X, rtol=1e-5)


def test_ids_around_a_function_name_what_is_there():
    model, zeros = model_of(), jnp.zeros(6, jnp.float32)
    ids, first = model.ids, model.first

    def around(x: wp.array[float], y: wp.array[float]):
        wp.launch(of_many, 6, inputs=[ids, x], outputs=[y])

    def of_argument(mesh: wp.Mesh, x: wp.array[float], y: wp.array[float]):
        wp.launch(of_one, 6, inputs=[first, x], outputs=[y])

    np.testing.assert_allclose(wp.functionalize(around)(X, zeros)[1]["y"], expected(by_ids), rtol=1e-6)
    run = wp.functionalize(of_argument)
    other = wp.Mesh(wp.array(POINTS * 7, dtype=wp.vec3), wp.array(FACES, dtype=int))
    for mesh in (model.meshes[0], model.meshes[1]):  # what the number names may be another one
        np.testing.assert_allclose(run(mesh, X, zeros)[1]["y"], expected(by_number), rtol=1e-6)
    with pytest.raises(wp.LaunchError, match="a number is an id of .* that is no argument"):
        run(other, X, zeros)  # which has no id, as what JAX made of an argument
    assert int(other.id)
    np.testing.assert_allclose(run(other, X, zeros)[1]["y"], expected(by_number), rtol=1e-6)


def test_ids_that_jax_traces_and_objects_that_it_makes_are_refused():
    run, model, zeros = wp.functionalize(by_ids), model_of(), jnp.zeros(6, jnp.float32)
    with pytest.raises((wp.KernelTypeError, wp.LaunchError), match="id of a|64-bit types are off"):
        jax.jit(lambda model: run(model, X, zeros)[1]["y"])(model)
    ids = model.ids
    run = wp.functionalize(lambda mesh, x, y: wp.launch(of_many, 6, inputs=[ids, x], outputs=[y]))
    x, y = wp.from_jax(jnp.asarray(X)), wp.from_jax(zeros)
    with pytest.raises(wp.LaunchError, match="before JAX made .* of it"):
        jax.jit(lambda mesh: wp.to_jax(run(mesh, x, y)[1]["y"]))(model.meshes[0])
