"""Norms of vectors, written in the kernel language: the functions of Warp's `warp.math`."""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import abs, copysign, sqrt
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import dot, length
from jwarp.frontend.func import func
from jwarp.types import Int, float32
from jwarp.types.composites import vector

INTEGERS = vector(length=Any, dtype=Int)


# Norms of integers are floats. The first function that takes an argument is the one that is called.


@func
def magnitude(x: Int):
    return abs(float32(x))


@func
def magnitude(x: Any):  # noqa: F811 - an overload
    return abs(x)


@func
def square_of(v: INTEGERS):
    result = float32(0.0)
    for k in range(len(v)):
        result += float32(v[k]) * float32(v[k])
    return result


@func
def square_of(v: Any):  # noqa: F811 - an overload
    return dot(v, v)


@func
def length_of(v: INTEGERS):
    return sqrt(square_of(v))


@func
def length_of(v: Any):  # noqa: F811 - an overload
    return length(v)


@library("norm_l1(v: Vector[Float, Any]) -> Float")
@func
def norm_l1(v: Any):
    """The sum of the absolute values of the components; for integers, a float."""
    result = magnitude(v[0])
    for k in range(1, len(v)):
        result += magnitude(v[k])
    return result


@library("norm_l2(v: Vector[Float, Any]) -> Float")
@func
def norm_l2(v: Any):
    """The length of v; for integers, a float."""
    return length_of(v)


@library("norm_huber(v: Vector[Float, Any], delta: float = 1.0) -> Float")
@func
def norm_huber(v: Any, delta: Any = 1.0):
    """Half the square of |v| up to delta, from there on linear."""
    square = square_of(v)
    limit = square.dtype(delta)
    if square <= limit * limit:
        return square.dtype(0.5) * square
    return limit * (sqrt(square) - square.dtype(0.5) * limit)


@library("norm_pseudo_huber(v: Vector[Float, Any], delta: float = 1.0) -> Float")
@func
def norm_pseudo_huber(v: Any, delta: Any = 1.0):
    """delta * sqrt(1 + |v|**2 / delta**2), a smooth form of the Huber norm, which is delta at zero."""
    square = square_of(v)
    scale = square.dtype(delta)
    # Of the same value; the derivative by delta is no difference of two large numbers.
    return copysign(sqrt(scale * scale + square), scale)


@library("smooth_normalize(v: AnyVector, delta: float = 1.0) -> AnyVector")
@func
def smooth_normalize(v: Any, delta: Any = 1.0):
    """v divided by its pseudo-Huber norm."""
    return v / norm_pseudo_huber(v, delta)
