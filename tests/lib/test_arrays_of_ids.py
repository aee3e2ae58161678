"""Arrays of ids of grids, trees and meshes, which launches that run now read."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tape_programs import in_a_graph_if

import jwarp as wp
from jwarp.dispatch.executables.table import slot_of

RNG = np.random.default_rng(6)
COUNT = 60
WHERE = RNG.uniform(-1, 2, (COUNT, 3)).astype(np.float32)
CORNERS = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32)


@wp.func
def distance_to(mesh: wp.uint64, p: wp.vec3):
    q = wp.mesh_query_point_no_sign(mesh, p, 100.0)
    found = -1.0
    if q.result:
        found = wp.length(p - wp.mesh_eval_position(mesh, q.face, q.u, q.v))
    return found


@wp.func
def first_of(meshes: wp.array(dtype=wp.uint64), p: wp.vec3):
    return distance_to(meshes[0], p)


@wp.kernel
def ask(
    meshes: wp.array(dtype=wp.uint64),
    x: wp.array(dtype=wp.vec3),
    distances: wp.array2d(dtype=float),
    hits: wp.array2d(dtype=float),
    sizes: wp.array(dtype=int),
    ids: wp.array(dtype=wp.uint64),
):
    i = wp.tid()
    for k in range(meshes.shape[0]):
        mesh = meshes[k]
        ids[k] = mesh  # is a number, too
        if mesh != wp.uint64(0):
            distances[i, k] = distance_to(mesh, x[i])
            hits[i, k] = wp.mesh_query_ray(mesh, x[i], wp.vec3(0.1, 0.2, -1.0), 100.0).t
        sizes[k] = wp.mesh_get(mesh).points.shape[0]
    hits[i, 4] = first_of(meshes, x[i])
    hits[i, 5] = distance_to(meshes[9 + int(0.0 * x[i][0])], x[i])  # of no element


@wp.kernel
def ask_one(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), distance: wp.array(dtype=float), t: wp.array(dtype=float)):
    i = wp.tid()
    distance[i] = distance_to(mesh, x[i])
    t[i] = wp.mesh_query_ray(mesh, x[i], wp.vec3(0.1, 0.2, -1.0), 100.0).t


@wp.kernel
def near(
    grids: wp.array(dtype=wp.uint64),
    trees: wp.array(dtype=wp.uint64),
    x: wp.array(dtype=wp.vec3),
    points: wp.array2d(dtype=int),
    boxes: wp.array2d(dtype=int),
):
    i = wp.tid()
    k = i % 3
    for j in wp.hash_grid_query(id=grids[k], point=x[i], max_dist=0.3):
        points[i, j] += 1
    for j in wp.bvh_query_aabb(trees[k], x[i] - wp.vec3(0.3), x[i] + wp.vec3(0.3)):
        boxes[i, j] += 1


@wp.kernel
def near_one(
    grid: wp.uint64,
    tree: wp.uint64,
    x: wp.array(dtype=wp.vec3),
    points: wp.array2d(dtype=int),
    boxes: wp.array2d(dtype=int),
):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], 0.3):
        points[i, j] += 1
    for j in wp.bvh_query_aabb(tree, x[i] - wp.vec3(0.3), x[i] + wp.vec3(0.3)):
        boxes[i, j] += 1


def meshes():
    kept = [wp.array(CORNERS * s + [s, 0.0, 0.0], dtype=wp.vec3) for s in (1.0, 0.5, 2.0)]
    return [wp.Mesh(p, wp.array(FACES, dtype=int)) for p in kept]


def test_elements_of_an_array_of_ids_name_meshes():
    made = meshes()
    ids = wp.array([made[0].id, made[2].id, 0, made[1].id], dtype=wp.uint64)
    x = wp.array(WHERE, dtype=wp.vec3)
    for _ in range(3):  # as they are now
        distances, hits = wp.zeros((COUNT, 4)), wp.zeros((COUNT, 6))
        sizes, again = wp.zeros(4, dtype=int), wp.zeros(4, dtype=wp.uint64)
        wp.launch(ask, COUNT, inputs=[ids, x, distances, hits, sizes, again])
        for k, mesh in ((0, made[0]), (1, made[2]), (3, made[1])):
            distance, t = wp.zeros(COUNT), wp.zeros(COUNT)
            wp.launch(ask_one, COUNT, inputs=[mesh.id, x, distance, t])
            np.testing.assert_array_equal(distances.numpy()[:, k], distance.numpy())
            np.testing.assert_array_equal(hits.numpy()[:, k], t.numpy())
        assert not distances.numpy()[:, 2].any() and (sizes.numpy() == [4, 4, 0, 4]).all()
        np.testing.assert_array_equal(hits.numpy()[:, 4], distances.numpy()[:, 0])
        assert (hits.numpy()[:, 5] == -1.0).all()
        np.testing.assert_array_equal(again.numpy(), ids.numpy())
        made[0].points.assign(made[0].points.numpy() * 1.3)
        made[0].refit()
        made[1].points = wp.array(CORNERS - 1.0, dtype=wp.vec3)


def test_grids_and_trees_have_arrays_of_ids_too():
    clouds = [RNG.uniform(-1, 2, (n, 3)).astype(np.float32) for n in (30, 50, 40)]
    grids, trees = [], []
    for cloud in clouds:
        grids.append(wp.HashGrid(4, 5, 6))
        grids[-1].build(wp.array(cloud, dtype=wp.vec3), 0.3)
        trees.append(wp.Bvh(wp.array(cloud, dtype=wp.vec3), wp.array(cloud + 0.2, dtype=wp.vec3)))
    named = [np.array([int(g.id) for g in x], np.uint64) for x in (grids, trees)]
    points, boxes = (np.zeros((COUNT, 50), np.int32) for _ in range(2))
    wp.launch(near, COUNT, [*named, WHERE], [points, boxes])
    for k in range(3):
        own = [np.zeros((COUNT, 50), np.int32) for _ in range(2)]
        wp.launch(near_one, COUNT, [grids[k], trees[k], WHERE], own)
        np.testing.assert_array_equal(points[k::3], own[0][k::3])
        np.testing.assert_array_equal(boxes[k::3], own[1][k::3])


def test_meshes_of_numpy_arrays_are_read_as_they_are():
    corners = CORNERS.copy()
    mesh = wp.Mesh(corners, FACES)
    ids = np.array([int(mesh.id), 0], np.uint64)
    outputs = [np.zeros((COUNT, 4), np.float32), np.zeros((COUNT, 6), np.float32), np.zeros(2, np.int32), ids.copy()]
    for scale in (1.0, 2.0):
        corners[:] = CORNERS * np.float32(scale)
        mesh.refit()
        wp.launch(ask, COUNT, [ids, WHERE], outputs)
        expected = wp.launch(ask_one, COUNT, [mesh, WHERE], [COUNT, COUNT])[0]
        np.testing.assert_allclose(outputs[0][:, 0], expected, rtol=1e-6)


def test_what_reads_no_ids_now_says_so():
    made = meshes()
    ids = wp.array([m.id for m in made], dtype=wp.uint64)
    given = [ids, wp.array(WHERE, dtype=wp.vec3), wp.zeros((COUNT, 4)), wp.zeros((COUNT, 6))]
    given += [wp.zeros(3, dtype=int), wp.zeros(3, dtype=wp.uint64)]
    outputs = [(COUNT, 4), (COUNT, 6), jax.ShapeDtypeStruct((3,), np.int32), jax.ShapeDtypeStruct((3,), np.uint64)]
    # A launch that returns arrays takes the ids as JAX's or NumPy's, too.
    with jax.enable_x64(True), pytest.raises(wp.KernelTypeError, match="(?s)'distances': expected .*pass a JAX or"):
        jax.jit(lambda x: wp.launch(ask, COUNT, [ids, x], outputs))(jnp.asarray(WHERE))
    wp.launch(ask, COUNT, inputs=given)
    with jax.enable_x64(True):
        found = jax.jit(lambda x: wp.launch(ask, COUNT, [ids.numpy(), x], outputs))(jnp.asarray(WHERE))
    np.testing.assert_array_equal(found[0], given[2].numpy())
    assert np.any(found[0])
    kept = wp.HashGrid(2, 2, 2)
    mixed = np.array([int(made[0].id), int(kept.id)], np.uint64)
    outputs = [np.zeros(x.shape, x.numpy().dtype) for x in given[2:]]
    with pytest.raises(wp.LaunchError, match="several kinds .HashGrid, Mesh."):
        wp.launch(ask, COUNT, [mixed, WHERE], outputs)


def test_records_look_ids_up_and_tapes_follow_what_is_passed():
    made = meshes()
    ids = wp.array([m.id for m in made], dtype=wp.uint64)
    given = [ids, wp.array(WHERE, dtype=wp.vec3), wp.zeros((COUNT, 4)), wp.zeros((COUNT, 6))]
    given += [wp.zeros(3, dtype=int), wp.zeros(3, dtype=wp.uint64)]
    wp.launch(ask, COUNT, inputs=given)
    wanted = given[2].numpy().copy()
    assert np.any(wanted)
    record = wp.launch(ask, COUNT, inputs=given, record_cmd=True)
    for _ in range(3):
        given[2].zero_()
        record.launch()
        np.testing.assert_array_equal(given[2].numpy(), wanted)
    with wp.Tape():
        given[2].zero_()
        wp.launch(ask, COUNT, inputs=given)
    np.testing.assert_array_equal(given[2].numpy(), wanted)


def test_ids_of_nothing_are_empty_meshes():
    """Numbers that nobody gave, that name something else, and those of what is gone."""
    kept, grid = wp.Mesh(CORNERS, FACES), wp.HashGrid(2, 2, 2)
    gone = int(wp.Mesh(CORNERS, FACES).id)
    ids = wp.array([5, int(grid.id), gone, int(kept.id)], dtype=wp.uint64)
    sizes = wp.full(4, 9, dtype=int)
    given = [ids, wp.array(WHERE, dtype=wp.vec3), wp.zeros((COUNT, 4)), wp.zeros((COUNT, 6)), sizes]
    wp.launch(ask, COUNT, inputs=[*given, wp.zeros(4, dtype=wp.uint64)])
    assert sizes.list() == [0, 0, 0, 4]
    assert (given[2].numpy()[:, :3] == -1.0).all() and not given[3].numpy()[:, :3].any()


@wp.kernel
def of_nothing(
    meshes: wp.array(dtype=wp.uint64),
    trees: wp.array(dtype=wp.uint64),
    numbers: wp.array(dtype=wp.uint64),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    if trees[i] != wp.uint64(0):
        for k in wp.bvh_query_ray(trees[i], wp.vec3(), wp.vec3(0.0, 0.0, 1.0)):
            y[i] = float(k)
    if meshes[i] != wp.uint64(0):
        y[i] += wp.mesh_get(meshes[i]).points[0][2]
    y[i] += 1.0 + float(numbers[i])


@pytest.mark.parametrize("count", [3, 0])
def test_arrays_of_ids_may_name_nothing(count):
    given = [wp.zeros(count, dtype=wp.uint64) for _ in range(3)]
    y = wp.zeros(count, dtype=float)
    wp.launch(of_nothing, count, inputs=[*given, y])
    assert y.numpy().tolist() == [1.0] * count
    if count:
        mesh = wp.Mesh(CORNERS[::-1] + 1, FACES)
        given[0] = wp.array([0, mesh.id, 0], dtype=wp.uint64)
        wp.launch(of_nothing, count, inputs=[*given, y])
        assert y.numpy().tolist() == [2, 4, 2]
        record = wp.launch(of_nothing, count, inputs=[*given, y], record_cmd=True)
        record.launch()
        assert y.numpy().tolist() == [3, 7, 3]


@wp.kernel
def pushed(x: wp.array[wp.vec3], meshes: wp.array[wp.uint64], y: wp.array[wp.vec3]):
    i = wp.tid()
    force = x[i] * wp.dot(x[i], x[i])
    for k in range(meshes.shape[0]):
        if meshes[k] != wp.uint64(0):
            q = wp.mesh_query_point_no_sign(meshes[k], x[i], 100.0)
            force = force - wp.mesh_eval_position(meshes[k], q.face, q.u, q.v)
    y[i] = force


@wp.kernel
def pushed_by_one(x: wp.array[wp.vec3], mesh: wp.uint64, y: wp.array[wp.vec3]):
    i = wp.tid()
    q = wp.mesh_query_point_no_sign(mesh, x[i], 100.0)
    y[i] = x[i] * wp.dot(x[i], x[i]) - wp.mesh_eval_position(mesh, q.face, q.u, q.v)


@pytest.mark.parametrize("is_captured", [False, True])
def test_tapes_go_back_through_launches_whose_arrays_of_ids_name_nothing(is_captured):
    x = wp.array(WHERE, dtype=wp.vec3, requires_grad=True)
    y = wp.zeros(COUNT, dtype=wp.vec3, requires_grad=True)
    cotangents = RNG.normal(size=(COUNT, 3)).astype(np.float32)
    given = wp.array(cotangents, dtype=wp.vec3)

    def back():
        with wp.Tape() as tape:
            wp.launch(pushed, COUNT, inputs=[x, wp.zeros(2, dtype=wp.uint64)], outputs=[y])
        tape.backward(grads={y: given})

    in_a_graph_if(is_captured, back)
    wanted = jax.vjp(lambda x: x * jnp.sum(x * x, axis=1, keepdims=True), WHERE)[1](cotangents)[0]
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=2e-5, atol=1e-5)
    mesh = wp.Mesh(CORNERS, FACES)
    x.grad.zero_()
    with wp.Tape() as tape:
        wp.launch(pushed, COUNT, inputs=[x, wp.array([mesh.id, 0], dtype=wp.uint64)], outputs=[y])
    tape.backward(grads={y: given})
    by_ids = x.grad.numpy().copy()
    x.grad.zero_()
    with wp.Tape() as tape:
        wp.launch(pushed_by_one, COUNT, inputs=[x, mesh.id], outputs=[y])
    tape.backward(grads={y: given})
    np.testing.assert_allclose(by_ids, x.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(by_ids, wanted)  # the nearest point moves, too


@wp.func
def packed(id: wp.uint64):
    """An id in floats, as programs keep it in a vector of a shape's numbers."""
    low, high = id & wp.uint64(0x3FFFFF), (id >> wp.uint64(22)) & wp.uint64(0x3FFFFF)
    return wp.vec3(float(low), float(high), float(id >> wp.uint64(44)))


@wp.func
def unpacked(v: wp.vec3):
    return wp.uint64(v[0]) | (wp.uint64(v[1]) << wp.uint64(22)) | (wp.uint64(v[2]) << wp.uint64(44))


@wp.func
def corners_of(mesh: wp.uint64):
    return wp.mesh_get(mesh).points.shape[0]


@wp.kernel
def ask_packed(
    meshes: wp.array(dtype=wp.uint64),
    which: wp.array(dtype=int),
    x: wp.array(dtype=wp.vec3),
    distances: wp.array(dtype=float),
    sizes: wp.array(dtype=int),
):
    i = wp.tid()
    kept = wp.vec3(0.0)
    if which[i] >= 0:
        kept = packed(meshes[which[i]])
    mesh = unpacked(kept)
    sizes[i] = corners_of(mesh)
    if mesh != wp.uint64(0):
        distances[i] = distance_to(mesh, x[i])


@wp.kernel
def ask_other(
    meshes: wp.array(dtype=wp.uint64),
    others: wp.array(dtype=wp.uint64),
    numbers: wp.array(dtype=wp.uint64),
    sizes: wp.array(dtype=int),
):
    i = wp.tid()
    sizes[i] = wp.mesh_get(meshes[i]).points.shape[0] + wp.mesh_get(others[i]).points.shape[0]
    sizes[i] += wp.mesh_get(numbers[i] + wp.uint64(1)).points.shape[0]


@pytest.mark.parametrize("kind", ["arrays", "numpy"])
def test_ids_that_are_calculated_are_looked_up(kind):
    made = [*meshes(), wp.Mesh(np.concatenate([CORNERS, CORNERS + 2]), np.concatenate([FACES, FACES + 4]))]
    order = RNG.permutation(4)
    ids = np.array([0, *(int(made[k].id) for k in order), int(made[0].id)], np.uint64)
    which = RNG.integers(-1, 6, COUNT).astype(np.int32)
    of = [None if w < 1 else made[0 if w == 5 else order[w - 1]] for w in which]
    if kind == "arrays":
        distances, sizes = wp.zeros(COUNT), wp.zeros(COUNT, dtype=int)
        given = wp.array(ids, dtype=wp.uint64), wp.array(which, dtype=int), wp.array(WHERE, dtype=wp.vec3)
        wp.launch(ask_packed, COUNT, inputs=[*given, distances, sizes])
        distances, sizes = distances.numpy(), sizes.numpy()
    else:
        distances, sizes = np.zeros(COUNT, np.float32), np.zeros(COUNT, np.int32)
        wp.launch(ask_packed, COUNT, [ids, which, WHERE], [distances, sizes])
    assert sizes.tolist() == [0 if mesh is None else len(mesh.points) for mesh in of]
    for k in range(4):
        own, t = wp.zeros(COUNT), wp.zeros(COUNT)
        wp.launch(ask_one, COUNT, inputs=[made[k].id, wp.array(WHERE, dtype=wp.vec3), own, t])
        mine = [mesh is made[k] for mesh in of]
        np.testing.assert_array_equal(distances[mine], own.numpy()[mine])


def test_ids_that_are_calculated_name_nothing_where_there_are_none():
    given = [wp.zeros(3, dtype=wp.uint64), wp.array([-1, 1, 2], dtype=int), wp.zeros(3, dtype=wp.vec3)]
    sizes = wp.full(3, 7, dtype=int)
    wp.launch(ask_packed, 3, inputs=[*given, wp.zeros(3), sizes])
    assert not sizes.numpy().any()


def test_numbers_that_a_kernel_calculates_are_ids_like_any_others():
    made = meshes()
    ids, others = (wp.array([mesh.id for mesh in some], dtype=wp.uint64) for some in (made, made[::-1]))
    below = wp.array([int(made[0].id) - 1, 7, int(made[2].id) - 1], dtype=wp.uint64)
    sizes = wp.zeros(3, dtype=int)
    wp.launch(ask_other, 3, inputs=[ids, others, below, sizes])
    assert sizes.list() == [12, 8, 12]
    with pytest.raises(wp.KernelTypeError, match="(?s)not known to be the id of a wp.Mesh.*wp.uint64.1.*"):
        arrays = ids.numpy(), others.numpy(), below.numpy()
        wp.launch(ask_other, 3, list(arrays), [np.zeros(3, np.int32)])


def test_captures_find_what_ids_name_whenever_they_run():
    made = meshes()
    ids, which = wp.array([mesh.id for mesh in made], dtype=wp.uint64), wp.array(np.arange(COUNT) % 3, dtype=int)
    x, distances, sizes = wp.array(WHERE, dtype=wp.vec3), wp.zeros(COUNT), wp.zeros(COUNT, dtype=int)
    by = wp.full(1, 1.5, dtype=float)
    inputs = [ids, which, x, distances, sizes]
    with wp.ScopedCapture() as capture:
        for mesh in made:
            wp.launch(grow, mesh.points.shape, inputs=[mesh.points, by])
            mesh.refit()
        wp.launch(ask_packed, COUNT, inputs=inputs)
        wp.launch(halve, COUNT, inputs=[distances])
    inputs.clear()  # is the program's own
    assert not distances.numpy().any()
    for _ in range(2):
        wp.capture_launch(capture.graph)
        found = distances.numpy().copy()
        wp.launch(ask_packed, COUNT, inputs=[ids, which, x, distances, sizes])
        np.testing.assert_allclose(found, distances.numpy() / 2)
        assert (sizes.numpy() == 4).all()
    ids.assign(ids.numpy()[[2, 0, 1]])
    before = distances.numpy().copy()
    by.fill_(1.0)
    wp.capture_launch(capture.graph)
    wp.launch(ask_packed, COUNT, inputs=[ids, which, x, distances, sizes])
    assert not np.allclose(distances.numpy(), before)


def test_captures_check_launches_with_ids_at_once():
    mesh = wp.Mesh(CORNERS, FACES)
    ids, x = wp.array([mesh.id], dtype=wp.uint64), wp.array(WHERE, dtype=wp.vec3)
    with wp.ScopedCapture(), pytest.raises(wp.KernelTypeError, match="'which'"):
        wp.launch(ask_packed, COUNT, inputs=[ids, x, x, wp.zeros(COUNT), wp.zeros(COUNT, dtype=int)])


@wp.kernel
def grow(points: wp.array(dtype=wp.vec3), by: wp.array(dtype=float)):
    i = wp.tid()
    points[i] = points[i] * by[0]


@wp.kernel
def halve(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 0.5 * x[i]


@wp.kernel
def of_any(meshes: wp.array(dtype=wp.uint64), y: wp.array(dtype=Any)):
    i = wp.tid()
    if meshes[i] != wp.uint64(0):
        y[i] += y.dtype(wp.mesh_get(meshes[i]).points[0][2])
    y[i] += y.dtype(1.0)


@pytest.mark.parametrize("kind", [wp.float32, wp.float64, wp.int32])
def test_generic_kernels_take_arrays_of_ids_that_name_nothing(kind):
    mesh = wp.Mesh(CORNERS[::-1] + 1, FACES)
    y = wp.zeros(2, dtype=kind)
    for ids, wanted in (([0, 0], [1, 1]), ([0, mesh.id], [2, 4])):
        wp.launch(of_any, 2, inputs=[wp.array(ids, dtype=wp.uint64), y])
        assert y.numpy().tolist() == wanted


@wp.kernel
def nearest_of(
    meshes: wp.array2d(dtype=wp.uint64),
    x: wp.array(dtype=wp.vec3),
    t: wp.array3d(dtype=float),
    same: wp.array2d(dtype=int),
):
    j, k, i = wp.tid()
    hit = wp.mesh_query_ray(meshes[j, k], x[i], wp.vec3(0.1, 0.2, -1.0), 100.0)
    t[j, k, i] = hit.t
    if meshes[j, k] == meshes[0, 0]:
        same[j, k] = 1


def test_ids_in_arrays_of_two_dimensions():
    meshes = [wp.Mesh(wp.array(s * CORNERS, dtype=wp.vec3), wp.array(FACES)) for s in (1.0, 2.0, 3.0)]
    which = np.array([[0, 1], [2, 0], [1, 1]])
    ids = np.array([mesh.id for mesh in meshes], np.uint64)[which]
    x = wp.array(WHERE, dtype=wp.vec3)
    t, same = wp.zeros((3, 2, COUNT), dtype=float), wp.zeros((3, 2), dtype=int)
    wp.launch(nearest_of, (3, 2, COUNT), [wp.array(ids), x, t, same])
    for j, k in np.ndindex(3, 2):
        distance, alone = wp.zeros(COUNT, dtype=float), wp.zeros(COUNT, dtype=float)
        wp.launch(ask_one, COUNT, [meshes[which[j, k]].id, x, distance, alone])
        np.testing.assert_array_equal(t.numpy()[j, k], alone.numpy())
    assert len({tuple(row) for row in t.numpy().reshape(6, COUNT)}) == 3
    np.testing.assert_array_equal(same.numpy(), which == 0)
    wp.launch(nearest_of, (3, 2, COUNT), [wp.zeros((3, 2), dtype=wp.uint64), x, t, same])
    np.testing.assert_array_equal(t.numpy(), 0.0)


def test_graphs_run_launches_with_ids_natively_as_long_as_they_name_the_same():
    made = meshes()
    ids, which = wp.array([mesh.id for mesh in made], dtype=wp.uint64), wp.array(np.arange(COUNT) % 3, dtype=int)
    x, distances, sizes = wp.array(WHERE, dtype=wp.vec3), wp.zeros(COUNT), wp.zeros(COUNT, dtype=int)
    inputs = [ids, which, x, distances, sizes]
    with wp.ScopedCapture() as capture:
        distances.zero_()
        wp.launch(ask_packed, COUNT, inputs=inputs)
        wp.launch(halve, COUNT, inputs=[distances])

    def run(is_same):
        before = distances.numpy().copy()
        wp.capture_launch(capture.graph)
        found = distances.numpy().copy()
        distances.zero_()
        wp.launch(ask_packed, COUNT, inputs=inputs)
        np.testing.assert_array_equal(found, np.float32(0.5) * distances.numpy())
        assert np.array_equal(found, 0.5 * before) is is_same

    run(False)
    run(True)
    (part,) = capture.graph._parts
    assert type(part.run).__name__ == "Replay"
    made[1].points.assign(made[1].points.numpy() * 1.7)  # which a launch reads as they are
    run(False)
    made[2].refit()
    run(True)
    changed = ids.numpy()  # which shows the array
    changed[:] = changed[[2, 0, 1]]
    run(False)
    run(True)
    changed[:] = 0
    run(False)
    trees = wp.Bvh(wp.array(WHERE, dtype=wp.vec3), wp.array(WHERE + 1, dtype=wp.vec3))
    changed[:] = int(trees.id)  # which is no mesh
    wp.capture_launch(capture.graph)
    assert not sizes.numpy().any()
    changed[:] = int(made[0].id)
    run(False)


def test_graphs_with_tapes_look_ids_up():
    x = wp.array(WHERE, dtype=wp.vec3, requires_grad=True)
    y = wp.zeros(COUNT, dtype=wp.vec3, requires_grad=True)
    given = wp.array(WHERE[::-1].copy(), dtype=wp.vec3)
    ids = wp.zeros(2, dtype=wp.uint64)
    with wp.ScopedCapture() as capture:
        x.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(pushed, COUNT, inputs=[x, ids], outputs=[y])
        tape.backward(grads={y: given})
    wanted = jax.vjp(lambda x: x * jnp.sum(x * x, axis=1, keepdims=True), WHERE)[1](WHERE[::-1])[0]
    for _ in range(3):
        x.grad.fill_(7.0)
        wp.capture_launch(capture.graph)
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=2e-5, atol=1e-5)
    mesh = wp.Mesh(CORNERS, FACES)
    ids.assign(np.array([int(mesh.id), 0], np.uint64))
    x.grad.fill_(7.0)
    wp.capture_launch(capture.graph)
    assert not np.allclose(x.grad.numpy(), wanted) and np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("is_list", [False, True])
def test_launches_with_meshes_are_repeated_on_memory_of_others(is_list):
    mesh = wp.Mesh(wp.array(CORNERS, dtype=wp.vec3), wp.array(FACES))
    other = wp.Mesh(wp.array(CORNERS * 2, dtype=wp.vec3), wp.array(FACES))
    for k in range(4):
        places = np.ascontiguousarray(WHERE + np.float32(0.1 * k))
        found, t = np.zeros((2, 1, COUNT), np.float32)
        shown = [wp.array(places, dtype=wp.vec3, copy=False), *(wp.array(a[0], copy=False) for a in (found, t))]
        own, own_t = wp.zeros(COUNT), wp.zeros(COUNT)
        asked = (mesh, other)[k % 2]
        wp.launch(ask_one, COUNT, inputs=[asked.id, wp.array(places, dtype=wp.vec3), own, own_t])
        if is_list:
            none = wp.zeros(COUNT, dtype=int)
            ids = wp.array([asked.id], dtype=wp.uint64)
            wp.launch(ask_packed, COUNT, inputs=[ids, none, shown[0], shown[1], wp.zeros(COUNT, dtype=int)])
            np.testing.assert_array_equal(found[0], own.numpy())
        else:
            wp.launch(ask_one, COUNT, inputs=[asked.id, *shown])
            np.testing.assert_array_equal(found[0], own.numpy())
            np.testing.assert_array_equal(t[0], own_t.numpy())


def test_memory_of_others_that_a_mesh_is_made_of_is_told_from_such_that_it_is_not():
    """A tensor that holds the mesh's own boxes is no other tensor."""
    mesh = meshes()[0]
    places = np.ndarray((3, 3), np.float32, mesh.bounds)
    shown = [wp.array(each, dtype=wp.vec3, copy=False) for each in (np.array(places), places)]
    calls = [slot_of(first_corner, 3, None, [mesh, x]) for x in shown]
    keys = [call.key for call in calls]
    assert None not in keys and keys[0] != keys[1]


@wp.kernel
def first_corner(meshes: wp.array(dtype=wp.uint64), corner: wp.array(dtype=wp.vec3)):
    corner[0] = wp.mesh_get(meshes[0]).points[0]


def test_a_zero_that_changes_its_sign_is_another_number():
    """In memory that others write to without saying so, where only the content tells."""
    points = CORNERS.copy()
    mesh = wp.Mesh(wp.array(points, dtype=wp.vec3, copy=False), wp.array(FACES))
    ids, corner = wp.array([mesh.id], dtype=wp.uint64), wp.zeros(1, dtype=wp.vec3)
    for zero in (0.0, -0.0, 0.0):
        points[0] = zero
        wp.launch(first_corner, 1, inputs=[ids, corner])
        np.testing.assert_array_equal(np.signbit(corner.numpy()), np.signbit(points[:1]))
