"""Meshes: what kernels are given for one, the face closest to a place, and what is read of faces.

A traversal gives integers: the slot of a face. What has derivatives is computed of the face's corners afterwards, so
that no derivative goes through a traversal, and none is recorded.
"""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.frontend.builtins.scalar import max, on_gpu, where
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import cross, length_sq, normalize, vector
from jwarp.frontend.func import func
from jwarp.lib.geometry.tree import (
    BvhArrays,
    above,
    box_distance,
    farthest_distance,
    is_number,
    vec9,
)
from jwarp.lib.geometry.triangles import closest_barycentrics, is_sliver, squared_distance
from jwarp.lib.geometry.wide import PlaceAsked, WideArrays, nearest_box, nearest_face, searched, within
from jwarp.types import NAMED, Reference, bool_, float32, int32, struct, uint64
from jwarp.types import vector as vector_of

vec2, vec3, vec8 = NAMED["vec2"], NAMED["vec3"], vector_of(8, float32)


@struct
class MeshArrays:
    """A mesh: what a kernel is given for it."""

    points: array[vec3]
    velocities: array[vec3]  # of the points, or no elements
    indices: array[int32]  # three for each face
    corners: array[vec9]  # of the face in each slot; no numbers where there is none, or an index is outside
    edge: float32  # the mean length of a side
    wide: WideArrays  # for searches on processors
    winding: array[vec8]  # of each node: where its area is, its area times its normal, and its radius; or no elements
    bvh: BvhArrays


MeshArrays.stands_for = uint64


@struct
class MeshQueryPoint:
    """The result of a query for the closest or farthest point; all fields are zero if `result` is False.

    The point is `mesh_eval_position(id, face, u, v)`. A negative `sign` means that the query point is inside.
    """

    result: bool_
    sign: float32
    face: int32
    u: float32
    v: float32


@func
def corner(corners: Any, first: int32):
    """One corner of three."""
    return vector(corners[first], corners[first + 1], corners[first + 2])


@func
def closest_slot(mesh: MeshArrays, point: vec3, limit: float32):
    """The slot of the face that is closest to a point, -1 if none is within the distance whose square is `limit`."""
    found = -1
    if on_gpu():
        found = closest_slot_of_many(mesh, point, limit)
    else:
        start = within(limit)
        asked = PlaceAsked()
        asked.point = point
        best = searched(mesh.wide, asked, nearest_box, nearest_face, start, is_number(point), False)
        found = where(best < start, int32(best), -1)
    return found


@func
def leaf_slots(mesh: MeshArrays, leaf: int32):
    """Where the slots of a leaf begin, and whether all of them are there.

    With this, no slot of it has to be looked after by itself."""
    slot = leaf * mesh.bvh.size
    return slot, slot >= 0 and slot <= mesh.corners.shape[0] - mesh.bvh.size


@func
def closest_slot_of_many(mesh: MeshArrays, point: vec3, limit: float32):
    """As `closest_slot`, where each of many threads goes its own way."""
    leaves = mesh.bvh.nodes.shape[0]
    size = mesh.bvh.size
    best = limit
    found = -1
    node = where(is_number(point), 1, 0)
    pending = 0
    while node > 0:
        while node > 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            first = box_distance(point, box, 0)
            second = box_distance(point, box, 6)
            swapped = second < first
            near = where(swapped, second, first)
            far = where(swapped, first, second)
            if near < best:
                pending = (pending << 1) | where(far < best, 1, 0)
                node = 2 * node + where(swapped, 1, 0)
            else:
                node, pending = above(node, pending)
        if node > 0:
            slot, is_there = leaf_slots(mesh, node - leaves)
            if is_there:
                for k in range(size):
                    face = mesh.corners[slot + k]
                    p = corner(face, 0)
                    q = corner(face, 3)
                    r = corner(face, 6)
                    distance = squared_distance(p, q, r, point)
                    if distance < best and not is_sliver(p, q, r):
                        best = distance
                        found = slot + k
            node, pending = above(node, pending)
    return found


@func
def farthest_slot(mesh: MeshArrays, point: vec3, limit: float32):
    """The slot of the face with the point farthest from a place, -1 if none is beyond the square root of `limit`."""
    leaves = mesh.bvh.nodes.shape[0]
    size = mesh.bvh.size
    best = limit
    found = -1
    node = where(is_number(point), 1, 0)
    pending = 0
    while node > 0:
        while node > 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            first = farthest_distance(point, box, 0)
            second = farthest_distance(point, box, 6)
            swapped = second > first
            if where(swapped, second, first) > best:
                pending = (pending << 1) | where(where(swapped, first, second) > best, 1, 0)
                node = 2 * node + where(swapped, 1, 0)
            else:
                node, pending = above(node, pending)
        if node > 0:
            slot = (node - leaves) * size
            for k in range(size):
                face = mesh.corners[slot + k]
                p = corner(face, 0)
                q = corner(face, 3)
                r = corner(face, 6)
                distance = max(length_sq(p - point), max(length_sq(q - point), length_sq(r - point)))
                if distance > best and not is_sliver(p, q, r):
                    best = distance
                    found = slot + k
            node, pending = above(node, pending)
    return found


@func
def face_corner(mesh: MeshArrays, face: int32, k: int32):
    """A corner of a face, from the mesh's points, so that these get its derivatives."""
    return mesh.points[mesh.indices[3 * face + k]]


@func
def closest_point(mesh: MeshArrays, point: vec3, max_dist: float32):
    """The closest point, with a sign of zero."""
    query = MeshQueryPoint()
    slot = closest_slot(mesh, point, max_dist * max_dist)
    if slot >= 0:
        face = mesh.bvh.items[slot]
        u, v = closest_barycentrics(
            face_corner(mesh, face, 0), face_corner(mesh, face, 1), face_corner(mesh, face, 2), point
        )
        query.result = True
        query.face = face
        query.u = u
        query.v = v
    return query


@func
def written_to(query: MeshQueryPoint, face: Reference(int32), bary_u: Reference(float32), bary_v: Reference(float32)):
    """Write the result of a query to its references, if there is one; True if there is."""
    if query.result:
        face = query.face
        bary_u = query.u
        bary_v = query.v
    return query.result


@func
def mesh_query_point_no_sign(id: MeshArrays, point: vec3, max_dist: float32):
    return closest_point(id, point, max_dist)


@library(
    "mesh_query_point_no_sign(id: uint64, point: vec3, max_dist: float) -> MeshQueryPoint\n"
    "mesh_query_point_no_sign(id: uint64, point: vec3, max_dist: float, face: int, bary_u: float, "
    "bary_v: float) -> bool"
)
@func
def mesh_query_point_no_sign(
    id: MeshArrays,
    point: vec3,
    max_dist: float32,
    face: Reference(int32),
    bary_u: Reference(float32),
    bary_v: Reference(float32),
):
    """The point of a mesh that is closest to `point`, if one is closer than `max_dist`.

    With output arguments, it returns True if there is one, and otherwise does not change them. Faces without
    an area, or with a NaN corner, are not found."""
    query = closest_point(id, point, max_dist)
    return written_to(query, face, bary_u, bary_v)


@func
def mesh_query_furthest_point_no_sign(id: MeshArrays, point: vec3, min_dist: float32):
    query = MeshQueryPoint()
    slot = farthest_slot(id, point, min_dist * min_dist)
    if slot >= 0:
        face = id.bvh.items[slot]
        p = length_sq(face_corner(id, face, 0) - point)
        q = length_sq(face_corner(id, face, 1) - point)
        r = length_sq(face_corner(id, face, 2) - point)
        query.result = True
        query.face = face
        if p > q and p > r:
            query.u = 1.0
        elif q > r:
            query.v = 1.0
    return query


@library(
    "mesh_query_furthest_point_no_sign(id: uint64, point: vec3, min_dist: float) -> MeshQueryPoint\n"
    "mesh_query_furthest_point_no_sign(id: uint64, point: vec3, min_dist: float, face: int, "
    "bary_u: float, bary_v: float) -> bool"
)
@func
def mesh_query_furthest_point_no_sign(
    id: MeshArrays,
    point: vec3,
    min_dist: float32,
    face: Reference(int32),
    bary_u: Reference(float32),
    bary_v: Reference(float32),
):
    """The point of a mesh that is farthest from `point`, if one is farther away than `min_dist`: a corner of a face.

    With output arguments, it returns True if there is one, and otherwise does not change them."""
    query = mesh_query_furthest_point_no_sign(id, point, min_dist)
    return written_to(query, face, bary_u, bary_v)


# -- what is read of faces


@func
def on_face(mesh: MeshArrays, values: array[vec3], face: int32, u: float32, v: float32):
    """The value at a place of a face, interpolated between its points; zero if there is no such face, or no values."""
    result = vec3()
    if values.shape[0] > 0 and face >= 0 and 3 * face + 2 < mesh.indices.shape[0]:
        p = values[mesh.indices[3 * face]]
        q = values[mesh.indices[3 * face + 1]]
        r = values[mesh.indices[3 * face + 2]]
        result = p * u + q * v + r * (1.0 - u - v)
    return result


@library("mesh_eval_position(id: uint64, face: int, bary_u: float, bary_v: float) -> vec3")
@func
def mesh_eval_position(id: MeshArrays, face: int32, bary_u: float32, bary_v: float32):
    """The point of a face whose first two corners have the weights `bary_u` and `bary_v`; zero for no face."""
    return on_face(id, id.points, face, bary_u, bary_v)


@library("mesh_eval_velocity(id: uint64, face: int, bary_u: float, bary_v: float) -> vec3")
@func
def mesh_eval_velocity(id: MeshArrays, face: int32, bary_u: float32, bary_v: float32):
    """The velocity of that point of a face; zero for no face, and where the mesh has no velocities."""
    return on_face(id, id.velocities, face, bary_u, bary_v)


@library("mesh_eval_face_normal(id: uint64, face: int) -> vec3")
@func
def mesh_eval_face_normal(id: MeshArrays, face: int32):
    """The normal of a face, of length 1; zero for no face, and for one without an area."""
    result = vec3()
    if face >= 0 and 3 * face + 2 < id.indices.shape[0]:
        p = face_corner(id, face, 0)
        result = normalize(cross(face_corner(id, face, 1) - p, face_corner(id, face, 2) - p))
    return result


@library("mesh_get(id: uint64) -> Mesh")
@func
def mesh_get(id: MeshArrays):
    """The arrays of a mesh: its `points`, `velocities` and `indices`, as fields."""
    return id


@library("mesh_get_point(id: uint64, index: int) -> vec3")
@func
def mesh_get_point(id: MeshArrays, index: int32):
    """The point of corner `index`: that of number `indices[index]`; zero where there is none."""
    result = vec3()
    if index >= 0 and index < id.indices.shape[0]:
        result = id.points[id.indices[index]]
    return result


@library("mesh_get_velocity(id: uint64, index: int) -> vec3")
@func
def mesh_get_velocity(id: MeshArrays, index: int32):
    """The velocity of the point of corner `index`; zero where there is none."""
    result = vec3()
    if index >= 0 and index < id.indices.shape[0] and id.velocities.shape[0] > 0:
        result = id.velocities[id.indices[index]]
    return result


@library("mesh_get_index(id: uint64, index: int) -> int")
@func
def mesh_get_index(id: MeshArrays, index: int32):
    """The number of the point of corner `index`; -1 where there is none."""
    result = -1
    if index >= 0 and index < id.indices.shape[0]:
        result = id.indices[index]
    return result


@library("mesh_get_bvh(id: uint64) -> uint64")
@func
def mesh_get_bvh(id: MeshArrays):
    """The tree of the boxes of a mesh's faces, for the queries of trees."""
    return id.bvh
