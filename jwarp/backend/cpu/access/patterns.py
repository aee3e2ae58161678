"""Patterns of access: where the elements of the lanes are, by the shapes and types of the indices."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from jwarp.analysis.uniformity import Shape
from jwarp.types import ScalarType, int32, int64

# Above this, distances between lanes may wrap where the element of every lane is inside its array.
MAX_STRIDE = 1 << 16
# Other types than these wrap close to the indices of an array.
COUNTED = (int32, int64)


class Pattern(enum.Enum):
    """The places of the lanes' elements, relative to each other."""

    UNIFORM = "one element for all lanes"
    CONTIGUOUS = "each lane's element follows that of the lane before"
    STRIDED = "elements at equal distances"
    ROW = "any element of one row: leading indices are uniform, a later one is not even linear"
    ARBITRARY = "anything else"


def pattern_of(shapes: Sequence[Shape], types: Sequence[ScalarType]) -> Pattern:
    """The pattern of elements whose indices have these shapes and types."""
    if all(s.is_uniform for s in shapes):
        return Pattern.UNIFORM
    if stride_of(shapes, types) == 1:
        return Pattern.CONTIGUOUS
    if all(s.is_uniform or _is_steady(s, t) for s, t in zip(shapes, types, strict=True)):
        return Pattern.STRIDED
    first = next(s for s in shapes if not s.is_uniform)
    return Pattern.ROW if first.is_varying and all(t is int32 for t in types) else Pattern.ARBITRARY


def stride_of(shapes: Sequence[Shape], types: Sequence[ScalarType]) -> int | None:
    """The distance between the numbers of neighbouring lanes, if only the last index differs and counts up."""
    if not shapes or types[-1] not in COUNTED or not all(s.is_uniform for s in shapes[:-1]):
        return None
    return shapes[-1].stride


def _is_steady(shape: Shape, type: ScalarType) -> bool:
    return shape.stride is not None and abs(shape.stride) <= MAX_STRIDE and type in COUNTED
