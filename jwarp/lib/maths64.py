"""float64 exponentials, logarithms, hyperbolic functions, pow and cbrt, written in the kernel language.

What needs more than float64's own precision is in two parts, the first of so few bits that its products
are exact; so the same holds on targets without fma. Polynomials are minimax fits (Remez exchange) of the
relative error, the lowest coefficients rounded first and the others fitted again.
"""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import abs, cast, copysign, floor, fma, max, min, where
from jwarp.frontend.func import func
from jwarp.lib.polynomial import polynomial
from jwarp.types import float64, int32, int64

ZERO = float64(0.0)
HALF = float64(0.5)
ONE = float64(1.0)
TWO = float64(2.0)
THREE = float64(3.0)
INF = float64("inf")
NAN = float64("nan")

SMALLEST_NORMAL = float64(2.2250738585072014e-308)
# Powers with larger exponents are 0, 1 or infinite.
LARGEST_EXPONENT = float64(2.0**64)
LARGEST = float64(1.7976931348623157e308)
# Above 710.48, and still below 1025.5 ln 2.
SINH_OVERFLOWS = float64(710.7)
# Subnormal numbers become normal by this factor.
UP = float64(2.0**54)
UP_BITS = float64(54.0)
UP_CBRT = float64(2.0**-18)

# Adding 1.5 * 2**52 rounds to an integer, which is then in the low bits of the sum.
ROUNDER = float64(6755399441055744.0)
ROUNDER_BITS = int64(0x4338000000000000)
ONE_BITS = int64(0x3FF0000000000000)
SQRT_HALF_BITS = int64(0x3FE6A09E667F3BCD)
MANTISSA_BITS = int64(52)
# Keeps the first 21 bits of a number.
HIGH_WORD = int64(-(1 << 32))

LOG2_E = float64(1.4426950408889634)
# Logarithms in two parts: of 2 to bases e and 10, of e to bases 2 and 10. The first has 32 or 42 bits.
LN2_1 = float64(0.6931471806019545)
LN2_2 = float64(-4.2009150726810846e-11)
LOG10_2_1 = float64(0.30102999566395283)
LOG10_2_2 = float64(2.8363394551044964e-14)
LOG2_E_1 = float64(1.4426950407214463)
LOG2_E_2 = float64(1.6751713164886512e-10)
LOG10_E_1 = float64(0.4342944818781689)
LOG10_E_2 = float64(2.5082946711645275e-11)

# (exp(x) - 1 - x) / x**2, for |x| <= ln(2)/2
EXPM1 = tuple(
    float64(c)
    for c in (
        2.092916106315486e-09,
        2.5108986260090617e-08,
        2.7557239745373113e-07,
        2.7557244227408256e-06,
        2.480158734959716e-05,
        0.00019841269886285091,
        0.001388888888887885,
        0.00833333333332148,
        0.04166666666666667,
        0.16666666666666677,
        0.5,
    )
)
# (log(1 + f) - 2 s) / s**3 in s**2 with s = f / (2 + f), for 1 + f between sqrt(1/2) and sqrt(2)
LOG1P = tuple(
    float64(c)
    for c in (
        0.13235573471111806,
        0.13252064355040072,
        0.1538699234084456,
        0.1818177828246813,
        0.2222222260776102,
        0.28571428569406976,
        0.4000000000000493,
        0.6666666666666666,
    )
)
# 3 (artanh(s) / s - 1 - s**2 / 3) / s**4 in s**2, for the same s
ARTANH = tuple(
    float64(c)
    for c in (
        0.1979557703256284,
        0.19885113437645635,
        0.23080140689502598,
        0.27272676452806976,
        0.3333333378095215,
        0.42857142855143704,
        0.600000000000034,
    )
)
# 2 / (3 ln 2) in two parts, the first of 21 bits, and in one
LOG2_SCALE_1 = float64(0.961796760559082)
LOG2_SCALE_2 = float64(-6.663310642634338e-08)
LOG2_SCALE = float64(0.9617966939259756)
# ln 2 in two parts, the first of 21 bits
LN2_HIGH = float64(0.6931471824645996)
LN2_LOW = float64(-1.904654299957768e-09)
LN2 = float64(0.6931471805599453)
# The high word of a double less a third of another's is near its inverse cube root's, for this constant.
INVERSE_CBRT_BITS = int32(0x553EF0FF)
THIRD = float64(1.0 / 3.0)
TWO_NINTHS = float64(2.0 / 9.0)
FOURTEEN_81STS = float64(14.0 / 81.0)


@func
def high_part(x: float64) -> float64:
    """The first 21 bits of x."""
    return cast(cast(x, int64) & HIGH_WORD, float64)


@func
def power_of_two(n: int64) -> float64:
    """2**n for -1022 <= n <= 1023."""
    return cast((n << MANTISSA_BITS) + ONE_BITS, float64)


@func
def expm1_series(r: float64) -> float64:
    """exp(r) - 1 for |r| <= ln(2)/2."""
    return fma(polynomial(EXPM1, r), r * r, r)


@func
def exp_float64(x: float64) -> float64:
    """exp(x) = 2**n exp(r) with r = x - n ln 2 (Cody and Waite 1980)."""
    t = fma(x, LOG2_E, ROUNDER)
    k = t - ROUNDER
    r = fma(k, -LN2_1, x)
    r = fma(k, -LN2_2, r)
    p = expm1_series(r) + ONE
    # The low bits of t are n: shifted into place they add to the exponent.
    y = cast(cast(p, int64) + (cast(t, int64) << MANTISSA_BITS), float64)
    if not (abs(x) < float64(708.0)):
        # Two steps reach the subnormals and infinity.
        n = cast(t, int64) - ROUNDER_BITS
        first = n >> int64(1)
        y = p * power_of_two(first) * power_of_two(n - first)
        y = where(x > float64(710.0), INF, y)
        y = where(x < float64(-746.0), ZERO, y)
        y = where(x == x, y, x)
    return y


@func
def split_normal(x: float64, scaling: float64):
    """k and m with x / 2**scaling = 2**k m and m between sqrt(1/2) and sqrt(2), for a positive normal x."""
    bits = cast(x, int64)
    exponent = (bits - SQRT_HALF_BITS) >> MANTISSA_BITS
    return float64(int32(exponent)) - scaling, cast(bits - (exponent << MANTISSA_BITS), float64)


@func
def log1p_rest(f: float64, h: float64) -> float64:
    """log(1 + f) - f + h for h = f**2 / 2."""
    s = f / (TWO + f)
    z = s * s
    return s * fma(polynomial(LOG1P, z), z, h)


@func
def log_normal(x: float64, scaling: float64) -> float64:
    """Natural logarithm of x / 2**scaling for a positive normal x."""
    k, m = split_normal(x, scaling)
    f = m - ONE
    h = HALF * f * f
    return fma(k, LN2_1, f - (h - fma(k, LN2_2, log1p_rest(f, h))))


@func
def log_in_base(x: float64, scaling: float64, e_1: float64, e_2: float64, two_1: float64, two_2: float64) -> float64:
    """Logarithm of x / 2**scaling to a base in which e_1 + e_2 and two_1 + two_2 are those of e and 2."""
    k, m = split_normal(x, scaling)
    f = m - ONE
    h = HALF * f * f
    high = high_part(f - h)
    low = ((f - high) - h) + log1p_rest(f, h)
    main = k * two_1
    part = high * e_1
    result = main + part
    return result + (((main - result) + part) + fma(low + high, e_2, fma(low, e_1, k * two_2)))


@func
def log2_normal(x: float64, scaling: float64) -> float64:
    """log2(x / 2**scaling) for a positive normal x."""
    return log_in_base(x, scaling, LOG2_E_1, LOG2_E_2, ONE, ZERO)


@func
def log10_normal(x: float64, scaling: float64) -> float64:
    """log10(x / 2**scaling) for a positive normal x."""
    return log_in_base(x, scaling, LOG10_E_1, LOG10_E_2, LOG10_2_1, LOG10_2_2)


@func
def log_of_others(x: float64, y: float64) -> float64:
    """Any logarithm of x, given y for a subnormal x, where x may be anything."""
    y = where(x == ZERO, -INF, y)
    y = where(x < ZERO, NAN, y)
    y = where(x > LARGEST, INF, y)
    return where(x == x, y, x)


@func
def log_float64(x: float64) -> float64:
    """log(x)."""
    y = log_normal(x, ZERO)
    if not (x >= SMALLEST_NORMAL and x <= LARGEST):
        y = log_of_others(x, log_normal(x * UP, UP_BITS))
    return y


@func
def log2_float64(x: float64) -> float64:
    """log2(x)."""
    y = log2_normal(x, ZERO)
    if not (x >= SMALLEST_NORMAL and x <= LARGEST):
        y = log_of_others(x, log2_normal(x * UP, UP_BITS))
    return y


@func
def log10_float64(x: float64) -> float64:
    """log10(x)."""
    y = log10_normal(x, ZERO)
    if not (x >= SMALLEST_NORMAL and x <= LARGEST):
        y = log_of_others(x, log10_normal(x * UP, UP_BITS))
    return y


@func
def half_exponentials(a: float64):
    """exp(a)/4 and exp(-a)/4, each as a power of 2 and what its product with it adds, for 0 <= a <= 710.7."""
    t = fma(a, LOG2_E, ROUNDER)
    k = t - ROUNDER
    r = fma(k, -LN2_1, a)
    r = fma(k, -LN2_2, r)
    n = cast(t, int64) - ROUNDER_BITS
    up = power_of_two(n - int64(2))
    down = power_of_two(int64(-2) - min(n, int64(1000)))
    return up, up * expm1_series(r), down, down * expm1_series(-r)


@func
def sinh_float64(x: float64) -> float64:
    """sinh(x) from exp(x) and exp(-x), whose equal parts cancel exactly at small x."""
    a = abs(x)
    up, more, down, less = half_exponentials(
        where(a > SINH_OVERFLOWS, SINH_OVERFLOWS, a)
    )  # not by min, which passes over NaN
    y = (up - down) + (more - less)
    return copysign(where(a < float64(1e-8), a, y + y), x)


@func
def cosh_float64(x: float64) -> float64:
    """cosh(x) from exp(x) and exp(-x)."""
    a = abs(x)
    up, more, down, less = half_exponentials(where(a > SINH_OVERFLOWS, SINH_OVERFLOWS, a))
    y = (up + down) + (more + less)
    return y + y


@func
def tanh_float64(x: float64) -> float64:
    """tanh(x) = m / (m + 2) with m = exp(2|x|) - 1, which does not cancel at small x."""
    a = where(abs(x) > float64(20.0), float64(20.0), abs(x))
    a = a + a
    t = fma(a, LOG2_E, ROUNDER)
    k = t - ROUNDER
    r = fma(k, -LN2_1, a)
    r = fma(k, -LN2_2, r)
    scale = power_of_two(cast(t, int64) - ROUNDER_BITS)
    m = fma(scale, expm1_series(r), scale - ONE)
    d = m + TWO
    lost = m - (d - TWO)
    inverse = ONE / d
    y = m * inverse
    # One Newton step makes up for the rounding of the divisor and of the quotient.
    y = fma(fma(-y, d, m) - y * lost, inverse, y)
    return copysign(y, x)


@func
def log2_in_parts(x: float64, scaling: float64):
    """log2(x / 2**scaling) to 66 bits for a positive normal x: 21 bits of it, and the rest.

    With s = (m - 1) / (m + 1) it is k + 2/(3 ln 2) s (3 + s**2 + r), as in Sun's fdlibm.
    """
    k, m = split_normal(x, scaling)
    f = m - ONE
    inverse = ONE / (m + ONE)
    s = f * inverse
    s_1 = high_part(s)
    d_1 = high_part(m + ONE)
    d_2 = m - (d_1 - ONE)
    s_2 = inverse * ((f - s_1 * d_1) - s_1 * d_2)
    z = s * s
    r = fma(polynomial(ARTANH, z) * z, z, s_2 * (s_1 + s))
    z_1 = s_1 * s_1
    t_1 = high_part((THREE + z_1) + r)
    t_2 = r - ((t_1 - THREE) - z_1)
    u = s_1 * t_1
    v = fma(s_2, t_1, t_2 * s)
    p_1 = high_part(u + v)
    p_2 = v - (p_1 - u)
    w_1 = LOG2_SCALE_1 * p_1
    w_2 = fma(LOG2_SCALE_2, p_1, p_2 * LOG2_SCALE)
    high = high_part((w_1 + w_2) + k)
    return high, w_2 - ((high - k) - w_1)


@func
def pow_positive(x: float64, scaling: float64, y: float64) -> float64:
    """(x / 2**scaling)**y = 2**(y log2 x) for a positive normal x and any y but NaN."""
    log_1, log_2 = log2_in_parts(x, scaling)
    y = max(min(y, LARGEST_EXPONENT), -LARGEST_EXPONENT)
    y_1 = high_part(y)
    w_1 = y_1 * log_1
    w_2 = fma(y - y_1, log_1, y * log_2)
    w = w_1 + w_2
    inside = abs(w) < float64(1100.0)
    w_1 = where(inside, w_1, copysign(float64(1100.0), w))
    w_2 = where(inside, w_2, ZERO)
    t = (w_1 + w_2) + ROUNDER
    n = cast(t, int64) - ROUNDER_BITS
    w_1 = w_1 - (t - ROUNDER)
    high = high_part(w_1 + w_2)
    low = w_2 - (high - w_1)
    u = high * LN2_HIGH
    v = fma(low, LN2, high * LN2_LOW)
    r = u + v
    rest = v - (r - u)
    p = expm1_series(r)
    p = ONE + (p + fma(p, rest, rest))
    first = n >> int64(1)
    return p * power_of_two(first) * power_of_two(n - first)


@func
def pow_float64(x: float64, y: float64) -> float64:
    """x to the power y; special values as in C (ISO/IEC 9899, annex F)."""
    result = pow_positive(x, ZERO, y)
    if not (x >= SMALLEST_NORMAL and x <= LARGEST and abs(y) <= LARGEST):
        ax = abs(x)
        half = y * HALF
        whole = floor(y) == y
        odd = whole and floor(half) != half and abs(y) <= LARGEST
        tiny = ax < SMALLEST_NORMAL
        result = pow_positive(where(tiny, ax * UP, ax), where(tiny, UP_BITS, ZERO), y)
        result = where(ax == ONE, ONE, result)
        result = where(ax == ZERO, where(y < ZERO, INF, ZERO), result)
        result = where(ax == INF, where(y < ZERO, ZERO, INF), result)
        result = where(odd and cast(x, int64) < int64(0), -result, result)
        result = where(x < ZERO and ax <= LARGEST and not whole, NAN, result)
        result = where(x == x and y == y, result, NAN)
        result = where(x == ONE or y == ZERO, ONE, result)
    return result


@func
def cbrt_float64(x: float64) -> float64:
    """cbrt(x) = x y**2 with y = 1 / cbrt(x) by two steps of an iteration of fourth order, then a correction."""
    ax = abs(x)
    tiny = ax < SMALLEST_NORMAL
    a = where(tiny, ax * UP, ax)
    high = int32(cast(a, int64) >> int64(32))
    y = cast(int64(INVERSE_CBRT_BITS - high // 3) << int64(32), float64)
    e = ONE - a * y * (y * y)
    y = fma(y * e, fma(e, fma(e, FOURTEEN_81STS, TWO_NINTHS), THIRD), y)
    e = ONE - a * y * (y * y)
    y = fma(y * e, fma(e, fma(e, FOURTEEN_81STS, TWO_NINTHS), THIRD), y)
    # The square of 21 bits is exact, so what is left of the cube is right to the last place of x.
    first = high_part(a * (y * y))
    step = fma(-(first * first), first, a) * (y * y) * THIRD
    root = first + fma(step * step, y, step)
    root = where(tiny, root * UP_CBRT, root)
    return where(ax > ZERO and ax <= LARGEST, copysign(root, x), x)


EXPANSIONS = {
    ("exp", float64): exp_float64,
    ("log", float64): log_float64,
    ("log2", float64): log2_float64,
    ("log10", float64): log10_float64,
    ("sinh", float64): sinh_float64,
    ("cosh", float64): cosh_float64,
    ("tanh", float64): tanh_float64,
    ("cbrt", float64): cbrt_float64,
    ("pow", float64): pow_float64,
}
