"""Searches of meshes on processors: one thread's question is compared with sixteen boxes, or sixteen faces, at once.

Sixteen faces, in the order of their slots, are a leaf; sixteen leaves have a node, and so have sixteen nodes, up to
one. What of sixteen is compared together lies one after the other: the first part of all, then the second. A search
goes down to the nearest child that is left. Children are known by keys, which sort as their distances do and are
different, so that the last one's key says which come after it: a search has no list of what is pending, and the keys
of the nodes above are all that it keeps.
"""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.frontend.builtins.scalar import cast, min, together, where
from jwarp.frontend.func import func
from jwarp.lib.geometry.tree import INFINITE, box_distance, greater, lesser, vec6
from jwarp.lib.geometry.triangles import crossing, squared_distance
from jwarp.types import NAMED, float32, int32, int64, struct, vector

vec3, vec3i = NAMED["vec3"], NAMED["vec3i"]
vec7i = vector(7, int32)

WIDTH = 16
LEVEL = 4  # as a power of two
BOX, FACE = 6 * WIDTH, 9 * WIDTH  # numbers of a node, and of a leaf
LAST = 2147483647
NOTHING = int64(2**63 - 1)
FARTHEST = 0x7F7FFFFF  # of a box that is met: the largest number, as an integer


@struct
class WideArrays:
    """The boxes and faces of a mesh for searches.

    The nodes of a level come one after the other, from the root's on; `levels` says where each level begins.
    """

    boxes: array[float32]
    faces: array[float32]
    levels: array[int32]


@struct
class PlaceAsked:
    """A search for the face closest to a place."""

    point: vec3


@struct
class RayAsked:
    """A search for the faces that a ray intersects, of those in slots from `low` up to `high`."""

    start: vec3
    inverse: vec3
    near: vec3i  # along each axis, which part of a box is the side where the ray comes in
    far: vec3i
    x: vec3
    y: vec3
    z: vec3
    low: int32
    high: int32


@func
def child_key(distance: float32, k: int32, after: int32, best: int32):
    """The key of a node's child; the last one there is, if it does not come after another one or is too far away."""
    key = (cast(distance, int32) & -WIDTH) | k
    return where(key > after and (key & -WIDTH) <= best, key, LAST)


@func
def face_key(distance: float32, slot: int32):
    """A number that sorts faces by distance and by slot, the greatest one for what is no distance."""
    return where(distance >= 0.0, (int64(cast(distance, int32) & 0x7FFFFFFF) << int64(32)) | int64(slot), NOTHING)


@func
def begin_of(number: int32, size: int32, given: array[float32]):
    """Where what is compared together begins among others of that size, and whether all of it is there.

    With this, no number of it has to be looked after by itself."""
    first = (number * size) & LAST
    return first, first <= given.shape[0] - size


@func
def part_at(faces: array[float32], at: int32):
    """One corner of one of a leaf's faces."""
    return vec3(faces[at], faces[at + WIDTH], faces[at + 2 * WIDTH])


@func
def box_at(boxes: array[float32], at: int32):
    """One of a node's boxes."""
    low = vec3(boxes[at], boxes[at + WIDTH], boxes[at + 2 * WIDTH])
    high = vec3(boxes[at + 3 * WIDTH], boxes[at + 4 * WIDTH], boxes[at + 5 * WIDTH])
    return vec6(low[0], low[1], low[2], high[0], high[1], high[2])


@func
def nearest_box(boxes: array[float32], node: int32, asked: Any, after: int32, best: int32):
    """The least key of a node's children after one, and how many there are."""
    least = int32(LAST)
    count = int32(0)
    first, is_there = begin_of(node, BOX, boxes)
    if is_there:
        for k in range(together(WIDTH)):
            key = child_key(box_distance(asked.point, box_at(boxes, first + k), 0), k, after, best)
            least = min(least, key)
            count = count + where(key < LAST, 1, 0)
    return least, count


@func
def crossed(boxes: array[float32], at: int32, asked: RayAsked, axis: int32):
    """How far along a ray it is at a side of one of a node's boxes."""
    return (boxes[at] - asked.start[axis]) * asked.inverse[axis]


@func
def entered(boxes: array[float32], at: int32, asked: RayAsked):
    """How far along a ray it is where it enters one of a node's boxes, infinite if it does not (as `slab_entry`)."""
    x = crossed(boxes, at + asked.near[0], asked, 0)
    y = crossed(boxes, at + asked.near[1], asked, 1)
    z = crossed(boxes, at + asked.near[2], asked, 2)
    near = greater(x, greater(y, greater(z, 0.0)))  # what is no number counts for nothing, as in `slab_entry`
    x = crossed(boxes, at + asked.far[0], asked, 0)
    y = crossed(boxes, at + asked.far[1], asked, 1)
    z = crossed(boxes, at + asked.far[2], asked, 2)
    far = lesser(x, lesser(y, lesser(z, INFINITE)))
    return where(far * 1.0000004 >= near, near, INFINITE)


@func
def first_box(boxes: array[float32], node: int32, asked: RayAsked, after: int32, best: int32):
    """The least key of a node's children after one, and how many there are."""
    least = int32(LAST)
    count = int32(0)
    first, is_there = begin_of(node, BOX, boxes)
    if is_there:
        for k in range(together(WIDTH)):
            key = child_key(entered(boxes, first + k, asked), k, after, best)
            least = min(least, key)
            count = count + where(key < LAST, 1, 0)
    return least, count


@func
def nearest_face(faces: array[float32], leaf: int32, asked: PlaceAsked, best: int64):
    """The best of what was found and a leaf's faces."""
    first, is_there = begin_of(leaf, FACE, faces)
    if is_there:
        for k in range(together(WIDTH)):
            p = part_at(faces, first + k)
            q = part_at(faces, first + k + 3 * WIDTH)
            r = part_at(faces, first + k + 6 * WIDTH)
            best = min(best, face_key(squared_distance(p, q, r, asked.point), leaf * WIDTH + k))
    return best


@func
def met_at(faces: array[float32], at: int32, slot: int32, asked: RayAsked):
    """Where a ray intersects one of a leaf's faces, infinite where it does not."""
    p = part_at(faces, at)
    q = part_at(faces, at + 3 * WIDTH)
    r = part_at(faces, at + 6 * WIDTH)
    t, _, _, _ = crossing(asked.start, asked.x, asked.y, asked.z, p, q, r)
    return where(slot >= asked.low and slot < asked.high, t, INFINITE)


@func
def first_face(faces: array[float32], leaf: int32, asked: RayAsked, best: int64):
    """The best of what was found and a leaf's faces."""
    first, is_there = begin_of(leaf, FACE, faces)
    if is_there:
        for k in range(together(WIDTH)):
            slot = leaf * WIDTH + k
            best = min(best, face_key(met_at(faces, first + k, slot, asked), slot))
    return best


@func
def more_faces(faces: array[float32], leaf: int32, asked: RayAsked, best: int64):
    """The count `best`, plus one for each of a leaf's faces that a ray intersects."""
    first, is_there = begin_of(leaf, FACE, faces)
    if is_there:
        for k in range(together(WIDTH)):
            best = best + where(met_at(faces, first + k, leaf * WIDTH + k, asked) < INFINITE, int64(1), int64(0))
    return best


@func
def searched(wide: WideArrays, asked: Any, child: Any, leaf: Any, best: int64, is_asked: bool, any_one: bool):
    """The result of a search from `best` on, whose upper half is the distance that boxes have to be within.

    `child` gives the next child of a node and `leaf` what is found with a leaf; `any_one` ends the search at that."""
    limit = best
    height = wide.levels.shape[0]
    level = where(is_asked and height > 0, 0, -1)
    node = int32(0)
    after = int32(-1)
    above = vec7i()
    pending = int32(0)  # a bit for each node above: whether it has children left that may be near enough
    while level >= 0:
        key, count = child(wide.boxes, wide.levels[level] + node, asked, after, min(int32(best >> int64(32)), FARTHEST))
        below = WIDTH * node + (key & (WIDTH - 1))
        is_done = count < 2
        if count > 0:
            if level + 1 < height:
                above = vec7i(key, above[0], above[1], above[2], above[3], above[4], above[5])
                pending = (pending << 1) | where(count > 1, 1, 0)
                node = below
                level += 1
                after = int32(-1)
                is_done = False
            else:
                best = leaf(wide.faces, below, asked, best)
                after = key
                if any_one and best < limit:
                    level = int32(-1)
        while is_done and level >= 0:
            node = node >> LEVEL
            level -= 1
            after = above[0]
            above = vec7i(above[1], above[2], above[3], above[4], above[5], above[6], 0)
            is_done = (pending & 1) == 0
            pending = pending >> 1
    return best


@func
def within(limit: float32):
    """Nothing found yet, where only what is nearer than a distance counts."""
    return int64(cast(where(limit > 0.0, limit, 0.0), int32)) << int64(32)
