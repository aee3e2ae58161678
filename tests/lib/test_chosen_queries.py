"""Queries of trees and meshes whose kind a condition chooses when the kernel runs."""

import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(2)
COUNT, BOXES = 24, 70


@wp.kernel
def chosen(
    bvh: wp.uint64, lows: wp.array[wp.vec3], highs: wp.array[wp.vec3], kinds: wp.array[int], found: wp.array2d[int]
):
    i = wp.tid()
    kind = kinds[i]
    low = lows[i]
    high = highs[i]
    if kind == 0:
        query = wp.bvh_query_aabb(bvh, low, high)
    elif kind == 1:
        query = wp.bvh_query_ray(bvh, low, high - low)
    elif kind == 2:
        query = wp.bvh_query_capsule(bvh, low, high - low, 0.1)
    else:
        query = wp.bvh_query_sphere(bvh, low, 0.5)
    index = wp.int32(0)
    while wp.bvh_query_next(query, index):
        found[i, index] += 1


@wp.kernel
def each(
    bvh: wp.uint64, lows: wp.array[wp.vec3], highs: wp.array[wp.vec3], kinds: wp.array[int], found: wp.array2d[int]
):
    i = wp.tid()
    low = lows[i]
    high = highs[i]
    if kinds[i] == 0:
        for j in wp.bvh_query_aabb(bvh, low, high):
            found[i, j] += 1
    elif kinds[i] == 1:
        for j in wp.bvh_query_ray(bvh, low, high - low):
            found[i, j] += 1
    elif kinds[i] == 2:
        for j in wp.bvh_query_capsule(bvh, low, high - low, 0.1):
            found[i, j] += 1
    else:
        for j in wp.bvh_query_sphere(bvh, low, 0.5):
            found[i, j] += 1


@wp.kernel
def of_mesh(mesh: wp.uint64, lows: wp.array[wp.vec3], kinds: wp.array[int], found: wp.array3d[int]):
    i = wp.tid()
    low = lows[i]
    high = low + wp.vec3(0.3, 0.4, 0.5)
    if kinds[i] == 0:
        query = wp.mesh_query_aabb(mesh, low, high)
    else:
        query = wp.mesh_query_sphere(mesh, low, 0.5)
    for face in query:
        found[i, face, 0] += 1
    if kinds[i] == 0:
        for face in wp.mesh_query_aabb(mesh, low, high):
            found[i, face, 1] += 1
    else:
        again = wp.mesh_query_sphere(mesh, low, 0.5)
        face = wp.int32(0)
        while wp.mesh_query_aabb_next(again, face):
            found[i, face, 1] += 1


@wp.kernel
def of_two_things(bvh: wp.uint64, mesh: wp.uint64, kind: int, low: wp.vec3, found: wp.array[int]):
    if kind == 0:
        query = wp.bvh_query_aabb(bvh, low, low)
    else:
        query = wp.mesh_query_aabb(mesh, low, low)
    j = wp.int32(0)
    if wp.bvh_query_next(query, j):
        found[j] += 1


def test_a_condition_chooses_the_kind_of_a_query():
    lows = RNG.uniform(-1, 1, (BOXES, 3)).astype(np.float32)
    tree = wp.Bvh(lows, lows + 0.3)
    low = RNG.uniform(-1, 1, (COUNT, 3)).astype(np.float32)
    given = [
        tree,
        low,
        low + RNG.uniform(0, 0.8, (COUNT, 3)).astype(np.float32),
        (np.arange(COUNT) % 4).astype(np.int32),
    ]
    (found,) = wp.launch(chosen, COUNT, given, [(COUNT, BOXES)])
    (known,) = wp.launch(each, COUNT, given, [(COUNT, BOXES)])
    assert all(np.asarray(known)[k::4].any() for k in range(4))
    np.testing.assert_array_equal(found, known)


def test_a_condition_chooses_the_kind_of_a_query_of_a_mesh():
    corners = RNG.uniform(-1, 1, (BOXES, 1, 3)) + RNG.normal(scale=0.2, size=(BOXES, 3, 3))
    mesh = wp.Mesh(corners.reshape(-1, 3).astype(np.float32), np.arange(3 * BOXES, dtype=np.int32))
    low = RNG.uniform(-1, 1, (COUNT, 3)).astype(np.float32)
    (found,) = wp.launch(of_mesh, COUNT, [mesh, low, (np.arange(COUNT) % 2).astype(np.int32)], [(COUNT, BOXES, 2)])
    found = np.asarray(found)
    assert all(found[k::2, :, 1].any() for k in range(2))
    np.testing.assert_array_equal(found[..., 0], found[..., 1])


def test_queries_of_a_tree_and_of_a_mesh_are_different_things():
    corners = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    mesh = wp.Mesh(corners, np.arange(3, dtype=np.int32))
    with pytest.raises(wp.CompileError, match="(?s)`query`.*in both branches.*use two names"):
        wp.launch(of_two_things, 1, [wp.Bvh(corners, corners), mesh, 0, np.zeros(3, np.float32)], [9])
