"""Formulas in jax.numpy for primitives that XLA computes by itself: gamma, zeta, inverse functions, factors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jwarp.bind import compat

# Lanczos' approximation of the gamma function with g = 7 and nine terms: C. Lanczos, "A precision approximation of the
# gamma function", SIAM J. Numer. Anal. B 1 (1964); the coefficients are those of P. Godfrey.
_G = 7.0
_FIRST = 0.99999999999980993
_LANCZOS = (
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
# Of the Euler-Maclaurin formula: (2k)! / B_2k, with the Bernoulli numbers B.
_BERNOULLI = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
    -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
    -7.1661652561756670113e18,
)  # fmt: skip


def _series(z: Any) -> tuple[Any, Any]:
    """The sum of Lanczos' approximation at z + 1, and its derivative."""
    total, slope = jnp.full_like(z, _FIRST), jnp.zeros_like(z)
    for k, c in enumerate(_LANCZOS):
        d = z + (k + 1)
        total, slope = total + c / d, slope - c / (d * d)
    return total, slope


def lgamma(x: Any) -> Any:
    """The logarithm of |gamma(x)|; below 1/2 by Euler's reflection formula."""
    below = x < 0.5
    z = jnp.where(below, -x, x - 1)
    total, _ = _series(z)
    t = z + (_G + 0.5)
    log_t = math.log(_G + 0.5) + jnp.log1p(z / (_G + 0.5))
    value = (z + 0.5 - t / log_t) * log_t + (0.5 * math.log(2 * math.pi) + jnp.log(total))
    size = jnp.abs(x)
    part = size - jnp.floor(size)
    part = jnp.where(part > 0.5, 1 - part, part)
    sine = jnp.log(jnp.sin(math.pi * part))
    reflected = jnp.where(jnp.isfinite(sine), math.log(math.pi) - sine - value, -sine)
    return jnp.where(jnp.isinf(x), jnp.inf, jnp.where(below, reflected, value))


def digamma(x: Any) -> Any:
    """The derivative of the logarithm of gamma; NaN at 0, -1, -2…"""
    below = x < 0.5
    z = jnp.where(below, -x, x - 1)
    total, slope = _series(z)
    t = z + (_G + 0.5)
    value = math.log(_G + 0.5) + jnp.log1p(z / (_G + 0.5)) + slope / total - _G / t
    part = x + jnp.abs(jnp.floor(x + 0.5))
    angle = math.pi * part
    reflected = value - math.pi * jnp.cos(angle) / jnp.sin(angle)
    return jnp.where((x <= 0) & (x == jnp.floor(x)), jnp.nan, jnp.where(below, reflected, value))


def zeta(x: Any, q: Any) -> Any:
    """The zeta function of Hurwitz, the sum of (q + n)^-x, by the formula of Euler and Maclaurin after ten terms."""
    one = jnp.ones_like(x)
    total, a = jnp.zeros_like(x), q
    for _ in range(10):
        total, a = total + jnp.power(a, -x), a + 1
    power = jnp.power(a, -x)
    total = total + power * a / (x - 1) + 0.5 * power
    factor, rising = x, power / a
    for k, c in enumerate(_BERNOULLI):
        total = total + factor * rising / c
        factor = factor * (x + (2 * k + 1)) * (x + (2 * k + 2))
        rising = rising / (a * a)
    poles = (q <= 0) & (q == jnp.floor(q))
    even = (x == jnp.floor(x)) & (jnp.floor(x / 2) * 2 == x)
    total = jnp.where(poles, jnp.where(even, jnp.inf, jnp.nan), total)
    return jnp.where(x < one, jnp.nan, jnp.where(x == one, jnp.inf, total))


def polygamma(n: Any, x: Any) -> Any:
    """Derivative number `n` of digamma, a whole number as a float."""
    sign = jnp.where(jnp.floor(n / 2) * 2 == n, -1.0, 1.0)
    found = sign.astype(x.dtype) * jnp.exp(jax.lax.lgamma(n + 1)) * jax.lax.zeta(n + 1, x)
    found = jnp.where(n == 0, jax.lax.digamma(x), found)
    return jnp.where((n < 0) | (n != jnp.floor(n)), jnp.nan, found)


def bessel_i1e(x: Any) -> Any:
    """The modified Bessel function I1 times exp(-|x|): from its series, and for large |x| as a derivative of I0's."""
    size = jnp.abs(x)
    near = jnp.where(size < 2, size, 0)
    quarter = near * near / 4
    term = total = near / 2
    for k in range(1, 14):
        term = term * quarter / (k * (k + 1))
        total = total + term
    value, slope = jax.jvp(compat.computed_in_python("bessel_i0e"), (size,), (jnp.ones_like(size),))
    return jnp.copysign(jnp.where(size < 2, total * jnp.exp(-near), slope + value), x)


def asinh(x: Any) -> Any:
    """The inverse of sinh, from |x| by log1p so that small numbers keep their digits."""
    size = jnp.abs(x)
    large = size > 1 / math.sqrt(jnp.finfo(x.dtype).eps)
    small = jnp.where(large, 1, size)
    square = small * small
    value = jnp.where(large, jnp.log(size) + math.log(2), jnp.log1p(small + square / (1 + jnp.sqrt(1 + square))))
    return jnp.copysign(value, x)


def acosh(x: Any) -> Any:
    """The inverse of cosh on 1 and above, NaN below."""
    large = x > 1 / math.sqrt(jnp.finfo(x.dtype).eps)
    less = jnp.where(large, 1, x) - 1
    value = jnp.where(large, jnp.log(x) + math.log(2), jnp.log1p(less + jnp.sqrt(less * (less + 2))))
    return jnp.where(x < 1, jnp.nan, value)


def atanh(x: Any) -> Any:
    """The inverse of tanh on -1 to 1, NaN outside."""
    return 0.5 * (jnp.log1p(x) - jnp.log1p(-x))


# -- factors of small matrices


def cholesky(a: Any, **_: Any) -> Any:
    """The lower triangular L of L @ L.T == a, column by column; reads the lower triangle."""
    n = a.shape[-1]
    rows: list[list[Any]] = [[jnp.zeros_like(a[..., 0, 0])] * n for _ in range(n)]
    for j in range(n):
        rest = a[..., j, j]
        for k in range(j):
            rest = rest - rows[j][k] * rows[j][k]
        rows[j][j] = jnp.sqrt(rest)
        for i in range(j + 1, n):
            rest = a[..., i, j]
            for k in range(j):
                rest = rest - rows[i][k] * rows[j][k]
            rows[i][j] = rest / rows[j][j]
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


def triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Any:
    """The x of a @ x == b, or x @ a == b, by substitution; `a` may stand for its transpose."""
    if transpose_a:
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    if not left_side:
        a, b, lower = jnp.swapaxes(a, -1, -2), jnp.swapaxes(b, -1, -2), not lower
    n = a.shape[-1]
    x: list[Any] = [None] * n
    order = range(n) if lower else range(n)[::-1]
    for done, i in enumerate(order):
        rest = b[..., i, :]
        for j in list(order)[:done]:
            rest = rest - a[..., i, j, None] * x[j]
        x[i] = rest if unit_diagonal else rest / a[..., i, i, None]
    found = jnp.stack(x, -2)
    return found if left_side else jnp.swapaxes(found, -1, -2)


def lu(a: Any, **_: Any) -> Any:
    """The factors of a matrix whose rows are exchanged: (both in one, the exchanges, the order of the rows)."""
    m, n = a.shape[-2:]
    order = jnp.broadcast_to(jnp.arange(m, dtype=jnp.int32), a.shape[:-1])
    pivots = []
    for k in range(min(m, n)):
        size = jnp.abs(a[..., k:, k])
        p = jnp.argmax(size, -1).astype(jnp.int32) + k
        pivots.append(p)
        places = jnp.arange(m, dtype=jnp.int32)
        chosen = jnp.where(places == k, p[..., None], jnp.where(places == p[..., None], k, places))
        a = jnp.take_along_axis(a, chosen[..., None], -2)
        order = jnp.take_along_axis(order, chosen, -1)
        pivot = a[..., k, k]
        factors = a[..., k + 1 :, k] / jnp.where(pivot == 0, 1, pivot)[..., None]
        below = a[..., k + 1 :, k + 1 :] - factors[..., :, None] * a[..., None, k, k + 1 :]
        low = jnp.concatenate([a[..., k + 1 :, :k], factors[..., :, None], below], -1)
        a = jnp.concatenate([a[..., : k + 1, :], low], -2)
    return a, jnp.stack(pivots, -1), order


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lgamma": lgamma,
    "digamma": digamma,
    "zeta": zeta,
    "polygamma": polygamma,
    "bessel_i1e": bessel_i1e,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
    "lu": lu,
}
