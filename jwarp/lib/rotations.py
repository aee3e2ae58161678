"""Functions of quaternions, written in the kernel language.

Quaternions are x, y, z, w. Nothing here divides by what is zero where the function is smooth: with angles near zero,
what depends on the square of an angle is a series in it, so that derivatives of first and second order are right there.
"""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.quaternion import quat_inverse, quat_rotate, quaternion
from jwarp.frontend.builtins.scalar import abs, acos, asin, atan2, clamp, cos, fixed, max, sin, sqrt, where
from jwarp.frontend.builtins.signatures import of_floats
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import cross, dot, length, length_sq, matrix_from_cols, normalize, vector
from jwarp.frontend.func import Func, func
from jwarp.lib.float_types import Matrix33, Matrix44, Quaternion, Real, Vector3
from jwarp.types import int32

PI = 3.141592653589793
HALF_PI = 0.5 * PI

# The square of a ratio below which series are used: eight terms are exact in float64.
SMALL = 1e-2


@func
def in_range(q: Any):
    """The quaternion divided by a constant, its greatest component, for what does not depend on its length."""
    kind = q.dtype
    size = fixed(max(max(abs(q.x), abs(q.y)), max(abs(q.z), abs(q.w))))
    size = where(size == kind(0.0), kind(1.0), size)
    return quaternion(q.x / size, q.y / size, q.z / size, q.w / size)


# -- axis and angle


@library(of_floats("quat_from_axis_angle(axis: vec3, angle: float) -> quat"))
@func
def quat_from_axis_angle(axis: Vector3, angle: Real):
    """The rotation about an axis of length 1 by an angle in radians: axis * sin(angle / 2), cos(angle / 2)."""
    half = angle * axis.dtype(0.5)
    return quaternion(axis * sin(half), cos(half))


def _axis_angle(function: Any) -> Any:
    forms = of_floats(
        "quat_to_axis_angle(quat: quat) -> tuple[vec3, float]",
        "quat_to_axis_angle(quat: quat, axis: vec3, angle: float) -> None",
    )
    return library(forms)(Func(function, ("axis", "angle")))


@_axis_angle
def quat_to_axis_angle(quat: Quaternion):
    """The axis, of length 1, and the angle, 0 to pi, of the rotation by a quaternion of any length.

    For the identity, the axis and all derivatives are zero, because there is no direction. At
    a rotation by pi, the axis changes its sign with w, and the derivative is that for w >= 0.
    """
    v = vector(quat.x, quat.y, quat.z)
    axis = normalize(v)
    if quat.w < quat.dtype(0.0):
        axis = -axis
    return axis, quat.dtype(2.0) * atan2(length(v), abs(quat.w))


# -- interpolation


@func
def sine_ratio(x: Any):
    """sin(r) / r where x is the square of r."""
    kind = type(x)
    if x < kind(SMALL):
        t = kind(1.0) - x / kind(110.0)
        t = kind(1.0) - x / kind(72.0) * t
        t = kind(1.0) - x / kind(42.0) * t
        t = kind(1.0) - x / kind(20.0) * t
        return kind(1.0) - x / kind(6.0) * t
    r = sqrt(x)
    return sin(r) / r


@func
def cosine_of_root(x: Any):
    """cos(r) where x is the square of r."""
    kind = type(x)
    if x < kind(SMALL):
        t = kind(1.0) - x / kind(90.0)
        t = kind(1.0) - x / kind(56.0) * t
        t = kind(1.0) - x / kind(30.0) * t
        t = kind(1.0) - x / kind(12.0) * t
        return kind(1.0) - x * kind(0.5) * t
    return cos(sqrt(x))


@func
def angle_ratio(square: Any, w: Any):
    """atan2(s, w) / s for w >= 0, where `square` is that of s."""
    kind = type(w)
    if square < kind(SMALL) * w * w:
        x = -square / (w * w)
        t = kind(1.0 / 17.0)
        t = kind(1.0 / 15.0) + x * t
        t = kind(1.0 / 13.0) + x * t
        t = kind(1.0 / 11.0) + x * t
        t = kind(1.0 / 9.0) + x * t
        t = kind(1.0 / 7.0) + x * t
        t = kind(1.0 / 5.0) + x * t
        t = kind(1.0 / 3.0) + x * t
        return (kind(1.0) + x * t) / w
    s = sqrt(square)
    return where(square == kind(0.0), kind(0.0), atan2(s, w) / where(s == kind(0.0), kind(1.0), s))


@library(of_floats("quat_slerp(a: quat, b: quat, t: float) -> quat"))
@func
def quat_slerp(a: Quaternion, b: Quaternion, t: Real):
    """The rotation between a and b, both of length 1: a at t = 0, b or -b at t = 1, with constant speed.

    It is a * (conjugate(a) * b)^t along the shorter way (Shoemake 1985). For rotations that are pi apart, where
    both ways are equally long, it uses w >= 0 in conjugate(a) * b, and has this derivative.
    """
    kind = a.dtype
    between = quat_inverse(in_range(a)) * in_range(b)
    side = where(between.w < kind(0.0), kind(-1.0), kind(1.0))
    v = vector(between.x, between.y, between.z) * side
    ratio = angle_ratio(length_sq(v), between.w * side)
    x = t * t * ratio * ratio * length_sq(v)
    return a * quaternion(v * (t * ratio * sine_ratio(x)), cosine_of_root(x))


# -- matrices


@library(of_floats("quat_to_matrix(quat: quat) -> mat33"))
@func
def quat_to_matrix(quat: Quaternion):
    """The matrix m with m @ x == quat_rotate(quat, x)."""
    one = quat.dtype(1.0)
    none = quat.dtype(0.0)
    return matrix_from_cols(
        quat_rotate(quat, vector(one, none, none)),
        quat_rotate(quat, vector(none, one, none)),
        quat_rotate(quat, vector(none, none, one)),
    )


@func
def quat_of_matrix(m: Any):
    """The quaternion of the upper left 3 by 3 entries, from the largest of its components (Shepperd 1978)."""
    kind = m.dtype
    half = kind(0.5)
    one = kind(1.0)
    x = m[2, 1] - m[1, 2]
    y = m[0, 2] - m[2, 0]
    z = m[1, 0] - m[0, 1]
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    if trace >= kind(0.0):
        h = sqrt(trace + one)
        s = half / h
        q = quaternion(x * s, y * s, z * s, half * h)
    elif m[0, 0] >= m[1, 1] and m[0, 0] >= m[2, 2]:
        h = sqrt(m[0, 0] - (m[1, 1] + m[2, 2]) + one)
        s = half / h
        q = quaternion(half * h, (m[0, 1] + m[1, 0]) * s, (m[2, 0] + m[0, 2]) * s, x * s)
    elif m[1, 1] >= m[2, 2]:
        h = sqrt(m[1, 1] - (m[2, 2] + m[0, 0]) + one)
        s = half / h
        q = quaternion((m[0, 1] + m[1, 0]) * s, half * h, (m[1, 2] + m[2, 1]) * s, y * s)
    else:
        h = sqrt(m[2, 2] - (m[0, 0] + m[1, 1]) + one)
        s = half / h
        q = quaternion((m[2, 0] + m[0, 2]) * s, (m[1, 2] + m[2, 1]) * s, half * h, z * s)
    return normalize(q)


@func
def quat_from_matrix(mat: Matrix33):
    return quat_of_matrix(mat)


@library(of_floats("quat_from_matrix(mat: mat33) -> quat", "quat_from_matrix(mat: mat44) -> quat"))
@func
def quat_from_matrix(mat: Matrix44):  # noqa: F811
    """The quaternion, of length 1, of a rotation: a 3 by 3 matrix, or the upper left part of one of 4 by 4.

    Which of q and -q depends on the largest entry of the diagonal, and w >= 0 where the trace is not negative. Of a
    matrix that is no rotation it depends on that, too, what it is and what its derivative is.
    """
    return quat_of_matrix(mat)


# -- angles about axes


@library(of_floats("quat_rpy(roll: float, pitch: float, yaw: float) -> quat"))
@func
def quat_rpy(roll: Real, pitch: Real, yaw: Real):
    """The rotation by roll about x, then pitch about y, then yaw about z, with fixed axes; in radians."""
    half = type(roll)(0.5)
    sr = sin(roll * half)
    cr = cos(roll * half)
    sp = sin(pitch * half)
    cp = cos(pitch * half)
    sy = sin(yaw * half)
    cy = cos(yaw * half)
    return quaternion(
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


@library(of_floats("quat_to_rpy(q: quat) -> vec3"))
@func
def quat_to_rpy(q: Quaternion):
    """Roll, pitch and yaw, in radians, of a quaternion of length 1: the inverse of `quat_rpy`.

    Pitch is -pi/2 to pi/2. At these ends (gimbal lock) roll and yaw are not unique and those given may not be of q,
    and pitch has derivative zero; `quat_to_euler(q, 0, 1, 2)` is right there.
    """
    kind = q.dtype
    one = kind(1.0)
    two = kind(2.0)
    roll = atan2(two * (q.w * q.x + q.y * q.z), one - two * (q.x * q.x + q.y * q.y))
    pitch = asin(clamp(two * (q.w * q.y - q.z * q.x), -one, one))
    yaw = atan2(two * (q.w * q.z + q.x * q.y), one - two * (q.y * q.y + q.z * q.z))
    return vector(roll, pitch, yaw)


@func
def about(axis: Any, angle: Any):
    """The turn by an angle about one of the axes 0, 1, 2."""
    kind = type(angle)
    s = sin(angle * kind(0.5))
    v = vector(kind(0.0), kind(0.0), kind(0.0))
    v[clamp(axis, int32(0), int32(2))] = s
    return quaternion(v, cos(angle * kind(0.5)))


@library(of_floats("quat_from_euler(e: vec3, i: int, j: int, k: int) -> quat"))
@func
def quat_from_euler(e: Vector3, i: int, j: int, k: int):
    """The rotation by e[i] about axis i, then e[j] about axis j, then e[k] about axis k, with fixed axes; in radians.

    Axes are 0, 1 and 2, and e has the angle about each: with k == i the first and the third are the same.
    """
    return about(k, e[k]) * (about(j, e[j]) * about(i, e[i]))


@library(of_floats("quat_to_euler(q: quat, i: int, j: int, k: int) -> vec3"))
@func
def quat_to_euler(q: Quaternion, i: int, j: int, k: int):
    """The angles about the axes i, j and k, in radians, of a quaternion of any length; undoes `quat_from_euler`.

    Axes are 0, 1 and 2. The angle about axis j is -pi/2 to pi/2. Where the other two are not unique (gimbal lock), one
    of them is zero, and derivatives are those of the angles given. With k == i (proper Euler angles) e[i] is the first
    angle, e[j] the second, 0 to pi, and the third stands in the place that is left. (Bernardes and Viollet 2022.)
    """
    kind = q.dtype
    q = in_range(q)
    v = vector(q.x, q.y, q.z)
    third = k
    if k == i:
        third = 3 - i - j
    # 1 where i, j, third is 0, 1, 2 turned round, -1 where two are exchanged.
    parity = kind(float((i - j) * (j - third) * (third - i))) * kind(0.5)
    a = q.w
    b = v[i]
    c = v[j]
    d = v[third] * parity
    if k != i:
        a, b, c, d = a - c, b + d, c + a, d - b
    ab = a * a + b * b
    cd = c * c + d * d
    near = acos(clamp(kind(2.0) * ab / (ab + cd) - kind(1.0), kind(-1.0), kind(1.0)))
    plus = atan2(b, a)
    minus = atan2(d, c)
    first = kind(0.0)
    last = kind(0.0)
    if abs(near) < kind(1e-6):
        last = kind(2.0) * plus
    elif abs(near - kind(PI)) < kind(1e-6):
        last = kind(2.0) * minus
    else:
        first = plus - minus
        last = plus + minus
    middle = kind(2.0) * atan2(sqrt(cd), sqrt(ab))
    if k != i:
        middle -= kind(HALF_PI)
        last *= parity
    e = vector(kind(0.0), kind(0.0), kind(0.0))
    e[i] = first
    e[j] = middle
    e[third] = last
    return e


# -- the turn about an axis


@library(of_floats("quat_twist(axis: vec3, q: quat) -> quat"))
@func
def quat_twist(axis: Vector3, q: Quaternion):
    """The twist of a rotation: its part about an axis of length 1, as a quaternion of length 1.

    If q is a rotation by pi about a perpendicular axis, the twist is 0, 0, 0, 1 with derivative zero.
    """
    return normalize(quaternion(axis * dot(vector(q.x, q.y, q.z), axis), q.w))


@library(of_floats("quat_twist_angle(axis: vec3, q: quat) -> float"))
@func
def quat_twist_angle(axis: Vector3, q: Quaternion):
    """The unsigned angle, in radians, of the twist of a rotation about an axis of length 1.

    It is 0 to pi for w >= 0, otherwise pi to 2 pi. It has a kink at angle 0, with derivative zero there.
    """
    return q.dtype(2.0) * atan2(abs(dot(axis, vector(q.x, q.y, q.z))), q.w)


@library(of_floats("quat_twist_angle_signed(axis: vec3, q: quat) -> float"))
@func
def quat_twist_angle_signed(axis: Vector3, q: Quaternion):
    """The angle, in radians, of the twist of a rotation about an axis of length 1, by the right-hand rule.

    It is -pi to pi for w >= 0, otherwise -2 pi to 2 pi.
    """
    return q.dtype(2.0) * atan2(dot(axis, vector(q.x, q.y, q.z)), q.w)


# -- between directions


@func
def perpendicular(a: Any):
    """A vector of length 1 perpendicular to a, which has length 1: in the plane of the two axes it is farthest from."""
    kind = a.dtype
    none = kind(0.0)
    if abs(a[0]) <= abs(a[1]) and abs(a[0]) <= abs(a[2]):
        return normalize(vector(none, -a[2], a[1]))
    if abs(a[1]) <= abs(a[2]):
        return normalize(vector(a[2], none, -a[0]))
    return normalize(vector(-a[1], a[0], none))


@library(of_floats("quat_between_vectors(a: vec3, b: vec3) -> quat"))
@func
def quat_between_vectors(a: Vector3, b: Vector3):
    """The smallest rotation from the direction of a to that of b; for opposite ones, by pi about a perpendicular axis.

    The derivative grows without bound towards opposite directions; at them it is zero. Where one is zero there is no
    turn.
    """
    kind = a.dtype
    a = normalize(a)
    b = normalize(b)
    axis = cross(a, b)
    q = quaternion(axis, kind(0.5) * length_sq(a + b))
    if dot(a, b) < kind(0.0) and length_sq(q) == kind(0.0):
        return quaternion(perpendicular(a), kind(0.0))
    return normalize(q)
