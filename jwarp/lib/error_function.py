"""erf, erfc and their inverses for float32 and float64, written in the kernel language.

Polynomials are fitted as in jwarp/lib/trig.py.
"""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import abs, cast, copysign, fma, min, sqrt, where
from jwarp.frontend.func import func
from jwarp.lib import maths, maths64
from jwarp.lib.maths import exp2_wide, log2_wide
from jwarp.lib.maths64 import expm1_series, high_part, power_of_two
from jwarp.lib.polynomial import polynomial
from jwarp.types import float32, float64, int32, int64

ZERO = float64(0.0)
ONE = float64(1.0)
TWO = float64(2.0)
THREE = float64(3.0)
FOUR = float64(4.0)
THIRD = float64(1.0 / 3.0)
INF = float64("inf")
NAN = float64("nan")
LN2 = 0.6931472
LOG2_E = float64(1.4426950408889634)
TWO_OVER_ROOT_PI = float64(1.1283791670955126)

# erf(x) / x - 1 in x**2, for |x| <= 1, to 29 bits and to 57
ERF = (
    7.806904e-05,
    -0.0007997853,
    0.005187162,
    -0.026853347,
    0.11283579,
    -0.37612626,
    0.12837917,
)
ERF_64 = tuple(
    float64(c)
    for c in (
        1.4369597350411308e-10,
        -1.6478933353795029e-09,
        1.6016574153944655e-08,
        -1.6557576412312298e-07,
        1.6481096035936282e-06,
        -1.4926883456690056e-05,
        0.000120553862622374,
        -0.0008548328537286714,
        0.005223977652711319,
        -0.02686617064803234,
        0.11283791670971101,
        -0.376126389031841,
        0.1283791670955126,
    )
)
# log2(erfc(x)), for 1 <= x <= 4
LOG2_ERFC = (
    0.00026889186,
    -0.004252582,
    0.031505633,
    -0.14875144,
    -0.92064863,
    -1.6260458,
    -0.000492753,
)
# exp(x**2) erfc(x) in (x - 3) / (x + 3), for 0 <= x <= 10, to 30 bits; the same times 1 + 2 x, to x = 27,
# of which the first coefficient is in two parts
SCALED_ERFC = tuple(
    float64(c)
    for c in (
        5.067082114154594e-06,
        6.668258657849785e-05,
        3.104048642824835e-05,
        -0.0006025821704856787,
        0.0007122824537488783,
        0.004271081725180178,
        -0.02439321614660889,
        0.07166558524985957,
        -0.15011588234366566,
        0.24560381224697217,
        -0.32623356134974846,
        0.17900115112161333,
    )
)
SCALED_ERFC_START = float64(1.2530080582697296)
SCALED_ERFC_START_REST = float64(4.5276203702746546e-17)
SCALED_ERFC_64 = tuple(
    float64(c)
    for c in (
        5.487988099712301e-10,
        2.691419436706894e-10,
        -7.6052533278465e-09,
        -1.0629658079857166e-08,
        4.110928846410561e-08,
        9.748124215591612e-08,
        -1.418471505265997e-07,
        -6.125887714319327e-07,
        3.576471337996832e-07,
        3.4700653409277362e-06,
        -7.321404275549841e-07,
        -2.0099687725821348e-05,
        4.949744154839063e-06,
        0.00012509913837503646,
        -0.00010515986189234142,
        -0.0007798322392143746,
        0.0018886903677071496,
        0.00252939181304977,
        -0.023770514919267603,
        0.06830802734412632,
        -0.11927366341528756,
        0.1296451587027575,
        -0.047562294353451016,
        -0.13562110612458117,
    )
)
# With w = -log2(1 - x**2): erfinv(x) / x in w, for w <= 9, and erfinv(x) / sqrt(w) in
# (sqrt(w) - 2.5) / (sqrt(w) + 2.5), for 9 <= w <= 1076
ERFINV_CENTRE = tuple(
    float64(c)
    for c in (
        1.6323517071708694e-11,
        -9.072940541608565e-10,
        2.059374300098141e-08,
        -2.255952505163391e-07,
        8.125024905616383e-07,
        5.9794508656789546e-06,
        -2.7258608717647552e-05,
        -0.0007797183826500422,
        0.00554986676195974,
        0.1608194507073522,
        0.8862269302847281,
    )
)
ERFINV_TAIL = tuple(
    float64(c)
    for c in (
        -0.41419382933420795,
        2.1884704141122704,
        -5.11316448352662,
        6.916759791970099,
        -5.929673412296602,
        3.2461725604963823,
        -0.9931116906498483,
        0.019780599354104096,
        0.0516282632466208,
        0.09146338169592776,
        0.7684178733873331,
    )
)
SMALL_W = float64(9.0)
TAIL_CENTRE = float64(2.5)
# Numbers that log2_wide would take for subnormal are scaled.
TINY = float64(2.0**-900)
SCALE = float64(2.0**200)
SCALE_BITS = float64(200.0)


@func
def erf_float32(x: float32) -> float32:
    """erf(x), for |x| > 1 as 1 - 2**p for a polynomial p."""
    a = min(abs(x), 4.0)
    near = fma(polynomial(ERF, x * x), x, x)
    w = polynomial(LOG2_ERFC, a)
    t = w + maths.ROUNDER
    scale = maths.power_of_two(cast(t, int32) - maths.ROUNDER_BITS)
    far = 1.0 - fma(scale, maths.expm1_series((w - (t - maths.ROUNDER)) * LN2), scale)
    return where(abs(x) > 1.0, copysign(far, x), near)  # near for NaN, which min passes over


@func
def erfc_float32(x: float32) -> float32:
    """erfc(x) = exp(-x**2) r(x), by way of float64."""
    a = abs(float64(x))
    a = where(a > float64(11.0), float64(11.0), a)  # not by min, which passes over NaN
    r = polynomial(SCALED_ERFC, (a - THREE) / (a + THREE))
    y = exp2_wide(-(a * a) * LOG2_E) * r
    y = where(x < 0.0, TWO - y, y)
    return where(x == x, float32(y), x)


@func
def inverse_wide(x: float64, q: float64) -> float64:
    """erfinv(x) to 26 bits, given q = 1 - x**2 > 0."""
    tiny = q < TINY
    w = where(tiny, SCALE_BITS, ZERO) - log2_wide(where(tiny, q * SCALE, q))
    y = x * polynomial(ERFINV_CENTRE, w)
    if not (w <= SMALL_W):
        v = sqrt(w)
        y = copysign(v * polynomial(ERFINV_TAIL, (v - TAIL_CENTRE) / (v + TAIL_CENTRE)), x)
    return y


@func
def inverse_at_ends(y: float64, x: float64, q: float64) -> float64:
    """An inverse y, or what it is where q = 1 - x**2 is not positive."""
    y = where(q > ZERO, y, copysign(INF, x))
    return where(q >= ZERO, y, NAN)


@func
def erfinv_float32(x: float32) -> float32:
    """erfinv(x) by way of float64, as a function of log(1 - x**2) (Giles 2011)."""
    wide = float64(x)
    q = (ONE - wide) * (ONE + wide)
    return float32(inverse_at_ends(inverse_wide(wide, q), wide, q))


@func
def erfcinv_float32(x: float32) -> float32:
    """erfcinv(x) = erfinv(1 - x)."""
    wide = float64(x)
    q = wide * (TWO - wide)
    return float32(inverse_at_ends(inverse_wide(ONE - wide, q), ONE - wide, q))


@func
def scaled_erfc(a: float64):
    """erfc(a) = y 2**n for 0 <= a <= 28, and exp(-a**2) / 2**n."""
    t = (a - THREE) / (a + THREE)
    rest = polynomial(SCALED_ERFC_64, t)
    r = fma(rest, t, SCALED_ERFC_START)
    r_lost = fma(rest, t, SCALED_ERFC_START - r) + SCALED_ERFC_START_REST
    d = (a + a) + ONE
    d_lost = where(a < ONE, (a + a) - (d - ONE), ONE - (d - (a + a)))
    inverse = ONE / d
    quotient = r * inverse
    quotient_lost = (fma(-quotient, d, r) + (r_lost - quotient * d_lost)) * inverse
    # -a**2 in two parts, the first exact.
    first = high_part(a)
    square = first * first
    shifted = fma(-square, LOG2_E, maths64.ROUNDER)
    k = shifted - maths64.ROUNDER
    power = fma(k, -maths64.LN2_1, -square)
    power = fma(k, -maths64.LN2_2, power) - (a - first) * (a + first)
    p = expm1_series(power)
    return quotient + fma(quotient, p, quotient_lost), cast(shifted, int64) - maths64.ROUNDER_BITS, ONE + p


@func
def times_power_of_two(y: float64, n: int64) -> float64:
    """y 2**n, rounded once if that is subnormal."""
    first = n >> int64(1)
    return y * power_of_two(first) * power_of_two(n - first)


@func
def erf_float64(x: float64) -> float64:
    """erf(x), for |x| > 1 as 1 - erfc(x)."""
    near = fma(polynomial(ERF_64, x * x), x, x)
    y, n, _ = scaled_erfc(min(abs(x), float64(6.0)))
    return where(abs(x) > ONE, copysign(fma(y, -power_of_two(n), ONE), x), near)


@func
def erfc_float64(x: float64) -> float64:
    """erfc(x) = exp(-x**2) r(x), or 1 - erf(x) where that loses nothing."""
    near = ONE - fma(polynomial(ERF_64, x * x), x, x)
    y, n, _ = scaled_erfc(min(abs(x), float64(28.0)))
    y = times_power_of_two(y, n)
    y = where(x < ZERO, TWO - y, y)
    return where(abs(x) < float64(0.46875), near, where(x == x, y, x))


@func
def refined_inverse(x: float64, rest: float64) -> float64:
    """erfinv(x) given rest = 1 - |x|, by one step of fourth order from 26 bits."""
    g = inverse_wide(x, rest * (TWO - rest))
    a = abs(g)
    y, n, e = scaled_erfc(min(a, float64(28.0)))
    slope = TWO_OVER_ROOT_PI * e
    # The step in units of 2**n, so that subnormal numbers keep their precision.
    outer = (y - times_power_of_two(rest, -n)) / slope
    inner = (abs(x) - fma(polynomial(ERF_64, a * a), a, a)) / (slope * power_of_two(n))
    step = where(a < float64(0.5), inner, outer)
    cubic = fma(fma(FOUR * a, a, ONE), step * step * THIRD, fma(a, step, ONE))
    return copysign(fma(cubic, step, a), x)


@func
def erfinv_float64(x: float64) -> float64:
    """erfinv(x)."""
    rest = ONE - abs(x)
    return inverse_at_ends(refined_inverse(x, rest), x, rest)


@func
def erfcinv_float64(x: float64) -> float64:
    """erfcinv(x) = erfinv(1 - x)."""
    rest = min(x, TWO - x)
    return inverse_at_ends(refined_inverse(ONE - x, rest), ONE - x, rest)


EXPANSIONS = {
    ("erf", float32): erf_float32,
    ("erf", float64): erf_float64,
    ("erfc", float32): erfc_float32,
    ("erfc", float64): erfc_float64,
    ("erfinv", float32): erfinv_float32,
    ("erfinv", float64): erfinv_float64,
    ("erfcinv", float32): erfcinv_float32,
    ("erfcinv", float64): erfcinv_float64,
}
