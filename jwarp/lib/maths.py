"""float32 exp, log, tanh and pow, written in the kernel language, and the table of all such functions.

Arguments whose result needs no care take a path without selects; the others share one branch.
Polynomials are fitted as in jwarp/lib/trig.py.
"""

from __future__ import annotations

from jwarp.frontend.builtins import abs, cast, floor, fma, where
from jwarp.frontend.func import Func, func
from jwarp.lib.trig import atan2_float32, cos_float32, sin_float32, tan_float32
from jwarp.types import ScalarType, float32, float64, int32, int64

INF = float("inf")
NAN = float("nan")
SIGN = int32(-(1 << 31))

SMALLEST_NORMAL = 1.1754943508222875e-38
LARGEST = 3.4028234663852886e38
LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first has 9 bits, so that its products are exact without fma too.
LN2_1 = 0.693359375
LN2_2 = -2.12194440e-4
# Adding 1.5 * 2**23 rounds to an integer, which is then in the low bits of the sum.
ROUNDER = 12582912.0
ROUNDER_BITS = 0x4B400000
ONE_BITS = 0x3F800000
SQRT_HALF_BITS = 0x3F3504F3

ROUNDER_64 = float64(6755399441055744.0)  # 1.5 * 2**52
SQRT_HALF_BITS_64 = int64(0x3FE6A09E667F3BCD)


@func
def power_of_two(n: int32) -> float32:
    """2**n for -126 <= n <= 127."""
    return cast((n << 23) + ONE_BITS, float32)


@func
def expm1_series(r: float32) -> float32:
    """exp(r) - 1 for |r| <= ln(2)/2."""
    p = fma(0.0013816999, r, 0.008369083)
    p = fma(p, r, 0.041668247)
    p = fma(p, r, 0.16666517)
    p = fma(p, r, 0.49999994)
    return fma(p, r * r, r)


@func
def exp_float32(x: float32) -> float32:
    """exp(x) = 2**n exp(r) with r = x - n ln 2 (Cody and Waite 1980)."""
    t = fma(x, LOG2_E, ROUNDER)
    k = t - ROUNDER
    r = fma(k, -LN2_1, x)
    r = fma(k, -LN2_2, r)
    p = expm1_series(r) + 1.0
    # The low bits of t are n: shifted into place they add to the exponent.
    y = cast(cast(p, int32) + (cast(t, int32) << 23), float32)
    if not (abs(x) < 87.0):
        # Two steps reach the subnormals and infinity.
        n = cast(t, int32) - ROUNDER_BITS
        first = n >> 1
        y = p * power_of_two(first) * power_of_two(n - first)
        y = where(x > 89.0, INF, y)
        y = where(x < -104.0, 0.0, y)
        y = where(x == x, y, x)
    return y


@func
def log_normal(x: float32, scaling: float32) -> float32:
    """Natural logarithm of x / 2**scaling for a positive normal x, from its exponent and its fraction."""
    bits = cast(x, int32)
    exponent = (bits - SQRT_HALF_BITS) >> 23
    k = float32(exponent) - scaling
    f = cast(bits - (exponent << 23), float32) - 1.0
    z = f * f
    p = fma(-0.07614586, f, 0.12754221)
    p = fma(p, f, -0.13161975)
    p = fma(p, f, 0.14202233)
    p = fma(p, f, -0.1662332)
    p = fma(p, f, 0.20001243)
    p = fma(p, f, -0.25000823)
    p = fma(p, f, 0.3333333)
    y = fma(k, LN2_2, p * f * z)
    y = f + fma(z, -0.5, y)
    return fma(k, LN2_1, y)


@func
def log_float32(x: float32) -> float32:
    """log(x), with the fraction taken between sqrt(1/2) and sqrt(2) (Cody and Waite 1980)."""
    y = log_normal(x, 0.0)
    if not (x >= SMALLEST_NORMAL and x <= LARGEST):
        y = log_normal(x * 8388608.0, 23.0)
        y = where(x == 0.0, -INF, y)
        y = where(x < 0.0, NAN, y)
        y = where(x > LARGEST, INF, y)
        y = where(x == x, y, x)
    return y


@func
def tanh_float32(x: float32) -> float32:
    """tanh(x) = m / (m + 2) with m = exp(2|x|) - 1, which does not cancel at small x."""
    a = where(abs(x) > 10.0, 10.0, abs(x))
    a = a + a
    t = fma(a, LOG2_E, ROUNDER)
    k = t - ROUNDER
    r = fma(k, -LN2_1, a)
    r = fma(k, -LN2_2, r)
    scale = power_of_two(cast(t, int32))
    m = fma(scale, expm1_series(r), scale - 1.0)
    d = m + 2.0
    lost = m - (d - 2.0)
    inverse = 1.0 / d
    y = m * inverse
    # One Newton step makes up for the rounding of the divisor and of the quotient.
    y = fma(fma(-y, d, m) - y * lost, inverse, y)
    return cast(cast(y, int32) | (cast(x, int32) & SIGN), float32)


@func
def pow_positive(x: float32, y: float32) -> float32:
    """x**y = 2**(y log2 x) for 0 < x < inf and any y but NaN, by way of float64."""
    wide = float64(x)
    bits = cast(wide, int64)
    exponent = (bits - SQRT_HALF_BITS_64) >> int64(52)
    m = cast(bits - (exponent << int64(52)), float64)
    # log2(m) = 2/ln(2) artanh(s)
    s = (m - float64(1.0)) / (m + float64(1.0))
    z = s * s
    p = fma(float64(0.3407280049708146), z, float64(0.4116728270096934))
    p = fma(p, z, float64(0.5770835832699107))
    p = fma(p, z, float64(0.9617966733500289))
    p = fma(p, z, float64(2.88539008179008))
    w = float64(y) * fma(p, s, float64(int32(exponent)))
    # Beyond these the result is 0 or infinity as float32.
    w = where(w < float64(-160.0), float64(-160.0), w)
    w = where(w > float64(130.0), float64(130.0), w)
    t = w + ROUNDER_64
    r = w - (t - ROUNDER_64)
    q = fma(float64(0.00015345812891617074), r, float64(0.0013399931179695925))
    q = fma(q, r, float64(0.009618488954041042))
    q = fma(q, r, float64(0.05550328777106818))
    q = fma(q, r, float64(0.2402264689065851))
    q = fma(q, r, float64(0.6931472057371852))
    q = fma(q, r, float64(1.0000000005541627))
    return float32(cast(cast(q, int64) + (cast(t, int64) << int64(52)), float64))


@func
def pow_float32(x: float32, y: float32) -> float32:
    """x to the power y; special values as in C (ISO/IEC 9899, annex F)."""
    result = pow_positive(x, y)
    if not (x > 0.0 and x <= LARGEST and abs(y) <= LARGEST):
        ax = abs(x)
        half = y * 0.5
        whole = floor(y) == y
        odd = whole and floor(half) != half and abs(y) <= LARGEST
        result = pow_positive(ax, y)
        result = where(ax == 1.0, 1.0, result)
        result = where(ax == 0.0, where(y < 0.0, INF, 0.0), result)
        result = where(ax == INF, where(y < 0.0, 0.0, INF), result)
        result = where(odd and cast(x, int32) < 0, -result, result)
        result = where(x < 0.0 and ax <= LARGEST and ax > 0.0 and not whole, NAN, result)
        result = where(x == x and y == y, result, NAN)
        result = where(x == 1.0 or y == 0.0, 1.0, result)
    return result


# The operations that the compiler replaces by these functions.
EXPANSIONS: dict[tuple[str, ScalarType], Func] = {
    ("sin", float32): sin_float32,
    ("cos", float32): cos_float32,
    ("tan", float32): tan_float32,
    ("atan2", float32): atan2_float32,
    ("exp", float32): exp_float32,
    ("log", float32): log_float32,
    ("tanh", float32): tanh_float32,
    ("pow", float32): pow_float32,
}
