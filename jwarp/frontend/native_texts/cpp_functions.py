"""The functions that texts in C++ may call, a row each, and the names of its types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jwarp.frontend.builtins import scalar
from jwarp.frontend.builtins.scalar import abs, bit_count, isnan
from jwarp.frontend.native_texts.cpp_library import (
    bits_of_float,
    first_bit,
    float_of_bits,
    greater,
    leading_zeros_32,
    leading_zeros_64,
    lesser,
    next_after,
    rsqrt,
    trailing_zeros,
)
from jwarp.types import (
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


def _bits(name: str, narrow: ScalarType, wide: ScalarType, function: Any, of_wide: Any = None) -> dict[str, Row]:
    """A function of the bits of integers of two widths, `name` and `namell`."""
    return {name: Row(function, (narrow,), int32), f"{name}ll": Row(of_wide or function, (wide,), int32)}


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
    **_bits("__popc", uint32, uint64, bit_count),
    **_bits("__ffs", int32, int64, first_bit),
    **_bits("__clz", uint32, uint64, leading_zeros_32, leading_zeros_64),
    # of compilers for processors
    **_bits("__builtin_popcount", uint32, uint64, bit_count),
    **_bits("__builtin_ffs", int32, int64, first_bit),
    **_bits("__builtin_ctz", uint32, uint64, trailing_zeros),
    **_bits("__builtin_clz", uint32, uint64, leading_zeros_32, leading_zeros_64),
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
