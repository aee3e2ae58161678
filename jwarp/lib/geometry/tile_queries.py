"""Queries of trees and meshes by a whole block: what is found comes a tile at a time, one number for each thread."""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.tiles.creation import block_dim, tile_full
from jwarp.frontend.func import func
from jwarp.lib.geometry.bvh import advanced, any_face, begun, box_intersects, kind_of_query, ray_intersects
from jwarp.lib.geometry.mesh import MeshArrays
from jwarp.lib.geometry.tree import INFINITE, BvhArrays, inverse_of
from jwarp.types import NAMED, Reference, bool_, int32, struct

vec3 = NAMED["vec3"]


@struct
class BvhQueryTiled:
    """A query of a tree by a block: the kinds of such fit parameters of functions that are annotated with it."""

    node: int32


@struct
class MeshQueryAABBTiled:
    """A query of a mesh by a block: it fits parameters of functions that are annotated with it."""

    node: int32


def _kind(name: str, about: str, family: Any, **over: Any) -> Any:
    return kind_of_query(name, about, family, __name__, **over, valid=bool_)


BvhQueryTiledAabb = _kind(
    "BvhQueryTiledAabb", "A block's query for boxes that meet a box.", BvhQueryTiled, bvh=BvhArrays
)
BvhQueryTiledRay = _kind(
    "BvhQueryTiledRay", "A block's query for boxes that a ray intersects.", BvhQueryTiled, bvh=BvhArrays
)
MeshQueryTiledAabb = _kind(
    "MeshQueryTiledAabb", "A block's query for faces whose boxes meet a box.", MeshQueryAABBTiled, mesh=MeshArrays
)


@library("tile_bvh_query_aabb(id: uint64, low: vec3, high: vec3) -> BvhQueryTiled")
@func
def tile_bvh_query_aabb(id: BvhArrays, low: vec3, high: vec3):
    """A block's query for the boxes of a tree that meet the box from `low` to `high`, for `tile_bvh_query_next`.

    The arguments are those of the block's first thread."""
    query = BvhQueryTiledAabb()
    query.bvh = id
    query.valid = True
    return begun(query, id, low, high, 0.0, -1)


@library("tile_bvh_query_ray(id: uint64, start: vec3, dir: vec3) -> BvhQueryTiled")
@func
def tile_bvh_query_ray(id: BvhArrays, start: vec3, dir: vec3):
    """A block's query for the boxes of a tree that a ray intersects, in no order, for `tile_bvh_query_next`."""
    query = BvhQueryTiledRay()
    query.bvh = id
    query.valid = True
    return begun(query, id, start, inverse_of(dir), 0.0, -1)


@library("tile_mesh_query_aabb(id: uint64, low: vec3, high: vec3) -> MeshQueryAABBTiled")
@func
def tile_mesh_query_aabb(id: MeshArrays, low: vec3, high: vec3):
    """A block's query for the faces of a mesh whose boxes meet a box, for `tile_mesh_query_aabb_next`."""
    query = MeshQueryTiledAabb()
    query.mesh = id
    query.valid = True
    return begun(query, id.bvh, low, high, 0.0, -1)


@func
def following(tree: BvhArrays, query: Reference(Any), intersects: Any):
    """The numbers of the next ones, at most one for each thread; -1 for threads that there is none for."""
    found = tile_full(shape=block_dim(), value=-1, dtype=int32)
    count = int32(0)
    slot = int32(0)
    while slot >= 0 and count < block_dim():
        slot = advanced(tree, query, intersects, any_face, INFINITE)
        if slot >= 0:
            found[count] = tree.items[slot]
            count += 1
    query.valid = count > 0
    return found


@func
def tile_bvh_query_next(query: Reference(BvhQueryTiledAabb)):
    return following(query.bvh, query, box_intersects)


@library("tile_bvh_query_next(query: BvhQueryTiled) -> tile[int]")
@func
def tile_bvh_query_next(query: Reference(BvhQueryTiledRay)):
    """The numbers of the next boxes of a block's query, a tile with one for each thread, and -1 where there is none.

    Tiles are full but for the last ones: `wp.tile_query_valid(query)` says whether there was any."""
    return following(query.bvh, query, ray_intersects)


@library("tile_mesh_query_aabb_next(query: MeshQueryAABBTiled) -> tile[int]")
@func
def tile_mesh_query_aabb_next(query: Reference(MeshQueryTiledAabb)):
    """The numbers of the next faces of a block's query, a tile with one for each thread, and -1 where there is none."""
    return following(query.mesh.bvh, query, box_intersects)


@func
def tile_query_valid(query: BvhQueryTiledAabb):
    return query.valid


@func
def tile_query_valid(query: BvhQueryTiledRay):
    return query.valid


@library("tile_query_valid(query: BvhQueryTiled | MeshQueryAABBTiled) -> bool")
@func
def tile_query_valid(query: MeshQueryTiledAabb):
    """True if a block's query goes on: at first, and then as long as the last tile had a number in it."""
    return query.valid


# -- older names


@library("bvh_query_aabb_tiled(id: uint64, low: vec3, high: vec3) -> BvhQueryTiled")
@func
def bvh_query_aabb_tiled(id: BvhArrays, low: vec3, high: vec3):
    """`tile_bvh_query_aabb` under its older name."""
    return tile_bvh_query_aabb(id, low, high)


@library("bvh_query_ray_tiled(id: uint64, start: vec3, dir: vec3) -> BvhQueryTiled")
@func
def bvh_query_ray_tiled(id: BvhArrays, start: vec3, dir: vec3):
    """`tile_bvh_query_ray` under its older name."""
    return tile_bvh_query_ray(id, start, dir)


@library("mesh_query_aabb_tiled(id: uint64, low: vec3, high: vec3) -> MeshQueryAABBTiled")
@func
def mesh_query_aabb_tiled(id: MeshArrays, low: vec3, high: vec3):
    """`tile_mesh_query_aabb` under its older name."""
    return tile_mesh_query_aabb(id, low, high)


@func
def bvh_query_next_tiled(query: Reference(BvhQueryTiledAabb)):
    return following(query.bvh, query, box_intersects)


@library("bvh_query_next_tiled(query: BvhQueryTiled) -> tile[int]")
@func
def bvh_query_next_tiled(query: Reference(BvhQueryTiledRay)):
    """`tile_bvh_query_next` under its older name."""
    return following(query.bvh, query, ray_intersects)


@library("mesh_query_aabb_next_tiled(query: MeshQueryAABBTiled) -> tile[int]")
@func
def mesh_query_aabb_next_tiled(query: Reference(MeshQueryTiledAabb)):
    """`tile_mesh_query_aabb_next` under its older name."""
    return following(query.mesh.bvh, query, box_intersects)
