"""Functions of C++ that the kernel language has no builtin for, written in it."""

from __future__ import annotations

from typing import Any

from jwarp.frontend.builtins.scalar import bit_count, cast, follow, isnan, max, min, sqrt, where
from jwarp.frontend.func import func
from jwarp.types import Float, float32, float64, int32, uint32, uint64


@func
def rsqrt(x: float32) -> float32:
    """1 / sqrt(x), correctly rounded but for a few in a thousand million."""
    return float32(float64(1.0) / sqrt(float64(x)))


@func
def lesser(x: Float, y: Float) -> Float:
    """The smaller one, and the other one where one is NaN."""
    return where(isnan(x), y, where(isnan(y), x, min(x, y)))


@func
def greater(x: Float, y: Float) -> Float:
    """The larger one, and the other one where one is NaN."""
    return where(isnan(x), y, where(isnan(y), x, max(x, y)))


@func
def next_after(x: float32, y: float32) -> float32:
    """The float adjacent to x on the side of y. Its derivative is that of x."""
    bits = cast(x, int32)
    away = (x > 0.0) == (y > x)
    adjacent = cast(where(away, bits + 1, bits - 1), float32)
    if x == 0.0:  # the least number of the sign that y has
        adjacent = cast(where(y < 0.0, int32(-2147483647), int32(1)), float32)
    if x == y:
        adjacent = y
    if isnan(x) or isnan(y):
        adjacent = x + y
    return follow(adjacent, x)


@func
def trailing_zeros(x: Any) -> int32:
    """How many bits below the lowest one that is set are not; all of them where none is set."""
    return bit_count(~x & (x - type(x)(1)))


@func
def first_bit(x: Any) -> int32:
    """The place of the lowest bit that is set, counted from 1; 0 where none is."""
    found = trailing_zeros(x) + 1
    return where(x == type(x)(0), 0, found)


@func
def leading_zeros_32(x: uint32) -> int32:
    """How many bits above the highest one that is set are not."""
    for k in range(5):
        x = x | (x >> uint32(1 << k))
    return 32 - bit_count(x)


@func
def leading_zeros_64(x: uint64) -> int32:
    """The same of 64 bits."""
    for k in range(6):
        x = x | (x >> uint64(1 << k))
    return 64 - bit_count(x)


@func
def bits_of_float(x: float32) -> int32:
    """The bits of x."""
    return cast(x, int32)


@func
def float_of_bits(x: int32) -> float32:
    """The number with these bits."""
    return cast(x, float32)
