"""Kernels that work out the boxes of a mesh's tree, and of its sixteens, from where its points are."""

from __future__ import annotations

from jwarp.arrays.array import array, array2d, array3d
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import isnan, max, min, sqrt, where
from jwarp.frontend.builtins.vector import cross, dot
from jwarp.frontend.kernel import kernel
from jwarp.lib.geometry.tree import greater, lesser, vec6, vec9
from jwarp.lib.geometry.wide import WIDTH
from jwarp.types import NAMED, float32, int32

vec3 = NAMED["vec3"]
INF, NAN = float("inf"), float("nan")
LANES = int(WIDTH)


@kernel
def faces_in_slots(
    points: array[vec3],
    indices: array[int32],
    items: array[int32],
    corners: array[vec9],
    bounds: array[vec6],
    faces: array3d[float32],
    sides: array2d[float32],
    counts: array2d[int32],
):
    """The face of each slot, for each sixteen slots and each of them: its corners, and its box.

    `faces` has the corners sixteen at a time, but for slivers, which are no numbers there. `sides` is the sum of its
    `counts` sides that are numbers.
    """
    sixteen, lane = tid()
    i = sixteen * LANES + lane
    face = vec3(NAN, NAN, NAN)
    p, q, r = face, face, face
    is_face = i < items.shape[0]
    if is_face:
        k = 3 * items[i]
        a, b, c = indices[k], indices[k + 1], indices[k + 2]
        if a >= 0 and a < points.shape[0]:
            p = points[a]
        if b >= 0 and b < points.shape[0]:
            q = points[b]
        if c >= 0 and c < points.shape[0]:
            r = points[c]
    first, second, third = p - r, q - p, r - q
    across = cross(first, second)
    squares = dot(first, first) + dot(second, second) + dot(third, third)
    is_solid = dot(across, across) >= float32(1.0e-12) * squares * squares and squares > 0.0
    low, high = vec3(), vec3()
    for axis in range(3):
        faces[sixteen, axis, lane] = p[axis] if is_solid else NAN
        faces[sixteen, axis + 3, lane] = q[axis] if is_solid else NAN
        faces[sixteen, axis + 6, lane] = r[axis] if is_solid else NAN
        low[axis] = min(p[axis], min(q[axis], r[axis]))
        high[axis] = max(p[axis], max(q[axis], r[axis]))
        if isnan(p[axis]) or isnan(q[axis]) or isnan(r[axis]):
            low[axis] = NAN
            high[axis] = NAN
    if is_face:
        corners[i] = vec9(p[0], p[1], p[2], q[0], q[1], q[2], r[0], r[1], r[2])
        bounds[i] = vec6(low[0], low[1], low[2], high[0], high[1], high[2])
    total = float32(0.0)
    count = int32(0)
    for k in range(3):
        side = first if k == 0 else second if k == 1 else third
        along = sqrt(dot(side, side))
        if not isnan(along):
            total += along
            count += 1
    sides[sixteen, lane] = total
    counts[sixteen, lane] = count


@kernel
def boxes_in_slots(lowers: array[vec3], uppers: array[vec3], items: array[int32], bounds: array[vec6]):
    """The box of each slot that has one."""
    i = tid()
    low, high = lowers[items[i]], uppers[items[i]]
    bounds[i] = vec6(low[0], low[1], low[2], high[0], high[1], high[2])


@kernel
def leaves_around(bounds: array[vec6], size: int32, nodes: array[vec6]):
    """The boxes of the leaves, with `size` slots each. A box with a corner that is no number counts for none."""
    i = tid()
    leaves = nodes.shape[0] // 2
    low = vec3(INF, INF, INF)
    high = vec3(-INF, -INF, -INF)
    for k in range(size):
        box = bounds[i * size + k]
        is_clean = box[0] == box[0] and box[1] == box[1] and box[2] == box[2]
        if is_clean and box[3] == box[3] and box[4] == box[4] and box[5] == box[5]:
            for axis in range(3):
                low[axis] = min(low[axis], box[axis])
                high[axis] = max(high[axis], box[axis + 3])
    nodes[leaves + i] = vec6(low[0], low[1], low[2], high[0], high[1], high[2])


@kernel
def nodes_around(used: int32, nodes: array2d[float32]):
    """The boxes above the first `used` leaves: of each, a lower or an upper corner along an axis."""
    part = tid()
    first = nodes.shape[0] // 4
    count = used
    while first > 0:
        for i in range((count + 1) // 2):
            k = 2 * (first + i)
            found = nodes[k, part]
            if 2 * i + 1 < count:
                other = nodes[k + 1, part]
                found = where(part < 3, min(found, other), max(found, other))
            nodes[first + i, part] = found
        count = (count + 1) // 2
        first = first // 2


@kernel
def first_sixteens(faces: array3d[float32], first: int32, boxes: array3d[float32]):
    """The boxes around sixteen slots, along each axis: those of the last level, which begins at `first`."""
    axis, i = tid()
    low = float32(INF)
    high = float32(-INF)
    for lane in range(LANES):
        p, q, r = faces[i, axis, lane], faces[i, axis + 3, lane], faces[i, axis + 6, lane]
        low = lesser(p, lesser(q, lesser(r, low)))
        high = greater(p, greater(q, greater(r, high)))
    boxes[first + i // LANES, axis, i % LANES] = low
    boxes[first + i // LANES, axis + 3, i % LANES] = high


@kernel
def sixteens_around(used: int32, starts: array[int32], boxes: array3d[float32]):
    """The boxes around sixteen boxes of the level below, `used` in the last one: a lower or upper corner along an axis.

    Levels begin at `starts`.
    """
    part = tid()
    below = used
    for back in range(starts.shape[0] - 1):
        level = starts.shape[0] - 1 - back
        count = (below + LANES - 1) // LANES
        for i in range(count):
            found = boxes[starts[level] + i, part, 0]
            for lane in range(1, min(LANES, below - i * LANES)):
                other = boxes[starts[level] + i, part, lane]
                found = where(part < 3, min(found, other), max(found, other))
            boxes[starts[level - 1] + i // LANES, part, i % LANES] = found
        below = count
