"""Primitives of complex numbers: their parts, and Fourier transforms of few of them, written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jwarp.bind.jax_functions.elementwise import of_numbers
from jwarp.bind.jax_functions.lowering import Lowering, Scalars, filled, primitive
from jwarp.bind.jax_functions.parts import COMPLEX_TYPES, Complex, is_zero, minus, plus, times
from jwarp.ir.builder import zero

Pair = tuple[Any, Any]  # the real and the imaginary part


@of_numbers("real")
def _real(low: Lowering, x: Any) -> Any:
    return x.numbers[0] if isinstance(x, Complex) else x


@of_numbers("imag")
def _imag(low: Lowering, x: Any) -> Any:
    return x.numbers[1] if isinstance(x, Complex) else zero(x.type)


@of_numbers("complex")
def _complex(low: Lowering, x: Any, y: Any) -> Complex:
    return Complex((x, y))


@of_numbers("conj")
def _conjugate(low: Lowering, x: Any) -> Complex:
    a, b = x.numbers if isinstance(x, Complex) else (x, zero(x.type))
    return Complex((a, b if is_zero(b) else low.op("neg", b)))


# -- Fourier transforms


@primitive("fft")
def _fft(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    """Along the last axes, the last one first where that is of real numbers, else last."""
    lengths, aval = tuple(map(int, equation.params["fft_lengths"])), equation.invars[0].aval
    name = equation.params["fft_type"].name.upper()
    kind = equation.outvars[0].aval.dtype
    part = (COMPLEX_TYPES[np.dtype(kind)] if np.dtype(kind) in COMPLEX_TYPES else COMPLEX_TYPES[aval.dtype]).part
    axes = range(array.ndim - len(lengths), array.ndim)
    sign = 1 if name in ("IFFT", "IRFFT") else -1
    pairs = _each_row(array, array.ndim - 1, lambda row: [_pair(x) for x in row]) if array.ndim else array
    scale = low.number(part, 1.0 / math.prod(lengths)) if sign > 0 else None

    def along(axis: int, made: Scalars) -> Scalars:
        n = lengths[axis - axes[0]]
        if axis != axes[-1] or name in ("FFT", "IFFT"):
            return _each_row(made, axis, lambda row: _transformed(low, row, sign))
        if name == "RFFT":
            return _each_row(made, axis, lambda row: _transformed(low, row, sign)[: n // 2 + 1])
        return _each_row(made, axis, lambda row: _transformed(low, _mirrored(low, row, n), sign))

    for axis in reversed(axes) if name == "RFFT" else axes:
        pairs = along(axis, pairs)
    if scale is not None:
        pairs = _each_row(pairs, axes[-1], lambda row: [tuple(times(low, x, scale) for x in pair) for pair in row])
    if name == "IRFFT":
        return filled(pairs.shape, (x for x, _ in pairs.flat))
    return filled(pairs.shape, map(Complex, pairs.flat))


def _pair(x: Any) -> Pair:
    return x.numbers if isinstance(x, Complex) else (x, zero(x.type))


def _each_row(array: Scalars, axis: int, rule: Any) -> Scalars:
    """The array with each row along an axis replaced by what `rule` makes of it."""
    moved = np.moveaxis(array, axis, -1)
    rows = [rule(list(row)) for row in moved.reshape(-1, moved.shape[-1])] if moved.size else []
    length = len(rows[0]) if rows else moved.shape[-1]
    flat = filled((len(rows) * length,), (x for row in rows for x in row))
    return np.moveaxis(flat.reshape(*moved.shape[:-1], length), -1, axis)


def _mirrored(low: Lowering, row: list[Pair], n: int) -> list[Pair]:
    """The whole spectrum of real numbers from its first half, whose ends that mirror themselves are taken as real."""
    half = [(a, zero(a.type)) if k == 0 or 2 * k == n else (a, b) for k, (a, b) in enumerate(row)]
    return half + [(half[n - k][0], minus(low, zero(half[0][0].type), half[n - k][1])) for k in range(len(half), n)]


def _transformed(low: Lowering, row: list[Pair], sign: int) -> list[Pair]:
    """The sums of x[j] exp(2 pi i sign j k / n): J. Cooley and J. Tukey (1965), by the smallest factor of n."""
    n = len(row)
    if n <= 1:
        return row
    radix = next(p for p in range(2, n + 1) if n % p == 0)
    size = n // radix
    parts = [_transformed(low, row[r::radix], sign) for r in range(radix)]
    found: list[Any] = [None] * n
    for k in range(size):
        turned = [_turned(low, parts[r][k], sign * r * k, n) for r in range(radix)]
        for m in range(radix):
            total = turned[0]
            for r in range(1, radix):
                a, b = _turned(low, turned[r], sign * r * m, radix)
                total = plus(low, total[0], a), plus(low, total[1], b)
            found[k + m * size] = total
    return found


def _turned(low: Lowering, pair: Pair, k: int, n: int) -> Pair:
    """A complex number times exp(2 pi i k / n), without products where that is 1, i, -1 or -i."""
    (a, b), k = pair, k % n
    none = zero(a.type)
    if 4 * k % n == 0:
        for _ in range(4 * k // n):
            a, b = minus(low, none, b), a
        return a, b
    c, s = (low.number(a.type, f(2.0 * math.pi * k / n)) for f in (math.cos, math.sin))
    real = minus(low, times(low, a, c), times(low, b, s))
    return real, plus(low, times(low, a, s), times(low, b, c))
