"""float32 exponentials, logarithms, hyperbolic functions, pow and cbrt, written in the kernel language.

Arguments whose result needs no care take a path without selects; the others share one branch.
Polynomials are fitted as in jwarp/lib/trig.py, and errors are bounded alike; where the target has no fma,
those of tanh reach 2.5 units in the last place.
"""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import abs, cast, copysign, floor, fma, min, where
from jwarp.frontend.func import func
from jwarp.lib.polynomial import polynomial
from jwarp.types import float32, float64, int32, int64

INF = float("inf")
NAN = float("nan")

SMALLEST_NORMAL = 1.1754943508222875e-38
LARGEST = 3.4028234663852886e38
# Above 89.42, and still below 129.5 ln 2.
SINH_OVERFLOWS = 89.7
LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first has 9 bits, so that its products are exact without fma too.
LN2_1 = 0.693359375
LN2_2 = -2.12194440e-4
# The logarithms of e and of 2, in two parts as well; LOG10_2_1 has 16 bits.
LOG2_E_1 = 1.442695
LOG2_E_2 = 1.925963e-08
LOG10_E_1 = 0.4342945
LOG10_E_2 = -1.010305e-08
LOG10_2_1 = 0.30103302001953125
LOG10_2_2 = -3.0243555500547862e-06
# Adding 1.5 * 2**23 rounds to an integer, which is then in the low bits of the sum.
ROUNDER = 12582912.0
ROUNDER_BITS = 0x4B400000
ONE_BITS = 0x3F800000
SQRT_HALF_BITS = 0x3F3504F3

ROUNDER_64 = float64(6755399441055744.0)  # 1.5 * 2**52
SQRT_HALF_BITS_64 = int64(0x3FE6A09E667F3BCD)
# log2(x) / s in s**2 for s = (x - 1) / (x + 1), and 2**x for |x| <= 1/2, both to 30 bits
LOG2_WIDE = tuple(
    float64(c)
    for c in (0.3407280049708146, 0.4116728270096934, 0.5770835832699107, 0.9617966733500289, 2.88539008179008)
)
EXP2_WIDE = tuple(
    float64(c)
    for c in (
        0.00015345812891617074,
        0.0013399931179695925,
        0.009618488954041042,
        0.05550328777106818,
        0.2402264689065851,
        0.6931472057371852,
        1.0000000005541627,
    )
)
ONE_64 = float64(1.0)
THIRD_64 = float64(1.0 / 3.0)
TWO_NINTHS_64 = float64(2.0 / 9.0)
# The high word of a double less a third of another's is near its inverse cube root's, for this constant.
INVERSE_CBRT_BITS = int32(0x553EF0FF)


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
def split_normal(x: float32, scaling: float32):
    """k and f with x / 2**scaling = 2**k (1 + f), for a positive normal x and 1 + f next to 1."""
    bits = cast(x, int32)
    exponent = (bits - SQRT_HALF_BITS) >> 23
    k = float32(exponent) - scaling
    return k, cast(bits - (exponent << 23), float32) - 1.0


@func
def log1p_series(f: float32) -> float32:
    """(log(1 + f) - f + f**2 / 2) / f**2 for 1 + f between sqrt(1/2) and sqrt(2)."""
    p = fma(-0.07614586, f, 0.12754221)
    p = fma(p, f, -0.13161975)
    p = fma(p, f, 0.14202233)
    p = fma(p, f, -0.1662332)
    p = fma(p, f, 0.20001243)
    p = fma(p, f, -0.25000823)
    p = fma(p, f, 0.3333333)
    return p * f


@func
def log_normal(x: float32, scaling: float32) -> float32:
    """Natural logarithm of x / 2**scaling for a positive normal x (Cody and Waite 1980)."""
    k, f = split_normal(x, scaling)
    z = f * f
    y = fma(k, LN2_2, log1p_series(f) * z)
    y = f + fma(z, -0.5, y)
    return fma(k, LN2_1, y)


@func
def log2_normal(x: float32, scaling: float32) -> float32:
    """log2(x / 2**scaling) for a positive normal x."""
    k, f = split_normal(x, scaling)
    z = f * f
    rest = fma(z, -0.5, log1p_series(f) * z)
    return k + fma(f, LOG2_E_1, fma(rest, LOG2_E_1, f * LOG2_E_2))


@func
def log10_normal(x: float32, scaling: float32) -> float32:
    """log10(x / 2**scaling) for a positive normal x."""
    k, f = split_normal(x, scaling)
    z = f * f
    rest = fma(z, -0.5, log1p_series(f) * z)
    rest = fma(rest, LOG10_E_1, fma(k, LOG10_2_2, f * LOG10_E_2))
    return fma(k, LOG10_2_1, fma(f, LOG10_E_1, rest))


@func
def log_of_others(x: float32, y: float32) -> float32:
    """Any logarithm of x, given y = log(x * 2**23) - log(2**23), where x may be anything."""
    y = where(x == 0.0, -INF, y)
    y = where(x < 0.0, NAN, y)
    y = where(x > LARGEST, INF, y)
    return where(x == x, y, x)


@func
def log_float32(x: float32) -> float32:
    """log(x)."""
    y = log_normal(x, 0.0)
    if not (x >= SMALLEST_NORMAL and x <= LARGEST):
        y = log_of_others(x, log_normal(x * 8388608.0, 23.0))
    return y


@func
def log2_float32(x: float32) -> float32:
    """log2(x)."""
    y = log2_normal(x, 0.0)
    if not (x >= SMALLEST_NORMAL and x <= LARGEST):
        y = log_of_others(x, log2_normal(x * 8388608.0, 23.0))
    return y


@func
def log10_float32(x: float32) -> float32:
    """log10(x)."""
    y = log10_normal(x, 0.0)
    if not (x >= SMALLEST_NORMAL and x <= LARGEST):
        y = log_of_others(x, log10_normal(x * 8388608.0, 23.0))
    return y


@func
def half_exponentials(a: float32):
    """exp(a)/4 and exp(-a)/4, each as a power of 2 and what its product with it adds, for 0 <= a <= 89.7."""
    t = fma(a, LOG2_E, ROUNDER)
    k = t - ROUNDER
    r = fma(k, -LN2_1, a)
    r = fma(k, -LN2_2, r)
    n = cast(t, int32) - ROUNDER_BITS
    up = power_of_two(n - 2)
    down = power_of_two(-2 - min(n, 100))
    return up, up * expm1_series(r), down, down * expm1_series(-r)


@func
def sinh_float32(x: float32) -> float32:
    """sinh(x) from exp(x) and exp(-x), whose equal parts cancel exactly at small x."""
    a = abs(x)
    up, more, down, less = half_exponentials(
        where(a > SINH_OVERFLOWS, SINH_OVERFLOWS, a)
    )  # not by min, which passes over NaN
    y = (up - down) + (more - less)
    return copysign(where(a < 0.000244140625, a, y + y), x)


@func
def cosh_float32(x: float32) -> float32:
    """cosh(x) from exp(x) and exp(-x)."""
    a = abs(x)
    up, more, down, less = half_exponentials(where(a > SINH_OVERFLOWS, SINH_OVERFLOWS, a))
    y = (up + down) + (more + less)
    return y + y


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
    return copysign(y, x)


@func
def log2_wide(x: float64) -> float64:
    """log2(x) to 30 bits, for a positive normal x."""
    bits = cast(x, int64)
    exponent = (bits - SQRT_HALF_BITS_64) >> int64(52)
    m = cast(bits - (exponent << int64(52)), float64)
    s = (m - ONE_64) / (m + ONE_64)
    return fma(polynomial(LOG2_WIDE, s * s), s, float64(int32(exponent)))


@func
def exp2_wide(x: float64) -> float64:
    """2**x to 30 bits, for x from -1000 to 1000."""
    t = x + ROUNDER_64
    q = polynomial(EXP2_WIDE, x - (t - ROUNDER_64))
    return cast(cast(q, int64) + (cast(t, int64) << int64(52)), float64)


@func
def pow_positive(x: float32, y: float32) -> float32:
    """x**y = 2**(y log2 x) for 0 < x < inf and any y but NaN, by way of float64."""
    w = float64(y) * log2_wide(float64(x))
    # Beyond these the result is 0 or infinity as float32.
    w = where(w < float64(-160.0), float64(-160.0), w)
    w = where(w > float64(130.0), float64(130.0), w)
    return float32(exp2_wide(w))


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


@func
def cbrt_float32(x: float32) -> float32:
    """cbrt(x) = x y**2 with y = 1 / cbrt(x) by two steps of an iteration of third order, in float64."""
    a = abs(float64(x))
    high = int32(cast(a, int64) >> int64(32))
    y = cast(int64(INVERSE_CBRT_BITS - high // 3) << int64(32), float64)
    e = ONE_64 - a * y * (y * y)
    y = fma(y * e, fma(e, TWO_NINTHS_64, THIRD_64), y)
    e = ONE_64 - a * y * (y * y)
    y = fma(y * e, fma(e, TWO_NINTHS_64, THIRD_64), y)
    root = float32(a * (y * y))
    # Zero, infinities and NaN are their own roots.
    return where(abs(x) > 0.0 and abs(x) <= LARGEST, copysign(root, x), x)


EXPANSIONS = {
    ("exp", float32): exp_float32,
    ("log", float32): log_float32,
    ("log2", float32): log2_float32,
    ("log10", float32): log10_float32,
    ("sinh", float32): sinh_float32,
    ("cosh", float32): cosh_float32,
    ("tanh", float32): tanh_float32,
    ("cbrt", float32): cbrt_float32,
    ("pow", float32): pow_float32,
}
