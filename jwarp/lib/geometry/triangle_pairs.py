"""Tests if two triangles intersect (after Moeller, A Fast Triangle-Triangle Intersection Test, 1997)."""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import abs, max, min, where
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import cross, dot
from jwarp.frontend.func import func
from jwarp.types import NAMED

vec3, vec3d = NAMED["vec3"], NAMED["vec3d"]


@func
def height(normal: Any, origin: Any, point: Any):
    """How far a point is from a plane, times the length of the normal; hardly anything counts as nothing."""
    zero = type(normal[0])(0.0)
    distance = dot(normal, point) - dot(normal, origin)
    return where(abs(distance) < type(normal[0])(1.0e-6), zero, distance)


@func
def interval(p: Any, h: Any):
    """Where a triangle intersects the line in which two planes meet, from places along it and heights of its corners.

    That is from tip + a / x to tip + b / y, of the results (tip, a, b, x, y): nothing is divided, so that triangles
    with whole numbers for corners meet where they touch.
    """
    zero = type(h[0])(0.0)
    alone = 2
    if h[0] * h[1] > zero:
        alone = 2
    elif h[0] * h[2] > zero:
        alone = 1
    elif h[1] * h[2] > zero or h[0] != zero:
        alone = 0
    elif h[1] != zero:
        alone = 1
    first = where(alone == 0, 1, 0)
    second = where(alone == 2, 1, 2)
    tip = where(alone == 0, p[0], where(alone == 1, p[1], p[2]))
    up = where(alone == 0, h[0], where(alone == 1, h[1], h[2]))
    one = where(first == 0, p[0], p[1]), where(first == 0, h[0], h[1])
    other = where(second == 1, p[1], p[2]), where(second == 1, h[1], h[2])
    return tip, (one[0] - tip) * up, (other[0] - tip) * up, up - one[1], up - other[1]


@func
def turn(ax: Any, ay: Any, bx: Any, by: Any, cx: Any, cy: Any):
    """Twice the area of a triangle of the plane, below zero if it is clockwise."""
    return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)


@func
def sides_intersect(ax: Any, ay: Any, bx: Any, by: Any, cx: Any, cy: Any, dx: Any, dy: Any):
    """True if two segments of the plane that are not parallel intersect."""
    ux = bx - ax
    uy = by - ay
    vx = cx - dx
    vy = cy - dy
    wx = ax - cx
    wy = ay - cy
    f = uy * vx - ux * vy
    d = vy * wx - vx * wy
    e = ux * wy - uy * wx
    zero = type(f)(0.0)
    forward = f > zero and d >= zero and d <= f and e >= zero and e <= f
    backward = f < zero and d <= zero and d >= f and e <= zero and e >= f
    return forward or backward


@func
def is_inside(px: Any, py: Any, x: Any, y: Any):
    """True if a point is strictly inside a triangle of the plane."""
    a = turn(x[0], y[0], x[1], y[1], px, py)
    b = turn(x[1], y[1], x[2], y[2], px, py)
    c = turn(x[2], y[2], x[0], y[0], px, py)
    zero = type(a)(0.0)
    return a * b > zero and a * c > zero


@func
def intersect_in_plane(normal: Any, ax: Any, ay: Any, bx: Any, by: Any):
    """True if two triangles of the plane, given by their coordinates, intersect."""
    intersects = is_inside(ax[0], ay[0], bx, by) or is_inside(bx[0], by[0], ax, ay)
    for i in range(3):
        for j in range(3):
            k = (i + 1) % 3
            l = (j + 1) % 3
            if sides_intersect(ax[i], ay[i], ax[k], ay[k], bx[j], by[j], bx[l], by[l]):
                intersects = True
    return intersects


@func
def heights(normal: Any, origin: Any, p: Any, q: Any, r: Any):
    """The heights of the corners of a triangle above a plane."""
    h = p
    h[0] = height(normal, origin, p)
    h[1] = height(normal, origin, q)
    h[2] = height(normal, origin, r)
    return h


@func
def are_on_one_side(h: Any):
    """True if the corners of a triangle with these heights are all above a plane, or all below it."""
    zero = type(h[0])(0.0)
    return h[0] * h[1] > zero and h[0] * h[2] > zero


@func
def meet_in_line(v0: Any, v1: Any, v2: Any, u0: Any, u1: Any, u2: Any, n: Any, m: Any, hv: Any, hu: Any):
    """True if two triangles, each of which the other's plane intersects, meet where the planes do, or in both."""
    zero = type(n[0])(0.0)
    met = False
    flat = (hu[0] == zero and hu[1] == zero and hu[2] == zero) or (hv[0] == zero and hv[1] == zero and hv[2] == zero)
    along = where(flat, n, cross(n, m))
    axis = 0
    if abs(along[1]) > abs(along[0]):
        axis = 1
    if abs(along[2]) > max(abs(along[0]), abs(along[1])):
        axis = 2
    if flat:  # of equal ones, the plane that Warp looks at
        a, b, c = abs(n[0]), abs(n[1]), abs(n[2])
        axis = where(a > b, where(a > c, 0, 2), where(c > b, 2, 1))
    x = where(axis == 0, 1, 0)
    y = where(axis == 2, 1, 2)
    if flat:
        ax = v0
        ay = v0
        bx = v0
        by = v0
        ax[0], ax[1], ax[2] = v0[x], v1[x], v2[x]
        ay[0], ay[1], ay[2] = v0[y], v1[y], v2[y]
        bx[0], bx[1], bx[2] = u0[x], u1[x], u2[x]
        by[0], by[1], by[2] = u0[y], u1[y], u2[y]
        met = intersect_in_plane(n, ax, ay, bx, by)
    else:
        p = v0
        q = v0
        p[0], p[1], p[2] = v0[axis], v1[axis], v2[axis]
        q[0], q[1], q[2] = u0[axis], u1[axis], u2[axis]
        p_tip, p_a, p_b, p_x, p_y = interval(p, hv)
        q_tip, q_a, q_b, q_x, q_y = interval(q, hu)
        of_p = p_x * p_y
        of_q = q_x * q_y
        both = of_p * of_q
        p_from = p_tip * both + p_a * p_y * of_q
        p_to = p_tip * both + p_b * p_x * of_q
        q_from = q_tip * both + q_a * of_p * q_y
        q_to = q_tip * both + q_b * of_p * q_x
        met = not (max(p_from, p_to) < min(q_from, q_to) or max(q_from, q_to) < min(p_from, p_to))
    return met


@func
def meet(v0: Any, v1: Any, v2: Any, u0: Any, u1: Any, u2: Any):
    """1 where two triangles meet, else 0."""
    n = cross(v1 - v0, v2 - v0)
    hu = heights(n, v0, u0, u1, u2)
    found = 0
    if not are_on_one_side(hu):  # most pairs are done here
        m = cross(u1 - u0, u2 - u0)
        hv = heights(m, u0, v0, v1, v2)
        if not are_on_one_side(hv):
            found = where(meet_in_line(v0, v1, v2, u0, u1, u2, n, m, hv, hu), 1, 0)
    return found


@func
def intersect_tri_tri(v0: vec3, v1: vec3, v2: vec3, u0: vec3, u1: vec3, u2: vec3):
    return meet(v0, v1, v2, u0, u1, u2)


@library(
    "intersect_tri_tri(v0: vec3, v1: vec3, v2: vec3, u0: vec3, u1: vec3, u2: vec3) -> int\n"
    "intersect_tri_tri(v0: vec3d, v1: vec3d, v2: vec3d, u0: vec3d, u1: vec3d, u2: vec3d) -> int"
)
@func
def intersect_tri_tri(v0: vec3d, v1: vec3d, v2: vec3d, u0: vec3d, u1: vec3d, u2: vec3d):
    """1 if two triangles, given by their corners, have a common point, otherwise 0.

    A corner that is closer to the plane of the other triangle than 1e-6 over the length of its normal is in the
    plane."""
    return meet(v0, v1, v2, u0, u1, u2)
