"""Determinants and inverses of small matrices, by cofactors."""

from __future__ import annotations

from collections.abc import Sequence

from jwarp.errors import Span
from jwarp.frontend.values.bindings import Composite
from jwarp.frontend.values.composites import Emitter, total
from jwarp.frontend.values.operator_table import binary
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
    """The adjugate over the determinant; zero where the determinant is zero."""
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
    return _moving_inverse(e, m, Composite(m.type, items), span)


def _moving_inverse(e: Emitter, m: Composite, y: Composite, span: Span) -> Composite:
    """The inverse y of m with its derivatives of first and second order: dy = -y dm y.

    Those of cofactors over the determinant leave the range of floats long before the inverse does.
    """

    def follow(x: Composite, moving: Sequence[Operand], name: str = "follow") -> Composite:
        pairs = zip(x.items, moving, strict=True)
        return Composite(x.type, tuple(e.emit(name, a, b, span=span) for a, b in pairs))

    def moved(constant: Composite) -> Composite:
        product = binary(e, "@", "matmul", binary(e, "@", "matmul", constant, m, span), constant, span)
        assert isinstance(product, Composite)
        return follow(y, [e.emit("neg", x, span=span) for x in product.items])

    fixed = follow(y, [zero(y.type.dtype)] * len(y.items))
    first = moved(fixed)
    return follow(moved(follow(fixed, first.items, "replayed")), first.items, "replayed")
