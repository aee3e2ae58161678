"""Distances of line segments, written in the kernel language (Ericson, Real-Time Collision Detection, 5.1.9)."""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import clamp, fma
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import dot, length, vector
from jwarp.frontend.func import func
from jwarp.types import NAMED, float32

vec3 = NAMED["vec3"]


@func
def difference_of_products(a: float32, b: float32, c: float32, d: float32):
    """a b - c d to two units in the last place, however much of it cancels (Kahan; Jeannerod, Louvet, Muller 2013)."""
    product = c * d
    error = fma(-c, d, product)
    return fma(a, b, -product) + error


@library("closest_point_edge_edge(p1: vec3, q1: vec3, p2: vec3, q2: vec3, epsilon: float) -> vec3")
@func
def closest_point_edge_edge(p1: vec3, q1: vec3, p2: vec3, q2: vec3, epsilon: float32):
    """Where two segments come closest: (s, t, distance), of the points p1 + s (q1 - p1) and p2 + t (q2 - p2).

    A segment whose squared length is at most epsilon counts as its first point, with s or t zero. Of parallel segments,
    any closest points may be those.
    """
    d1 = q1 - p1
    d2 = q2 - p2
    r = p1 - p2
    a = dot(d1, d1)
    e = dot(d2, d2)
    c = dot(d1, r)
    f = dot(d2, r)
    s = float32(0.0)
    t = float32(0.0)
    if a > epsilon and e > epsilon:
        b = dot(d1, d2)
        sine = difference_of_products(a, e, b, b)  # its square, times a e
        if sine > 0.0:
            s = clamp(difference_of_products(b, f, c, e) / sine, 0.0, 1.0)
        t = (b * s + f) / e
        if t < 0.0:
            t = 0.0
            s = clamp(-c / a, 0.0, 1.0)
        elif t > 1.0:
            t = 1.0
            s = clamp((b - c) / a, 0.0, 1.0)
    elif a > epsilon:
        s = clamp(-c / a, 0.0, 1.0)
    elif e > epsilon:
        t = clamp(f / e, 0.0, 1.0)
    return vector(s, t, length(p2 + t * d2 - p1 - s * d1))
