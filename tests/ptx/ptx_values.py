"""Numbers as PTX has them: types, and arithmetic that rounds once and in the direction that an instruction says."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray

TYPES: dict[str, np.dtype] = {
    "pred": np.dtype(np.bool_),
    **{f"{kind}{8 * width}": np.dtype(f"u{width}") for kind in "bu" for width in (1, 2, 4, 8)},
    **{f"s{8 * width}": np.dtype(f"i{width}") for width in (1, 2, 4, 8)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "tf32": np.dtype(np.uint32),
    "f16x2": np.dtype(np.uint32),
    "bf16x2": np.dtype(np.uint32),
}
PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
FLOATS = ("f16", "bf16", "f32", "f64")
ROUNDINGS = ("rn", "rz", "rm", "rp")
UNSIGNED = {width: np.dtype(f"u{width}") for width in (1, 2, 4, 8)}
SIGNED = {width: np.dtype(f"i{width}") for width in (1, 2, 4, 8)}


def bits_of(values: Array) -> Array:
    """The same bits as unsigned integers; truth values as they are."""
    return values if values.dtype == np.bool_ else values.view(UNSIGNED[values.dtype.itemsize])


def read_as(bits: Array, dtype: np.dtype) -> Array:
    """The content of a register, as a type that is as wide or narrower."""
    if bits.dtype == dtype:
        return bits
    if bits.dtype == np.bool_ or dtype == np.bool_:
        raise TypeError(f"{bits.dtype} is no {dtype}")
    if bits.dtype.itemsize != dtype.itemsize:
        bits = bits.astype(UNSIGNED[dtype.itemsize])
    return bits.view(dtype)


def widened(values: Array, register: np.dtype) -> Array:
    """The bits that a register of a type that is as wide or wider gets: with the sign, of signed integers."""
    if values.dtype == np.bool_ or values.dtype.itemsize == register.itemsize:
        return bits_of(values)
    if values.dtype.kind == "i":
        return values.astype(SIGNED[register.itemsize]).view(register)
    return bits_of(values).astype(register)


def flushed(x: Array) -> Array:
    """Zeros with the same sign instead of subnormal floats."""
    tiny = np.finfo(x.dtype).tiny
    return np.where(np.abs(x) < tiny, np.copysign(x.dtype.type(0), x), x)


# ---- rounding once


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """The sum as rounded, and what was lost."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def narrowed(total: Array, lost: Array, rounding: str, dtype: np.dtype) -> Array:
    """`total + lost`, a double and far less than its last bit, in a narrower type by one rounding."""
    inexact = np.isfinite(total) & (lost != 0)
    even = (total.view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    total = np.where(inexact & even, odd, total)  # to odd: a second rounding finds which side it was on
    near = total.astype(dtype)
    return directed(near, np.where(np.isfinite(near), total - near.astype(np.float64), 0.0), rounding)


def directed(near: Array, lost: Array, rounding: str) -> Array:
    """A value that was rounded to the nearest, and lost `lost`, rounded in another direction."""
    if rounding == "rn":
        return near
    if rounding == "rz":
        wrong = (lost != 0) & (np.signbit(lost) != np.signbit(near))
        target = np.zeros_like(near)
    else:
        wrong = lost < 0 if rounding == "rm" else lost > 0
        target = np.full_like(near, -np.inf if rounding == "rm" else np.inf)
    return np.where(wrong, np.nextafter(near, target), near)


def add(x: Array, y: Array, rounding: str) -> Array:
    if x.dtype != np.float64:
        if rounding == "rn":
            return x + y
        total, lost = two_sum(x.astype(np.float64), y.astype(np.float64))
        return narrowed(total, lost, rounding, x.dtype)
    total, lost = two_sum(x, y)
    return directed(total, np.where(np.isfinite(total), lost, 0.0), rounding)


def mul(x: Array, y: Array, rounding: str) -> Array:
    if rounding == "rn":
        return x * y
    if x.dtype != np.float64:
        product = x.astype(np.float64) * y.astype(np.float64)
        return narrowed(product, np.zeros_like(product), rounding, x.dtype)
    return _exactly(lambda a, b: a * b, x * y, (x, y), rounding)


def div(x: Array, y: Array, rounding: str) -> Array:
    quotient = x / y
    return quotient if rounding == "rn" else _exactly(lambda a, b: a / b, quotient, (x, y), rounding)


def fma(x: Array, y: Array, z: Array, rounding: str) -> Array:
    if x.dtype != np.float64:
        product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
        total, lost = two_sum(*np.broadcast_arrays(product, addend))
        return narrowed(total, np.where(np.isfinite(total), lost, 0.0), rounding, x.dtype)
    plain = np.where(np.isfinite(x) & np.isfinite(y) & np.isinf(z), z, x * y + z)
    # The parts of the product in which no bits are lost, unless numbers are extreme.
    product = x * y
    (xh, xl), (yh, yl) = _halves(x), _halves(y)
    below = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    total, lost = two_sum(product, z)
    rest, least = two_sum(lost, below)
    usual = (np.abs(x) < 1e150) & (np.abs(y) < 1e150) & (np.abs(z) < 1e290)
    usual &= (np.abs(product) > 1e-250) & (np.abs(plain) > 1e-290)
    sure = usual & (least == 0)
    near = total + rest
    error = (total - near) + rest
    # Halfway cases are decided by what is left after `rest`: exact fractions decide them.
    doubtful = ~sure & np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (x != 0) & (y != 0)
    result = np.where(sure, directed(near, error, rounding), plain)
    if doubtful.any():
        parts = [np.broadcast_to(v, result.shape)[doubtful] for v in (x, y, z)]
        result[doubtful] = _exactly(lambda a, b, c: a * b + c, plain[doubtful], parts, rounding)
    return result


def _halves(x: Array) -> tuple[Array, Array]:
    large = x * 134217729.0  # 2^27 + 1
    high = large - (large - x)
    return high, x - high


def _exactly(function: Callable[..., Fraction], plain: Array, args: Any, rounding: str) -> Array:
    """A function of finite doubles by fractions; `plain` where it is not a finite number, and for signs of zeros."""
    result = np.array(plain, np.float64)
    flat, columns = result.reshape(-1), [np.broadcast_to(a, result.shape).reshape(-1) for a in args]
    for k, row in enumerate(zip(*columns, strict=True)):
        if not all(map(np.isfinite, row)):
            continue
        try:
            exact = function(*map(Fraction, map(float, row)))
        except ZeroDivisionError:
            continue
        if exact == 0:
            continue
        try:
            near = float(exact)
        except OverflowError:
            near = np.inf if exact > 0 else -np.inf
        rest = Fraction(0) if np.isinf(near) else exact - Fraction(near)
        error = float((rest > 0) - (rest < 0))
        flat[k] = directed(np.float64(near)[None], np.float64(error)[None], rounding)[0] if near else near
    return result


def to_tf32(x: Array) -> Array:
    """The bits of floats with 11 bits of fraction, ties away from zero."""
    bits = x.view(np.uint32)
    return np.where(np.isfinite(x), (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits)


def to_integer(x: Array, dtype: np.dtype, rounding: str) -> Array:
    """A float as an integer: rounded as `rni`, `rzi`, `rmi` or `rpi` say, saturated, and 0 for what is not a number."""
    rounded = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[rounding](x.astype(np.float64))
    info = np.iinfo(dtype)
    low, end = float(info.min), float(info.max) + 1  # one past the highest of 64 bits, which a double does not have
    end = float(2 ** (8 * dtype.itemsize - (dtype.kind == "i")))
    inside = (rounded >= low) & (rounded < end)
    result = np.where(inside, rounded, 0).astype(dtype)
    result = np.where(rounded >= end, dtype.type(info.max), result)
    return np.where(rounded < low, dtype.type(info.min), result).astype(dtype)


def extreme(x: Array, y: Array, least: bool, nan: bool) -> Array:
    """The smaller or larger float: of zeros by the sign, and a number rather than NaN unless `nan`."""
    chosen = np.fmin(x, y) if least else np.fmax(x, y)
    zeros = (x == 0) & (y == 0)
    sign = np.signbit(x) | np.signbit(y) if least else np.signbit(x) & np.signbit(y)
    chosen = np.where(zeros, np.where(sign, x.dtype.type(-0.0), x.dtype.type(0)), chosen)
    return np.where(np.isnan(x) | np.isnan(y), x.dtype.type(np.nan), chosen) if nan else chosen
