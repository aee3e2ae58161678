"""The operations that the compiler replaces by functions of this library."""

from __future__ import annotations

from jwarp.frontend.func import Func
from jwarp.lib.angles import (
    acos_float32,
    acos_float64,
    asin_float32,
    asin_float64,
    atan2_float32,
    atan2_float64,
    atan_float32,
    atan_float64,
)
from jwarp.lib.error_function import (
    erf_float32,
    erf_float64,
    erfc_float32,
    erfc_float64,
    erfcinv_float32,
    erfcinv_float64,
    erfinv_float32,
    erfinv_float64,
)
from jwarp.lib.maths import (
    cbrt_float32,
    cosh_float32,
    exp_float32,
    log2_float32,
    log10_float32,
    log_float32,
    pow_float32,
    sinh_float32,
    tanh_float32,
)
from jwarp.lib.maths64 import (
    cbrt_float64,
    cosh_float64,
    exp_float64,
    log2_float64,
    log10_float64,
    log_float64,
    pow_float64,
    sinh_float64,
    tanh_float64,
)
from jwarp.lib.trig import (
    cos_beside_sin_float32,
    cos_float32,
    sin_beside_cos_float32,
    sin_float32,
    tan_float32,
)
from jwarp.lib.trig64 import cos_float64, sin_float64, tan_float64
from jwarp.types import ScalarType, float32, float64

EXPANSIONS: dict[tuple[str, ScalarType], Func] = {
    ("sin", float32): sin_float32,
    ("sin", float64): sin_float64,
    ("cos", float32): cos_float32,
    ("cos", float64): cos_float64,
    ("sin beside cos", float32): sin_beside_cos_float32,
    ("cos beside sin", float32): cos_beside_sin_float32,
    ("tan", float32): tan_float32,
    ("tan", float64): tan_float64,
    ("asin", float32): asin_float32,
    ("asin", float64): asin_float64,
    ("acos", float32): acos_float32,
    ("acos", float64): acos_float64,
    ("atan", float32): atan_float32,
    ("atan", float64): atan_float64,
    ("atan2", float32): atan2_float32,
    ("atan2", float64): atan2_float64,
    ("exp", float32): exp_float32,
    ("exp", float64): exp_float64,
    ("log", float32): log_float32,
    ("log", float64): log_float64,
    ("log2", float32): log2_float32,
    ("log2", float64): log2_float64,
    ("log10", float32): log10_float32,
    ("log10", float64): log10_float64,
    ("sinh", float32): sinh_float32,
    ("sinh", float64): sinh_float64,
    ("cosh", float32): cosh_float32,
    ("cosh", float64): cosh_float64,
    ("tanh", float32): tanh_float32,
    ("tanh", float64): tanh_float64,
    ("cbrt", float32): cbrt_float32,
    ("cbrt", float64): cbrt_float64,
    ("erf", float32): erf_float32,
    ("erf", float64): erf_float64,
    ("erfc", float32): erfc_float32,
    ("erfc", float64): erfc_float64,
    ("erfinv", float32): erfinv_float32,
    ("erfinv", float64): erfinv_float64,
    ("erfcinv", float32): erfcinv_float32,
    ("erfcinv", float64): erfcinv_float64,
    ("pow", float32): pow_float32,
    ("pow", float64): pow_float64,
}
