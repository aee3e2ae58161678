"""Ids of grids, trees and meshes in fields of structs, also of structs in structs and where JAX traces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(4)
N = 40
CORNERS = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32)
WHERE = RNG.uniform(-1, 1, (N, 3)).astype(np.float32)


@wp.struct
class Shape:
    mesh: wp.uint64
    scale: float

    @wp.func
    def size(self):
        return self.scale


@wp.struct
class World:
    shape: Shape
    grid: wp.uint64
    reach: float
    seed: int


@wp.func
def distance_to(shape: Shape, p: wp.vec3):
    q = wp.mesh_query_point_no_sign(shape.mesh, p / shape.size(), 10.0)
    return wp.length(p / shape.scale - wp.mesh_eval_position(shape.mesh, q.face, q.u, q.v)) * shape.scale


@wp.kernel
def ask(world: World, x: wp.array[wp.vec3], distance: wp.array[float], near: wp.array[int]):
    i = wp.tid()
    distance[i] = distance_to(world.shape, x[i])
    for j in wp.hash_grid_query(world.grid, x[i], world.reach):
        if wp.length(x[j] - x[i]) < world.reach:
            near[i] += world.seed


@wp.kernel
def plain(shape: Shape, x: wp.array[wp.vec3], distance: wp.array[float]):
    i = wp.tid()
    distance[i] = distance_to(shape, x[i])


@wp.kernel
def ask_plainly(mesh: wp.uint64, x: wp.array[wp.vec3], distance: wp.array[float]):
    i = wp.tid()
    q = wp.mesh_query_point_no_sign(mesh, x[i], 10.0)
    distance[i] = wp.length(x[i] - wp.mesh_eval_position(mesh, q.face, q.u, q.v))


def a_world(mesh, scale, x, as_id=True):
    grid = wp.HashGrid(4, 4, 4)
    grid.build(x, 0.4)
    shape = Shape()
    shape.mesh, shape.scale = (mesh.id if as_id else mesh), scale
    return World(shape=shape, grid=grid.id, reach=0.4, seed=3)


@pytest.mark.parametrize("as_id", [True, False])
def test_structs_hold_ids(as_id):
    world = a_world(wp.Mesh(CORNERS, FACES), 2.0, WHERE, as_id)
    distance, near = wp.launch(ask, N, [world, WHERE], [N, N])
    expected = wp.launch(ask_plainly, N, [wp.Mesh(CORNERS * 2, FACES), WHERE], [N])[0]
    np.testing.assert_allclose(distance, expected, atol=1e-5)
    apart = np.linalg.norm(WHERE[:, None] - WHERE, axis=-1)
    np.testing.assert_array_equal(near, 3 * (apart < 0.4).sum(1))


def test_structs_hold_ids_where_jax_traces_and_gradients_go_through():
    @jax.jit
    def loss(corners, x):
        world = a_world(wp.Mesh(corners, FACES), 1.0, x)
        return wp.jax_kernel(ask, num_outputs=2)(world, x)[0].sum()

    @jax.jit
    def expected(corners, x):
        return wp.jax_kernel(ask_plainly)(wp.Mesh(corners, FACES), x)[0].sum()

    given = jnp.asarray(CORNERS), jnp.asarray(WHERE)
    for mine, known in zip(*(jax.grad(f, argnums=(0, 1))(*given) for f in (loss, expected)), strict=True):
        np.testing.assert_allclose(mine, known, atol=1e-5)
    world = a_world(wp.Mesh(*map(jnp.asarray, (CORNERS, FACES))), 1.0, given[1])
    through = jax.jit(lambda world, x: wp.jax_kernel(ask, num_outputs=2)(world, x)[0].sum())(world, given[1])
    np.testing.assert_allclose(through, loss(*given), rtol=1e-6)


def test_records_follow_meshes_in_structs():
    points, x = wp.array(CORNERS, dtype=wp.vec3), wp.array(WHERE, dtype=wp.vec3)
    mesh, found = wp.Mesh(points, wp.array(FACES, dtype=int)), wp.zeros(N, dtype=float)
    shape = Shape(mesh=mesh.id, scale=1.0)
    record = wp.launch(plain, N, inputs=[shape, x], outputs=[found], record_cmd=True)
    for scale in (1.0, 0.5):
        points.assign(CORNERS * np.float32(scale))
        mesh.refit()
        record.launch()
        expected = wp.launch(ask_plainly, N, [wp.Mesh(CORNERS * np.float32(scale), FACES), WHERE], [N])[0]
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_a_number_names_nothing():
    with pytest.raises(wp.KernelTypeError, match="pass the grid, tree, mesh or volume itself"):
        wp.launch(plain, N, [Shape(mesh=7, scale=1.0), WHERE], [N])
