"""Norms of vectors, written in the kernel language: the functions of Warp's `warp.math`."""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import abs, copysign, sqrt
from jwarp.frontend.builtins.table import library
from jwarp.frontend.builtins.vector import dot, length
from jwarp.frontend.func import func


@library("norm_l1(v: Vector[Float, Any]) -> Float")
@func
def norm_l1(v: Any):
    """The sum of the absolute values of the components."""
    result = abs(v[0])
    for k in range(1, len(v)):
        result += abs(v[k])
    return result


@library("norm_l2(v: Vector[Float, Any]) -> Float")
@func
def norm_l2(v: Any):
    """The length of v."""
    return length(v)


@library("norm_huber(v: Vector[Float, Any], delta: float = 1.0) -> Float")
@func
def norm_huber(v: Any, delta: Any = 1.0):
    """Half the square of |v| up to delta, from there on linear."""
    limit = v.dtype(delta)
    square = dot(v, v)
    if square <= limit * limit:
        return v.dtype(0.5) * square
    return limit * (sqrt(square) - v.dtype(0.5) * limit)


@library("norm_pseudo_huber(v: Vector[Float, Any], delta: float = 1.0) -> Float")
@func
def norm_pseudo_huber(v: Any, delta: Any = 1.0):
    """delta * sqrt(1 + |v|**2 / delta**2), a smooth form of the Huber norm, which is delta at zero."""
    scale = v.dtype(delta)
    # Of the same value; the derivative by delta is no difference of two large numbers.
    return copysign(sqrt(scale * scale + dot(v, v)), scale)


@library("smooth_normalize(v: AnyVector, delta: float = 1.0) -> AnyVector")
@func
def smooth_normalize(v: Any, delta: Any = 1.0):
    """v divided by its pseudo-Huber norm."""
    return v / norm_pseudo_huber(v, delta)
