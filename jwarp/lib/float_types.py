"""Annotations for parameters of any type of floats, or of composites of such, which are one type in a call."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from jwarp import types

_Float = TypeVar("Float", float, types.float16, types.bfloat16, types.float64)  # type: ignore[misc]

Real = Annotated[Any, types.as_pattern(_Float)]
Vector3 = Annotated[Any, types.vector(3, _Float)]
Vector6 = Annotated[Any, types.vector(6, _Float)]
Matrix22 = Annotated[Any, types.matrix((2, 2), _Float)]
Matrix33 = Annotated[Any, types.matrix((3, 3), _Float)]
Matrix44 = Annotated[Any, types.matrix((4, 4), _Float)]
Quaternion = Annotated[Any, types.quaternion(_Float)]
Transform = Annotated[Any, types.transformation(_Float)]
