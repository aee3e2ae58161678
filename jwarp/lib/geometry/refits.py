"""Kernels that work out the boxes of a mesh's tree, and of its sixteens, from where its points are."""

from __future__ import annotations

from jwarp.arrays.array import array, array2d
from jwarp.frontend.builtins.control import tid
from jwarp.frontend.builtins.scalar import isnan, max, min, sqrt, where
from jwarp.frontend.builtins.vector import cross, dot
from jwarp.frontend.kernel import kernel
from jwarp.lib.geometry.tree import vec6
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
    corners: array2d[float32],
    bounds: array2d[float32],
    clean: array2d[float32],
    solid: array2d[float32],
    faces: array[float32],
    sides: array[float32],
    counts: array[int32],
):
    """The face of each slot: its corners, its box, and what is in the box of slots around it.

    `clean` is empty where a corner is no number, and `solid` for slivers, too, as are `faces`, sixteen at a time.
    `sides` is the sum of its `counts` sides that are numbers.
    """
    i = tid()
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
    is_clean = is_face
    for axis in range(3):
        if isnan(p[axis]) or isnan(q[axis]) or isnan(r[axis]):
            is_clean = False
    at = (i // LANES) * (9 * LANES) + i % LANES
    for axis in range(3):
        low = min(p[axis], min(q[axis], r[axis]))
        high = max(p[axis], max(q[axis], r[axis]))
        if isnan(p[axis]) or isnan(q[axis]) or isnan(r[axis]):
            low = NAN
            high = NAN
        corners[i, axis] = p[axis]
        corners[i, axis + 3] = q[axis]
        corners[i, axis + 6] = r[axis]
        bounds[i, axis] = low if is_face else INF
        bounds[i, axis + 3] = high if is_face else -INF
        clean[i, axis] = low if is_clean else INF
        clean[i, axis + 3] = high if is_clean else -INF
        solid[i, axis] = low if is_clean and is_solid else INF
        solid[i, axis + 3] = high if is_clean and is_solid else -INF
        faces[at + LANES * axis] = p[axis] if is_solid else NAN
        faces[at + LANES * (axis + 3)] = q[axis] if is_solid else NAN
        faces[at + LANES * (axis + 6)] = r[axis] if is_solid else NAN
    total = float32(0.0)
    count = int32(0)
    for k in range(3):
        side = first if k == 0 else second if k == 1 else third
        along = sqrt(dot(side, side))
        if not isnan(along):
            total += along
            count += 1
    sides[i] = total
    counts[i] = count


@kernel
def boxes_in_slots(boxes: array[vec6], items: array[int32], bounds: array[vec6], clean: array[vec6]):
    """The box of each slot, and what is in the box of slots around it: nothing where a corner is no number."""
    i = tid()
    nothing = vec6(INF, INF, INF, -INF, -INF, -INF)
    box = nothing
    if i < items.shape[0]:
        box = boxes[items[i]]
    bounds[i] = box
    is_clean = box[0] == box[0] and box[1] == box[1] and box[2] == box[2]
    clean[i] = where(is_clean and box[3] == box[3] and box[4] == box[4] and box[5] == box[5], box, nothing)


@kernel
def boxes_around(clean: array2d[float32], size: int32, nodes: array2d[float32]):
    """The boxes of a tree with `size` slots in a leaf, along one axis, from the last one to the first."""
    axis = tid()
    leaves = nodes.shape[0] // 2
    for back in range(2 * leaves - 1):
        node = 2 * leaves - 1 - back
        low = float32(INF)
        high = float32(-INF)
        if node >= leaves:
            for k in range(size):
                low = min(low, clean[(node - leaves) * size + k, axis])
                high = max(high, clean[(node - leaves) * size + k, axis + 3])
        else:
            for k in range(2):
                low = min(low, nodes[2 * node + k, axis])
                high = max(high, nodes[2 * node + k, axis + 3])
        nodes[node, axis] = low
        nodes[node, axis + 3] = high


@kernel
def sixteens_around(solid: array2d[float32], starts: array[int32], boxes: array[float32]):
    """The boxes around sixteen slots, sixteen boxes and so on, along one axis. Levels begin at `starts`."""
    axis = tid()
    count = solid.shape[0]
    for back in range(starts.shape[0]):
        level = starts.shape[0] - 1 - back
        merged = (count + LANES - 1) // LANES
        for i in range(merged):
            low = float32(INF)
            high = float32(-INF)
            for lane in range(LANES):
                k = i * LANES + lane
                if k < count:
                    if back == 0:
                        low = min(low, solid[k, axis])
                        high = max(high, solid[k, axis + 3])
                    else:
                        at = (starts[level + 1] + i) * (6 * LANES) + lane
                        low = min(low, boxes[at + LANES * axis])
                        high = max(high, boxes[at + LANES * (axis + 3)])
            to = (starts[level] + i // LANES) * (6 * LANES) + i % LANES
            boxes[to + LANES * axis] = low
            boxes[to + LANES * (axis + 3)] = high
        count = merged
