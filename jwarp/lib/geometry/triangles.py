"""Triangles: their points closest to a place, where rays meet them, in the kernel language.

What a traversal compares and what a query gives are computed in two ways: the first without branches, for all lanes of
a vector at once, the second such that the rules of derivatives give those of the side that holds.
"""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import abs, fma, max, where
from jwarp.frontend.builtins.vector import cross, dot, length_sq, vector
from jwarp.frontend.func import func
from jwarp.types import NAMED, float32, float64

vec2, vec3 = NAMED["vec2"], NAMED["vec3"]


@func
def is_sliver(p: vec3, q: vec3, r: vec3):
    """True if a triangle has hardly any area compared with the squares of its sides, so that its normal is useless.

    One whose corners are one point is none: it is a point of its mesh, as in Warp."""
    sides = length_sq(q - p) + length_sq(r - p) + length_sq(r - q)
    area = cross(q - p, r - p)
    return not (length_sq(area) >= 1.0e-12 * sides * sides)


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
    on_ab = length_sq(ap - share(d1, aa) * ab)
    on_ac = length_sq(ap - share(d2, bb) * ac)
    on_bc = length_sq(bp - share(dot(bc, bp), cc) * bc)
    inside = (v >= 0.0) and (w >= 0.0) and (v + w <= area) and (area > 1.0e-12 * aa * bb)
    over = height * height / where(inside, area, 1.0)
    side = where(on_ab < on_ac, on_ab, on_ac)
    return where(inside, over, where(side < on_bc, side, on_bc))


@func
def share(along: float32, whole: float32):
    """A part of a whole, none below 0 and all above 1."""
    part = along / where(whole > 0.0, whole, 1.0)
    part = where(part > 0.0, part, 0.0)
    return where(part < 1.0, part, 1.0)


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
    # A denominator is never 0, so that no derivative is that of a division by zero.
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
def fused_dot(axis: vec3, v: vec3):
    """The dot product, rounded the same wherever it stands: a compiler has no say in what is fused.

    Two faces have to agree where a corner is that they share, and a face with itself when it is looked at again."""
    return fma(axis[2], v[2], fma(axis[1], v[1], axis[0] * v[0]))


@func
def less_times(v: vec3, times: float32, w: vec3):
    """v - times * w, rounded once in each component."""
    return vector(fma(-times, w[0], v[0]), fma(-times, w[1], v[1]), fma(-times, w[2], v[2]))


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
def ray_frame(direction: vec3):
    """The frame of a ray for all its triangles: three vectors that shear space such that it runs along z.

    Their products with a place are its coordinates there, x and y zero on the ray, and z how far along it is.
    """
    axis = largest_axis(direction)
    along = where(axis == 0, direction[0], where(axis == 1, direction[1], direction[2]))
    below = where(along == 0.0, 1.0, along)
    first = vector(where(axis == 2, 1.0, 0.0), where(axis == 0, 1.0, 0.0), where(axis == 1, 1.0, 0.0))
    second = vector(where(axis == 1, 1.0, 0.0), where(axis == 2, 1.0, 0.0), where(axis == 0, 1.0, 0.0))
    z = vector(where(axis == 0, 1.0, 0.0), where(axis == 1, 1.0, 0.0), where(axis == 2, 1.0, 0.0)) / below
    x = less_times(first, fused_dot(first, direction), z)
    y = less_times(second, fused_dot(second, direction), z)
    return where(along < 0.0, y, x), where(along < 0.0, x, y), z


@func
def may_cross(start: vec3, x: vec3, y: vec3, a: vec3, b: vec3, c: vec3):
    """True if `crossing` may find something: a line passes on one side of all three sides, or about through one.

    That is what it begins with; what is left is seldom asked for."""
    ax, ay = fused_dot(x, a - start), fused_dot(y, a - start)
    bx, by = fused_dot(x, b - start), fused_dot(y, b - start)
    cx, cy = fused_dot(x, c - start), fused_dot(y, c - start)
    u = difference_of_products(cx, by, cy, bx)
    v = difference_of_products(ax, cy, ay, cx)
    w = difference_of_products(bx, ay, by, ax)
    is_near = u == 0.0 or v == 0.0 or w == 0.0
    return is_near or (u > 0.0 and v > 0.0 and w > 0.0) or (u < 0.0 and v < 0.0 and w < 0.0)


@func
def crossing(start: vec3, x: vec3, y: vec3, z: vec3, a: vec3, b: vec3, c: vec3):
    """Where a ray with the frame (x, y, z) intersects a triangle, as (t, u, v, determinant), t infinite if it does not.

    No ray passes between two triangles that share a side (Woop, Benthin, Wald, Watertight Ray/Triangle Intersection,
    JCGT 2(1), 2013). `u` and `v` are the weights of the first two corners; the determinant has the sign of the side.
    """
    pa = a - start
    pb = b - start
    pc = c - start
    ax = fused_dot(x, pa)
    ay = fused_dot(y, pa)
    bx = fused_dot(x, pb)
    by = fused_dot(y, pb)
    cx = fused_dot(x, pc)
    cy = fused_dot(y, pc)
    u = difference_of_products(cx, by, cy, bx)
    v = difference_of_products(ax, cy, ay, cx)
    w = difference_of_products(bx, ay, by, ax)
    if u == 0.0 or v == 0.0 or w == 0.0:
        u = float32(float64(cx) * float64(by) - float64(cy) * float64(bx))
        v = float32(float64(ax) * float64(cy) - float64(ay) * float64(cx))
        w = float32(float64(bx) * float64(ay) - float64(by) * float64(ax))
    total = u + v + w
    ahead = fused_dot(vector(u, v, w), vector(fused_dot(z, pa), fused_dot(z, pb), fused_dot(z, pc)))
    below = where(total == 0.0, 1.0, total)
    t = ahead / below
    one_side = (u >= 0.0 and v >= 0.0 and w >= 0.0) or (u <= 0.0 and v <= 0.0 and w <= 0.0)
    hits = one_side and total != 0.0 and t >= 0.0
    return where(hits, t, INFINITE), u / below, v / below, total


INFINITE = float("inf")
