"""asin, acos, atan and atan2 for float32 and float64, written in the kernel language.

Polynomials are fitted as in jwarp/lib/trig.py.
"""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import abs, cast, copysign, fma, sqrt, where
from jwarp.frontend.func import func
from jwarp.lib.polynomial import polynomial
from jwarp.types import float32, float64, int32, int64

INF = float("inf")

# pi/2 and pi are each a number and a remainder, in both widths.
HALF_PI = 1.5707964
HALF_PI_REST = -4.371139e-08
PI = 3.1415927
PI_REST = -8.742278e-08
HALF_PI_64 = float64(1.5707963267948966)
HALF_PI_REST_64 = float64(6.123233995736766e-17)
PI_64 = float64(3.141592653589793)
PI_REST_64 = float64(1.2246467991473532e-16)
QUARTER_PI_64 = float64(0.7853981633974483)
QUARTER_PI_REST_64 = float64(3.061616997868383e-17)
TAN_EIGHTH_PI = float64(0.41421356237309503)
ZERO = float64(0.0)
QUARTER = float64(0.25)
HALF = float64(0.5)
ONE = float64(1.0)
INF_64 = float64("inf")
# The sum of two numbers below this is finite.
LARGE_64 = float64(2.0**1000)

# (asin(x) - x) / x**3 in x**2, for |x| <= 1/2
ASIN = (0.04221191, 0.024152052, 0.045476045, 0.07495252, 0.16666754)
ASIN_64 = tuple(
    float64(c)
    for c in (
        0.032695370156540775,
        -0.021106154631751816,
        0.02178339981525248,
        0.0036750695920331976,
        0.010788583922135896,
        0.01139741952467422,
        0.013981003749138545,
        0.017351596671765338,
        0.02237221584454363,
        0.03038194267729909,
        0.04464285717524792,
        0.07499999999970133,
        0.16666666666666763,
    )
)
# (atan(x) - x) / x**3 in x**2, for |x| <= 1 in float32 and |x| <= tan(pi/8) in float64
ATAN = (
    -0.0017817435,
    0.010865831,
    -0.031094339,
    0.057880394,
    -0.08399292,
    0.10950879,
    -0.14264016,
    0.1999853,
    -0.333333,
)
ATAN_64 = tuple(
    float64(c)
    for c in (
        0.014894622236619939,
        -0.03317567968492897,
        0.04490592032387433,
        -0.05215187213296304,
        0.0587651727077403,
        -0.06666174753176295,
        0.07692279204975884,
        -0.09090907985994628,
        0.11111111083748107,
        -0.14285714285316417,
        0.19999999999997095,
        -0.33333333333333326,
    )
)


@func
def asin_float32(x: float32) -> float32:
    """asin(x) by its polynomial, or for |x| > 1/2 as pi/2 - 2 asin(sqrt((1 - |x|) / 2))."""
    a = where(abs(x) > 1.0, 1.0, abs(x))  # not by min, which passes over NaN
    large = a > 0.5
    z = where(large, fma(-0.5, a, 0.5), a * a)
    s = where(large, sqrt(z), a)
    rest = s * (polynomial(ASIN, z) * z)
    # The rounding error of HALF_PI - 2 s is corrected, so that the smaller parts hardly count.
    main = HALF_PI - 2.0 * s
    lost = (HALF_PI - main) - 2.0 * s
    y = where(large, main - ((2.0 * rest - HALF_PI_REST) - lost), s + rest)
    return copysign(y, x)


@func
def acos_float32(x: float32) -> float32:
    """acos(x), in the same pieces as asin."""
    a = where(abs(x) > 1.0, 1.0, abs(x))  # not by min, which passes over NaN
    large = a > 0.5
    z = where(large, fma(-0.5, a, 0.5), a * a)
    s = where(large, sqrt(z), a)
    t = fma(polynomial(ASIN, z) * z, s, s)
    from_end = where(x < 0.0, PI - (2.0 * t - PI_REST), 2.0 * t)
    return where(large, from_end, HALF_PI - (copysign(t, x) - HALF_PI_REST))


@func
def atan_float32(x: float32) -> float32:
    """atan(x), for |x| > 1 as pi/2 - atan(1 / |x|)."""
    a = abs(x)
    inverted = a > 1.0
    t = where(inverted, 1.0, a) / where(inverted, a, 1.0)
    z = t * t
    angle = fma(polynomial(ATAN, z) * z, t, t)
    angle = where(inverted, HALF_PI - (angle - HALF_PI_REST), angle)
    return copysign(angle, x)


@func
def atan2_float32(y: float32, x: float32) -> float32:
    """Angle of (y, x): the arctangent of the smaller over the larger side, then moved to its octant."""
    ax = abs(x)
    ay = abs(y)
    # Not by min and max, which pass over NaN.
    steep = ay > ax
    small = where(steep, ax, ay)
    large = where(steep, ay, ax)
    # 0/0 stands for 0 and inf/inf for 1; where only `large` is infinite the quotient is right already.
    endless = (small == INF) & (large == INF)
    a = where(endless, 1.0, small) / where(endless | (large == 0.0), 1.0, large)
    z = a * a
    angle = fma(polynomial(ATAN, z) * z, a, a)
    angle = where(steep, HALF_PI - (angle - HALF_PI_REST), angle)
    angle = where(cast(x, int32) < 0, PI - (angle - PI_REST), angle)
    return copysign(angle, y)


@func
def asin_float64(x: float64) -> float64:
    """As asin_float32."""
    a = where(abs(x) > ONE, ONE, abs(x))
    large = a > HALF
    z = where(large, fma(-HALF, a, HALF), a * a)
    s = where(large, sqrt(z), a)
    rest = s * (polynomial(ASIN_64, z) * z)
    main = HALF_PI_64 - (s + s)
    lost = (HALF_PI_64 - main) - (s + s)
    y = where(large, main - (((rest + rest) - HALF_PI_REST_64) - lost), s + rest)
    return copysign(y, x)


@func
def acos_float64(x: float64) -> float64:
    """As acos_float32."""
    a = where(abs(x) > ONE, ONE, abs(x))
    large = a > HALF
    z = where(large, fma(-HALF, a, HALF), a * a)
    s = where(large, sqrt(z), a)
    t = fma(polynomial(ASIN_64, z) * z, s, s)
    from_end = where(x < ZERO, PI_64 - ((t + t) - PI_REST_64), t + t)
    return where(large, from_end, HALF_PI_64 - (copysign(t, x) - HALF_PI_REST_64))


@func
def octant_float64(small: float64, large: float64) -> float64:
    """atan(small / large) for 0 <= small <= large, above tan(pi/8) from the distance to pi/4."""
    upper = small > large * TAN_EIGHTH_PI
    t = where(upper, small - large, small) / where(upper, small + large, large)
    z = t * t
    rest = fma(polynomial(ATAN_64, z) * z, t, where(upper, QUARTER_PI_REST_64, ZERO))
    return where(upper, QUARTER_PI_64 + (t + rest), t + rest)


@func
def atan_float64(x: float64) -> float64:
    """As atan_float32."""
    a = abs(x)
    inverted = a > ONE
    angle = octant_float64(where(inverted, ONE, a), where(inverted, a, ONE))
    angle = where(inverted, HALF_PI_64 - (angle - HALF_PI_REST_64), angle)
    return copysign(angle, x)


@func
def atan2_float64(y: float64, x: float64) -> float64:
    """As atan2_float32."""
    ax = abs(x)
    ay = abs(y)
    steep = ay > ax
    large = where(steep, ay, ax)
    scale = where(large > LARGE_64, QUARTER, ONE)
    small = where(steep, ax, ay) * scale
    large = large * scale
    endless = (small == INF_64) & (large == INF_64)
    angle = octant_float64(where(endless, ONE, small), where(endless | (large == ZERO), ONE, large))
    angle = where(steep, HALF_PI_64 - (angle - HALF_PI_REST_64), angle)
    angle = where(cast(x, int64) < int64(0), PI_64 - (angle - PI_REST_64), angle)
    return copysign(angle, y)


EXPANSIONS = {
    ("asin", float32): asin_float32,
    ("asin", float64): asin_float64,
    ("acos", float32): acos_float32,
    ("acos", float64): acos_float64,
    ("atan", float32): atan_float32,
    ("atan", float64): atan_float64,
    ("atan2", float32): atan2_float32,
    ("atan2", float64): atan2_float64,
}
