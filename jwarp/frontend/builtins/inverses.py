"""Determinants and inverses of small matrices, by cofactors."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jwarp.errors import Span
from jwarp.frontend.values.bindings import Composite
from jwarp.frontend.values.composites import Emitter, total
from jwarp.ir.builder import zero
from jwarp.ir.nodes import Const, Operand

# A determinant of n rows is expanded into n! products.
MAX_EXPANDED = 4


def determinant(e: Emitter, rows: Sequence[Sequence[Operand]], span: Span) -> Operand:
    """Laplace's expansion along the first row."""
    if len(rows) == 1:
        return rows[0][0]
    result: Operand | None = None
    for k, factor in enumerate(rows[0]):
        term = e.emit("mul", factor, determinant(e, _without(rows, 0, k), span), span=span)
        result = term if result is None else e.emit("sub" if k % 2 else "add", result, term, span=span)
    assert result is not None
    return result


def _without(rows: Sequence[Sequence[Operand]], row: int, column: int) -> list[list[Operand]]:
    return [[x for j, x in enumerate(r) if j != column] for i, r in enumerate(rows) if i != row]


def inverse(e: Emitter, m: Composite, span: Span) -> Composite:
    """The adjugate over the determinant; zero where the determinant is zero.

    Derivatives are those of s inv(s m), for the constant s that makes the largest element one. Those of the adjugate of
    m itself, with 1 / det**2, leave the range of floats long before the inverse does.
    """
    det, y = _by_cofactors(e, m, span)
    scale = _unit_scale(e, m, span)
    _, of_scaled = _by_cofactors(e, _times(e, m, scale, span), span)
    singular = e.emit("eq", det, zero(det.type), span=span)
    moving = _times(e, of_scaled, e.emit("select", singular, zero(det.type), scale, span=span), span)
    items = (e.emit("follow", value, other, span=span) for value, other in zip(y.items, moving.items, strict=True))
    return Composite(m.type, tuple(items))


def _by_cofactors(e: Emitter, m: Composite, span: Span) -> tuple[Operand, Composite]:
    """The determinant, and the adjugate over it."""
    n, one = m.type.shape[0], Const(m.type.dtype, 1.0)
    cofactors = []
    for i in range(n):
        for j in range(n):
            minor = determinant(e, _without(m.rows, i, j), span) if n > 1 else one
            cofactors.append(e.emit("neg", minor, span=span) if (i + j) % 2 else minor)
    first = [e.emit("mul", m.items[k], cofactors[k], span=span) for k in range(n)]
    det = total(e, first, span)
    singular = e.emit("eq", det, zero(det.type), span=span)

    scale = e.emit("div", one, e.emit("select", singular, one, det, span=span), span=span)
    scale = e.emit("select", singular, zero(det.type), scale, span=span)
    items = tuple(e.emit("mul", cofactors[j * n + i], scale, span=span) for i in range(n) for j in range(n))
    return det, Composite(m.type, items)


def _unit_scale(e: Emitter, m: Composite, span: Span) -> Operand:
    """The inverse of the largest size of an element, as a constant; one for zeros."""
    largest = functools.reduce(
        lambda a, b: e.emit("max", a, b, span=span), [e.emit("abs", x, span=span) for x in m.items]
    )
    is_zero, one = e.emit("eq", largest, zero(largest.type), span=span), Const(m.type.dtype, 1.0)
    scale = e.emit("div", one, e.emit("select", is_zero, one, largest, span=span), span=span)
    return e.emit("follow", scale, zero(scale.type), span=span)


def _times(e: Emitter, m: Composite, factor: Operand, span: Span) -> Composite:
    return Composite(m.type, tuple(e.emit("mul", x, factor, span=span) for x in m.items))
