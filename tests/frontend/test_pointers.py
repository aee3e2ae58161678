"""Arrays that kernels make of addresses, and ids that are any numbers: living memory, or nothing."""

import gc

import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(12)


@pytest.fixture(autouse=True)
def on_host():
    with wp.ScopedDevice("cpu"):
        yield


@wp.kernel
def doubled(ptr: wp.uint64, rows: int, columns: int, sums: wp.array[float]):
    a = wp.array(ptr=ptr, shape=(rows, columns), dtype=wp.float32)
    i, j = wp.tid()
    wp.atomic_add(sums, 0, a[i, j])
    a[i, j] = a[i, j] * 2.0


@wp.kernel
def vectors_at(ptrs: wp.array[wp.uint64], y: wp.array[wp.vec3], n: wp.array[int]):
    i = wp.tid()
    a = wp.array(ptr=ptrs[i], shape=i + 2, dtype=wp.vec3)
    y[i] = a[i] + a[-1]
    n[i] = a.shape[0]


def test_arrays_of_addresses_are_living_memory():
    content = RNG.normal(size=(4, 5)).astype(np.float32)
    a, sums = wp.array(content), wp.zeros(1)
    for rows, columns in ((4, 5), (2, 3), (5, 4), (1, 20)):
        before = a.numpy().ravel()[: rows * columns].copy()
        sums.zero_()
        wp.launch(doubled, (rows, columns), inputs=[a.ptr, rows, columns, sums])
        np.testing.assert_allclose(sums.numpy(), before.sum(), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(a.numpy().ravel()[: rows * columns], before * 2)


def test_an_array_of_an_address_ends_where_its_memory_ends():
    a, beside, sums = wp.full(6, 1.0), wp.full(6, 1.0), wp.zeros(1)
    wp.launch(doubled, (100, 100), inputs=[a.ptr + 8, 100, 100, sums])
    assert sums.list() == [4.0]
    assert a.list() == [1.0, 1.0, 2.0, 2.0, 2.0, 2.0] and beside.list() == [1.0] * 6
    for wrong in (a.ptr + 2, a.ptr - 4, a.ptr + 24, 0, 5, (1 << 64) - 4, int(RNG.integers(1 << 62))):
        sums.zero_()
        wp.launch(doubled, (100, 100), inputs=[wrong, 100, 100, sums])
        assert sums.list() == [0.0]
    place = a.ptr
    del a
    gc.collect()
    wp.launch(doubled, (6, 1), inputs=[place, 6, 1, sums])
    assert sums.list() == [0.0]


def test_addresses_are_numbers_in_arrays():
    kept = [wp.array(RNG.normal(size=(k + 2, 3)), dtype=wp.vec3) for k in range(5)]
    ptrs = wp.array([a.ptr for a in kept], dtype=wp.uint64)
    y, n = wp.zeros(5, dtype=wp.vec3), wp.zeros(5, dtype=int)
    wp.launch(vectors_at, 5, inputs=[ptrs, y, n])
    np.testing.assert_allclose(y.numpy(), [a.numpy()[k] + a.numpy()[-1] for k, a in enumerate(kept)], rtol=1e-6)
    assert n.list() == [2, 3, 4, 5, 6]


@wp.kernel
def ask_all(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], found: wp.array[float], counts: wp.array2d[int]):
    i = wp.tid()
    id = ids[i]
    for j in wp.hash_grid_query(id, x[i], 0.4):
        counts[i, 0] += j + 1
    for j in wp.bvh_query_aabb(id, x[i] - wp.vec3(0.3), x[i] + wp.vec3(0.3)):
        counts[i, 1] += j + 1
    q = wp.mesh_query_point_no_sign(id, x[i], 10.0)
    if q.result:
        found[i] = wp.length(x[i] - wp.mesh_eval_position(id, q.face, q.u, q.v))
    counts[i, 2] = wp.mesh_get(id).points.shape[0]


@wp.kernel
def ask_one(grid: wp.uint64, tree: wp.uint64, mesh: wp.uint64, x: wp.array[wp.vec3], found: wp.array[float],
            counts: wp.array2d[int]):  # fmt: skip
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], 0.4):
        counts[i, 0] += j + 1
    for j in wp.bvh_query_aabb(tree, x[i] - wp.vec3(0.3), x[i] + wp.vec3(0.3)):
        counts[i, 1] += j + 1
    q = wp.mesh_query_point_no_sign(mesh, x[i], 10.0)
    if q.result:
        found[i] = wp.length(x[i] - wp.mesh_eval_position(mesh, q.face, q.u, q.v))


def test_ids_are_any_numbers():
    """Random ones, of the wrong kind, of what is gone: each finds what has that id now, or nothing."""
    cloud = RNG.uniform(-1, 1, (30, 3)).astype(np.float32)
    faces = RNG.permutation(30).astype(np.int32)
    grid, tree = wp.HashGrid(4, 4, 4), wp.Bvh(wp.array(cloud, dtype=wp.vec3), wp.array(cloud + 0.2, dtype=wp.vec3))
    grid.build(wp.array(cloud, dtype=wp.vec3), 0.4)
    mesh = wp.Mesh(wp.array(cloud, dtype=wp.vec3), wp.array(faces))
    alive = np.array([int(grid.id), int(tree.id), int(mesh.id)], np.uint64)
    gone = np.array([int(wp.Mesh(wp.array(cloud, dtype=wp.vec3), wp.array(faces)).id) for _ in range(3)], np.uint64)
    near = np.concatenate([alive + np.uint64(1 << 20), alive - np.uint64(1), alive ^ np.uint64(1 << 63)])
    anything = RNG.integers(0, 1 << 64, 40, dtype=np.uint64)
    near = near[~np.isin(near, alive)]
    ids = np.concatenate([alive, gone, near, anything, np.arange(20).astype(np.uint64)])
    x = wp.array(RNG.uniform(-1, 1, (len(ids), 3)), dtype=wp.vec3)
    for _ in range(2):
        found, counts = wp.zeros(len(ids)), wp.zeros((len(ids), 3), dtype=int)
        wp.launch(ask_all, len(ids), inputs=[wp.array(ids, dtype=wp.uint64), x, found, counts])
        own, own_counts = wp.zeros(len(ids)), wp.zeros((len(ids), 2), dtype=int)
        wp.launch(ask_one, len(ids), inputs=[grid.id, tree.id, mesh.id, x, own, own_counts])
        is_known = np.isin(ids, alive)
        assert not found.numpy()[~is_known].any() and not counts.numpy()[~is_known].any()
        assert (counts.numpy()[0, 0], counts.numpy()[1, 1]) == (own_counts.numpy()[0, 0], own_counts.numpy()[1, 1])
        assert found.numpy()[2] == own.numpy()[2] and counts.numpy()[:3, 2].tolist() == [0, 0, 30]
        assert not counts.numpy()[1:3, 0].any() and not counts.numpy()[[0, 2], 1].any()
        mesh.points.assign(mesh.points.numpy() * np.float32(1.2))
        mesh.refit()
        grid.build(wp.array(cloud * np.float32(0.7), dtype=wp.vec3), 0.4)


@pytest.mark.parametrize("number", [lambda g: g.id, lambda g: wp.uint64(g.id), lambda g: int(g.id),
                                    lambda g: np.uint64(g.id)])  # fmt: skip
def test_numbers_of_all_kinds_are_ids(number):
    cloud = wp.array(RNG.uniform(0, 2, (64, 3)), dtype=wp.vec3)
    grids = [wp.HashGrid(8, 8, 8) for _ in range(3)]
    for k, grid in enumerate(grids):
        grid.build(cloud, 1.0 + k)
        counts, wanted = wp.zeros(64, dtype=int), wp.zeros(64, dtype=int)
        wp.launch(count_near, 64, inputs=[number(grid), cloud, counts])
        wp.launch(count_near, 64, inputs=[grid.id, cloud, wanted])
        np.testing.assert_array_equal(counts.numpy(), wanted.numpy())
        assert counts.numpy().all()


@wp.kernel
def count_near(grid: wp.uint64, x: wp.array[wp.vec3], counts: wp.array[int]):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], 1.0):
        if wp.length(x[i] - x[j]) <= 1.0:
            counts[i] += 1


def test_debug_mode_says_that_a_number_names_nothing():
    cloud, counts = wp.array(RNG.uniform(0, 2, (4, 3)), dtype=wp.vec3), wp.zeros(4, dtype=int)
    wp.launch(count_near, 4, inputs=[77, cloud, counts])
    assert not counts.numpy().any()
    before, wp.config.mode = wp.config.mode, "debug"
    try:
        with pytest.raises(Exception, match="not the id of a wp.HashGrid that is alive"):
            wp.launch(count_near, 4, inputs=[77, cloud, counts])
    finally:
        wp.config.mode = before


@wp.kernel
def in_slots(grids: wp.array[wp.uint64], found: wp.array2d[int]):
    i, j = wp.tid()
    found[i, j] = wp.hash_grid_point_id(grids[i], j)


def test_functions_of_grids_of_all_precisions_take_any_ids():
    cloud, grids = RNG.uniform(0, 4, (9, 3)), []
    for dtype, vec in ((wp.float16, wp.vec3h), (wp.float32, wp.vec3), (wp.float64, wp.vec3d)):
        grids.append(wp.HashGrid(4, 4, 4, dtype=dtype))
        grids[-1].build(wp.array(cloud, dtype=vec), 1.0)
    found = wp.zeros((3, 9), dtype=int)
    wp.launch(in_slots, (3, 9), inputs=[wp.array([int(g.id) for g in grids], dtype=wp.uint64), found])
    assert [sorted(row) for row in found.numpy().tolist()] == [list(range(9))] * 3
