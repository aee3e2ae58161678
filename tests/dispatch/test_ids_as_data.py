"""Ids as numbers that kernels compute with, and as numbers that are known while JAX traces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)


def mesh(scale=1.0):
    return wp.Mesh(wp.array(scale * TRIANGLE, dtype=wp.vec3), wp.array([0, 1, 2], dtype=int))


@wp.func
def nearest(id: wp.uint64, x: wp.vec3):
    found = wp.mesh_query_point(id, x, 100.0)
    place = wp.vec3(-1.0)
    if found.result:
        place = wp.mesh_eval_position(id, found.face, found.u, found.v)
    return place


@wp.kernel
def pack(id: wp.uint64, ids: wp.array[wp.uint64], parts: wp.array[float]):
    ids[0] = id + wp.uint64(0)
    ids[1] = id
    for k in range(3):
        parts[k] = float((id >> wp.uint64(22 * k)) & wp.uint64(0x3FFFFF))


@wp.kernel
def unpack(ids: wp.array[wp.uint64], parts: wp.array[float], y: wp.array[float]):
    id = wp.uint64(0)
    for k in range(3):
        id = id | (wp.uint64(parts[k]) << wp.uint64(22 * k))
    x = wp.vec3(0.2, 0.3, 1.0)
    y[0] = nearest(ids[0], x)[0]
    y[1] = nearest(ids[1], x)[1]
    y[2] = nearest(id, x)[0]


@wp.struct
class Shape:
    mesh: wp.uint64
    k: float


@wp.kernel
def look_beside(s: Shape, y: wp.array[float]):
    next_one = s.mesh + wp.uint64(1)
    y[0] = s.k * nearest(next_one - wp.uint64(1), wp.vec3(0.2, 0.3, 1.0))[1]


@pytest.mark.parametrize("given", [lambda m: m.id, lambda m: int(m.id)])
def test_kernels_compute_with_ids(given):
    one = mesh()
    ids, parts, y = wp.zeros(2, dtype=wp.uint64), wp.zeros(3), wp.zeros(3)
    for _ in range(2):
        wp.launch(pack, 1, [given(one)], [ids, parts])
        wp.launch(unpack, 1, [ids, parts], [y])
        assert ids.numpy().tolist() == [int(one.id)] * 2
        np.testing.assert_allclose(y.numpy(), [0.2, 0.3, 0.2], rtol=1e-6)
        y.zero_()
    s = Shape()
    s.mesh, s.k = given(one), 2.0
    wp.launch(look_beside, 1, [s], [y])
    assert y.numpy()[0] == pytest.approx(0.6)
    with wp.ScopedCapture() as capture:
        wp.launch(look_beside, 1, [s], [y])
    command = wp.launch(look_beside, 1, [s], [y], record_cmd=True)
    for run in (lambda: wp.capture_launch(capture.graph), command.launch):
        y.zero_()
        run()
        assert y.numpy()[0] == pytest.approx(0.6)


@wp.kernel
def look(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = nearest(ids[i], x[i])


X = np.random.default_rng(3).uniform(0.1, 0.4, (2, 3)).astype(np.float32)


@pytest.mark.parametrize("kept", [np.array, lambda ids: wp.array(ids, dtype=wp.uint64)])
@pytest.mark.parametrize("wide", [False, True])
def test_what_known_ids_name_is_an_operand(kept, wide):
    both = mesh(), mesh(4.0)
    ids = kept(np.array([int(one.id) for one in both], np.uint64))
    look_fn = wp.jax_kernel(look)
    wanted = X * np.float32([1, 1, 0])
    with jax.enable_x64(wide):
        run = lambda x: look_fn(ids, x)[0]  # noqa: E731
        x = jnp.asarray(X)
        for found in (run(x), jax.jit(run)(x), jax.jit(jax.vmap(run))(x[None])[0]):
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
        slope = jax.jit(jax.grad(lambda x: (run(x) ** 2).sum()))(x)
        np.testing.assert_allclose(slope, 2.0 * wanted, rtol=1e-5, atol=1e-6)


def test_traced_ids_are_refused_and_those_around_functions_are_constants():
    one = mesh()
    with jax.enable_x64(True):
        ids = jnp.array([int(one.id)] * 2, jnp.uint64)
        with pytest.raises(wp.KernelTypeError, match="not known to be the id of a wp.Mesh"):
            jax.jit(lambda ids: wp.jax_kernel(look)(ids, jnp.asarray(X)))(ids)
    kept = wp.array(np.array([int(one.id)] * 2, np.uint64), dtype=wp.uint64)
    run = wp.functionalize(lambda x, y: wp.launch(look, 2, [kept, x], [y]))
    _, changed = run(wp.array(X, dtype=wp.vec3), wp.zeros(2, dtype=wp.vec3))
    np.testing.assert_allclose(changed["y"].numpy(), X * np.float32([1, 1, 0]), rtol=1e-5)


@wp.func
def further(id: wp.uint64, x: wp.vec3):
    next_one = id + wp.uint64(1)
    return nearest(next_one - wp.uint64(1), x)


@wp.func
def in_a_struct(s: Shape, x: wp.vec3):
    return further(s.mesh, x) * s.k


@wp.func
def either(a: wp.uint64, b: wp.uint64, first: bool):
    if first:
        return a
    return b


@wp.kernel
def by_functions(id: wp.uint64, other: wp.uint64, s: Shape, ids: wp.array[wp.uint64], y: wp.array[wp.vec3]):
    i = wp.tid()
    x = wp.vec3(0.2, 0.3, 1.0)
    y[i] = further(id, x) + in_a_struct(s, x) + nearest(either(id, other, i == 0), x)
    ids[i] = s.mesh


def test_functions_compute_with_ids_and_take_structs_with_them():
    one, other = mesh(), mesh(0.1)
    shapes = [Shape(mesh=one.id, k=2.0), Shape(mesh=int(one.id), k=2.0)]
    corner = np.float32([0.05, 0.05, 0])
    for s in shapes:
        for first, second in ((one.id, other.id), (one, int(other.id)), (int(one.id), other.id)):
            ids, y = wp.zeros(2, dtype=wp.uint64), wp.zeros(2, dtype=wp.vec3)
            wp.launch(by_functions, 2, [first, second, s], [ids, y])
            place = np.float32([0.2, 0.3, 0.0])
            assert ids.numpy().tolist() == [int(one.id)] * 2
            np.testing.assert_allclose(y.numpy()[0], 4 * place, rtol=1e-5)
            found = y.numpy()[1] - 3 * place
            assert found[:2].sum() == pytest.approx(2 * corner[0], rel=1e-5) and found[2] == 0


@wp.kernel
def wrong(id: wp.uint64, y: wp.array[float]):
    y[0] = wp.mesh_get(id).points[0]


def test_other_mistakes_of_kernels_that_take_ids_are_those_of_before():
    one, y = mesh(), wp.zeros(1)
    for _ in range(2):
        with pytest.raises(wp.KernelTypeError, match="y. holds float32, the value is vec3"):
            wp.launch(wrong, 1, [one.id, y])


@wp.kernel
def of_grids(id: wp.uint64, y: wp.array[float]):
    for _ in wp.hash_grid_query(id, wp.vec3(0.0, 0.0, 0.0), 1.0):
        y[0] += 1.0


@pytest.mark.parametrize("given", ["object", "id"])
def test_an_object_of_another_kind_is_refused(given):
    one, y = mesh(), wp.zeros(1)
    with pytest.raises(wp.KernelTypeError, match=r"hash_grid_query.*the id of a wp.Mesh"):
        wp.launch(of_grids, 1, [one if given == "object" else one.id, y])
