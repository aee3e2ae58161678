"""Queries of trees for boxes, and of meshes for faces, that meet a box, a ray, a capsule or a sphere, one by one.

Each has a struct of its own, with the place where it is: a node of the tree, what is pending above it, and the slots of
a leaf that are left. All of it is integers.
"""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import divergent, max, min, where
from jwarp.frontend.builtins.table import library
from jwarp.frontend.func import func
from jwarp.lib.geometry.hash_grid import first_not_below
from jwarp.lib.geometry.mesh import MeshArrays, corner
from jwarp.lib.geometry.tree import (
    INFINITE,
    BvhArrays,
    above,
    box_distance,
    group_slots,
    grown_box,
    inverse_of,
    is_number,
    slab_entry,
)
from jwarp.lib.geometry.triangles import squared_distance
from jwarp.types import NAMED, Reference, float32, int32, struct

vec3 = NAMED["vec3"]


@struct
class BvhQuery:
    """A query of a tree: the kinds of queries fit parameters of functions that are annotated with it."""

    node: int32


@struct
class MeshQuery:
    """A query of a mesh: the kinds of queries fit parameters of functions that are annotated with it."""

    node: int32


def kind_of_query(name: str, about: str, family: Any, module: str, **over: Any) -> Any:
    """The struct of a kind of query: what it goes through, where it is, and what else it is `over`."""
    last = {key: over.pop(key) for key in ("kind",) if key in over}
    fields = {
        **over,
        "start": vec3,
        "end": vec3,  # the other corner of a box, or the reciprocals of a direction
        "radius": float32,
        "node": int32,  # the next one, which intersects what is asked for, or none (0)
        "pending": int32,
        "slot": int32,  # the next one of the leaf at hand
        "stop": int32,  # the slot after the last one of it
        "low": int32,  # slots from here on count
        "high": int32,  # those from here on do not
        **last,
    }
    named = {"__module__": module, "__qualname__": name, "__doc__": about, "__annotations__": fields}
    made: Any = struct(type(name, (), named))
    made.stands_for = family
    return made


def _query(name: str, about: str, **over: Any) -> Any:
    return kind_of_query(name, about, BvhQuery if "bvh" in over else MeshQuery, __name__, **over)


BvhQueryAabb = _query("BvhQueryAabb", "A query for boxes that meet a box, from `start` to `end`.", bvh=BvhArrays)
BvhQueryRay = _query("BvhQueryRay", "A query for boxes that a ray intersects.", bvh=BvhArrays)
BvhQueryCapsule = _query(
    "BvhQueryCapsule", "A query for boxes that a ray intersects when they are grown.", bvh=BvhArrays
)
BvhQuerySphere = _query("BvhQuerySphere", "A query for boxes within a distance of a place.", bvh=BvhArrays)
BvhQueryOfAny = _query("BvhQueryOfAny", "A query of one of these kinds.", bvh=BvhArrays, kind=int32)
for _number, _kind in enumerate((BvhQueryAabb, BvhQueryRay, BvhQueryCapsule, BvhQuerySphere, BvhQueryOfAny)):
    _kind.general = BvhQueryOfAny, _number
MeshQueryAABB = _query("MeshQueryAABB", "A query for faces whose boxes meet a box.", mesh=MeshArrays)
MeshQuerySphere = _query("MeshQuerySphere", "A query for faces within a distance of a place.", mesh=MeshArrays)
MeshQueryOfAny = _query("MeshQueryOfAny", "A query of one of these kinds.", mesh=MeshArrays, kind=int32)
for _number, _kind in enumerate((MeshQueryAABB, MeshQuerySphere, MeshQueryOfAny)):
    _kind.general = MeshQueryOfAny, _number


# -- whether a box intersects what is asked for


@func
def box_intersects(query: Any, box: Any, first: int32, max_dist: float32):
    """True if a box intersects another; False where a number is NaN."""
    intersects = True
    for axis in range(3):
        intersects = intersects and query.start[axis] <= box[first + 3 + axis] and query.end[axis] >= box[first + axis]
    return intersects


@func
def ray_intersects(query: Any, box: Any, first: int32, max_dist: float32):
    """True if a ray intersects a box before `max_dist`."""
    return slab_entry(query.start, query.end, box, first) < max_dist


@func
def capsule_intersects(query: Any, box: Any, first: int32, max_dist: float32):
    """True if a ray intersects a box grown by a radius, up to `max_dist`."""
    entry = slab_entry(query.start, query.end, grown_box(box, first, query.radius), 0)
    return entry < INFINITE and entry <= max_dist


@func
def sphere_intersects(query: Any, box: Any, first: int32, max_dist: float32):
    """True if a box is within a distance of a place."""
    return box_distance(query.start, box, first) <= query.radius * query.radius


@func
def any_kind_intersects(query: Any, box: Any, first: int32, max_dist: float32):
    """True if a box satisfies a query of any kind."""
    intersects = False
    if query.kind == 0:
        intersects = box_intersects(query, box, first, max_dist)
    elif query.kind == 1:
        intersects = ray_intersects(query, box, first, max_dist)
    elif query.kind == 2:
        intersects = capsule_intersects(query, box, first, max_dist)
    else:
        intersects = sphere_intersects(query, box, first, max_dist)
    return intersects


@func
def any_face(query: Any, slot: int32):
    """All that is in a leaf, whose box has been looked at."""
    return True


@func
def face_within(query: Any, slot: int32):
    """True if a face has a point within a distance of a place."""
    face = query.mesh.corners[slot]
    p = corner(face, 0)
    q = corner(face, 3)
    r = corner(face, 6)
    return squared_distance(p, q, r, query.start) <= query.radius * query.radius


# -- from one to the next


@func
def any_mesh_kind_intersects(query: Any, box: Any, first: int32, max_dist: float32):
    """True if a box satisfies a query of a mesh of any kind."""
    intersects = False
    if query.kind == 0:
        intersects = box_intersects(query, box, first, max_dist)
    else:
        intersects = sphere_intersects(query, box, first, max_dist)
    return intersects


@func
def face_of_one(query: Any, slot: int32):
    """True if a face satisfies a query of a mesh of any kind."""
    holds = True
    if query.kind == 1:
        holds = face_within(query, slot)
    return holds


@func
def advanced(tree: BvhArrays, query: Reference(Any), intersects: Any, holds: Any, max_dist: float32):
    """Go on to the next slot that is asked for; -1 if there is none."""
    leaves = tree.nodes.shape[0]
    found = -1
    while divergent(found < 0 and (query.slot < query.stop or query.node > 0)):
        while query.slot >= query.stop and query.node > 0:
            if query.node >= leaves:
                query.slot = max((query.node - leaves) * tree.size, query.low)
                query.stop = min((query.node - leaves + 1) * tree.size, query.high)
                query.node, query.pending = above(query.node, query.pending)
            else:
                box = tree.nodes[query.node]
                first = intersects(query, box, 0, max_dist)
                second = intersects(query, box, 6, max_dist)
                if first or second:
                    query.pending = (query.pending << 1) | where(first and second, 1, 0)
                    query.node = 2 * query.node + where(first, 0, 1)
                else:
                    query.node, query.pending = above(query.node, query.pending)
        if query.slot < query.stop:
            if intersects(query, tree.bounds[query.slot], 0, max_dist) and holds(query, query.slot):
                found = query.slot
            query.slot += 1
    return found


@func
def next_of(
    tree: BvhArrays, query: Reference(Any), index: Reference(int32), intersects: Any, holds: Any, max_dist: float32
):
    """Let `index` be the number of what is in the next slot that is asked for; False if there is none."""
    slot = advanced(tree, query, intersects, holds, max_dist)
    if slot >= 0:
        index = tree.items[slot]
    return slot >= 0


@func
def begun(query: Any, tree: BvhArrays, start: vec3, end: vec3, radius: float32, root: int32):
    """A query that begins at the top of a tree."""
    low, high = group_slots(tree, root)
    query.start = start
    query.end = end
    query.radius = max(radius, 0.0)
    query.node = where(is_number(start) and is_number(end), 1, 0)
    query.low = low
    query.high = high
    return query


@library("bvh_query_aabb(id: uint64, low: vec3, high: vec3, root: int = -1) -> BvhQuery")
@func
def bvh_query_aabb(id: BvhArrays, low: vec3, high: vec3, root: int32 = -1):
    """The boxes of a tree that intersect the box from `low` to `high`: a loop iterates over their indices.

    `root` from `bvh_get_group_root` restricts the query to the boxes of one group. Boxes and queries with a
    NaN intersect nothing."""
    query = BvhQueryAabb()
    query.bvh = id
    return begun(query, id, low, high, 0.0, root)


@library("bvh_query_ray(id: uint64, start: vec3, dir: vec3, root: int = -1) -> BvhQuery")
@func
def bvh_query_ray(id: BvhArrays, start: vec3, dir: vec3, root: int32 = -1):
    """The boxes of a tree that a ray from `start` along `dir` intersects: a loop iterates over their indices."""
    query = BvhQueryRay()
    query.bvh = id
    return begun(query, id, start, inverse_of(dir), 0.0, root)


@library("bvh_query_capsule(id: uint64, start: vec3, dir: vec3, radius: float, root: int = -1) -> BvhQuery")
@func
def bvh_query_capsule(id: BvhArrays, start: vec3, dir: vec3, radius: float32, root: int32 = -1):
    """The boxes of a tree that a ray intersects when they are grown by `radius` on all sides, as `bvh_query_ray`."""
    query = BvhQueryCapsule()
    query.bvh = id
    return begun(query, id, start, inverse_of(dir), radius, root)


@library("bvh_query_sphere(id: uint64, center: vec3, radius: float, root: int = -1) -> BvhQuery")
@func
def bvh_query_sphere(id: BvhArrays, center: vec3, radius: float32, root: int32 = -1):
    """The boxes of a tree within `radius` of `center`: a loop iterates over their indices."""
    query = BvhQuerySphere()
    query.bvh = id
    return begun(query, id, center, center, radius, root)


@library("mesh_query_aabb(id: uint64, low: vec3, high: vec3) -> MeshQueryAABB")
@func
def mesh_query_aabb(id: MeshArrays, low: vec3, high: vec3):
    """The faces of a mesh whose boxes intersect the box from `low` to `high`: a loop iterates over their indices."""
    query = MeshQueryAABB()
    query.mesh = id
    return begun(query, id.bvh, low, high, 0.0, -1)


@library("mesh_query_sphere(id: uint64, center: vec3, radius: float) -> MeshQuery")
@func
def mesh_query_sphere(id: MeshArrays, center: vec3, radius: float32):
    """The faces of a mesh with a point within `radius` of `center`: a loop iterates over their indices."""
    query = MeshQuerySphere()
    query.mesh = id
    return begun(query, id.bvh, center, center, radius, -1)


@library("bvh_get_group_root(id: uint64, group: int) -> int")
@func
def bvh_get_group_root(id: BvhArrays, group: int32):
    """The `root` of queries for the boxes of one group; -1, which is all boxes, where there is no such group."""
    slot = first_not_below(id.groups, 0, id.groups.shape[0], group)
    found = -1
    if slot < id.groups.shape[0]:
        found = where(id.groups[slot] == group, slot, -1)
    return found


@library("mesh_get_group_root(id: uint64, group: int) -> int")
@func
def mesh_get_group_root(id: MeshArrays, group: int32):
    """The `root` of queries for the faces of one group; -1, which is all faces, where there is no such group."""
    return bvh_get_group_root(id.bvh, group)


@func
def bvh_query_next(query: Reference(BvhQueryAabb), index: Reference(int32), max_dist: float32 = INFINITE):
    return next_of(query.bvh, query, index, box_intersects, any_face, max_dist)


@func
def bvh_query_next(query: Reference(BvhQueryRay), index: Reference(int32), max_dist: float32 = INFINITE):
    return next_of(query.bvh, query, index, ray_intersects, any_face, max_dist)


@func
def bvh_query_next(query: Reference(BvhQueryCapsule), index: Reference(int32), max_dist: float32 = INFINITE):
    return next_of(query.bvh, query, index, capsule_intersects, any_face, max_dist)


@func
def bvh_query_next(query: Reference(BvhQueryOfAny), index: Reference(int32), max_dist: float32 = INFINITE):
    return next_of(query.bvh, query, index, any_kind_intersects, any_face, max_dist)


@library("bvh_query_next(query: BvhQuery, index: int, max_dist: float = 1e999) -> bool")
@func
def bvh_query_next(query: Reference(BvhQuerySphere), index: Reference(int32), max_dist: float32 = INFINITE):
    """Set `index` to the next box of a query and return True; return False if there is none.

    Of rays, only boxes that they enter before `max_dist` count."""
    return next_of(query.bvh, query, index, sphere_intersects, any_face, max_dist)


@func
def mesh_query_next(query: Reference(MeshQueryAABB), index: Reference(int32)):
    return next_of(query.mesh.bvh, query, index, box_intersects, any_face, INFINITE)


@func
def mesh_query_next(query: Reference(MeshQueryOfAny), index: Reference(int32)):
    return next_of(query.mesh.bvh, query, index, any_mesh_kind_intersects, face_of_one, INFINITE)


@library("mesh_query_next(query: MeshQuery | MeshQueryAABB, index: int) -> bool")
@func
def mesh_query_next(query: Reference(MeshQuerySphere), index: Reference(int32)):
    """Set `index` to the next face of a query and return True; return False if there is none."""
    return next_of(query.mesh.bvh, query, index, sphere_intersects, face_within, INFINITE)


@func
def mesh_query_aabb_next(query: Reference(MeshQueryAABB), index: Reference(int32)):
    return mesh_query_next(query, index)


@func
def mesh_query_aabb_next(query: Reference(MeshQueryOfAny), index: Reference(int32)):
    return mesh_query_next(query, index)


@library("mesh_query_aabb_next(query: MeshQuery | MeshQueryAABB, index: int) -> bool")
@func
def mesh_query_aabb_next(query: Reference(MeshQuerySphere), index: Reference(int32)):
    """Set `index` to the next face of a query and return True; return False if there is none."""
    return mesh_query_next(query, index)


for _kind in (BvhQueryAabb, BvhQueryRay, BvhQueryCapsule, BvhQuerySphere, BvhQueryOfAny):
    _kind.following = bvh_query_next
for _kind in (MeshQueryAABB, MeshQuerySphere, MeshQueryOfAny):
    _kind.following = mesh_query_next
