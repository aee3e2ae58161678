"""Grids and meshes that change: records follow them, pytrees keep what they were, and traced ones are not used."""

import copy
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jwarp as wp
from jwarp.api.geometry.mesh import _boxes
from jwarp.api.geometry.tree import refitted, widened

RNG = np.random.default_rng(8)
N, REACH = 40, 0.3
FIRST, SECOND = RNG.random((2, N, 3)).astype(np.float32)
CORNERS = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32)


@wp.kernel
def count(grid: wp.uint64, points: wp.array[wp.vec3], reach: float, near: wp.array[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, points[i], reach):
        if wp.length(points[j] - points[i]) < reach:
            near[i] += 1


@wp.kernel
def above(mesh: wp.uint64, places: wp.array[wp.vec3], distance: wp.array[float]):
    i = wp.tid()
    q = wp.mesh_query_point_no_sign(mesh, places[i], 100.0)
    distance[i] = wp.length(places[i] - wp.mesh_eval_position(mesh, q.face, q.u, q.v))


def expected(points):
    return (np.linalg.norm(points[:, None] - points, axis=-1) < REACH).sum(1)


def a_grid(points):
    grid = wp.HashGrid(5, 5, 5)
    grid.build(points, REACH)
    return grid


@pytest.mark.parametrize("as_id", [False, True])
@pytest.mark.parametrize("is_in_place", [False, True])
def test_records_of_numpy_and_jax_follow_grids(as_id, is_in_place):
    points, near = FIRST.copy(), np.zeros(N, np.int32)
    grid = a_grid(points)
    given = grid.id if as_id else grid
    record = wp.launch(count, N, [given, points, REACH], [near if is_in_place else N], record_cmd=True)
    for places in (FIRST, SECOND, FIRST[::-1]):
        points[:], near[:] = places, 0
        grid.build(points, REACH)
        np.testing.assert_array_equal(record.launch()[0], expected(places))
    copied, before = copy.deepcopy(record), points.copy()
    points[:] = SECOND
    grid.build(points, REACH)
    np.testing.assert_array_equal(
        copied.launch()[0], (2 if is_in_place else 1) * expected(before)
    )  # with its own array
    fewer, near[:] = a_grid(points[:5]), 0
    record.set_param_at_index(0, fewer.id if as_id else fewer)
    known = (np.linalg.norm(points[:, None] - points[:5], axis=-1) < REACH).sum(1)
    np.testing.assert_array_equal(record.launch()[0], known)
    near[:] = 0
    fewer.build(points, REACH)
    record.set_param_by_name("reach", np.float32(REACH))
    np.testing.assert_array_equal(record.launch()[0], expected(points))
    near[:] = 0
    record.set_params([fewer, points, 0.0, near if is_in_place else N])
    np.testing.assert_array_equal(record.launch()[0], 0)
    with pytest.raises(wp.KernelTypeError, match="expected HashGridArrays"):
        record.set_param_at_index(0, wp.Bvh(CORNERS, CORNERS))


def test_records_of_arrays_that_change_take_other_grids():
    points, near = wp.array(FIRST, dtype=wp.vec3), wp.zeros(N, dtype=int)
    record = wp.launch(count, N, [a_grid(points), points, REACH], [near], record_cmd=True)
    points.assign(SECOND)
    for given in (a_grid(points), a_grid(points).id):
        near.zero_()
        record.set_param_at_index(0, given)
        record.launch()
        np.testing.assert_array_equal(near.numpy(), expected(SECOND))


@pytest.mark.parametrize("kind", [np.array, wp.array])
def test_records_of_adjoints_follow_meshes(kind):
    is_numpy = kind is np.array
    corners = CORNERS.copy() if is_numpy else wp.array(CORNERS, dtype=wp.vec3)
    mesh = wp.Mesh(corners, FACES if is_numpy else wp.array(FACES, dtype=int))
    places = np.float32([[0.2, 0.3, -1.0], [0.1, 0.1, -3.0]])
    if is_numpy:
        given = {"adj_inputs": [None, True], "adj_outputs": [np.ones(2, np.float32)]}
        record = wp.launch(above, 2, [mesh, places], [2], adjoint=True, record_cmd=True, **given)
    else:
        x, y = wp.array(places, dtype=wp.vec3, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
        record = wp.launch(above, 2, [mesh, x], [y], adjoint=True, record_cmd=True)
    for sign in (1, -1):  # below the mesh, then above it
        moved = CORNERS - np.float32([0, 0, 10 * (sign < 0)])
        if is_numpy:
            corners[:] = moved
        else:
            corners.assign(moved)
        mesh.refit()
        if is_numpy:
            (found,) = record.launch()
        else:
            x.grad.zero_()
            y.grad.fill_(1.0)
            record.launch()
            found = x.grad.numpy()
        assert (np.sign(found[:, 2]) == -sign).all()


def test_leaves_of_meshes_stay_what_they_were():
    corners, faces = CORNERS.copy(), FACES.copy()
    mesh = wp.Mesh(corners, faces, velocities=corners)
    places = np.float32([[0.2, 0.3, -1.0]])
    then = jax.tree.unflatten(jax.tree.structure(mesh), jax.tree.leaves(mesh))
    before = wp.launch(above, 1, [then, places], [1])[0]
    corners *= 4
    mesh.refit()
    faces[:] = 0
    np.testing.assert_array_equal(wp.launch(above, 1, [then, places], [1])[0], before)
    np.testing.assert_array_equal(then.points, CORNERS)
    assert mesh.points is corners


def test_functions_build_no_foreign_grids():
    foreign = wp.HashGrid(5, 5, 5)
    mesh = wp.Mesh(CORNERS, FACES)
    points, near = wp.array(FIRST, dtype=wp.vec3), wp.zeros(N, dtype=int)

    def of_closure(points, near):
        foreign.build(points, REACH)
        wp.launch(count, N, [foreign.id, points, REACH], [near])

    def refitted(near):
        mesh.refit()

    for function, arguments, shown in ((of_closure, (points, near), "HashGrid"), (refitted, (near,), "Mesh")):
        with pytest.raises(wp.LaunchError, match=rf"wp\.{shown}.*test_geometry_follows\.py:\d+ while JAX") as caught:
            wp.functionalize(function)(*arguments)
        assert "as an argument of wp.functionalize" in str(caught.value)
    foreign.build(points, REACH)  # is as it was
    wp.launch(count, N, [foreign.id, points, REACH], [near])
    np.testing.assert_array_equal(near.numpy(), expected(FIRST))


def test_functions_build_grids_of_their_own():
    traces = []

    def step(grid, points, near):
        traces.append(1)
        own = wp.HashGrid(5, 5, 5)
        for built in (own, grid):
            built.build(points, REACH)
            wp.launch(count, N, [built.id, points, REACH], [near])

    grid, near = wp.HashGrid(5, 5, 5), wp.zeros(N, dtype=int)
    function = wp.functionalize(step, returns=["grid", "near"])
    for places in (FIRST, SECOND):
        grid, found = function(grid, wp.array(places, dtype=wp.vec3), near)
        np.testing.assert_array_equal(found.numpy(), 2 * expected(places))
        found.zero_()
        wp.launch(count, N, [grid, wp.array(places, dtype=wp.vec3), REACH], [found])
        np.testing.assert_array_equal(found.numpy(), expected(places))
    function(a_grid(FIRST), wp.array(FIRST, dtype=wp.vec3), near)
    function(a_grid(SECOND), wp.array(FIRST, dtype=wp.vec3), near)
    assert len(traces) == 3  # without a point, with N of its own, with N of the caller


def test_what_jax_traced_is_not_used_after():
    grid, made = wp.HashGrid(5, 5, 5), []

    @jax.jit
    def near(points):
        grid.build(points, REACH)
        made.append(wp.Bvh(points, points))
        return wp.launch(count, N, [grid, points, REACH], [N])[0]

    np.testing.assert_array_equal(near(jnp.asarray(FIRST)), expected(FIRST))
    points, found = wp.array(FIRST, dtype=wp.vec3), wp.zeros(N, dtype=int)
    for given in (points, FIRST):
        with pytest.raises(wp.LaunchError, match=r"HashGrid.* was built at .*follows\.py:\d+ in a function that JAX"):
            wp.launch(count, N, [grid, given, REACH], [found if given is points else N])
    with pytest.raises(wp.LaunchError, match=r"Bvh.* was built at .*follows\.py:\d+ in a function that JAX"):
        _ = made[0].arrays
    grid.build(points, REACH)
    wp.launch(count, N, [grid, points, REACH], [found])
    np.testing.assert_array_equal(found.numpy(), expected(FIRST))


def test_records_captures_and_tapes_hold_what_a_mesh_had_when_it_is_gone():
    places = np.float32([[0.2, 0.3, -1.0], [0.1, 0.1, -3.0]])
    x, y = wp.array(places, dtype=wp.vec3, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    made = [wp.Mesh(wp.array(CORNERS, dtype=wp.vec3), wp.array(FACES, dtype=int)) for _ in range(3)]
    gone = [weakref.ref(mesh) for mesh in made]
    record = wp.launch(above, 2, [made[0], x], [y], record_cmd=True)
    with wp.ScopedCapture() as capture:
        wp.launch(above, 2, [made[1].id, x], [y])
    with wp.Tape() as tape:
        wp.launch(above, 2, [made[2].id, x], [y])
    expected = y.numpy()
    made.clear()
    gc.collect()
    assert all(mesh() is None for mesh in gone)
    others = [wp.Mesh(wp.array(CORNERS * 5 + k, dtype=wp.vec3), wp.array(FACES, dtype=int)) for k in range(4)]
    assert expected.all() and others
    for again in (record.launch, lambda: wp.capture_launch(capture.graph)):
        y.zero_()
        again()
        np.testing.assert_array_equal(y.numpy(), expected)
    y.grad.fill_(1.0)
    tape.backward()
    assert (x.grad.numpy()[:, 2] != 0).all()


def test_refits_write_to_arrays_that_nobody_else_has():
    written = ("nodes", "bounds", "corners", "boxes", "faces")
    points = wp.array(CORNERS, dtype=wp.vec3, requires_grad=True)
    mesh = wp.Mesh(points, wp.array(FACES, dtype=int))
    places = wp.array(RNG.normal(size=(7, 3)).astype(np.float32) + 3.0, dtype=wp.vec3)
    distance = wp.zeros(7, dtype=float, requires_grad=True)

    def moved():
        """Refit to other points: whether the same arrays were written to, and launches find what is there now."""
        before, kept = {name: id(getattr(mesh, name)) for name in written}, mesh.cached
        is_first = kept is None
        del kept
        points.assign(CORNERS + RNG.normal(size=CORNERS.shape).astype(np.float32))
        mesh.refit()
        stays = all(id(getattr(mesh, name)) == before[name] for name in written)
        wp.launch(above, 7, [mesh.id, places], [distance], record_tape=False)
        found = distance.numpy()
        fresh = wp.Mesh(points, mesh.indices)
        wp.launch(above, 7, [fresh.id, places], [distance], record_tape=False)
        np.testing.assert_array_equal(distance.numpy(), found)
        assert mesh.edge == fresh.edge and not mesh.nodes.flags.writeable
        if stays and not is_first:
            assert mesh.cached.struct.edge == mesh.edge
        return stays

    assert moved() and moved() and moved()
    for keep in (
        lambda: mesh.nodes,
        lambda: mesh.corners[1:],
        lambda: memoryview(mesh.faces),
        lambda: copy.copy(mesh),
        lambda: mesh.cached,
        lambda: mesh.cached.struct,
        lambda: mesh.cached.struct.bvh,
        lambda: mesh.cached.leaves,
        lambda: mesh.cached.struct.edge,
        lambda: wp.launch(above, 7, [mesh.id, places], [distance], record_cmd=True),
    ):
        kept = keep()
        assert not moved()
        del kept
        assert moved()

    with wp.Tape() as tape:
        wp.launch(above, 7, [mesh.id, places], [distance])
    now = points.numpy()
    assert not moved()
    points.assign(now)
    distance.grad.fill_(1.0)
    tape.backward()
    found = points.grad.numpy()
    tape.zero()
    with wp.Tape() as tape:
        wp.launch(above, 7, [wp.Mesh(points, mesh.indices).id, places], [distance])
    distance.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(points.grad.numpy(), found, rtol=1e-6)
    assert np.abs(found).max() > 0.1


def test_boxes_refitted_in_place_are_those_of_a_new_tree():
    for count, size in ((1, 1), (5, 2), (33, 1), (100, 3)):
        lowers = RNG.random((count, 3)).astype(np.float32)
        lows, highs = (wp.array(x, dtype=wp.vec3) for x in (lowers, lowers + 0.1))
        tree = wp.Bvh(lows, highs, leaf_size=size)
        for k in range(3):
            lowers = RNG.random((count, 3)).astype(np.float32)
            lowers[:: 2 + k, k] = (np.nan, np.inf, -np.inf)[k]
            lows.assign(lowers)
            highs.assign(lowers + np.float32(0.1))
            before = id(tree.nodes)
            tree.refit()
            assert id(tree.nodes) == before
            boxes = np.concatenate([lowers, lowers + np.float32(0.1)], -1)
            known = refitted(boxes, tree.items, tree.groups, size)
            np.testing.assert_array_equal(tree.nodes, known.nodes)
            np.testing.assert_array_equal(tree.bounds, known.bounds)


def test_faces_refitted_in_place_are_those_of_a_new_mesh():
    for count, size in ((1, 1), (17, 3), (5000, 4)):
        points = RNG.normal(size=(count + 9, 3)).astype(np.float32)
        faces = RNG.integers(0, len(points), (count, 3)).astype(np.int32)
        faces[::7, 1] = faces[::7, 0]  # slivers
        faces[3::11, 2], faces[4::11, 2] = len(points), -1
        faces[40:80, 1] = faces[40:80, 0]  # whole sixteens and leaves of them, and of nothing
        mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array(faces.ravel(), dtype=int), bvh_leaf_size=size)
        points = RNG.normal(size=points.shape).astype(np.float32)
        points[faces[100:200].ravel() % len(points)] = np.nan
        mesh.points.assign(points)
        mesh.refit()
        known = np.pad(points, ((0, 1), (0, 0)), constant_values=np.nan)[faces[mesh.items]]  # which number -1 is, too
        corners = np.full((len(mesh.bounds), 3, 3), np.nan, np.float32)
        corners[:count] = known
        boxes = np.empty((count, 6), np.float32)
        boxes[mesh.items] = np.concatenate([known.min(1), known.max(1)], -1)
        np.testing.assert_array_equal(_boxes(points, faces.ravel()), boxes)  # as they are where JAX traces
        nodes, bounds, _, _ = refitted(boxes, mesh.items, mesh.groups, mesh.leaf_size)
        corners = corners.reshape(-1, 9)
        found = mesh.nodes, mesh.bounds, mesh.corners, mesh.boxes, mesh.faces, mesh.levels
        for one, other in zip(found, (nodes, bounds, corners, *widened(nodes, corners)), strict=True):
            np.testing.assert_array_equal(one, other)
        sides = np.linalg.norm(known - np.roll(known, 1, 1), axis=-1)
        np.testing.assert_allclose(mesh.edge, sides[~np.isnan(sides).any(1)].mean(), rtol=1e-5)


PARTS = ("nodes", "bounds", "corners", "boxes", "faces", "edge")


def content(mesh):
    return {name: np.array(getattr(mesh, name)) for name in PARTS}


@pytest.mark.parametrize("kind", ["array", "numpy"])
@pytest.mark.parametrize("bad", [None, 12])
def test_refits_that_are_repeated_do_what_others_do(kind, bad):
    rng = np.random.default_rng(3)
    indices = rng.integers(0, 60, size=3 * 101).astype(np.int32)
    start = rng.normal(size=(60, 3)).astype(np.float32)
    given = [wp.array(start, dtype=wp.vec3) if kind == "array" else start.copy() for _ in range(2)]
    mesh, other = (wp.Mesh(points, wp.array(indices, dtype=int)) for points in given)
    copies, repeats = [], 0
    for k in range(24):
        places = rng.normal(size=(60, 3)).astype(np.float32)
        if k == bad:
            places[5] = np.nan
        for points in given:
            if kind == "numpy":
                points[...] = places
            else:
                points.assign(places)
        if k == 15:  # another array, of which the mesh's repeats know nothing
            given = [wp.array(places, dtype=wp.vec3) if kind == "array" else places.copy() for _ in range(2)]
            mesh.points, other.points = given
        other.repeat = None  # it goes the long way each time
        before = mesh.repeat
        mesh.refit()
        other.refit()
        repeats += mesh.repeat is not None and mesh.repeat is before
        for name, found in content(mesh).items():
            np.testing.assert_array_equal(found, getattr(other, name), err_msg=f"{name} after refit {k}")
        if k in (8, 18):
            copies.append((copy.copy(mesh), content(mesh)))
        if k == 20:
            copies.pop()
    assert repeats > (4 if bad else 8) and (mesh.repeat is False) == (bad is not None)
    for made, kept in copies:
        for name, wanted in kept.items():
            np.testing.assert_array_equal(getattr(made, name), wanted)
