"""Functions of spatial vectors (Featherstone 2008), written in the kernel language.

A spatial vector is (w, v): of a twist the angular and the linear velocity, of a wrench the torque and the force.
"""

from __future__ import annotations

from jwarp.frontend.builtins.quaternion import quat_rotate
from jwarp.frontend.builtins.signatures import of_floats
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import cross, dot, matrix, vector
from jwarp.frontend.func import func
from jwarp.lib.float_types import Matrix33, Transform, Vector3, Vector6


@library(of_floats("spatial_top(svec: spatial_vector) -> vec3"))
@func
def spatial_top(svec: Vector6):
    """The first three components: the angular velocity, or the torque."""
    return svec[0:3]


@library(of_floats("spatial_bottom(svec: spatial_vector) -> vec3"))
@func
def spatial_bottom(svec: Vector6):
    """The last three components: the linear velocity, or the force."""
    return svec[3:6]


@library(of_floats("spatial_dot(a: spatial_vector, b: spatial_vector) -> float"))
@func
def spatial_dot(a: Vector6, b: Vector6):
    """The sum of the products of the components: of a wrench and a twist, the power."""
    return dot(a, b)


@library(of_floats("spatial_cross(a: spatial_vector, b: spatial_vector) -> spatial_vector"))
@func
def spatial_cross(a: Vector6, b: Vector6):
    """How fast the twist b changes that moves with the twist a: (w x w', v x w' + w x v')."""
    return vector(*cross(a[0:3], b[0:3]), *(cross(a[3:6], b[0:3]) + cross(a[0:3], b[3:6])))


@library(of_floats("spatial_cross_dual(a: spatial_vector, b: spatial_vector) -> spatial_vector"))
@func
def spatial_cross_dual(a: Vector6, b: Vector6):
    """How fast the wrench b changes that moves with the twist a: (w x t + v x f, w x f)."""
    return vector(*(cross(a[0:3], b[0:3]) + cross(a[3:6], b[3:6])), *cross(a[0:3], b[3:6]))


@library(of_floats("spatial_adjoint(r: mat33, s: mat33) -> spatial_matrix"))
@func
def spatial_adjoint(r: Matrix33, s: Matrix33):
    """The 6 by 6 matrix of the blocks r, 0 above s, r."""
    m = matrix(r.dtype(0.0), shape=(6, 6))
    for i in range(3):
        for j in range(3):
            m[i, j] = r[i, j]
            m[i + 3, j + 3] = r[i, j]
            m[i + 3, j] = s[i, j]
    return m


@library(of_floats("velocity_at_point(qd: spatial_vector, r: vec3) -> vec3"))
@func
def velocity_at_point(qd: Vector6, r: Vector3):
    """The velocity of a point at r that moves with a twist: v + w x r."""
    return qd[3:6] + cross(qd[0:3], r)


@library(of_floats("transform_twist(t: transform, x: spatial_vector) -> spatial_vector"))
@func
def transform_twist(t: Transform, x: Vector6):
    """A twist in the frame that a transform leads to: w' = R w, v' = R v + p x w'."""
    w = quat_rotate(t.q, x[0:3])
    v = quat_rotate(t.q, x[3:6]) + cross(t.p, w)
    return vector(*w, *v)


@library(of_floats("transform_wrench(t: transform, x: spatial_vector) -> spatial_vector"))
@func
def transform_wrench(t: Transform, x: Vector6):
    """A wrench in the frame that a transform leads to: f' = R f, t' = R t + p x f'."""
    f = quat_rotate(t.q, x[3:6])
    torque = quat_rotate(t.q, x[0:3]) + cross(t.p, f)
    return vector(*torque, *f)
