"""Functions of rigid transforms, written in the kernel language."""

from __future__ import annotations

import inspect
from typing import Any

from jwarp.errors import KernelTypeError
from jwarp.frontend.builtins.quaternion import quat_inverse, quat_rotate, transformation
from jwarp.frontend.builtins.signatures import of_floats
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import length, matrix, matrix_from_cols, vector
from jwarp.frontend.func import Func, func
from jwarp.lib.float_types import Matrix44, Quaternion, Transform, Vector3
from jwarp.lib.rotations import quat_from_matrix, quat_to_matrix
from jwarp.types import TRANSFORM, CompositeValue


@library(of_floats("transform_multiply(a: transform, b: transform) -> transform"))
@func
def transform_multiply(a: Transform, b: Transform):
    """a * b: the transform that applies b first, then a."""
    return a * b


@func
def transform_point(mat: Matrix44, point: Vector3):
    """By an affine map."""
    one = point.dtype(1.0)
    image = mat @ vector(point[0], point[1], point[2], one)
    return vector(image[0], image[1], image[2])


@library(
    of_floats(
        "transform_point(xform: transform, point: vec3) -> vec3", "transform_point(mat: mat44, point: vec3) -> vec3"
    )
)
@func
def transform_point(xform: Transform, point: Vector3):  # noqa: F811 - an overload
    """A rotated and translated point: quat_rotate(xform.q, point) + xform.p; or mat @ (point, 1)."""
    return xform.p + quat_rotate(xform.q, point)


@func
def transform_vector(mat: Matrix44, vec: Vector3):
    """By an affine map."""
    zero = vec.dtype(0.0)
    image = mat @ vector(vec[0], vec[1], vec[2], zero)
    return vector(image[0], image[1], image[2])


@library(
    of_floats(
        "transform_vector(xform: transform, vec: vec3) -> vec3", "transform_vector(mat: mat44, vec: vec3) -> vec3"
    )
)
@func
def transform_vector(xform: Transform, vec: Vector3):  # noqa: F811 - an overload
    """A rotated vector, without translation; or mat @ (vec, 0)."""
    return quat_rotate(xform.q, vec)


@library(of_floats("transform_inverse(xform: transform) -> transform"))
@func
def transform_inverse(xform: Transform):
    """The inverse of a transform whose quaternion has length 1."""
    back = quat_inverse(xform.q)
    return transformation(-quat_rotate(back, xform.p), back)


def _changing(form: str, part: str) -> Any:
    """A public function that changes a part of its first argument, where the call is a statement of a kernel."""

    def changed(*args: Any, **named: Any) -> None:
        """The same outside kernels: the value itself is changed."""
        name = form.partition("(")[0]
        xform, value = signature.bind(*args, **named).args
        if not isinstance(xform, CompositeValue) or getattr(type(xform), "kind", None) is not TRANSFORM:
            raise KernelTypeError(f"wp.{name} changes a transform, not an object of type {type(xform).__name__}")
        setattr(xform, part, value)

    def made(function: Any) -> Any:
        nonlocal signature
        signature = inspect.signature(function)
        row = library(of_floats(form))(Func(function, changed="xform"))
        row.outside = changed
        return row

    signature = inspect.Signature()
    return made


@_changing("transform_set_translation(xform: transform, p: vec3) -> None", "p")
def transform_set_translation(xform: Transform, p: Vector3):
    """Set the position of a transform: `xform.p = p`."""
    return transformation(p, xform.q)


@_changing("transform_set_rotation(xform: transform, q: quat) -> None", "q")
def transform_set_rotation(xform: Transform, q: Quaternion):
    """Set the rotation of a transform: `xform.q = q`."""
    return transformation(xform.p, q)


@library(of_floats("transform_from_matrix(mat: mat44) -> transform"))
@func
def transform_from_matrix(mat: Matrix44):
    """The transform of a 4 by 4 matrix with a rotation and a position; see `quat_from_matrix`."""
    return transformation(vector(mat[0, 3], mat[1, 3], mat[2, 3]), quat_from_matrix(mat))


@library(of_floats("transform_to_matrix(xform: transform) -> mat44"))
@func
def transform_to_matrix(xform: Transform):
    """The 4 by 4 matrix of a transform: the rotation at its upper left, the position at its right."""
    one = xform.dtype(1.0)
    return transform_compose(xform.p, xform.q, vector(one, one, one))


@library(of_floats("transform_compose(position: vec3, rotation: quat, scale: vec3) -> mat44"))
@func
def transform_compose(position: Vector3, rotation: Quaternion, scale: Vector3):
    """The 4 by 4 matrix that scales along the axes, then rotates, then translates."""
    m = quat_to_matrix(rotation)
    none = position.dtype(0.0)
    return matrix(
        m[0, 0] * scale[0], m[0, 1] * scale[1], m[0, 2] * scale[2], position[0],
        m[1, 0] * scale[0], m[1, 1] * scale[1], m[1, 2] * scale[2], position[1],
        m[2, 0] * scale[0], m[2, 1] * scale[1], m[2, 2] * scale[2], position[2],
        none, none, none, position.dtype(1.0),
        shape=(4, 4),
    )  # fmt: skip


@library(of_floats("transform_decompose(m: mat44) -> tuple[vec3, quat, vec3]"))
@func
def transform_decompose(m: Matrix44):
    """Position, rotation and scale of a 4 by 4 matrix: the inverse of `transform_compose` for positive scales.

    The scales are the lengths of the first three columns; a column of zeros has none, and derivative zero.
    """
    x = vector(m[0, 0], m[1, 0], m[2, 0])
    y = vector(m[0, 1], m[1, 1], m[2, 1])
    z = vector(m[0, 2], m[1, 2], m[2, 2])
    scale = vector(length(x), length(y), length(z))
    zero = m.dtype(0.0)
    if scale[0] != zero:
        x /= scale[0]
    if scale[1] != zero:
        y /= scale[1]
    if scale[2] != zero:
        z /= scale[2]
    return vector(m[0, 3], m[1, 3], m[2, 3]), quat_from_matrix(matrix_from_cols(x, y, z)), scale
