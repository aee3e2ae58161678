"""The functions that make quaternions and transforms, turn vectors by them, and take transforms apart: one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jwarp import types
from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.builtins.signatures import of_floats
from jwarp.frontend.builtins.table import PYTHON_BUILTINS, Builtin, define
from jwarp.frontend.values import spatial
from jwarp.frontend.values.bindings import Binding, Composite, describe
from jwarp.frontend.values.composites import Emitter, component_type
from jwarp.frontend.values.operator_table import construct
from jwarp.types import QUATERNION, TRANSFORM, VECTOR, CompositeKind, CompositeType, composite

Rule = Callable[[Emitter, Sequence[Binding], Span], Binding]


def _row(forms: str, doc: str, rule: Rule, **details: Any) -> Builtin:
    """A builtin whose rule reads its arguments without their places."""
    return define(forms, doc, lambda ctx, args, spans, span: rule(ctx, args, span), **details)


# -- construction


def _making(name: str, kind: CompositeKind) -> Rule:
    """A value of the kind, of which the type of the components follows from what it is made of."""

    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
        *values, dtype = args
        if len(values) == 1 and isinstance(values[0], tuple):
            values = list(values[0])
        found = component_type(e, values, dtype, f"wp.{name}", span)
        if not found.is_float:
            raise KernelTypeError(f"wp.{name} needs floats, not {found}", span, "write 2.0 for a float")
        assert kind.shape is not None
        return construct(e, composite(kind, kind.shape, found), values, span)

    return rule


def _identity(make: Callable[[Any], CompositeType]) -> Rule:
    def rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
        return spatial.identity(make(component_type(e, (), args[0], "the identity", span)))

    return rule


quaternion = _row(
    """
    quaternion(*, dtype: Any = None) -> Any
    quaternion(quat: Any, *, dtype: Any = None) -> Any
    quaternion(ijk: Any, real: Any, *, dtype: Any = None) -> Any
    quaternion(x: Any, y: Any, z: Any, w: Any, *, dtype: Any = None) -> Any""",
    """A quaternion of x, y, z, w; of the vector of the first three and w; of another one; or of nothing, zeros.

    `dtype`, a float type, follows from the values where it is left out.""",
    _making("quaternion", QUATERNION),
    binds=True,
)
transformation = _row(
    """
    transformation(p: Any, q: Any, *, dtype: Any = None) -> Any
    transformation(p: Any, *, dtype: Any = None) -> Any
    transformation(*args: Any, dtype: Any = None) -> Any""",
    """A transform of a position and a quaternion, without rotation where that is left out; or of seven numbers.

    Also of one number for all seven, of another transform, or of nothing, zeros: `transform_identity` has a rotation.
    `dtype`, a float type, follows from the values where it is left out.""",
    _making("transformation", TRANSFORM),
    binds=True,
)
quat_identity = _row(
    "quat_identity(dtype: Any = None) -> Any",
    "The identity rotation, the quaternion 0, 0, 0, 1, of a float type (default float32).",
    _identity(types.quaternion),
    binds=True,
)
transform_identity = _row(
    "transform_identity(dtype: Any = None) -> Any",
    "The identity transform of a float type (default float32).",
    _identity(types.transformation),
    binds=True,
)

# -- turning


def _alike(name: str, args: Sequence[Binding], span: Span, *wanted: tuple[CompositeKind, int]) -> list[Composite]:
    """The arguments as composites of these kinds and sizes, with components of one type of floats."""
    found = [a for a in args if isinstance(a, Composite)]
    fits = len(args) == len(found) == len(wanted) and len({a.type.dtype for a in found}) == 1
    if not fits or [(a.type.kind, a.type.size) for a in found] != list(wanted) or not found[0].type.dtype.is_float:
        texts = [f"a vector of {size}" if kind is VECTOR else f"a {kind.stem}" for kind, size in wanted]
        given = ", ".join(map(describe, args))
        raise KernelTypeError(f"wp.{name} takes {' and '.join(texts)} of one type of floats, not ({given})", span)
    return found


_QUATERNION, _TRANSFORM, _VECTOR = (QUATERNION, 4), (TRANSFORM, 7), (VECTOR, 3)


def _inverse_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    (q,) = _alike("quat_inverse", args, span, _QUATERNION)
    return _conjugate(e, q, span)


def _conjugate(e: Emitter, q: Composite, span: Span) -> Composite:
    return Composite(q.type, (*(e.emit("neg", x, span=span) for x in q.items[:3]), q.items[3]))


def _rotate_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    q, v = _alike("quat_rotate", args, span, _QUATERNION, _VECTOR)
    return spatial.rotated(e, q, v, span)


def _rotate_inv_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    q, v = _alike("quat_rotate_inv", args, span, _QUATERNION, _VECTOR)
    return spatial.rotated(e, _conjugate(e, q, span), v, span)


quat_inverse = _row(
    of_floats("quat_inverse(quat: quat) -> quat"),
    "The quaternion -x, -y, -z, w: the inverse of one of length 1.",
    _inverse_rule,
)
quat_rotate = _row(
    of_floats("quat_rotate(quat: quat, vec: vec3) -> vec3"),
    """The vector rotated by a quaternion of length 1.

    It is (2 w^2 - 1) vec + 2 (u . vec) u + 2 w u x vec, where u is x, y, z.""",
    _rotate_rule,
)
quat_rotate_inv = _row(
    of_floats("quat_rotate_inv(quat: quat, vec: vec3) -> vec3"),
    "The vector rotated by the inverse of a quaternion of length 1.",
    _rotate_inv_rule,
)

# -- transforms


def _translation_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    (t,) = _alike("transform_get_translation", args, span, _TRANSFORM)
    return spatial.parts_of(t)[0]


def _rotation_rule(e: Emitter, args: Sequence[Binding], span: Span) -> Composite:
    (t,) = _alike("transform_get_rotation", args, span, _TRANSFORM)
    return spatial.parts_of(t)[1]


transform_get_translation = _row(
    of_floats("transform_get_translation(xform: transform) -> vec3"),
    "The position of a transform, `xform.p`.",
    _translation_rule,
)
transform_get_rotation = _row(
    of_floats("transform_get_rotation(xform: transform) -> quat"),
    "The rotation of a transform, `xform.q`.",
    _rotation_rule,
)

# The functions that make types make values in kernels.
PYTHON_BUILTINS[types.quaternion], PYTHON_BUILTINS[types.transformation] = quaternion, transformation
