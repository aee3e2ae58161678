"""Kernels that work out the boxes of a tree, and of a mesh's sixteens, from where its boxes or points are."""

from __future__ import annotations

from jwarp.arrays.array import array, array2d, array3d
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import max, sqrt, where
from jwarp.frontend.builtins.vector import cross, dot
from jwarp.frontend.func import func
from jwarp.frontend.kernel import kernel
from jwarp.lib.geometry.tree import greater, is_number, lesser, vec6, vec9
from jwarp.lib.geometry.wide import LEVEL, WIDTH
from jwarp.types import NAMED, float32, int32

vec3, vec3i = NAMED["vec3"], NAMED["vec3i"]
INF, NAN = float("inf"), float("nan")
LANES = int(WIDTH)


@func
def box_of(low: vec3, high: vec3, is_box: bool):
    """A box with these corners, or one that no query intersects (`NO_BOX` in `api.geometry.tree`)."""
    box = vec6(low[0], low[1], low[2], high[0], high[1], high[2])
    return where(is_box, box, vec6(NAN, NAN, NAN, -INF, -INF, -INF))


@kernel
def faces_in_slots(
    points: array[vec3],
    indices: array[vec3i],
    items: array[int32],
    corners: array[vec9],
    bounds: array[vec6],
    faces: array3d[float32],
    sides: array2d[float32],
):
    """The face of each slot, for each sixteen slots and each of them: its corners, and its box.

    `faces` has the corners sixteen at a time, but for slivers, which are no numbers there. `sides` is how long the
    sides of a face are together, no number where one of its corners is none.
    """
    sixteen, lane = tid()
    i = sixteen * LANES + lane
    face = vec3(NAN, NAN, NAN)
    p, q, r = face, face, face
    is_face = i < items.shape[0]
    if is_face:
        known = indices[items[i]]
        a, b, c = known[0], known[1], known[2]
        if a >= 0 and a < points.shape[0]:
            p = points[a]
        if b >= 0 and b < points.shape[0]:
            q = points[b]
        if c >= 0 and c < points.shape[0]:
            r = points[c]
    first, second, third = p - r, q - p, r - q
    across = cross(first, second)
    one, two, three = dot(first, first), dot(second, second), dot(third, third)
    squares = one + two + three
    is_solid = dot(across, across) >= float32(1.0e-12) * squares * squares  # as `is_sliver` has it
    low, high = vec3(), vec3()
    for axis in range(3):
        faces[sixteen, axis, lane] = p[axis] if is_solid else NAN
        faces[sixteen, axis + 3, lane] = q[axis] if is_solid else NAN
        faces[sixteen, axis + 6, lane] = r[axis] if is_solid else NAN
        low[axis] = lesser(p[axis], lesser(q[axis], r[axis]))
        high[axis] = greater(p[axis], greater(q[axis], r[axis]))
    if is_face:
        corners[i] = vec9(p[0], p[1], p[2], q[0], q[1], q[2], r[0], r[1], r[2])
        bounds[i] = box_of(low, high, is_number(p) and is_number(q) and is_number(r))
    sides[sixteen, lane] = sqrt(one) + sqrt(two) + sqrt(three) if is_face else 0.0


@kernel
def boxes_in_slots(lowers: array[vec3], uppers: array[vec3], items: array[int32], bounds: array[vec6]):
    """The box of each slot that has one."""
    i = tid()
    low, high = lowers[items[i]], uppers[items[i]]
    bounds[i] = box_of(low, high, is_number(low) and is_number(high))


@kernel
def leaves_around(bounds: array3d[float32], leaves: array2d[float32]):
    """The boxes of the leaves, from those of their slots: of each, a lower or an upper corner along an axis."""
    i, part = tid()
    side = where(part < 3, 1.0, -1.0)
    found = float32(INF)
    for k in range(bounds.shape[1]):
        found = lesser(side * bounds[i, k, part], found)
    leaves[i, part] = side * found


@kernel
def nodes_around(used: int32, nodes: array2d[float32]):
    """The boxes above the first `used` leaves: of each, a lower or an upper corner along an axis."""
    part = tid()
    side = where(part < 3, 1.0, -1.0)
    first = nodes.shape[0] // 4
    count = used
    while first > 0:
        for i in range((count + 1) // 2):
            k = 2 * (first + i)
            found = side * nodes[k, part]
            if 2 * i + 1 < count:
                found = lesser(side * nodes[k + 1, part], found)
            nodes[first + i, part] = side * found
        count = (count + 1) // 2
        first = first // 2


@kernel
def level_around(first: int32, used: int32, nodes: array2d[float32]):
    """The boxes of a level, whose nodes begin at `first`, above the first `used` nodes of the level below."""
    i, part = tid()
    side = where(part < 3, 1.0, -1.0)
    k = 2 * (first + i)
    found = side * nodes[k, part]
    if 2 * i + 1 < used:
        found = lesser(side * nodes[k + 1, part], found)
    nodes[first + i, part] = side * found


@kernel
def closed_nodes(nodes: array2d[float32]):
    """A ray would go through a box from infinity to minus infinity. It misses a point at infinity."""
    i = tid()
    is_nothing = True
    for axis in range(3):
        is_nothing = is_nothing and nodes[i, axis] == INF and nodes[i, axis + 3] == -INF
    if is_nothing:
        for part in range(6):
            nodes[i, part] = INF


@kernel
def sixteens_around(nodes: array2d[float32], widest: int32, starts: array[int32], boxes: array3d[float32]):
    """The boxes of nodes of sixteen, of each the part of a child: those of the tree's nodes around as many slots.

    Levels begin at `starts`. The children of the last one are `widest` nodes of the tree.
    """
    node, part, lane = tid()
    level = int32(0)
    while level + 1 < starts.shape[0] and starts[level + 1] <= node:
        level += 1
    count = max(widest >> (LEVEL * (starts.shape[0] - 1 - level)), 1)
    child = (node - starts[level]) * LANES + lane
    boxes[node, part, lane] = nodes[count + child, part] if child < count else INF
