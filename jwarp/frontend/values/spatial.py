"""Quaternions, transforms and spatial vectors in kernels: what they are made of, and their products."""

from __future__ import annotations

from collections.abc import Sequence

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.values.bindings import Binding, Composite, describe
from jwarp.frontend.values.composites import Emitter, check_alike, from_components, total
from jwarp.ir.nodes import Const, Operand
from jwarp.types import TRANSFORM, CompositeType, ScalarType, composite, vector

# -- construction


def vector_of(e: Emitter, type: CompositeType, args: Sequence[Binding], span: Span) -> Composite:
    """As `from_components`; a spatial vector also of two vectors of three floats, whose type of components it has."""
    if type.shape == (6,) and len(args) == 2 and all(_is_vector_of_3(a) for a in args):
        w, v = args
        assert isinstance(w, Composite) and isinstance(v, Composite)
        if w.type is not v.type:
            raise KernelTypeError(f"{type} needs vectors of one type, got ({w.type}, {v.type})", span)
        return Composite(vector(6, w.type.dtype), (*w.items, *v.items))
    return from_components(e, type, args, span)


def quaternion_of(e: Emitter, type: CompositeType, args: Sequence[Binding], span: Span) -> Composite:
    """As `from_components`; also of the vector x, y, z and the number w."""
    if len(args) == 2 and _is_vector_of_3(args[0]):
        assert isinstance(args[0], Composite)
        return from_components(e, type, (*args[0].items, args[1]), span)
    return from_components(e, type, args, span)


def transform_of(e: Emitter, type: CompositeType, args: Sequence[Binding], span: Span) -> Composite:
    """As `from_components`; also of a position and a quaternion, which is the identity where it is left out."""
    position, rotation = parts = part_types(type)
    given = [a for a in args if isinstance(a, Composite) and a.type.kind is not TRANSFORM]
    if not given:
        return from_components(e, type, args, span)
    if len(given) != len(args) or tuple(a.type for a in given) not in (parts, (position,)):
        shown = ", ".join(map(describe, args))
        raise KernelTypeError(f"{type} is made of ({position}, {rotation}), not of ({shown})", span)
    items = [x for part in given for x in part.items]
    return Composite(type, (*items, *identity(type).items[len(items) :]))


def part_types(type: CompositeType) -> tuple[CompositeType, ...]:
    """The types of the parts of a type of transforms: position and rotation."""
    return tuple(composite(part.kind, (part.extent,), type.dtype) for _, part in type.kind.parts)


def identity(type: CompositeType) -> Composite:
    """The quaternion or transform that turns and moves nothing: its last component is 1, the others are 0."""
    numbers = (float(k == type.size - 1) for k in range(type.size))
    return Composite(type, tuple(Const(type.dtype, x) for x in numbers))


def _is_vector_of_3(value: Binding) -> bool:
    return isinstance(value, Composite) and value.type.is_vector and value.type.shape == (3,)


def parts_of(transform: Composite) -> tuple[Composite, Composite]:
    """The position and the rotation."""
    p, q = part_types(transform.type)
    return Composite(p, transform.items[:3]), Composite(q, transform.items[3:])


# -- products

# Of a product of quaternions x, y, z, w, each component as a sum of products: their sign, and which components.
_HAMILTON = (
    ((1, 3, 0), (1, 0, 3), (1, 1, 2), (-1, 2, 1)),
    ((1, 3, 1), (1, 1, 3), (1, 2, 0), (-1, 0, 2)),
    ((1, 3, 2), (1, 2, 3), (1, 0, 1), (-1, 1, 0)),
    ((1, 3, 3), (-1, 0, 0), (-1, 1, 1), (-1, 2, 2)),
)


def hamilton(e: Emitter, symbol: str, name: str, x: Composite, y: Composite, span: Span) -> Composite:
    """The product of quaternions."""
    check_alike(symbol, (x, y), span)

    def entry(terms: Sequence[tuple[int, int, int]]) -> Operand:
        result: Operand | None = None
        for sign, i, j in terms:
            term = e.emit("mul", x.items[i], y.items[j], span=span)
            result = term if result is None else e.emit("add" if sign > 0 else "sub", result, term, span=span)
        assert result is not None
        return result

    return Composite(x.type, tuple(map(entry, _HAMILTON)))


def rotated(e: Emitter, q: Composite, v: Composite, span: Span) -> Composite:
    """v turned by a quaternion u, w: (2 w^2 - 1) v + 2 (u . v) u + 2 w u x v, for |q| = 1 the vector of q v q^-1."""

    def do(name: str, a: Operand, b: Operand) -> Operand:
        return e.emit(name, a, b, span=span)

    *u, w = q.items
    kind: ScalarType = q.type.dtype
    two, one = Const(kind, 2.0), Const(kind, 1.0)
    double = do("mul", two, w)
    along = do("mul", two, total(e, [do("mul", a, b) for a, b in zip(u, v.items, strict=True)], span))
    kept = do("sub", do("mul", double, w), one)

    def entry(k: int) -> Operand:
        i, j = (k + 1) % 3, (k + 2) % 3
        across = do("sub", do("mul", u[i], v.items[j]), do("mul", u[j], v.items[i]))
        terms = do("mul", v.items[k], kept), do("mul", u[k], along), do("mul", across, double)
        return total(e, terms, span)

    return Composite(v.type, tuple(map(entry, range(3))))


def chained(e: Emitter, symbol: str, name: str, a: Composite, b: Composite, span: Span) -> Composite:
    """The product of transforms: b first, then a."""
    check_alike(symbol, (a, b), span)
    (p, q), (other, r) = parts_of(a), parts_of(b)
    moved = rotated(e, q, other, span).items
    position = [e.emit("add", x, y, span=span) for x, y in zip(moved, p.items, strict=True)]
    return Composite(a.type, (*position, *hamilton(e, symbol, name, q, r, span).items))
