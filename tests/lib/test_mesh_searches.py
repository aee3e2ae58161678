"""Searches of meshes: those that GPUs run, a thread in each lane, find what those of processors find."""

import dataclasses

import jax
import numpy as np

import jwarp as wp
from jwarp.lib.geometry import mesh as closest
from jwarp.lib.geometry import mesh_rays as rays
from jwarp.lib.geometry import mesh_signs

RNG = np.random.default_rng(21)
COUNT = 150


@wp.kernel
def both_ways(
    mesh: wp.uint64, x: wp.array[wp.vec3], ways: wp.array[wp.vec3], alone: wp.array2d[int], many: wp.array2d[int]
):
    i = wp.tid()
    alone[i, 0] = closest.closest_slot(mesh, x[i], 0.5)
    many[i, 0] = closest.closest_slot_of_many(mesh, x[i], 0.5)
    alone[i, 1] = rays.first_slot(mesh, x[i], ways[i], 2.0, 0, 1000, 0)
    many[i, 1] = rays.first_slot_of_many(mesh, x[i], ways[i], 2.0, 0, 1000, 0)
    alone[i, 2] = rays.first_slot(mesh, x[i], ways[i], 100.0, 20, 90, 0)
    many[i, 2] = rays.first_slot_of_many(mesh, x[i], ways[i], 100.0, 20, 90, 0)
    alone[i, 3] = rays.crossings(mesh, x[i], ways[i], 0, 1000)
    many[i, 3] = rays.crossings_of_many(mesh, x[i], ways[i], 0, 1000)
    alone[i, 4] = wp.where(rays.first_slot(mesh, x[i], ways[i], 100.0, 0, 1000, 1) >= 0, 1, 0)
    many[i, 4] = wp.where(rays.first_slot_of_many(mesh, x[i], ways[i], 100.0, 0, 1000, 1) >= 0, 1, 0)


def test_both_kinds_of_searches_find_the_same():
    middles = RNG.normal(size=(400, 1, 3))
    middles /= np.linalg.norm(middles, axis=-1, keepdims=True)
    corners = (middles + RNG.normal(scale=0.1, size=(400, 3, 3))).reshape(-1, 3)
    faces = np.arange(1200).reshape(-1, 3)
    corners = np.concatenate([corners, [[np.nan, 0, 0], [2, 2, 2]]]).astype(np.float32)
    bad = [[0, 1, 1200], [0, 1, 5000], [3, 3, 4], [1201, 1201, 1201]]
    faces = np.concatenate([faces, bad]).astype(np.int32)
    x = RNG.uniform(-1.5, 1.5, (COUNT, 3)).astype(np.float32)
    ways = RNG.normal(size=x.shape).astype(np.float32)
    ways[:20] *= [0, 1, 0]
    ways[20:23], x[23:25], x[25] = 0.0, np.nan, np.inf
    for count in (len(faces), 300, 33, 16, 1):
        mesh = wp.Mesh(corners, faces[-count:].ravel())
        alone, many = wp.launch(both_ways, COUNT, [mesh, x, ways], [(COUNT, 5)] * 2)
        alone, many = np.asarray(alone), np.asarray(many)
        np.testing.assert_array_equal(alone[:, 3:], many[:, 3:])
        np.testing.assert_array_equal(alone >= 0, many >= 0)
        # Of faces that are equally close, either may be found.
        assert (alone == many).mean() > 0.9
    assert (alone[:, 0] == -1).all()  # the last face is a point far away


def test_a_face_of_one_point_is_a_point():
    corners = np.float32([[0.5, 0.25, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.5, 0.25, 0.0]])
    x = RNG.uniform(-0.2, 0.8, (COUNT, 3)).astype(np.float32)
    x[0] = corners[0]
    for faces, found in (([0, 0, 0], 0), ([0, 3, 0], 0), ([1, 2, 2], -1), ([1, 1, 2, 0, 0, 3], 1)):
        mesh = wp.Mesh(wp.array(corners, dtype=wp.vec3), wp.array(faces, dtype=int))
        for offset in (0.0, 0.1):
            if offset:
                mesh.points.assign(corners + np.float32([offset, 0.0, 0.0]))
                mesh.refit()
            alone, many = wp.launch(both_ways, COUNT, [mesh, x, x], [(COUNT, 5)] * 2)
            near = ((x - corners[0] - np.float32([offset, 0.0, 0.0])) ** 2).sum(-1) < 0.5
            slots = np.where(near, found, -1)
            assert near.any() and not near.all()
            np.testing.assert_array_equal(np.asarray(alone)[:, 0] >= 0, slots >= 0)
            np.testing.assert_array_equal(np.asarray(many), np.asarray(alone))
            (u,) = wp.launch(queried, COUNT, [mesh, x], [COUNT])
            np.testing.assert_array_equal(np.asarray(u), np.where(slots >= 0, 1.0 + found, 0.0))


@wp.kernel
def queried(mesh: wp.uint64, x: wp.array[wp.vec3], u: wp.array[float]):
    i = wp.tid()
    found = wp.mesh_query_point_sign_normal(mesh, x[i], wp.sqrt(0.5))
    if found.result:
        u[i] = found.u + float(found.face)


def test_rays_along_the_sides_of_boxes_meet_what_is_there():
    corners = np.stack(np.meshgrid(np.arange(4), np.arange(4), [0], indexing="ij"), -1).reshape(-1, 3)
    i = np.array([4 * a + b for a in range(3) for b in range(3)])[:, None]
    faces = np.concatenate([np.c_[i, i + 4, i + 5], np.c_[i, i + 5, i + 1]]).astype(np.int32).ravel()
    for axis in range(3):  # a sheet in each plane, its four outlines too
        points = np.roll(corners, axis, 1).astype(np.float32)
        for way in (-1.0, 1.0):
            down = np.roll(np.float32([0, 0, way]), axis)
            starts, ways = points - down, np.tile(down, (16, 1))
            mesh = wp.Mesh(points, faces, bvh_leaf_size=1)
            for found in wp.launch(both_ways, 16, [mesh, starts, ways], [(16, 5), (16, 5)]):
                assert (np.asarray(found)[:, [1, 4]] >= [0, 1]).all()
            tree = wp.Bvh(points, points)
            (met,) = wp.launch(boxes_met, 16, [tree, starts, ways], [(16, 16)])
            np.testing.assert_array_equal(met, np.eye(16))


@wp.kernel
def boxes_met(tree: wp.uint64, starts: wp.array[wp.vec3], ways: wp.array[wp.vec3], met: wp.array2d[int]):
    i = wp.tid()
    for box in wp.bvh_query_ray(tree, starts[i], ways[i]):
        met[i, box] += 1


@wp.kernel
def signs(mesh: wp.uint64, x: wp.array[wp.vec3], sign: wp.array[float]):
    i = wp.tid()
    sign[i] = wp.mesh_query_point_sign_normal(mesh, x[i], 10.0).sign


def test_the_middle_of_a_ball_is_inside():
    corners = np.float32([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    faces = [(a, 2 + b, 4 + c)[:: 1 if (a + b + c) % 2 == 0 else -1] for a, b, c in np.ndindex(2, 2, 2)]
    x = np.concatenate([np.zeros((1, 3)), corners * 0.5, corners * 1.5]).astype(np.float32)
    mesh = wp.Mesh(corners, np.array(faces, np.int32).ravel())
    (found,) = wp.launch(signs, len(x), [mesh, x], [len(x)])
    np.testing.assert_array_equal(found, [-1] * 7 + [1] * 6)


@wp.kernel
def signs_within(mesh: wp.uint64, x: wp.array[wp.vec3], epsilon: float, sign: wp.array[float]):
    i = wp.tid()
    sign[i] = wp.mesh_query_point_sign_normal(mesh, x[i], 10.0, epsilon).sign


def test_places_near_edges_and_corners_are_on_their_side():
    """Of two faces that are about as close, only the one in front says by how much."""
    corners = np.array(list(np.ndindex(2, 2, 2)), np.float64) - 0.5
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([[a, b, c, a, c, d] for a, b, c, d in sides], np.int32).ravel()
    rng = np.random.default_rng(0)
    place = rng.choice([-0.5, 0.5], (3000, 3)) + rng.uniform(-2e-3, 2e-3, (3000, 3))
    along = rng.integers(0, 3, 2000)
    place[np.arange(2000), along] = rng.uniform(-0.5, 0.5, 2000)
    for middle in (0.0, 30.0):
        x = (place + middle).astype(np.float32)
        outside = np.abs(x - np.float64(middle)).max(1) - 0.5
        mesh = wp.Mesh((corners + middle).astype(np.float32), faces)
        for epsilon in (1e-3, 0.0, 3e-2):
            (found,) = wp.launch(signs_within, len(x), [mesh, x, epsilon], [len(x)])
            is_clear = np.abs(outside) > 1e-5
            if epsilon == 0.0:  # just inside the plane of a second face, both are equally close after rounding
                is_clear &= (np.abs(np.abs(x - np.float64(middle)) - 0.5) > 1e-5).all(1)
            np.testing.assert_array_equal(found[is_clear], np.sign(outside)[is_clear])


@wp.func
def asked_about(mesh: wp.uint64, x: wp.vec3):
    asked = mesh_signs.SideAsked()
    query = wp.mesh_query_point_no_sign(mesh, x, 10.0)
    asked.point = x
    asked.closest = wp.mesh_eval_position(mesh, query.face, query.u, query.v)
    asked.near = 0.02
    asked.limit = wp.length(x - asked.closest) + asked.near
    return asked


@wp.kernel
def both_heights(mesh: wp.uint64, x: wp.array[wp.vec3], alone: wp.array[float], many: wp.array[float]):
    i = wp.tid()
    alone[i] = mesh_signs.sum_of_heights(mesh, asked_about(mesh, x[i]))
    many[i] = mesh_signs.sum_of_heights_for_many(mesh, asked_about(mesh, x[i]))


def test_heights_over_the_faces_about_a_place_are_those_of_both_searches():
    corners = RNG.normal(size=(90, 3)).astype(np.float32)
    faces = RNG.integers(0, 90, (200, 3)).astype(np.int32)  # some of them slivers, of which many share a corner
    faces[::17, 1] = faces[::17, 0]
    x = np.concatenate([RNG.normal(size=(COUNT, 3)), corners[faces[1::9]].mean(1), corners]).astype(np.float32)
    mesh = wp.Mesh(corners, faces.ravel())
    alone, many = map(np.asarray, wp.launch(both_heights, len(x), [mesh, x], [len(x)] * 2))
    np.testing.assert_allclose(alone, many, rtol=1e-4, atol=1e-6)
    assert np.abs(alone).max() > 0.5 and 0.2 < (alone > 0).mean() < 0.8


@wp.kernel
def boxes_about(tree: wp.uint64, x: wp.array[wp.vec3], ways: wp.array[wp.vec3], far: float, met: wp.array3d[int]):
    i = wp.tid()
    for box in wp.bvh_query_ray(tree, x[i], ways[i]):
        met[i, 0, box] = 1
    for box in wp.bvh_query_aabb(tree, x[i] - wp.vec3(far), x[i] + wp.vec3(far)):
        met[i, 1, box] = 1
    for box in wp.bvh_query_sphere(tree, x[i], 100.0):
        met[i, 2, box] = 1


def test_boxes_with_a_corner_that_is_no_number_meet_nothing_beside_others_in_a_leaf():
    x = RNG.normal(size=(40, 3)).astype(np.float32)
    ways = RNG.normal(size=x.shape).astype(np.float32)
    ways[:9] *= np.repeat(np.eye(3, dtype=np.float32), 3, 0)
    bad = np.arange(0, 24, 3)
    lows = np.full((24, 3), -50.0, np.float32)
    highs = -lows
    lows[bad[:5], RNG.integers(0, 3, 5)] = np.nan
    highs[bad[3:], RNG.integers(0, 3, 5)] = np.nan
    for tree in (wp.Bvh(lows, highs, leaf_size=8), jax.jit(lambda a, b: wp.Bvh(a, b, leaf_size=8))(lows, highs)):
        for far in (1.0, np.inf):
            (met,) = wp.launch(boxes_about, 40, [tree, x, ways, far], [(40, 3, 24)])
            expected = np.ones((40, 3, 24))
            expected[..., bad] = 0
            np.testing.assert_array_equal(met, expected)


@wp.kernel
def sides(mesh: wp.uint64, x: wp.array[wp.vec3], sign: wp.array[float]):
    i = wp.tid()
    sign[i] = wp.mesh_query_point(mesh, x[i], 10.0).sign


def test_signs_look_at_faces_only_where_a_ray_goes():
    """Faces in leaves that no ray along an axis hits are replaced by one that all rays would hit at once."""
    u, v = np.meshgrid(np.linspace(0, np.pi, 41), np.linspace(0, 2 * np.pi, 80, endpoint=False), indexing="ij")
    corners = np.stack([np.sin(u) * np.cos(v), np.sin(u) * np.sin(v), np.cos(u)], -1).reshape(-1, 3)
    i, j = (x.ravel() for x in np.mgrid[:40, :80])
    a, b, c, d = i * 80 + j, i * 80 + 80 + j, i * 80 + 80 + (j + 1) % 80, i * 80 + (j + 1) % 80
    faces = np.concatenate([np.c_[a, b, c], np.c_[a, c, d]]).astype(np.int32).ravel()
    mesh = wp.Mesh(corners.astype(np.float32), faces)
    for spread in (0.01, 1.2):  # rays that go together, and alone
        beside = RNG.uniform(-spread, spread, (16, 3))
        x = (beside - beside.mean(1, keepdims=True) - 0.7).astype(np.float32)
        (known,) = wp.launch(sides, 16, [mesh, x], [16])
        np.testing.assert_array_equal(known, 1.0)
        (found,) = wp.launch(sides, 16, [with_decoys(mesh, x), x], [16])
        np.testing.assert_array_equal(found, 1.0)


def with_decoys(mesh, x):
    given = mesh.arrays
    of_leaf = np.asarray(given.wide.faces).reshape(-1, 9, 16).copy()
    held = of_leaf.reshape(-1, 3, 3, 16)
    low = np.nan_to_num(held, nan=np.inf).min((1, 3)) - 1e-3
    high = np.nan_to_num(held, nan=-np.inf).max((1, 3)) + 1e-3
    met = np.zeros(len(low), bool)
    for axis in range(3):
        others = [k for k in range(3) if k != axis]
        beside = (x[:, None, others] >= low[:, others]) & (x[:, None, others] <= high[:, others])
        met |= (beside.all(-1) & (x[:, None, axis] <= high[:, axis])).any(0)
    assert 0 < met.mean() < 0.4
    around = np.float32([[2, -1, -1], [-1, 2, -1], [-1, -1, 2]])
    plane = (100.0 * around - 0.59).ravel()  # between the places and the mesh, with a normal along (1, 1, 1)
    of_leaf[~met] = plane[:, None]
    slots = np.asarray(given.corners).copy()
    slots[np.repeat(~met, 16)[: len(slots)]] = plane
    wide = dataclasses.replace(given.wide, faces=of_leaf.ravel())
    return dataclasses.replace(given, corners=slots, wide=wide)


def test_boxes_are_put_in_order_whatever_they_are():
    places = np.float32(10.0 ** RNG.uniform(-40, 38, (400, 3)))
    places[::7], places[::11], places[::13] = np.nan, np.inf, 3e38
    groups = RNG.integers(-3, 3, 400).astype(np.int32)
    in_jit = jax.jit(lambda low, own: (lambda tree: (tree.items, tree.groups))(wp.Bvh(low, low + 1, groups=own)))
    for low in (places, np.zeros_like(places), np.where(places > 1, 0, np.float32(1e-45)), np.sort(places, axis=0)):
        tree = wp.Bvh(low, low + 1, groups=groups)
        np.testing.assert_array_equal(np.sort(tree.items), np.arange(400))
        np.testing.assert_array_equal(groups[np.asarray(tree.items)], np.sort(groups))
        for known, found in zip((tree.items, tree.groups), in_jit(low, groups), strict=True):
            np.testing.assert_array_equal(found, known)
    x = RNG.uniform(0, 1, (256, 3)).astype(np.float32)
    order = np.asarray(wp.Bvh(x, x, leaf_size=8).items)
    halves = [np.ptp(x[part], axis=0).prod() for part in order.reshape(-1, 8)]
    assert np.mean(halves) < 1.5 / 32  # of the unit cube: there are 32 leaves
