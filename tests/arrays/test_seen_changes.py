"""Changes of arrays that could go unseen: through NumPy's views, other libraries, and grids built anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp


@wp.func
def cubed(x: float):
    return x * x * x


@wp.kernel
def squares(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def neighbours(grid: wp.uint64, x: wp.array[wp.vec3], n: wp.array[int]):
    i = wp.tid()
    n[i] = 0
    for j in wp.hash_grid_query(grid, x[i], 0.3):
        if wp.length(x[i] - x[j]) < 0.3:
            n[i] += 1


@wp.kernel
def distances(mesh: wp.uint64, q: wp.array[wp.vec3], d: wp.array[float]):
    i = wp.tid()
    hit = wp.mesh_query_point_no_sign(mesh, q[i], 1.0e6)
    d[i] = wp.length(q[i] - wp.mesh_eval_position(mesh, hit.face, hit.u, hit.v))


@pytest.mark.parametrize("seen", [lambda a: a, lambda a: a[:], lambda a: a.reshape(-1), lambda a: a[::-1][::-1]])
@pytest.mark.parametrize("dtype", [wp.float32, wp.bfloat16])
def test_writes_through_views_of_numpy(seen, dtype):
    a = wp.array(np.arange(3.0), dtype=dtype)
    view = seen(a.numpy())
    before = wp.to_jax(a)
    view[:] = 10
    np.testing.assert_array_equal(before, [0, 1, 2])
    np.testing.assert_array_equal(wp.to_jax(a), [10] * 3)
    assert view.dtype == a.numpy().dtype


def test_a_tape_keeps_what_views_write_over():
    x, y = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    view = x.numpy().reshape(-1)
    with wp.Tape() as tape:
        wp.launch(squares, 3, inputs=[x, y])
    view[:] = 10.0
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4, 6])


def test_arithmetic_and_maps_have_gradients():
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        y = x * x + 2.0 * x
        y += x
        z = wp.map(cubed, x)
    tape.backward(grads={y: wp.ones(3, dtype=float), z: wp.ones(3, dtype=float)})
    values = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * values + 3 + 3 * values**2)
    assert not (wp.array([1, 2], dtype=int) * 2).requires_grad


def test_arrays_of_jax_are_not_written():
    x = jnp.arange(4.0)
    a = wp.from_dlpack(x)
    with pytest.raises(wp.LaunchError, match=r"test_seen_changes.py:\d+ is read-only"):
        a.fill_(3.0)
    np.testing.assert_array_equal(x, np.arange(4))


@pytest.mark.parametrize("count", [50, 70])
def test_records_and_captures_of_grids_built_anew(count):
    """They follow the grid, as Warp's do: also where it holds more points than before, or another radius."""
    rng = np.random.default_rng(0)
    x = wp.array(rng.uniform(size=(50, 3)), dtype=wp.vec3)
    q = wp.array(rng.uniform(size=(50, 3)), dtype=wp.vec3)
    n, grid = wp.zeros(50, dtype=int), wp.HashGrid(8, 8, 8)
    grid.build(x, 0.3)
    record = wp.launch(neighbours, 50, inputs=[grid.id, q, n], record_cmd=True)
    with wp.ScopedCapture() as capture:
        n.fill_(-1)
        wp.launch(neighbours, 50, inputs=[grid.id, q, n])
    runs = (record.launch, lambda: wp.capture_launch(capture.graph))
    others = wp.array(rng.uniform(size=(count, 3)), dtype=wp.vec3)
    for points, radius in ((x, 0.3), (others, 0.3), (others, 0.4), (x, 0.2)):
        grid.build(points, radius)
        found = []
        for run in runs:
            run()
            found.append(n.numpy().copy())
            n.zero_()
        wp.launch(neighbours, 50, inputs=[grid.id, q, n])
        assert all((each == n.numpy()).all() for each in found)


def test_builds_and_refits_are_captured():
    rng = np.random.default_rng(1)
    x, n = wp.array(rng.uniform(size=(50, 3)), dtype=wp.vec3), wp.zeros(50, dtype=int)
    grid = wp.HashGrid(8, 8, 8)
    grid.build(x, 0.3)
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    corners = wp.array(points, dtype=wp.vec3)
    mesh = wp.Mesh(corners, wp.array(np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32), dtype=int))
    q, d = wp.array([[2.0, 2.0, 2.0]], dtype=wp.vec3), wp.zeros(1, dtype=float)
    with wp.ScopedCapture() as capture:
        grid.build(x, 0.3)
        wp.launch(neighbours, 50, inputs=[grid.id, x, n])
        mesh.refit()
        wp.launch(distances, 1, inputs=[mesh.id, q, d])
    for scale, expected in ((1.0, 5.0), (2.0, 4.0)):
        x.assign(rng.uniform(size=(50, 3)))
        corners.assign(scale * points)
        wp.capture_launch(capture.graph)
        near = np.linalg.norm(x.numpy()[:, None] - x.numpy()[None], axis=-1) < 0.3
        np.testing.assert_array_equal(n.numpy(), near.sum(1))
        np.testing.assert_allclose(d.numpy(), [expected / 3**0.5], rtol=1e-6)
    with pytest.raises(wp.LaunchError, match="meshes are not made in a capture"), wp.ScopedCapture():
        wp.Mesh(corners, mesh.indices)


def test_gradients_through_meshes_on_tapes():
    """To the query's place and to the mesh's points, also where it has been refitted since."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    corners = wp.array(points, dtype=wp.vec3, requires_grad=True)
    mesh = wp.Mesh(corners, wp.array(np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32), dtype=int))
    place = np.array([[1.0, 1.2, 0.9]], np.float32)
    q, d = wp.array(place, dtype=wp.vec3, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(distances, 1, inputs=[mesh.id, q, d])
        corners.fill_(7.0)
        mesh.refit()
    tape.backward(grads={d: wp.ones(1, dtype=float)})

    def distance(points, place):  # to the plane of the face that is in front
        normal = np.cross(points[2] - points[1], points[3] - points[1])
        return (place[0] - points[1]) @ normal / np.linalg.norm(normal)

    def slopes(f, x, h=1e-4):
        steps = h * np.eye(x.size).reshape(-1, *x.shape)
        return np.array([(f(x + s) - f(x - s)) / (2 * h) for s in steps]).reshape(x.shape)

    points, place = points.astype(float), place.astype(float)
    np.testing.assert_allclose(q.grad.numpy(), slopes(lambda x: distance(points, x), place), rtol=1e-4, atol=1e-6)
    wanted = slopes(lambda x: distance(x, place), points)
    np.testing.assert_allclose(corners.grad.numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_functions_see_meshes_as_they_are():
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    faces = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32)

    def program(mesh, q, d):
        wp.launch(distances, 1, inputs=[mesh.id, q, d])

    run = wp.functionalize(program, returns="d")
    moving = wp.array(points, dtype=wp.vec3)
    mesh = wp.Mesh(moving, wp.array(faces, dtype=int))
    q, d = wp.array([[2.0, 2.0, 2.0]], dtype=wp.vec3), wp.zeros(1, dtype=float)
    np.testing.assert_allclose(run(mesh, q, d).numpy(), [5 / 3**0.5], rtol=1e-6)
    moving.assign(2 * points)
    mesh.refit()
    np.testing.assert_allclose(run(mesh, q, d).numpy(), [4 / 3**0.5], rtol=1e-6)
    slopes = jax.grad(lambda q: wp.to_jax(run(mesh, wp.from_jax(q, dtype=wp.vec3), d))[0])(jnp.array([[2.0, 2, 2]]))
    np.testing.assert_allclose(slopes, np.full((1, 3), 3**-0.5), rtol=1e-5)


@wp.kernel
def crossings(tree: wp.uint64, q: wp.array[wp.vec3], n: wp.array[int]):
    i = wp.tid()
    n[i] = 0
    for _ in wp.bvh_query_aabb(tree, q[i], q[i] + wp.vec3(0.3)):
        n[i] += 1


@pytest.mark.parametrize("is_told", [False, True])
def test_repeated_launches_follow_geometry(is_told):
    """Meshes, grids and trees that change in each way there is, against launches on objects made anew."""
    rng = np.random.default_rng(2)
    q = wp.array(rng.uniform(size=(20, 3)), dtype=wp.vec3)

    def places(n=30):
        return wp.array(rng.uniform(size=(n, 3)), dtype=wp.vec3)

    def faces(n=12):
        return wp.array(rng.integers(0, 30, 3 * n), dtype=int)

    def run(mesh, grid, tree, x, near, count, met):
        with wp.Tape() if is_told else wp.ScopedTimer("", active=False):
            wp.launch(distances, 20, inputs=[mesh.id, q, near])
            wp.launch(neighbours, 20, inputs=[grid.id, x], outputs=[count])
            wp.launch(crossings, 20, inputs=[tree, q], outputs=[met])
        return [a.numpy().copy() for a in (near, count, met)]

    def outputs():
        return wp.zeros(20, dtype=float), wp.zeros(20, dtype=int), wp.zeros(20, dtype=int)

    points, corners, lowers, uppers = places(), faces(), places(), places()
    mesh, grid, tree = wp.Mesh(points, corners), wp.HashGrid(4, 4, 4), wp.Bvh(lowers, uppers)
    others = wp.Mesh(places(), faces()), wp.HashGrid(5, 4, 3), wp.Bvh(places(), places())
    x, radius, kept = places(), 0.3, outputs()
    grid.build(x, radius)
    others[1].build(x, radius)

    def refit():
        mesh.points.assign(places())
        mesh.refit()
        lowers.assign(places())
        tree.refit()
        x.assign(places(x.size))
        grid.build(x, radius)

    def rewire():
        mesh.indices.assign(faces())
        mesh.refit()

    def move():
        mesh.points = places()
        tree.uppers = places()
        tree.rebuild()

    def swap_indices():
        mesh.indices = faces()
        mesh.refit()

    def as_jax():
        jax.tree.leaves((mesh, grid, tree))

    def regrow():
        nonlocal x
        x = places(20 + int(rng.integers(20)))
        grid.build(x, radius)

    for change in [*[refit] * 3, rewire, refit, move, swap_indices, as_jax, regrow, refit, move, rewire, regrow] * 2:
        change()
        for _ in range(2):
            found = run(mesh, grid, tree, x, *kept)
        fresh = wp.HashGrid(4, 4, 4)
        fresh.build(x.numpy().copy(), radius)
        remade = wp.Mesh(wp.clone(wp.array(mesh.points, dtype=wp.vec3)), wp.clone(mesh.indices))
        again = wp.Bvh(wp.clone(tree.lowers), wp.clone(tree.uppers))
        for one, other in zip(found, run(remade, fresh, again, wp.clone(x), *outputs()), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        swapped = run(*others, x, *kept)
        assert not all((a == b).all() for a, b in zip(found, swapped, strict=True))


def test_meshes_that_are_written_by_what_asks_them():
    """All threads see a mesh's points as they were before the launch, also where it repeats one on arrays apart."""
    found = []
    for repeats in (0, 3):
        points = wp.array(np.eye(3), dtype=wp.vec3)
        mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
        q, apart = wp.array(np.ones((3, 3)), dtype=wp.vec3), wp.zeros(3, dtype=float)
        for _ in range(repeats):
            wp.launch(distances, 3, inputs=[mesh.id, q, apart])
        shared = wp.array(ptr=points.ptr, dtype=float, shape=3, copy=False)
        for _ in range(2):
            wp.launch(distances, 3, inputs=[mesh.id, q, shared])
            found.append(points.numpy().copy())
    np.testing.assert_array_equal(found[:2], found[2:])
    np.testing.assert_allclose(found[0][0], [2 / 3**0.5] * 3, rtol=1e-6)
