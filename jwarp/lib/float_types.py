"""What the parameters of functions for any type of floats are annotated with."""

from __future__ import annotations

from typing import Annotated, Any

from jwarp.types import MATRIX, QUATERNION, TRANSFORM, VECTOR, Floats

Real = Annotated[Any, Floats(None)]
Vector3 = Annotated[Any, Floats(VECTOR, (3,))]
Vector6 = Annotated[Any, Floats(VECTOR, (6,))]
Matrix22 = Annotated[Any, Floats(MATRIX, (2, 2))]
Matrix33 = Annotated[Any, Floats(MATRIX, (3, 3))]
Matrix44 = Annotated[Any, Floats(MATRIX, (4, 4))]
Quaternion = Annotated[Any, Floats(QUATERNION, (4,))]
Transform = Annotated[Any, Floats(TRANSFORM, (7,))]
