"""Which side of a mesh a place is on, by rays, by normals or by winding numbers, in the kernel language."""

from __future__ import annotations

from jwarp.arrays.array import array
from jwarp.frontend.builtins.scalar import acos, atan2, cast, clamp, max, on_gpu, together, where
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import cross, dot, length, length_sq, normalize, vector
from jwarp.frontend.func import func
from jwarp.lib.geometry.mesh import MeshArrays, closest_point, corner, mesh_eval_position, written_to
from jwarp.lib.geometry.mesh_rays import sign_by_parity, sign_by_rays
from jwarp.lib.geometry.tree import above, box_distance
from jwarp.lib.geometry.triangles import closest_barycentrics, is_sliver
from jwarp.lib.geometry.wide import FACE, WIDTH, begin_of, nearest_box, part_at, searched, within
from jwarp.types import NAMED, Reference, float32, int32, int64, struct

vec3 = NAMED["vec3"]
PI = 3.14159265359


@func
def angle_between(a: vec3, b: vec3):
    """The angle between two vectors."""
    return acos(clamp(dot(normalize(a), normalize(b)), -1.0, 1.0))


@func
def weighted_normal(p: vec3, q: vec3, r: vec3, closest: vec3, near: float32):
    """The normal of a triangle times its angle at the closest point: a corner within `near`, on a side, or inside."""
    weight = float32(2.0 * PI)
    cp = closest - p
    cq = closest - q
    cr = closest - r
    ab = q - p
    ac = r - p
    bc = r - q
    least = near * near
    if length_sq(cp) < least:
        weight = angle_between(ab, ac)
    elif length_sq(cq) < least:
        weight = angle_between(bc, -ab)
    elif length_sq(cr) < least:
        weight = angle_between(-ac, -bc)
    else:
        on_ab = length_sq(cross(ab, cp)) < least * length_sq(ab)
        on_bc = length_sq(cross(bc, cq)) < least * length_sq(bc)
        on_ac = length_sq(cross(ac, cp)) < least * length_sq(ac)
        if on_ab or on_bc or on_ac:
            weight = float32(PI)
    return weight * normalize(cross(ab, ac))


@struct
class SideAsked:
    """A search for the faces about the point of a mesh that is closest to a place: which side of them is that on?

    No point of the mesh within `near` of the closest one is farther than `limit` from the place.
    """

    point: vec3
    closest: vec3
    limit: float32
    near: float32


@func
def height_over(p: vec3, q: vec3, r: vec3, asked: SideAsked):
    """How far a place is from the closest point along a triangle's weighted normal; zero if that is elsewhere."""
    height = float32(0.0)
    u, v = closest_barycentrics(p, q, r, asked.point)
    own = u * p + v * q + (1.0 - u - v) * r
    if length(own - asked.closest) <= asked.near:
        height = dot(weighted_normal(p, q, r, own, asked.near), asked.point - asked.closest)
    return height


@func
def heights(faces: array[float32], leaf: int32, asked: SideAsked, best: int64):
    """`best`, with the heights over a leaf's faces added to its lower half, which is a float32."""
    total = cast(int32(best), float32)
    first, is_there = begin_of(leaf, FACE, faces)
    if is_there:
        for k in range(together(WIDTH)):
            p = part_at(faces, first + k)
            q = part_at(faces, first + k + 3 * WIDTH)
            r = part_at(faces, first + k + 6 * WIDTH)
            total = total + height_over(p, q, r, asked)
    return ((best >> int64(32)) << int64(32)) | (int64(cast(total, int32)) & int64(0xFFFFFFFF))


@func
def sum_of_heights_for_many(mesh: MeshArrays, asked: SideAsked):
    """As `sum_of_heights`, where each of many threads goes its own way."""
    point, limit = asked.point, asked.limit
    leaves = mesh.bvh.nodes.shape[0]
    size = mesh.bvh.size
    total = float32(0.0)
    node = 1
    pending = 0
    while node > 0:
        while node > 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            first = box_distance(point, box, 0) <= limit * limit
            second = box_distance(point, box, 6) <= limit * limit
            if first or second:
                pending = (pending << 1) | where(first and second, 1, 0)
                node = 2 * node + where(first, 0, 1)
            else:
                node, pending = above(node, pending)
        if node > 0:
            slot = (node - leaves) * size
            for k in range(size):
                face = mesh.corners[slot + k]
                p = corner(face, 0)
                q = corner(face, 3)
                r = corner(face, 6)
                if not is_sliver(p, q, r):
                    total += height_over(p, q, r, asked)
            node, pending = above(node, pending)
    return total


@func
def sum_of_heights(mesh: MeshArrays, asked: SideAsked):
    """The sum of the heights of a place over the faces about the closest point."""
    total = float32(0.0)
    if on_gpu():
        total = sum_of_heights_for_many(mesh, asked)
    else:
        start = within(asked.limit * asked.limit)
        total = cast(int32(searched(mesh.wide, asked, nearest_box, heights, start, True, False)), float32)
    return total


@func
def sign_by_normals(mesh: MeshArrays, point: vec3, closest: vec3, near: float32):
    """-1 behind the faces within `near` of the closest point, by the sum of their angle-weighted normals, else 1.

    Baerentzen, Aanaes, Signed Distance Computation Using the Angle Weighted Pseudonormal, 2005. Faces that are as close
    elsewhere don't count: in the middle of a ball, the normals of all would cancel."""
    asked = SideAsked()
    asked.point = point
    asked.closest = closest
    asked.near = max(near, 1.0e-6 * length(closest))  # which is rounded
    asked.limit = length(point - closest) + asked.near
    return where(sum_of_heights(mesh, asked) > 0.0, 1.0, -1.0)


@func
def solid_angle(p: vec3, q: vec3, r: vec3):
    """The solid angle of a triangle seen from the origin (van Oosterom, Strackee, 1983)."""
    a = length(p)
    b = length(q)
    c = length(r)
    above_ = dot(p, cross(q, r))
    below = a * b * c + dot(p, q) * c + dot(q, r) * a + dot(r, p) * b
    angle = float32(0.0)
    if above_ != 0.0 and above_ == above_:
        angle = 2.0 * atan2(above_, below)
    return angle


@func
def winding_number(mesh: MeshArrays, point: vec3, accuracy: float32):
    """How often a mesh goes round a point: what it looks like from there, in whole spheres.

    Parts that are farther away than `accuracy` times their radius count as a point with their area (Barill, Dickson,
    Schmidt, Levin, Jacobson, Fast Winding Numbers for Soups and Clouds, 2018, of the first order)."""
    leaves = mesh.bvh.nodes.shape[0]
    size = mesh.bvh.size
    total = float32(0.0)
    node = 1
    pending = 0
    while node > 0:
        part = mesh.winding[node]
        way = vector(part[0], part[1], part[2]) - point
        distance = length(way)
        if part[6] < 0.0 or distance > accuracy * part[6]:
            if part[6] >= 0.0:
                total += dot(vector(part[3], part[4], part[5]), way) / (distance * distance * distance)
            node, pending = above(node, pending)
        elif node < leaves:
            pending = (pending << 1) | 1
            node = 2 * node
        else:
            slot = (node - leaves) * size
            for k in range(size):
                face = mesh.corners[slot + k]
                total += solid_angle(corner(face, 0) - point, corner(face, 3) - point, corner(face, 6) - point)
            node, pending = above(node, pending)
    return total / (4.0 * PI)


@func
def sign_by_winding(mesh: MeshArrays, point: vec3, accuracy: float32, threshold: float32):
    """-1 where the winding number is above a threshold, else 1; by rays where the mesh was not built for it."""
    sign = float32(0.0)
    if mesh.winding.shape[0] > 0:
        sign = where(winding_number(mesh, point, accuracy) > threshold, -1.0, 1.0)
    else:
        sign = sign_by_rays(mesh, point)
    return sign


@func
def mesh_query_point(id: MeshArrays, point: vec3, max_dist: float32):
    query = closest_point(id, point, max_dist)
    if query.result:
        query.sign = sign_by_rays(id, point)
    return query


@library(
    "mesh_query_point(id: uint64, point: vec3, max_dist: float) -> MeshQueryPoint\n"
    "mesh_query_point(id: uint64, point: vec3, max_dist: float, inside: float, face: int, bary_u: float, "
    "bary_v: float) -> bool"
)
@func
def mesh_query_point(
    id: MeshArrays,
    point: vec3,
    max_dist: float32,
    inside: Reference(float32),
    face: Reference(int32),
    bary_u: Reference(float32),
    bary_v: Reference(float32),
):
    """The closest point of a mesh to `point`, if one is closer than `max_dist`, and the side on which `point` lies.

    Three rays along the axes decide the side, which is right for meshes without holes.

    A negative sign is inside. With output arguments for the sign, the face and its weights, it returns True if there
    is a point, and otherwise does not change them."""
    query = mesh_query_point(id, point, max_dist)
    if query.result:
        inside = query.sign
    return written_to(query, face, bary_u, bary_v)


@func
def mesh_query_point_sign_parity(
    id: MeshArrays, point: vec3, max_dist: float32, n_sample: int32 = 1, perturbation_scale: float32 = 0.1
):
    query = closest_point(id, point, max_dist)
    if query.result:
        query.sign = sign_by_parity(id, point, n_sample, perturbation_scale)
    return query


@library(
    "mesh_query_point_sign_parity(id: uint64, point: vec3, max_dist: float, n_sample: int = 1, "
    "perturbation_scale: float = 0.1) -> MeshQueryPoint\n"
    "mesh_query_point_sign_parity(id: uint64, point: vec3, max_dist: float, inside: float, face: int, "
    "bary_u: float, bary_v: float, n_sample: int = 1, perturbation_scale: float = 0.1) -> bool"
)
@func
def mesh_query_point_sign_parity(
    id: MeshArrays,
    point: vec3,
    max_dist: float32,
    inside: Reference(float32),
    face: Reference(int32),
    bary_u: Reference(float32),
    bary_v: Reference(float32),
    n_sample: int32 = 1,
    perturbation_scale: float32 = 0.1,
):
    """The closest point of a mesh to `point`, if one is closer than `max_dist`, and the side on which `point` lies.

    `n_sample` rays along (1, 1, 1), perturbed by up to `perturbation_scale`, decide the side by the number of faces
    that they intersect.

    A negative sign is inside. With output arguments for the sign, the face and its weights, it returns True if there
    is a point, and otherwise does not change them."""
    query = mesh_query_point_sign_parity(id, point, max_dist, n_sample, perturbation_scale)
    if query.result:
        inside = query.sign
    return written_to(query, face, bary_u, bary_v)


@func
def mesh_query_point_sign_normal(id: MeshArrays, point: vec3, max_dist: float32, epsilon: float32 = 1.0e-3):
    query = closest_point(id, point, max_dist)
    if query.result:
        query.sign = sign_by_normals(id, point, mesh_eval_position(id, query.face, query.u, query.v), id.edge * epsilon)
    return query


@library(
    "mesh_query_point_sign_normal(id: uint64, point: vec3, max_dist: float, "
    "epsilon: float = 1.0e-3) -> MeshQueryPoint\n"
    "mesh_query_point_sign_normal(id: uint64, point: vec3, max_dist: float, inside: float, face: int, "
    "bary_u: float, bary_v: float, epsilon: float = 1.0e-3) -> bool"
)
@func
def mesh_query_point_sign_normal(
    id: MeshArrays,
    point: vec3,
    max_dist: float32,
    inside: Reference(float32),
    face: Reference(int32),
    bary_u: Reference(float32),
    bary_v: Reference(float32),
    epsilon: float32 = 1.0e-3,
):
    """The closest point of a mesh to `point`, if one is closer than `max_dist`, and the side on which `point` lies.

    The normals of the closest faces (within `epsilon` mean edge lengths) decide the side: fast, and right for
    meshes without holes and with normals that point outward.

    A negative sign is inside. With output arguments for the sign, the face and its weights, it returns True if there
    is a point, and otherwise does not change them."""
    query = mesh_query_point_sign_normal(id, point, max_dist, epsilon)
    if query.result:
        inside = query.sign
    return written_to(query, face, bary_u, bary_v)


@func
def mesh_query_point_sign_winding_number(
    id: MeshArrays, point: vec3, max_dist: float32, accuracy: float32 = 2.0, threshold: float32 = 0.5
):
    query = closest_point(id, point, max_dist)
    if query.result:
        query.sign = sign_by_winding(id, point, accuracy, threshold)
    return query


@library(
    "mesh_query_point_sign_winding_number(id: uint64, point: vec3, max_dist: float, "
    "accuracy: float = 2.0, threshold: float = 0.5) -> MeshQueryPoint\n"
    "mesh_query_point_sign_winding_number(id: uint64, point: vec3, max_dist: float, inside: float, "
    "face: int, bary_u: float, bary_v: float, accuracy: float = 2.0, threshold: float = 0.5) -> bool"
)
@func
def mesh_query_point_sign_winding_number(
    id: MeshArrays,
    point: vec3,
    max_dist: float32,
    inside: Reference(float32),
    face: Reference(int32),
    bary_u: Reference(float32),
    bary_v: Reference(float32),
    accuracy: float32 = 2.0,
    threshold: float32 = 0.5,
):
    """The closest point of a mesh to `point`, if one is closer than `max_dist`, and the side on which `point` lies.

    It is inside where the winding number is above `threshold`, also of meshes with holes; the mesh needs
    `support_winding_number=True`. Parts farther away than `accuracy` times their size are approximated.

    A negative sign is inside. With output arguments for the sign, the face and its weights, it returns True if there
    is a point, and otherwise does not change them."""
    query = mesh_query_point_sign_winding_number(id, point, max_dist, accuracy, threshold)
    if query.result:
        inside = query.sign
    return written_to(query, face, bary_u, bary_v)
