"""Triangles: their points closest to a place, where rays meet them, in the kernel language.

What a traversal compares and what a query gives are computed in two ways: the first without branches, for all lanes of
a vector at once, the second such that the rules of derivatives give those of the side that holds.
"""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import abs, clamp, fma, max, min, where
from jwarp.frontend.builtins.vector import cross, dot, length_sq, vector
from jwarp.frontend.func import func
from jwarp.types import NAMED, float32, float64, int32

vec2, vec3 = NAMED["vec2"], NAMED["vec3"]


@func
def is_sliver(p: vec3, q: vec3, r: vec3):
    """Whether a triangle has hardly any area beside the squares of its sides, and no normal worth the name."""
    sides = length_sq(q - p) + length_sq(r - p) + length_sq(r - q)
    area = cross(q - p, r - p)
    return not (length_sq(area) >= 1.0e-12 * sides * sides and sides > 0.0)


@func
def squared_distance(a: vec3, b: vec3, c: vec3, point: vec3):
    """The square of the distance from a point to a triangle.

    The closest point lies inside, over the plane, or is the closest one of the three sides."""
    ab = b - a
    ac = c - a
    ap = point - a
    d1 = dot(ab, ap)
    d2 = dot(ac, ap)
    aa = dot(ab, ab)
    bb = dot(ac, ac)
    normal = cross(ab, ac)
    area = length_sq(normal)
    v = dot(cross(ap, ac), normal)
    w = dot(cross(ab, ap), normal)
    height = dot(ap, normal)
    bc = c - b
    bp = ap - ab
    cc = dot(bc, bc)
    on_ab = length_sq(ap - clamp(d1 / where(aa > 0.0, aa, 1.0), 0.0, 1.0) * ab)
    on_ac = length_sq(ap - clamp(d2 / where(bb > 0.0, bb, 1.0), 0.0, 1.0) * ac)
    on_bc = length_sq(bp - clamp(dot(bc, bp) / where(cc > 0.0, cc, 1.0), 0.0, 1.0) * bc)
    inside = (v >= 0.0) and (w >= 0.0) and (v + w <= area) and (area > 1.0e-12 * aa * bb)
    over = height * height / where(inside, area, 1.0)
    return where(inside, over, min(on_ab, min(on_ac, on_bc)))


@func
def closest_barycentrics(a: vec3, b: vec3, c: vec3, point: vec3):
    """The weights of the first two corners in a triangle's closest point (Ericson, Real-Time Collision Detection)."""
    ab = b - a
    ac = c - a
    ap = point - a
    d1 = dot(ab, ap)
    d2 = dot(ac, ap)
    bp = point - b
    d3 = dot(ab, bp)
    d4 = dot(ac, bp)
    cp = point - c
    d5 = dot(ab, cp)
    d6 = dot(ac, cp)
    va = d3 * d6 - d5 * d4
    vb = d5 * d2 - d1 * d6
    vc = d1 * d4 - d3 * d2
    # What stands below a fraction is never 0, so that no derivative is that of a division by zero.
    at_a = d1 <= 0.0 and d2 <= 0.0
    at_b = d3 >= 0.0 and d4 <= d3
    at_c = d6 >= 0.0 and d5 <= d6
    on_ab = vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0
    on_ac = vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0
    on_bc = va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0
    u = float32(1.0)
    v = float32(0.0)
    if at_a:
        u = float32(1.0)
    elif at_b:
        u = float32(0.0)
        v = float32(1.0)
    elif on_ab:
        below = where(d1 - d3 == 0.0, 1.0, d1 - d3)
        v = d1 / below
        u = 1.0 - v
    elif at_c:
        u = float32(0.0)
    elif on_ac:
        below = where(d2 - d6 == 0.0, 1.0, d2 - d6)
        u = 1.0 - d2 / below
    elif on_bc:
        below = where((d4 - d3) + (d5 - d6) == 0.0, 1.0, (d4 - d3) + (d5 - d6))
        v = 1.0 - (d4 - d3) / below
        u = float32(0.0)
    else:
        total = va + vb + vc
        below = where(total == 0.0, 1.0, total)
        v = vb / below
        u = va / below
    return u, v


@func
def difference_of_products(a: float32, b: float32, c: float32, d: float32):
    """a b - c d, however much of it cancels (Jeannerod, Louvet, Muller 2013)."""
    product = c * d
    return fma(a, b, -product) + fma(-c, d, product)


@func
def largest_axis(v: vec3):
    """The axis of the component of the largest size; the first one of equals."""
    axis = 0
    if abs(v[1]) > abs(v[0]):
        axis = 1
    if abs(v[2]) > max(abs(v[0]), abs(v[1])):
        axis = 2
    return axis


@func
def turned_to(v: vec3, axis: int32, swaps: Any):
    """The components of a vector with `axis` last, and the other two after it in order, or swapped."""
    x = where(axis == 0, v[1], where(axis == 1, v[2], v[0]))
    y = where(axis == 0, v[2], where(axis == 1, v[0], v[1]))
    z = where(axis == 0, v[0], where(axis == 1, v[1], v[2]))
    return vector(where(swaps, y, x), where(swaps, x, y), z)


@func
def ray_frame(direction: vec3):
    """What of a ray all its triangles are compared with: the main axis, whether it is backward, and its shear."""
    axis = largest_axis(direction)
    d = turned_to(direction, axis, False)
    backward = d[2] < 0.0
    d = turned_to(direction, axis, backward)
    below = where(d[2] == 0.0, 1.0, d[2])
    return axis, backward, vector(d[0] / below, d[1] / below, 1.0 / below)


@func
def crossing(start: vec3, axis: int32, backward: Any, shear: vec3, a: vec3, b: vec3, c: vec3):
    """Where a ray meets a triangle, as (t, u, v, determinant), t infinite if it does not.

    No ray passes between two triangles that share a side (Woop, Benthin, Wald, Watertight Ray/Triangle Intersection,
    JCGT 2(1), 2013). `u` and `v` are the weights of the first two corners; the determinant has the sign of the side.
    """
    pa = turned_to(a - start, axis, backward)
    pb = turned_to(b - start, axis, backward)
    pc = turned_to(c - start, axis, backward)
    ax = pa[0] - shear[0] * pa[2]
    ay = pa[1] - shear[1] * pa[2]
    bx = pb[0] - shear[0] * pb[2]
    by = pb[1] - shear[1] * pb[2]
    cx = pc[0] - shear[0] * pc[2]
    cy = pc[1] - shear[1] * pc[2]
    u = difference_of_products(cx, by, cy, bx)
    v = difference_of_products(ax, cy, ay, cx)
    w = difference_of_products(bx, ay, by, ax)
    if u == 0.0 or v == 0.0 or w == 0.0:
        u = float32(float64(cx) * float64(by) - float64(cy) * float64(bx))
        v = float32(float64(ax) * float64(cy) - float64(ay) * float64(cx))
        w = float32(float64(bx) * float64(ay) - float64(by) * float64(ax))
    total = u + v + w
    ahead = shear[2] * (u * pa[2] + v * pb[2] + w * pc[2])
    below = where(total == 0.0, 1.0, total)
    t = ahead / below
    one_side = (u >= 0.0 and v >= 0.0 and w >= 0.0) or (u <= 0.0 and v <= 0.0 and w <= 0.0)
    hits = one_side and total != 0.0 and t >= 0.0
    return where(hits, t, INFINITE), u / below, v / below, total


INFINITE = float("inf")
