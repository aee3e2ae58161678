"""Where rays meet meshes, in the kernel language. The traversals give integers, as those of `mesh`."""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import any_lane, cast, in_step, on_gpu, one_of, rolled, where
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import cross, dot, length, length_sq, normalize, vector
from jwarp.frontend.func import func
from jwarp.lib.geometry.mesh import MeshArrays, corner, face_corner, leaf_slots
from jwarp.lib.geometry.tree import INFINITE, above, greater, group_slots, inverse_of, is_number, slab_entry
from jwarp.lib.geometry.triangles import crossing, may_cross, ray_frame
from jwarp.lib.geometry.wide import (
    FACE,
    LEVEL,
    WIDTH,
    RayAsked,
    first_box,
    first_face,
    more_faces,
    part_at,
    searched,
    within,
)
from jwarp.lib.random import rand_init, randf
from jwarp.types import NAMED, Reference, bool_, float32, int32, struct

vec3 = NAMED["vec3"]


BEAM = 16.0  # how wide a beam of rays may be that go together, in sides of faces


@struct
class MeshQueryRay:
    """The result of a query for the intersection of a ray with a mesh; all fields are zero if `result` is False.

    The point is `start + t * dir`, or `mesh_eval_position(id, face, u, v)`. The sign is positive if the ray comes from
    the side to which the face's normal points.
    """

    result: bool_
    sign: float32
    face: int32
    t: float32
    u: float32
    v: float32
    normal: vec3


@func
def ray_asked(start: vec3, direction: vec3, low: int32, high: int32):
    """The data of a ray that a search compares faces with."""
    asked = RayAsked()
    asked.start = start
    asked.inverse = inverse_of(direction)
    for axis in range(3):
        is_down = asked.inverse[axis] < 0.0
        asked.near[axis] = WIDTH * (axis + where(is_down, 3, 0))
        asked.far[axis] = WIDTH * (axis + where(is_down, 0, 3))
    asked.x, asked.y, asked.z = ray_frame(direction)
    asked.low = low
    asked.high = high
    return asked


@func
def is_ray(start: vec3, direction: vec3):
    """True if the start has no NaN and the direction is not zero."""
    return is_number(start) and length_sq(direction) > 0.0


@func
def first_slot(mesh: MeshArrays, start: vec3, direction: vec3, limit: float32, low: int32, high: int32, any_hit: int32):
    """The slot, from `low` up to `high`, of the face that a ray intersects first before `limit`; -1 if there is none.

    With `any_hit` it is that of the first one found."""
    found = -1
    if on_gpu():
        found = first_slot_of_many(mesh, start, direction, limit, low, high, any_hit)
    elif in_step() and is_beam(mesh, start, direction):
        found = first_slot_together(mesh, start, direction, limit, low, high, any_hit)
    else:
        none = within(limit)
        asked = ray_asked(start, direction, low, high)
        best = searched(mesh.wide, asked, first_box, first_face, none, is_ray(start, direction), any_hit == 1)
        found = where(best < none, int32(best), -1)
    return found


@func
def of_one(v: vec3):
    """The vector of one of the threads that run in step."""
    x = cast(one_of(cast(v[0], int32)), float32)
    y = cast(one_of(cast(v[1], int32)), float32)
    z = cast(one_of(cast(v[2], int32)), float32)
    return vector(x, y, z)


@func
def is_beam(mesh: MeshArrays, start: vec3, direction: vec3):
    """True if the rays of threads in lockstep are close together at the mesh, and so intersect about the same boxes."""
    is_wide = True
    if mesh.bvh.nodes.shape[0] > 1:
        box = mesh.bvh.nodes[1]
        middle = 0.25 * (corner(box, 0) + corner(box, 3) + corner(box, 6) + corner(box, 9))
        way = normalize(direction)
        begun = of_one(start)
        apart = length(start - begun) + length(way - of_one(way)) * length(middle - begun)
        is_wide = any_lane(is_ray(start, direction) and not apart <= BEAM * mesh.edge)
    return not is_wide


@func
def is_met(entry: float32, limit: float32):
    """True if a ray enters a box, at no more than the distance `limit`, which may be infinite."""
    return entry < INFINITE and greater(entry, 0.0) * 0.999999 <= limit


@func
def first_slot_together(
    mesh: MeshArrays, start: vec3, direction: vec3, limit: float32, low: int32, high: int32, any_hit: int32
):
    """As `first_slot`, where threads in step go together: to each box that one of their rays intersects."""
    leaves = mesh.bvh.nodes.shape[0]
    size = mesh.bvh.size
    x, y, z = ray_frame(direction)
    inverse = inverse_of(direction)
    way = of_one(direction)
    best = where(is_ray(start, direction), limit, -1.0)
    found = -1
    node = int32(1)
    pending = int32(0)
    while node > 0:
        while node > 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            first = any_lane(is_met(slab_entry(start, inverse, box, 0), best))
            second = any_lane(is_met(slab_entry(start, inverse, box, 6), best))
            if first or second:
                beyond = corner(box, 6) + corner(box, 9) - corner(box, 0) - corner(box, 3)
                swapped = second and (not first or dot(way, beyond) < 0.0)
                pending = (pending << 1) | where(first and second, 1, 0)
                node = 2 * node + where(swapped, 1, 0)
            else:
                node, pending = above(node, pending)
        if node > 0:
            for k in range(size):
                slot = (node - leaves) * size + k
                at = (slot >> LEVEL) * FACE + (slot & (WIDTH - 1))
                p = part_at(mesh.wide.faces, at)
                q = part_at(mesh.wide.faces, at + 3 * WIDTH)
                r = part_at(mesh.wide.faces, at + 6 * WIDTH)
                t, _, _, _ = crossing(start, x, y, z, p, q, r)
                if (t < best or (t == best and slot < found)) and slot >= low and slot < high:
                    best = t
                    found = slot
            best = where(any_hit == 1 and found >= 0, -1.0, best)
            node, pending = above(node, pending)
    return found


@func
def first_slot_of_many(
    mesh: MeshArrays, start: vec3, direction: vec3, limit: float32, low: int32, high: int32, any_hit: int32
):
    """As `first_slot`, where each of many threads goes its own way."""
    leaves = mesh.bvh.nodes.shape[0]
    size = mesh.bvh.size
    x, y, z = ray_frame(direction)
    inverse = inverse_of(direction)
    best = limit
    found = -1
    node = where(is_number(start) and length_sq(direction) > 0.0, 1, 0)
    pending = 0
    while node > 0:
        while node > 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            first = slab_entry(start, inverse, box, 0)
            second = slab_entry(start, inverse, box, 6)
            swapped = second < first
            if where(swapped, second, first) < best:
                pending = (pending << 1) | where(where(swapped, first, second) < best, 1, 0)
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
                    if may_cross(start, x, y, p, q, r):
                        t, _, _, _ = crossing(start, x, y, z, p, q, r)
                        if t < best and slot + k >= low and slot + k < high:
                            best = t
                            found = slot + k
            node, pending = above(node, pending)
            if any_hit == 1 and found >= 0:
                node = 0
    return found


@func
def crossings(mesh: MeshArrays, start: vec3, direction: vec3, low: int32, high: int32):
    """How many of the faces in slots from `low` up to `high` a ray intersects."""
    count = 0
    if on_gpu():
        count = crossings_of_many(mesh, start, direction, low, high)
    else:
        none = within(INFINITE)
        asked = ray_asked(start, direction, low, high)
        count = int32(searched(mesh.wide, asked, first_box, more_faces, none, is_ray(start, direction), False) - none)
    return count


@func
def crossings_of_many(mesh: MeshArrays, start: vec3, direction: vec3, low: int32, high: int32):
    """As `crossings`, where each of many threads goes its own way."""
    leaves = mesh.bvh.nodes.shape[0]
    size = mesh.bvh.size
    x, y, z = ray_frame(direction)
    inverse = inverse_of(direction)
    count = 0
    node = where(is_number(start) and length_sq(direction) > 0.0, 1, 0)
    pending = 0
    while node > 0:
        while node > 0 and node < leaves:
            box = mesh.bvh.nodes[node]
            first = slab_entry(start, inverse, box, 0) < INFINITE
            second = slab_entry(start, inverse, box, 6) < INFINITE
            if first or second:
                pending = (pending << 1) | where(first and second, 1, 0)
                node = 2 * node + where(first, 0, 1)
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
                    if may_cross(start, x, y, p, q, r):
                        t, _, _, _ = crossing(start, x, y, z, p, q, r)
                        if t < INFINITE and slot + k >= low and slot + k < high:
                            count += 1
            node, pending = above(node, pending)
    return count


@func
def first_crossing(mesh: MeshArrays, start: vec3, direction: vec3, max_t: float32, root: int32):
    """Where a ray first intersects a mesh."""
    query = MeshQueryRay()
    low, high = group_slots(mesh.bvh, root)
    slot = first_slot(mesh, start, direction, max_t, low, high, 0)
    if slot >= 0:
        face = mesh.bvh.items[slot]
        p = face_corner(mesh, face, 0)
        q = face_corner(mesh, face, 1)
        r = face_corner(mesh, face, 2)
        x, y, z = ray_frame(direction)
        t, u, v, total = crossing(start, x, y, z, p, q, r)
        query.result = True
        query.sign = total
        query.face = face
        query.t = t
        query.u = u
        query.v = v
        query.normal = normalize(cross(q - p, r - p))
    return query


@func
def mesh_query_ray(id: MeshArrays, start: vec3, dir: vec3, max_t: float32, root: int32 = -1):
    return first_crossing(id, start, dir, max_t, root)


@library(
    "mesh_query_ray(id: uint64, start: vec3, dir: vec3, max_t: float, root: int = -1) -> MeshQueryRay\n"
    "mesh_query_ray(id: uint64, start: vec3, dir: vec3, max_t: float, t: float, bary_u: float, "
    "bary_v: float, sign: float, normal: vec3, face: int, root: int = -1) -> bool"
)
@func
def mesh_query_ray(
    id: MeshArrays,
    start: vec3,
    dir: vec3,
    max_t: float32,
    t: Reference(float32),
    bary_u: Reference(float32),
    bary_v: Reference(float32),
    sign: Reference(float32),
    normal: Reference(vec3),
    face: Reference(int32),
    root: int32 = -1,
):
    """The first intersection of a ray from `start` with a mesh, if there is one before `start + max_t * dir`.

    With output arguments, it returns True if there is one, else it does not change them. No ray passes between two
    faces that share an edge. A ray without a direction, and faces without an area or with a NaN corner, intersect
    nothing. `root` from `mesh_get_group_root` restricts the query to the faces of one group."""
    query = first_crossing(id, start, dir, max_t, root)
    if query.result:
        t = query.t
        bary_u = query.u
        bary_v = query.v
        sign = query.sign
        normal = query.normal
        face = query.face
    return query.result


@library("mesh_query_ray_anyhit(id: uint64, start: vec3, dir: vec3, max_t: float, root: int = -1) -> bool")
@func
def mesh_query_ray_anyhit(id: MeshArrays, start: vec3, dir: vec3, max_t: float32, root: int32 = -1):
    """True if a ray intersects a mesh before `start + max_t * dir`."""
    low, high = group_slots(id.bvh, root)
    return first_slot(id, start, dir, max_t, low, high, 1) >= 0


@library("mesh_query_ray_count_intersections(id: uint64, start: vec3, dir: vec3, root: int = -1) -> int")
@func
def mesh_query_ray_count_intersections(id: MeshArrays, start: vec3, dir: vec3, root: int32 = -1):
    """The number of faces of a mesh that a ray intersects."""
    low, high = group_slots(id.bvh, root)
    return crossings(id, start, dir, low, high)


# -- what is inside


@func
def sign_by_rays(mesh: MeshArrays, point: vec3):
    """-1 where two of three rays along the axes first meet a face from behind, else 1."""
    votes = 0
    for axis in range(rolled(3)):
        direction = vector(where(axis == 0, 1.0, 0.0), where(axis == 1, 1.0, 0.0), where(axis == 2, 1.0, 0.0))
        slot = first_slot(mesh, point, direction, INFINITE, 0, mesh.bvh.items.shape[0], 0)
        if slot >= 0:
            face = mesh.corners[slot]
            p = corner(face, 0)
            if dot(direction, cross(corner(face, 3) - p, corner(face, 6) - p)) > 0.0:
                votes += 1
    return where(votes >= 2, -1.0, 1.0)


@func
def sign_by_parity(mesh: MeshArrays, point: vec3, n_sample: int32, perturbation_scale: float32):
    """-1 where half of some rays along about (1, 1, 1), always the same, meet an odd number of faces, else 1."""
    state = rand_init(42)
    votes = 0
    for _ in range(n_sample):
        x = randf(state, -perturbation_scale, perturbation_scale)
        y = randf(state, -perturbation_scale, perturbation_scale)
        z = randf(state, -perturbation_scale, perturbation_scale)
        direction = vector(1.0 + x, 1.0 + y, 1.0 + z)
        if crossings(mesh, point, direction, 0, mesh.bvh.items.shape[0]) % 2 == 1:
            votes += 1
    return where(votes * 2 >= n_sample, -1.0, 1.0)
