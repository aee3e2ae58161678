"""Queries of trees and meshes by whole blocks: every hit is found once, in tiles, as by a search of all."""

import numpy as np
import pytest

import jwarp as wp

RNG = np.random.default_rng(8)
COUNT, ASKED = 90, 6


@wp.kernel
def by_blocks(
    tree: wp.uint64,
    mesh: wp.uint64,
    lows: wp.array[wp.vec3],
    highs: wp.array[wp.vec3],
    boxes: wp.array2d[int],
    rays: wp.array2d[int],
    faces: wp.array2d[int],
    tiles: wp.array2d[int],
):
    i, _ = wp.tid()
    query = wp.tile_bvh_query_aabb(tree, lows[i], highs[i])
    while wp.tile_query_valid(query):
        found = wp.tile_bvh_query_next(query)
        if wp.untile(found) >= 0:
            wp.atomic_add(boxes, i, wp.untile(found), 1)
        tiles[i, 0] += 1
    ray = wp.tile_bvh_query_ray(tree, lows[i], highs[i] - lows[i])
    while wp.tile_query_valid(ray):
        k = wp.untile(wp.bvh_query_next_tiled(ray))
        if k >= 0:
            wp.atomic_add(rays, i, k, 1)
    of_mesh = wp.tile_mesh_query_aabb(mesh, lows[i], highs[i])
    while wp.tile_query_valid(of_mesh):
        k = wp.untile(wp.tile_mesh_query_aabb_next(of_mesh))
        if k >= 0:
            wp.atomic_add(faces, i, k, 1)


@pytest.mark.parametrize("block_dim", [8, 32])
def test_blocks_find_each_of_them_once(block_dim):
    lows = RNG.uniform(-1, 1, (COUNT, 3)).astype(np.float32)
    highs = lows + RNG.uniform(0, 0.6, lows.shape).astype(np.float32)
    asked, upper = lows[:ASKED].copy(), (highs[:ASKED] + 0.5).astype(np.float32)
    asked[0], upper[0] = 5.0, 6.0  # where nothing is
    corners = np.concatenate([lows, highs])
    indices = np.stack([np.arange(COUNT), np.arange(COUNT) + COUNT, np.roll(np.arange(COUNT), 1)], -1)
    mesh = wp.Mesh(corners, indices.astype(np.int32).ravel())
    of_faces = corners[indices]
    shapes = [(ASKED, COUNT)] * 3 + [(ASKED, 1)]
    boxes, rays, faces, tiles = wp.launch_tiled(
        by_blocks, [ASKED], [wp.Bvh(lows, highs), mesh, asked, upper], shapes, block_dim=block_dim
    )
    met = ((asked[:, None] <= highs) & (upper[:, None] >= lows)).all(-1)
    np.testing.assert_array_equal(boxes, met)
    # Each thread counts tiles, the last of which says that there are no more.
    np.testing.assert_array_equal(tiles[:, 0], block_dim * (1 - met.sum(1) // -block_dim))
    np.testing.assert_array_equal(
        faces, ((asked[:, None] <= of_faces.max(1)) & (upper[:, None] >= of_faces.min(1))).all(-1)
    )
    with np.errstate(divide="ignore"):
        sides = [(x[None] - asked[:, None]) / (upper - asked)[:, None] for x in (lows, highs)]
    near, far = np.minimum(*sides).max(-1), np.maximum(*sides).min(-1)
    np.testing.assert_array_equal(rays, (far >= 0) & (far >= near))
