"""float32 sin, cos and tan, written in the kernel language.

A common argument costs a few multiply-adds and no selects. Arguments above LIMIT, where the roundings of
subtracting a multiple of pi add up to more than one, take a branch that reduces them in fixed point.

Polynomials are minimax fits (Remez exchange) of the relative error; float32 coefficients were rounded
one at a time from the lowest power, the others fitted again each time. Those of the sine were then varied
at random to lower its largest error with all roundings included, which is next to pi/2.

Errors stay below 2 units in the last place where the target has fma. Without it they are as small but next
to the zeros of large arguments, where sin and cos are off by 2e-9 at most.
"""

from __future__ import annotations

from jwarp.frontend.builtins.scalar import abs, cast, fma, where
from jwarp.frontend.func import func
from jwarp.types import float32, float64, int32, int64, uint32, uint64

LIMIT = 16384.0
INV_PI = 0.3183098861837907
# Adding 1.5 * 2**23 rounds to an integer, which is then in the low bits of the sum.
ROUNDER = 12582912.0
# -pi in four parts. The first two have 8 bits, so that their products are exact without fma too. All have
# one sign, so that zero keeps its own.
NEG_PI_1 = -3.140625
NEG_PI_2 = -0.000965118408203125
NEG_PI_3 = -2.535181465646019e-06
NEG_PI_4 = -1.2446743939339977e-13

INV_HALF_PI = 0.6366197723675814
# -pi/2 in four parts, of half the size.
NEG_HALF_PI_1 = NEG_PI_1 / 2.0
NEG_HALF_PI_2 = NEG_PI_2 / 2.0
NEG_HALF_PI_3 = NEG_PI_3 / 2.0
NEG_HALF_PI_4 = NEG_PI_4 / 2.0

ROUNDER_64 = float64(6755399441055744.0)  # 1.5 * 2**52
INV_HALF_PI_64 = float64(0.6366197723675814)
# -pi/2 in two parts; the first has 33 bits.
NEG_HALF_PI_64_1 = float64(-1.57079632673412561417)
NEG_HALF_PI_64_2 = float64(-6.07710050650619224932e-11)

# The bits of 2**-16 / (2 pi) after the point, in words.
TURN_BITS = tuple(
    uint32(word) for word in (0x000028BE, 0x60DB9391, 0x054A7F09, 0xD5F47D4D, 0x377036D8, 0xA5664F10, 0xE4107F94)
)
EIGHTH_TURN = int64(1 << 61)
QUARTER_TURN = int64(1 << 62)
RADIANS = float64(3.4061215800865545e-19)  # 2 pi / 2**64


@func
def turns_float32(x: float32) -> int64:
    """x / (2 pi) modulo 1 in units of 2**-64, for |x| >= 2**14: reduction after Payne and Hanek (1983).

    With x = m * 2**e for a whole number m of 24 bits, those bits of 1/(2 pi) that 2**e makes whole cannot
    change the fraction, and those below the next 96 are too small to.
    """
    bits = cast(x, int32)
    m = uint64((bits & 0x7FFFFF) | 0x800000)
    skip = ((bits >> 23) & 0xFF) - 134
    second = (skip & 64) != 0
    first = (skip & 32) != 0
    a0 = where(second, TURN_BITS[2], TURN_BITS[0])
    a1 = where(second, TURN_BITS[3], TURN_BITS[1])
    a2 = where(second, TURN_BITS[4], TURN_BITS[2])
    a3 = where(second, TURN_BITS[5], TURN_BITS[3])
    a4 = where(second, TURN_BITS[6], TURN_BITS[4])
    b0 = uint64(where(first, a1, a0))
    b1 = uint64(where(first, a2, a1))
    b2 = uint64(where(first, a3, a2))
    b3 = uint64(where(first, a4, a3))
    word = uint64(32)
    shift = uint64(skip & 31)
    high = (((b0 << word) | b1) << shift) | (b2 >> (word - shift))
    low = (((b2 << word) | b3) << shift) >> word
    turns = cast(m * high + ((m * low) >> word), int64)
    return where(bits < 0, -turns, turns)


@func
def sine_float32(r: float32) -> float32:
    """sin(r) for |r| up to a little above pi/2."""
    z = r * r
    p = fma(2.6018342e-06, z, -0.00019809432)
    p = fma(p, z, 0.008333109)
    p = fma(p, z, -0.16666666)
    # Adding 0.0 makes the product at r = -0 a positive zero, which leaves r its sign below.
    q = fma(p, z, 0.0)
    return fma(q, r, r)


@func
def sin_float32(x: float32) -> float32:
    """sin(x) as the sine of the distance to the nearest multiple of pi (Cody and Waite 1980)."""
    t = fma(x, INV_PI, ROUNDER)
    k = t - ROUNDER
    r = fma(k, NEG_PI_1, x)
    r = fma(k, NEG_PI_2, r)
    r = fma(k, NEG_PI_3, r)
    r = fma(k, NEG_PI_4, r)
    flip = cast(t, int32) << 31
    if abs(x) > LIMIT:
        turns = turns_float32(x)
        half = (turns + QUARTER_TURN) >> int64(63)
        # x - x is NaN for infinities.
        r = float32(float64(turns - (half << int64(63))) * RADIANS) + (x - x)
        flip = int32(half) << 31
    return cast(cast(sine_float32(r), int32) ^ flip, float32)


@func
def cos_float32(x: float32) -> float32:
    """cos(x) as the sine of the distance to the nearest zero of the cosine (Cody and Waite 1980)."""
    t = fma(x, INV_PI, 0.5) + ROUNDER
    k = (t - ROUNDER) - 0.5
    r = fma(k, NEG_PI_1, x)
    r = fma(k, NEG_PI_2, r)
    r = fma(k, NEG_PI_3, r)
    r = fma(k, NEG_PI_4, r)
    flip = cast(t, int32) << 31
    if abs(x) > LIMIT:
        turns = turns_float32(x) + QUARTER_TURN
        half = (turns + QUARTER_TURN) >> int64(63)
        r = float32(float64(turns - (half << int64(63))) * RADIANS) + (x - x)
        flip = int32(half) << 31
    return cast(cast(sine_float32(r), int32) ^ flip, float32)


@func
def quarter_float32(x: float32):
    """x less the nearest multiple of pi/2, for |x| up to LIMIT, and the bits of which multiple that is."""
    t = fma(x, INV_HALF_PI, ROUNDER)
    k = t - ROUNDER
    r = fma(k, NEG_HALF_PI_1, x)
    r = fma(k, NEG_HALF_PI_2, r)
    r = fma(k, NEG_HALF_PI_3, r)
    r = fma(k, NEG_HALF_PI_4, r)
    return r, cast(t, int32)


@func
def short_sine(r: float32) -> float32:
    """sin(r) for |r| up to a little above pi/4 (Moshier, Cephes)."""
    z = r * r
    p = fma(-1.9515295891e-4, z, 8.3321608736e-3)
    p = fma(p, z, -1.6666654611e-1)
    q = fma(p, z, 0.0)
    return fma(q, r, r)


@func
def short_cosine(r: float32) -> float32:
    """cos(r) for |r| up to a little above pi/4 (Moshier, Cephes)."""
    z = r * r
    p = fma(2.443315711809948e-5, z, -1.388731625493765e-3)
    p = fma(p, z, 4.166664568298827e-2)
    p = fma(p, z, -0.5)
    return fma(p, z, 1.0)


@func
def far_sine(x: float32, shift: int64) -> float32:
    """The sine of x and `shift` units of 2**-64 turns, for |x| >= 2**14."""
    turns = turns_float32(x) + shift
    half = (turns + QUARTER_TURN) >> int64(63)
    # x - x is NaN for infinities.
    r = float32(float64(turns - (half << int64(63))) * RADIANS) + (x - x)
    return cast(cast(sine_float32(r), int32) ^ (int32(half) << 31), float32)


# Sine and cosine of one argument share their reduction and both polynomials: those who expand them to these forms
# share what is the same. So what is rare comes last, and changes the result alone.


@func
def sin_with_cos_float32(x: float32) -> float32:
    """sin(x), where cos(x) is needed too."""
    r, q = quarter_float32(x)
    y = where((q & 1) != 0, short_cosine(r), short_sine(r))
    y = cast(cast(y, int32) ^ ((q & 2) << 30), float32)
    if abs(x) > LIMIT:
        y = far_sine(x, int64(0))
    return y


@func
def cos_with_sin_float32(x: float32) -> float32:
    """cos(x), where sin(x) is needed too."""
    r, q = quarter_float32(x)
    y = where((q & 1) != 0, short_sine(r), short_cosine(r))
    y = cast(cast(y, int32) ^ (((q + 1) & 2) << 30), float32)
    if abs(x) > LIMIT:
        y = far_sine(x, QUARTER_TURN)
    return y


@func
def tan_float32(x: float32) -> float32:
    """tan(x) by way of float64: t or -1/t of the distance to the nearest multiple of pi/2."""
    wide = float64(x)
    shifted = fma(wide, INV_HALF_PI_64, ROUNDER_64)
    k = shifted - ROUNDER_64
    r = fma(k, NEG_HALF_PI_64_1, wide)
    r = fma(k, NEG_HALF_PI_64_2, r)
    odd = (cast(shifted, int64) & int64(1)) != int64(0)
    if abs(x) > LIMIT:
        turns = turns_float32(x)
        quarter = (turns + EIGHTH_TURN) >> int64(62)
        r = float64(turns - (quarter << int64(62))) * RADIANS + (wide - wide)
        odd = (quarter & int64(1)) != int64(0)
    z = r * r
    p = fma(float64(0.004445702477926033), z, float64(-4.825319340566518e-05))
    p = fma(p, z, float64(0.01094204227257084))
    p = fma(p, z, float64(0.021242210399753256))
    p = fma(p, z, float64(0.054067452385452824))
    p = fma(p, z, float64(0.1333259876226504))
    p = fma(p, z, float64(0.33333351571522896))
    t = r * fma(p, z, float64(1.0))
    return float32(where(odd, float64(-1.0) / t, t))


EXPANSIONS = {
    ("sin", float32): sin_float32,
    ("cos", float32): cos_float32,
    ("tan", float32): tan_float32,
}

# The forms of a sine and a cosine that are both taken of one value.
PAIRED = {("sin", float32): sin_with_cos_float32, ("cos", float32): cos_with_sin_float32}
