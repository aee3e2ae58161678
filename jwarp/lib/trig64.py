"""float64 sin, cos and tan, written in the kernel language.

Arguments above LIMIT take a branch that reduces them in fixed point, as in jwarp/lib/trig.py. Polynomials
are fitted as in jwarp/lib/maths64.py.
"""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import abs, cast, fma, where
from jwarp.frontend.func import func
from jwarp.lib.polynomial import polynomial
from jwarp.types import float64, int64, uint64

# Below it, a multiple of pi/2 has at most 21 bits.
LIMIT = float64(1 << 20)
INV_PI = float64(0.3183098861837907)
INV_HALF_PI = float64(0.6366197723675814)
# Adding 1.5 * 2**52 rounds to an integer, which is then in the low bits of the sum.
ROUNDER = float64(6755399441055744.0)
# pi in three parts, the first two of 32 bits, so that their products are exact.
PI_1 = float64(3.1415926534682512)
PI_2 = float64(1.2154201012607932e-10)
PI_3 = float64(4.044532497591901e-21)
SIGN = int64(-(1 << 63))
HALF = float64(0.5)
ONE = float64(1.0)

# The bits of 2**-64 / (2 pi) after the point, in words; the first is 0.
TURN_BITS = tuple(
    uint64(word)
    for word in (
        0x0000000000000000,
        0x28BE60DB9391054A,
        0x7F09D5F47D4D3770,
        0x36D8A5664F10E410,
        0x7F9458EAF7AEF158,
        0x6DC91B8E909374B8,
        0x01924BBA82746487,
        0x3F877AC72C4A69CF,
        0xBA208D7D4BAED121,
        0x3A671C09AD17DF90,
        0x4E64758E60D4CE7D,
        0x272117E2EF7E4A0E,
        0xC7FE25FFF7816603,
        0xFBCBC462D6829B47,
        0xDB4D9FB3C9F2C26D,
        0xD3D18FD9A797FA8B,
        0x5D49EEB1FAF97C5E,
        0xCF41CE7DE294A4BA,
        0x9AFED7EC47E35742,
        0x1580CC11BF1EDAEA,
    )
)
EIGHTH_TURN = uint64(1 << 61)
QUARTER_TURN = uint64(1 << 62)
WORD = uint64(64)
HALF_WORD = uint64(32)
LOW_HALF = uint64((1 << 32) - 1)
MANTISSA = int64((1 << 52) - 1)
HIDDEN_BIT = int64(1 << 52)
# 2 pi / 2**64 in two parts
RADIANS = float64(3.4061215800865545e-19)
RADIANS_REST = float64(1.3277647201629795e-35)
TWO_32 = float64(4294967296.0)
TWO_MINUS_64 = float64(5.421010862427522e-20)

# (sin(r) - r) / r**3 in r**2, for |r| <= pi/2 and for |r| <= pi/4
SINE = tuple(
    float64(c)
    for c in (
        -1.1434318914240446e-18,
        2.7339526000341878e-15,
        -7.643586596834511e-13,
        1.605895465143849e-10,
        -2.5052107091377904e-08,
        2.7557319213010137e-06,
        -0.00019841269841218168,
        0.008333333333333215,
        -0.16666666666666666,
    )
)
SHORT_SINE = tuple(
    float64(c)
    for c in (
        -7.389485848145162e-13,
        1.6054311928836777e-10,
        -2.505207092500172e-08,
        2.7557319073988457e-06,
        -0.00019841269840962475,
        0.008333333333333042,
        -0.16666666666666666,
    )
)
# (cos(r) - 1 + r**2 / 2) / r**4 in r**2, for |r| <= pi/4
SHORT_COSINE = tuple(
    float64(c)
    for c in (
        -1.1359917295961191e-11,
        2.087572899400557e-09,
        -2.755731439926595e-07,
        2.480158728966691e-05,
        -0.001388888888887447,
        0.0416666666666666,
    )
)


@func
def minus_multiple(x: float64, k: float64, part_1: float64, part_2: float64, part_3: float64):
    """x - k (part_1 + part_2 + part_3), and what rounding it has lost."""
    far = x - k * part_1
    near = far - k * part_2
    lost = (far - near) - k * part_2
    r = near - k * part_3
    return r, ((near - r) - k * part_3) + lost


@func
def sine(r: float64, lost: float64) -> float64:
    """sin(r + lost) for |r| up to a little above pi/2 and a tiny `lost`."""
    z = r * r
    return r + fma(polynomial(SINE, z) * z, r, lost * fma(-HALF, z, ONE))


@func
def high_product(x: uint64, y: uint64) -> uint64:
    """The upper 64 bits of x * y."""
    x_1 = x >> HALF_WORD
    x_2 = x & LOW_HALF
    y_1 = y >> HALF_WORD
    y_2 = y & LOW_HALF
    left = x_1 * y_2
    right = x_2 * y_1
    middle = ((x_2 * y_2) >> HALF_WORD) + (left & LOW_HALF) + (right & LOW_HALF)
    return x_1 * y_1 + (left >> HALF_WORD) + (right >> HALF_WORD) + (middle >> HALF_WORD)


@func
def turns(x: float64):
    """|x| / (2 pi) modulo 1 for |x| >= 2**20, in units of 2**-64 and what is left in units of 2**-128.

    After Payne and Hanek (1983): with |x| = m * 2**e for a whole number m of 53 bits, those bits of
    1/(2 pi) that 2**e makes whole cannot change the fraction, and those below the next 192 are too small to.
    """
    bits = cast(x, int64)
    m = uint64((bits & MANTISSA) | HIDDEN_BIT)
    skip = uint64(((bits >> int64(52)) & int64(0x7FF)) - int64(1011))
    first = skip >> uint64(6)
    a, b, c, d = TURN_BITS[0], TURN_BITS[1], TURN_BITS[2], TURN_BITS[3]
    for k in range(1, len(TURN_BITS) - 3):
        here = first == uint64(k)
        a = where(here, TURN_BITS[k], a)
        b = where(here, TURN_BITS[k + 1], b)
        c = where(here, TURN_BITS[k + 2], c)
        d = where(here, TURN_BITS[k + 3], d)
    # A shift by a whole word gives 0.
    left = skip & uint64(63)
    right = WORD - left
    a = (a << left) | (b >> right)
    b = (b << left) | (c >> right)
    c = (c << left) | (d >> right)
    product = m * b
    low = product + high_product(m, c)
    carry = where(low < product, uint64(1), uint64(0))
    return m * a + high_product(m, b) + carry, low


@func
def angle(high: uint64, low: uint64):
    """The angle of turns between -1/2 and 1/2, in radians, and what rounding it has lost."""
    upper = float64(cast(high, int64) >> int64(32)) * TWO_32
    lower = float64(high & LOW_HALF) + float64(low) * TWO_MINUS_64
    units = upper + lower
    lost = (upper - units) + lower
    r = units * RADIANS
    return r, fma(units, RADIANS, -r) + fma(units, RADIANS_REST, lost * RADIANS)


@func
def sin_float64(x: float64) -> float64:
    """sin(x) as the sine of the distance to the nearest multiple of pi (Cody and Waite 1980)."""
    a = abs(x)
    t = fma(a, INV_PI, ROUNDER)
    r, lost = minus_multiple(a, t - ROUNDER, PI_1, PI_2, PI_3)
    flip = cast(t, int64) << int64(63)
    if a > LIMIT:
        high, low = turns(x)
        half = (high + QUARTER_TURN) >> uint64(63)
        flip = cast(half << uint64(63), int64)
        r, lost = angle(high - (half << uint64(63)), low)
        # NaN for infinities.
        r = r + (x - x)
    return cast(cast(sine(r, lost), int64) ^ flip ^ (cast(x, int64) & SIGN), float64)


@func
def cos_float64(x: float64) -> float64:
    """cos(x) as the sine of the distance to the nearest zero of the cosine (Cody and Waite 1980)."""
    a = abs(x)
    t = fma(a, INV_PI, HALF) + ROUNDER
    r, lost = minus_multiple(a, (t - ROUNDER) - HALF, PI_1, PI_2, PI_3)
    flip = cast(t, int64) << int64(63)
    if a > LIMIT:
        high, low = turns(x)
        high = high + QUARTER_TURN
        half = (high + QUARTER_TURN) >> uint64(63)
        flip = cast(half << uint64(63), int64)
        r, lost = angle(high - (half << uint64(63)), low)
        r = r + (x - x)
    return cast(cast(sine(r, lost), int64) ^ flip, float64)


@func
def tan_float64(x: float64) -> float64:
    """tan(x) as sin / cos, or -cos / sin, of the distance to the nearest multiple of pi/2."""
    a = abs(x)
    t = fma(a, INV_HALF_PI, ROUNDER)
    r, lost = minus_multiple(a, t - ROUNDER, HALF * PI_1, HALF * PI_2, HALF * PI_3)
    odd = (cast(t, int64) & int64(1)) != int64(0)
    if a > LIMIT:
        high, low = turns(x)
        quarter = (high + EIGHTH_TURN) >> uint64(62)
        odd = (quarter & uint64(1)) != uint64(0)
        r, lost = angle(high - (quarter << uint64(62)), low)
        r = r + (x - x)
    z = r * r
    u = fma(polynomial(SHORT_SINE, z) * z, r, lost)
    s = r + u
    s_rest = (r - s) + u
    start = ONE - HALF * z
    v = ((ONE - start) - HALF * z) + fma(polynomial(SHORT_COSINE, z) * z, z, -(r * lost))
    c = start + v
    c_rest = (start - c) + v
    upper = where(odd, -c, s)
    upper_rest = where(odd, -c_rest, s_rest)
    lower = where(odd, s, c)
    lower_rest = where(odd, s_rest, c_rest)
    inverse = ONE / lower
    y = upper * inverse
    # The correction of the quotient of the first parts.
    y = y + (fma(-y, lower, upper) + (upper_rest - y * lower_rest)) * inverse
    return cast(cast(y, int64) ^ (cast(x, int64) & SIGN), float64)


EXPANSIONS = {
    ("sin", float64): sin_float64,
    ("cos", float64): cos_float64,
    ("tan", float64): tan_float64,
}
