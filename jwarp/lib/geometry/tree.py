"""Trees of boxes: what kernels are given for one, and how they go through it, written in the kernel language.

A tree is complete and binary, and numbered as a heap: the root is node 1, the children of node k are 2 k and 2 k + 1,
and of 2^d leaves the first is node 2^d. Leaf j holds the slots from j times the leaf's size on, and slot s the thing
`items[s]`; nodes without any are points at infinity, which meet nothing. So there are no pointers, and no stack: a bit
for each level, in `pending`, says whether the sibling of the node there is still to be visited (Laine, Restart Trail
for Stackless BVH Traversal, HPG 2010).
"""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.frontend.builtins.scalar import abs, cast, max, where
from jwarp.frontend.func import func
from jwarp.lib.geometry.hash_grid import first_not_below
from jwarp.types import NAMED, float32, int32, struct, uint64, vector

vec3 = NAMED["vec3"]
vec6 = vector(6, float32)
vec9 = vector(9, float32)
vec12 = vector(12, float32)


@struct
class BvhArrays:
    """A tree of boxes: what a kernel is given for it."""

    nodes: array[vec12]  # of each node that is no leaf: the lower and upper corners of its first child, and its second
    bounds: array[vec6]  # of what is in each slot, the lower corner and the upper one
    items: array[int32]  # what is in each slot
    groups: array[int32]  # the group of what is in each slot, in order, or no elements
    size: int32  # slots of a leaf


BvhArrays.stands_for = uint64


INFINITE = float("inf")


@func
def above(node: int32, pending: int32):
    """The node that is visited after a node and all below it, and what is pending then; no node (0) at the end."""
    if pending == 0:
        return 0, 0
    level = (cast(float32(pending & -pending), int32) >> 23) - 127  # of the lowest bit: the exponent of a power of two
    return (node >> level) ^ 1, (pending >> level) - 1


@func
def lesser(x: float32, y: float32):
    """The lesser of two numbers; the second one where either is none. Processors have one instruction for this."""
    return where(x < y, x, y)


@func
def greater(x: float32, y: float32):
    """The greater of two numbers; the second one where either is none."""
    return where(x > y, x, y)


@func
def box_distance(point: vec3, box: Any, first: int32):
    """The square of the distance from a point to the box whose corners begin at component `first`."""
    x = greater(greater(box[first] - point[0], point[0] - box[first + 3]), 0.0)
    y = greater(greater(box[first + 1] - point[1], point[1] - box[first + 4]), 0.0)
    z = greater(greater(box[first + 2] - point[2], point[2] - box[first + 5]), 0.0)
    return x * x + y * y + z * z


@func
def farthest_distance(point: vec3, box: vec12, first: int32):
    """The square of the distance from a point to the farthest point of a box; negative for an empty one."""
    total = float32(0.0)
    for axis in range(3):
        low = point[axis] - box[first + axis]
        high = box[first + 3 + axis] - point[axis]
        side = max(low, high)
        total += side * side
    return where(box[first] < INFINITE, total, -1.0)


@func
def inverse_of(direction: vec3):
    """The reciprocals of a direction, infinite ones where it does not move along an axis."""
    result = vec3()
    for axis in range(3):
        result[axis] = where(abs(direction[axis]) < 1.0e-20, INFINITE, 1.0 / direction[axis])
    return result


@func
def grown_box(box: Any, first: int32, by: float32):
    """A box that is larger on all sides."""
    low = vector(box[first] - by, box[first + 1] - by, box[first + 2] - by)
    high = vector(box[first + 3] + by, box[first + 4] + by, box[first + 5] + by)
    return vec6(low[0], low[1], low[2], high[0], high[1], high[2])


@func
def slab_entry(start: vec3, inverse: vec3, box: Any, first: int32):
    """Where a ray enters a box, infinite if it misses it; `inverse` is `inverse_of` it.

    A ray along a side that it begins on is inside as far as that side goes: zero times infinity, no number, is passed
    over. What rounding may have cost is added to where it leaves (Ize, Robust BVH Ray Traversal, JCGT 2(2), 2013).
    """
    near = float32(-INFINITE)
    far = float32(INFINITE)
    for axis in range(3):
        low = (box[first + axis] - start[axis]) * inverse[axis]
        high = (box[first + 3 + axis] - start[axis]) * inverse[axis]
        is_down = inverse[axis] < 0.0
        near = greater(where(is_down, high, low), near)
        far = lesser(where(is_down, low, high), far)
    return where((far >= 0.0) and (far * 1.0000004 >= near), near, INFINITE)


@func
def is_number(v: vec3):
    """True if no component is NaN."""
    return (v[0] == v[0]) and (v[1] == v[1]) and (v[2] == v[2])


@func
def group_slots(tree: BvhArrays, root: int32):
    """The slots from one number up to another that a query is over: all of a tree, or those of a group.

    `root` is what `bvh_get_group_root` gave: the group's first slot, or -1.
    """
    low = 0
    high = tree.items.shape[0]
    if root >= 0:
        low = root
        if root < tree.groups.shape[0]:
            group = tree.groups[root]
            if group < 2147483647:
                high = first_not_below(tree.groups, root, high, group + 1)
    return low, high
