"""The inverse of small matrices: scaled by a power of two, with the derivative that its value gives."""

from __future__ import annotations

import ml_dtypes

from jwarp.errors import Span
from jwarp.frontend.builtins.table import define
from jwarp.frontend.builtins.vector import MAX_EXPANDED, expanded_determinant, square_matrix, without
from jwarp.frontend.context import Context
from jwarp.frontend.values.bindings import Binding, Composite
from jwarp.frontend.values.composites import Emitter, elementwise, total
from jwarp.frontend.values.operator_table import binary
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import Const, If, Operand, Value
from jwarp.types import SCALARS


def _inverse_rule(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Composite:
    """The value of the cofactors, with the derivative -X dA X of it.

    That of the cofactors has products of more factors, which leave the range of the type where these two do not. It is
    that of further orders: they are taken of X as it was calculated.
    """
    m = square_matrix("inverse", args, span, MAX_EXPANDED)
    value = _value(ctx, m, span)
    none = Composite(m.type, (zero(m.type.dtype),) * len(m.items))
    constant = elementwise(ctx, "replayed", (elementwise(ctx, "follow", (value, none), span), value), span)
    product = binary(ctx, "@", "matmul", constant, binary(ctx, "@", "matmul", m, constant, span), span)
    assert isinstance(product, Composite)
    moved = elementwise(ctx, "neg", (product,), span)
    return elementwise(ctx, "replayed", (elementwise(ctx, "follow", (value, moved), span), value), span)


def _value(ctx: Context, m: Composite, span: Span) -> Composite:
    """The inverse; where the determinant is tiny or huge, that of a matrix of ordinary size, scaled back."""
    plain, det = _by_cofactors(ctx, m, span)
    if len(m.items) == 1:
        return plain
    kind = m.type.dtype
    limit = 2.0 ** (int(ml_dtypes.finfo(kind.dtype).maxexp) // 2)
    size = ctx.emit("abs", det, span=span)
    small, large = Const(kind, 1 / limit), Const(kind, limit)
    is_plain = ctx.emit(
        "and", ctx.emit("ge", size, small, span=span), ctx.emit("le", size, large, span=span), span=span
    )  # fmt: skip
    if isinstance(is_plain, Const) and is_plain.value:
        return plain
    with ctx.builder.block() as nodes:
        scale = _scale(ctx, m, span)
        scaled, _ = _by_cofactors(ctx, _times(ctx, m, scale, span), span)
        scaled = _times(ctx, scaled, scale, span)
    if isinstance(is_plain, Const):
        ctx.builder.extend(nodes)
        return scaled
    results = tuple(Value(kind) for _ in m.items)
    ctx.builder.append(If(is_plain, make_block([], plain.items), make_block(nodes, scaled.items), results, span))
    return Composite(m.type, results)


def _times(e: Emitter, m: Composite, factor: Operand, span: Span) -> Composite:
    return Composite(m.type, tuple(e.emit("mul", x, factor, span=span) for x in m.items))


def _by_cofactors(e: Emitter, m: Composite, span: Span) -> tuple[Composite, Operand]:
    """The adjugate over the determinant, zero where the determinant is zero; and the determinant."""
    n, one = m.type.shape[0], Const(m.type.dtype, 1.0)
    cofactors = []
    for i in range(n):
        for j in range(n):
            minor = expanded_determinant(e, without(m.rows, i, j), span) if n > 1 else one
            cofactors.append(e.emit("neg", minor, span=span) if (i + j) % 2 else minor)
    first = [e.emit("mul", m.items[k], cofactors[k], span=span) for k in range(n)]
    det = total(e, first, span)
    singular = e.emit("eq", det, zero(det.type), span=span)
    share = e.emit("div", one, e.emit("select", singular, one, det, span=span), span=span)
    share = e.emit("select", singular, zero(det.type), share, span=span)
    items = tuple(e.emit("mul", cofactors[j * n + i], share, span=span) for i in range(n) for j in range(n))
    return Composite(m.type, items), det


def _scale(e: Emitter, m: Composite, span: Span) -> Operand:
    """The power of two that brings the greatest entry to between 1 and 2, so that products stay in range.

    It changes no digit. Of entries that are subnormal, or so large that it would be, it is the nearest one that is not.
    """
    kind = m.type.dtype
    bits = SCALARS[f"int{kind.bits}"]
    digits = ml_dtypes.finfo(kind.dtype).nmant
    fields = (1 << (kind.bits - 1 - digits)) - 1  # exponents and, above them, the field of infinity

    def do(name: str, x: Operand, y: int | Operand) -> Operand:
        return e.emit(name, x, Const(bits, y) if isinstance(y, int) else y, span=span)

    def magnitude(x: Operand) -> Operand:  # as an integer: floats without a sign have the order of their bits
        constant = e.emit("follow", x, zero(kind), span=span)
        return do("and", e.emit("bitcast", constant, type=bits, span=span), (1 << (kind.bits - 1)) - 1)

    most = magnitude(m.items[0])
    for x in m.items[1:]:
        most = do("max", most, magnitude(x))
    exponent = do("and", most, fields << digits)
    exponent = do("min", do("max", exponent, 1 << digits), (fields - 2) << digits)
    opposite = e.emit("sub", Const(bits, (fields - 1) << digits), exponent, span=span)
    return e.emit("bitcast", opposite, type=kind, span=span)


def _inverses(name: str, doc: str) -> None:
    define(f"{name}(a: AnyMatrix) -> AnyMatrix", doc, _inverse_rule)


_inverses(
    "inverse", "The inverse of a square matrix of floats with at most 4 rows, by cofactors; zero where it is singular."
)
_inverses("inverse_approx", "The same as `inverse`.")
