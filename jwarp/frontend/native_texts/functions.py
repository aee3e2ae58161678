"""The functions that texts in C++ may call, a row each, and the names of its types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jwarp.frontend.builtins import scalar
from jwarp.frontend.builtins.scalar import abs, bit_count, cast, follow, isnan, max, min, where
from jwarp.frontend.func import func
from jwarp.types import (
    Float,
    ScalarType,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

# -- written in the kernel language


@func
def rsqrt(x: float32) -> float32:
    """1 / sqrt(x), correctly rounded but for a few in a thousand million."""
    return float32(float64(1.0) / scalar.sqrt(float64(x)))


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
    """The float beside x on the side of y. Its derivative is that of x."""
    bits = cast(x, int32)
    away = (x > 0.0) == (y > x)
    beside = cast(where(away, bits + 1, bits - 1), float32)
    if x == 0.0:  # the least number of the sign that y has
        beside = cast(where(y < 0.0, int32(-2147483647), int32(1)), float32)
    if x == y:
        beside = y
    if isnan(x) or isnan(y):
        beside = x + y
    return follow(beside, x)


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


# -- rows


@dataclass(frozen=True)
class Row:
    """A function: what it is in the kernel language, and the types of its parameters.

    Where there are none said, so many `arguments` have their common type, which is a float of `floats`.
    """

    function: Any
    parameters: tuple[ScalarType, ...] = ()
    result: ScalarType | None = None  # None: that of the arguments
    arguments: int = 0
    floats: bool = True


def _both(name: str, function: Any, arguments: int = 1) -> dict[str, Row]:
    """A function of C's library for floats, `namef`, and the one for any."""
    return {f"{name}f": Row(function, (float32,) * arguments, float32), name: Row(function, arguments=arguments)}


def _bits(name: str, function: Any, wide: ScalarType, narrow: ScalarType, wide_function: Any = None) -> dict[str, Row]:
    """A function of the bits of integers: GPUs' two widths `__name` and `__namell`."""
    return {
        f"__{name}": Row(function, (narrow,), int32),
        f"__{name}ll": Row(wide_function or function, (wide,), int32),
    }


FUNCTIONS: dict[str, Row] = {
    **_both("sqrt", scalar.sqrt),
    **_both("cbrt", scalar.cbrt),
    **_both("fabs", abs),
    **_both("exp", scalar.exp),
    **_both("log", scalar.log),
    **_both("log2", scalar.log2),
    **_both("log10", scalar.log10),
    **_both("sin", scalar.sin),
    **_both("cos", scalar.cos),
    **_both("tan", scalar.tan),
    **_both("atan", scalar.atan),
    **_both("sinh", scalar.sinh),
    **_both("cosh", scalar.cosh),
    **_both("tanh", scalar.tanh),
    **_both("erf", scalar.erf),
    **_both("erfc", scalar.erfc),
    **_both("floor", scalar.floor),
    **_both("ceil", scalar.ceil),
    **_both("trunc", scalar.trunc),
    **_both("round", scalar.round),
    **_both("rint", scalar.rint),
    **_both("pow", scalar.pow, 2),
    **_both("atan2", scalar.atan2, 2),
    **_both("fmod", scalar.mod, 2),
    **_both("copysign", scalar.copysign, 2),
    **_both("fmin", lesser, 2),
    **_both("fmax", greater, 2),
    **_both("fma", scalar.fma, 3),
    "rsqrtf": Row(rsqrt, (float32,), float32),
    "nextafterf": Row(next_after, (float32, float32), float32),
    "abs": Row(abs, arguments=1, floats=False),
    "isnan": Row(isnan, result=bool_, arguments=1),
    "isinf": Row(scalar.isinf, result=bool_, arguments=1),
    "isfinite": Row(scalar.isfinite, result=bool_, arguments=1),
    # of CUDA
    "__frsqrt_rn": Row(rsqrt, (float32,), float32),
    "__fsqrt_rn": Row(scalar.sqrt, (float32,), float32),
    "__fdiv_rn": Row(scalar.div, (float32, float32), float32),
    "__sinf": Row(scalar.sin, (float32,), float32),
    "__cosf": Row(scalar.cos, (float32,), float32),
    "__expf": Row(scalar.exp, (float32,), float32),
    "__logf": Row(scalar.log, (float32,), float32),
    "__float_as_int": Row(bits_of_float, (float32,), int32),
    "__int_as_float": Row(float_of_bits, (int32,), float32),
    **_bits("popc", bit_count, uint64, uint32),
    **_bits("ffs", first_bit, int64, int32),
    **{
        "__clz": Row(leading_zeros_32, (uint32,), int32),
        "__clzll": Row(leading_zeros_64, (uint64,), int32),
    },
    # of compilers for processors
    "__builtin_popcount": Row(bit_count, (uint32,), int32),
    "__builtin_popcountll": Row(bit_count, (uint64,), int32),
    "__builtin_ffs": Row(first_bit, (int32,), int32),
    "__builtin_ffsll": Row(first_bit, (int64,), int32),
    "__builtin_ctz": Row(trailing_zeros, (uint32,), int32),
    "__builtin_ctzll": Row(trailing_zeros, (uint64,), int32),
    "__builtin_clz": Row(leading_zeros_32, (uint32,), int32),
    "__builtin_clzll": Row(leading_zeros_64, (uint64,), int32),
    "__builtin_sqrtf": Row(scalar.sqrt, (float32,), float32),
    "__builtin_nextafterf": Row(next_after, (float32, float32), float32),
}

# Types, by their words in the order of the alphabet. `long` is as wide as the processors' compilers have it.
TYPES: dict[str, ScalarType] = {
    "bool": bool_,
    "char signed": int8,
    "char unsigned": uint8,
    "short": int16,
    "short unsigned": uint16,
    "int": int32,
    "unsigned": uint32,
    "int unsigned": uint32,
    "long": int64,
    "int long": int64,
    "long long": int64,
    "int long long": int64,
    "long unsigned": uint64,
    "long long unsigned": uint64,
    "int long long unsigned": uint64,
    "float": float32,
    "double": float64,
    "int8_t": int8,
    "int16_t": int16,
    "int32_t": int32,
    "int64_t": int64,
    "uint8_t": uint8,
    "uint16_t": uint16,
    "uint32_t": uint32,
    "uint64_t": uint64,
}
# Words that stand before types and mean nothing to what is computed.
QUALIFIERS = frozenset({"const", "constexpr"})
CONSTANTS: dict[str, tuple[ScalarType, Any]] = {
    "true": (bool_, True),
    "false": (bool_, False),
    "INFINITY": (float32, math.inf),
    "NAN": (float32, math.nan),
}
