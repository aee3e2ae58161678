"""Queries of grids, trees and meshes give what Warp's give."""

import geometry_kernels as kernels
import numpy as np
import pytest
from loaded_as_warp import module_of_warp

import jwarp as wp

RNG = np.random.default_rng(11)
COUNT = 250


def a_mesh(rows=9):
    """A bumpy ball that is closed, with outward normals."""
    v, u = np.meshgrid(
        np.linspace(0, np.pi, rows + 1), np.linspace(0, 2 * np.pi, 2 * rows, endpoint=False), indexing="ij"
    )
    r = 1 + 0.2 * np.sin(3 * u) * np.sin(v) ** 2 + 0.1 * np.cos(3 * v)
    points = np.stack([r * np.cos(u) * np.sin(v), r * np.sin(u) * np.sin(v), r * np.cos(v)], -1).reshape(-1, 3)
    i, j = (x.ravel() for x in np.mgrid[:rows, : 2 * rows])
    a, b, c, d = (k * 2 * rows + m % (2 * rows) for k, m in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)))
    faces = np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1)])
    last = rows * 2 * rows
    faces = np.where(faces < 2 * rows, 0, np.where(faces >= last, last, faces))  # one point at each pole
    faces = faces[[len({*face}) == 3 for face in faces.tolist()]]
    return points.astype(np.float32), RNG.permutation(faces).astype(np.int32).ravel()


@pytest.fixture(scope="module")
def of_warp(tmp_path_factory):
    pytest.importorskip("warp")
    return module_of_warp(kernels, tmp_path_factory.mktemp("of_warp"))


def run_warp(kernel, inputs, shapes):
    import warp

    arrays = [
        warp.array(x, dtype=warp.vec3 if x.dtype == np.float32 and x.shape[-1:] == (3,) else None)
        if isinstance(x, np.ndarray) else x
        for x in inputs
    ]  # fmt: skip
    outputs = [
        warp.zeros(shape, dtype=argument.type.dtype)
        for shape, argument in zip(shapes, kernel.adj.args[len(inputs) :], strict=True)
    ]
    warp.launch(kernel, COUNT, inputs=arrays, outputs=outputs, device="cpu")
    return [x.numpy() for x in outputs]


def points(scale=1.5):
    return RNG.uniform(-scale, scale, (COUNT, 3)).astype(np.float32)


def warp_array(x):
    import warp

    return warp.array(x, dtype=warp.vec3) if x.dtype == np.float32 else warp.array(x, dtype=warp.int32)


def test_neighbours_of_a_hash_grid(of_warp):
    import warp

    where = points(3.0)
    theirs = warp.HashGrid(5, 6, 7, device="cpu")
    theirs.build(warp_array(where), 0.5)
    ours = wp.HashGrid(5, 6, 7)
    ours.build(where, 0.5)
    for radius in (0.4, 1.7):
        (expected,) = run_warp(of_warp.neighbours, [theirs.id, where, radius], [(COUNT, COUNT)])
        found = wp.launch(kernels.neighbours, COUNT, [ours.id, where, radius], [(COUNT, COUNT)])
        np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("leaf_size", [1, 3])
def test_boxes_of_a_tree(of_warp, leaf_size):
    import warp

    lows = points()
    highs = lows + RNG.uniform(0, 0.7, lows.shape).astype(np.float32)
    theirs = warp.Bvh(warp_array(lows), warp_array(highs), leaf_size=leaf_size)
    ours = wp.Bvh(lows, highs, leaf_size=leaf_size)
    shapes = [(COUNT, COUNT)] * 4
    expected = run_warp(of_warp.boxes, [theirs.id, lows, highs], shapes)
    for found, known in zip(wp.launch(kernels.boxes, COUNT, [ours.id, lows, highs], shapes), expected, strict=True):
        np.testing.assert_array_equal(found, known)


def meshes(velocities=None, **more):
    import warp

    where, faces = a_mesh()
    moving = None if velocities is None else warp_array(velocities)
    theirs = warp.Mesh(warp_array(where), warp_array(faces), moving, support_winding_number=True)
    return theirs, wp.Mesh(where, faces, velocities, support_winding_number=True, **more)


def test_closest_points_of_a_mesh(of_warp):
    velocities = RNG.normal(size=a_mesh()[0].shape).astype(np.float32)
    theirs, ours = meshes(velocities)
    where, shapes = points(), [(COUNT, 5), (COUNT, 7), COUNT, COUNT]
    positions, signs, moving, normals = run_warp(of_warp.closest, [theirs.id, where], shapes)
    found = [np.asarray(x) for x in wp.launch(kernels.closest, COUNT, [ours.id, where], shapes)]
    np.testing.assert_allclose(found[0], positions, atol=2e-5)
    np.testing.assert_array_equal(found[1], signs)
    # Beside a side, either face may be the closest one: most points are above the middle of a face.
    alike = np.isclose(found[3], normals, atol=1e-4).all(1)
    assert alike.mean() > 0.5
    np.testing.assert_allclose(found[2], moving, atol=2e-3)


def test_rays_and_faces_of_a_mesh(of_warp):
    theirs, ours = meshes()
    starts, directions = points(), RNG.normal(size=(COUNT, 3)).astype(np.float32)
    directions[:30] *= [1, 0, 0]
    faces = ours.items.shape[0]
    shapes = [COUNT, COUNT, COUNT, (COUNT, 5), (COUNT, faces), (COUNT, faces)]
    expected = run_warp(of_warp.rays, [theirs.id, starts, directions], shapes)
    found = wp.launch(kernels.rays, COUNT, [ours.id, starts, directions], shapes)
    for mine, known in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(mine, known, atol=1e-4)
    for mine, known in zip(found[3:], expected[3:], strict=True):
        np.testing.assert_array_equal(mine, known)


def test_groups_of_trees_and_meshes(of_warp):
    import warp

    lows = points()
    highs = lows + RNG.uniform(0, 1.0, lows.shape).astype(np.float32)
    where, faces = a_mesh()
    of_boxes = RNG.integers(0, 3, COUNT).astype(np.int32)
    of_faces = RNG.integers(0, 4, len(faces) // 3).astype(np.int32)
    theirs = [
        warp.Bvh(warp_array(lows), warp_array(highs), groups=warp_array(of_boxes)),
        warp.Mesh(warp_array(where), warp_array(faces), groups=warp_array(of_faces)),
    ]
    ours = [wp.Bvh(lows, highs, groups=of_boxes), wp.Mesh(where, faces, groups=of_faces)]
    shapes = [(COUNT, COUNT), (COUNT, 4)]
    expected = run_warp(of_warp.of_group, [*(x.id for x in theirs), lows, highs], shapes)
    found = wp.launch(kernels.of_group, COUNT, [*ours, lows, highs], shapes)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-4)


@wp.kernel
def roots_of(tree: wp.uint64, roots: wp.array[int]):
    roots[wp.tid()] = wp.bvh_get_group_root(tree, wp.tid())


@wp.kernel
def below(tree: wp.uint64, roots: wp.array[int], low: wp.vec3, high: wp.vec3, found: wp.array2d[int]):
    i = wp.tid()
    for box in wp.bvh_query_aabb(tree, low, high, roots[i]):
        found[i, box] += 1


def test_roots_of_groups_are_kept_for_later_launches():
    lows = np.zeros((65, 3), np.float32)
    lows[:, 0] = np.exp(np.linspace(-70, 0, 65))  # a tree by areas would be as deep as there are boxes
    highs = lows * np.float32([1.001, 0, 0]) + np.float32([0, 1, 1])
    for groups in (np.zeros(65, np.int32), np.r_[np.zeros(50), np.arange(1, 16)].astype(np.int32)):
        tree = wp.Bvh(lows, highs, groups=groups)
        (roots,) = wp.launch(roots_of, 17, [tree], [17])
        low, high = np.float32([-1, -1, -1]), np.float32([0.5, 2, 2])
        (found,) = wp.launch(below, 17, [tree, roots, low, high], [(17, 65)])
        within = (groups == np.arange(17)[:, None]) & (lows[:, 0] <= 0.5)
        np.testing.assert_array_equal(found[: groups.max() + 1], within[: groups.max() + 1])
        np.testing.assert_array_equal(roots[groups.max() + 1 :], -1)  # of no group: the whole tree


def test_pairs_of_triangles(of_warp):
    corners = RNG.normal(size=(COUNT, 6, 3)).astype(np.float32)
    corners[:100, :, 2] = 0.25  # in one plane
    corners[100:150] = np.round(corners[100:150])  # that touch
    (expected,) = run_warp(of_warp.triangles, [corners], [COUNT])
    (found,) = wp.launch(kernels.triangles, COUNT, [corners], [COUNT])
    np.testing.assert_array_equal(found, expected)
    assert 5 < expected[:100].sum() < 98
    assert 5 < expected[150:].sum() < 95


@wp.kernel
def in_order(
    mesh: wp.uint64,
    tree: wp.uint64,
    grid: wp.uint64,
    x: wp.array(dtype=wp.vec3),
    ways: wp.array(dtype=wp.vec3),
    found: wp.array3d(dtype=int),
    hits: wp.array2d(dtype=float),
):
    i = wp.tid()
    reach = wp.vec3(0.5, 0.5, 0.5)
    n = wp.int32(0)
    for face in wp.mesh_query_aabb(mesh, x[i] - reach, x[i] + reach):
        found[i, 0, n] = face + 1
        n += 1
    n = wp.int32(0)
    for box in wp.bvh_query_aabb(tree, x[i] - reach, x[i] + reach):
        found[i, 1, n] = box + 1
        n += 1
    n = wp.int32(0)
    for point in wp.hash_grid_query(grid, x[i], 0.5):
        found[i, 2, n] = point + 1
        n += 1
    n = wp.int32(0)
    for box in wp.bvh_query_ray(tree, x[i], ways[i]):
        found[i, 3, n] = box + 1
        n += 1
    near = wp.mesh_query_point(mesh, x[i], 10.0)
    if near.result:
        found[i, 4, 0] = near.face + 1
        hits[i, 0] = near.u + 2.0 * near.v + 4.0 * near.sign
    ray = wp.mesh_query_ray(mesh, x[i], ways[i], 10.0)
    if ray.result:
        found[i, 5, 0] = ray.face + 1
        hits[i, 1] = ray.t + ray.u + ray.v
    hits[i, 2] = float(wp.mesh_query_ray_count_intersections(mesh, x[i], ways[i]))


@wp.kernel
def in_order_of_blocks(tree: wp.uint64, x: wp.array(dtype=wp.vec3), found: wp.array2d(dtype=int)):
    i, j = wp.tid()
    reach = wp.vec3(0.5, 0.5, 0.5)
    query = wp.tile_bvh_query_aabb(tree, x[i] - reach, x[i] + reach)
    n = j
    while wp.tile_query_valid(query):
        found[i, n] = wp.untile(wp.tile_bvh_query_next(query)) + 1
        n += 8


def test_results_come_in_one_order_on_any_number_of_cores_and_beside_any_others():
    from jwarp import _native

    where = points()
    corners, faces = a_mesh()
    ways = RNG.normal(size=where.shape).astype(np.float32)
    where[: COUNT // 2] = where[: COUNT // 2] * np.float32([1, 1, 0]) + np.float32([0, 0, 2])
    ways[: COUNT // 2] = [0.0, 0.01, -1.0]  # rays side by side
    where[3::50], ways[5::40] = np.nan, 0.0
    order = RNG.permutation(COUNT)
    found = []
    try:
        for threads in (1, 2, 7):
            _native.set_thread_limit(threads, eager=threads > 1)
            grid = wp.HashGrid(4, 4, 4)
            grid.build(where, 0.5)
            made = [wp.Mesh(corners, faces), wp.Bvh(where, where + np.float32(0.3)), grid]
            sizes = [(COUNT, 6, 400), (COUNT, 3)]
            found.append(wp.launch(in_order, COUNT, [*made, where, ways], sizes))
            found[-1] += wp.launch_tiled(in_order_of_blocks, [COUNT], [made[1], where], [(COUNT, 400)], block_dim=8)
            others = wp.launch(in_order, COUNT, [*made, where[order], ways[order]], sizes)
            for one, other in zip(found[-1], others, strict=False):
                np.testing.assert_array_equal(np.asarray(one)[order], other)
    finally:
        _native.set_thread_limit(0)
    assert all((np.asarray(found[0][0])[:, k] > 0).any() for k in range(6)) and np.asarray(found[0][2]).any()
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)
