"""Tables of composites: the constructor of each kind, and the rule of each operator by the kinds of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.values.bindings import Binding, Composite, describe
from jwarp.frontend.values.composites import (
    Emitter,
    each,
    elementwise,
    from_components,
    pairwise,
    product,
    same,
    scaled,
)
from jwarp.frontend.values.spatial import chained, hamilton, quaternion_of, transform_of, vector_of
from jwarp.ir.nodes import Operand
from jwarp.types import MATRIX, QUATERNION, TRANSFORM, VECTOR, CompositeKind, CompositeType

Constructor = Callable[[Emitter, CompositeType, Sequence[Binding], Span], Composite]
CONSTRUCTORS: dict[CompositeKind, Constructor] = {
    VECTOR: vector_of,
    MATRIX: from_components,
    QUATERNION: quaternion_of,
    TRANSFORM: transform_of,
}

UNARY = ("neg", "not")
ELEMENTWISE = ("add", "sub", "mod", "and", "or", "xor", "shl", "shr")

# By the operation and what stands on either side, where None is a number, or nothing at the right of an operation of
# one value. A rule takes the emitter, the operator as it is written, the operation, both sides, and where they stand.
Rule = Callable[[Emitter, str, str, Any, Any, Span], Any]
Rows = dict[tuple[str, CompositeKind | None, CompositeKind | None], Rule]


def linear(kind: CompositeKind) -> Rows:
    """The rows of all kinds: sums, unary minus, products with numbers, and equality."""
    scaling = {("mul", kind, None): scaled, ("mul", None, kind): scaled, ("div", kind, None): scaled}
    sums: Rows = {("add", kind, kind): pairwise, ("sub", kind, kind): pairwise, ("neg", kind, None): each}
    return {**sums, ("eq", kind, kind): same, **scaling}


# A kind that is added gets `**linear(KIND)`, and a row for each operator that it has besides.
OPERATORS: Rows = {
    **linear(VECTOR),
    **linear(MATRIX),
    **linear(QUATERNION),
    **linear(TRANSFORM),
    ("mul", QUATERNION, QUATERNION): hamilton,
    ("div", None, QUATERNION): scaled,
    ("mul", TRANSFORM, TRANSFORM): chained,
    **{("not", kind, None): each for kind in (VECTOR, MATRIX)},
    **{(name, kind, kind): pairwise for name in ELEMENTWISE for kind in (VECTOR, MATRIX)},
    **{("div", None, kind): scaled for kind in (VECTOR, MATRIX)},
    **{(name, MATRIX, kind): product for name in ("mul", "matmul") for kind in (VECTOR, MATRIX)},
    **{(name, VECTOR, MATRIX): product for name in ("mul", "matmul")},
}


def operator(name: str, x: Binding, y: Binding | None) -> Rule | None:
    """The rule of an operation, of whose one or two values at least one is composite; None if there is none."""
    left, right = (side.type.kind if isinstance(side, Composite) else None for side in (x, y))
    return OPERATORS.get((name, left, right))


def by_component(name: str, kind: CompositeKind) -> bool:
    """True if the operation acts on each component by itself, as atomic operations do."""
    return any(OPERATORS.get((name, kind, other)) in (each, pairwise) for other in (None, kind))


def construct(e: Emitter, type: CompositeType, args: Sequence[Binding], span: Span) -> Composite:
    """`type(…)` of any kind."""
    return CONSTRUCTORS[type.kind](e, type, args, span)


def unary(e: Emitter, symbol: str, name: str, x: Composite, span: Span) -> Binding:
    """A unary operator on a vector, a matrix or another composite."""
    rule = operator(name, x, None)
    if rule is None:
        raise KernelTypeError(f"`{symbol}` does not take {describe(x)}", span)
    return rule(e, symbol, name, x, None, span)


def negated(e: Emitter, value: Binding, span: Span) -> Binding:
    """`-value` of each component of a scalar or a composite: to add it is to subtract, where that is by components."""
    if isinstance(value, Composite):
        return elementwise(e, "neg", (value,), span)
    return e.emit("neg", e.scalar(value, span), span=span)


def binary(e: Emitter, symbol: str, name: str, x: Binding, y: Binding, span: Span) -> Binding:
    """A binary operator of which at least one side is a vector or matrix."""
    rule = operator(name, x, y)
    if rule is None:
        left, right = (side.type.kind if isinstance(side, Composite) else None for side in (x, y))
        hint = _BETWEEN_TWO.get(name, "") if {left, right} <= {VECTOR, MATRIX} else ""
        if not (left and right):
            composite = x if left else y
            hint = _WITH_A_NUMBER if operator(name, composite, composite) else _BY_COMPONENTS
        hint = _INSTEAD.get((name, left, right), hint)
        raise KernelTypeError(f"`{symbol}` does not take ({describe(x)}, {describe(y)})", span, hint)
    return rule(e, symbol, name, x, y, span)


# Ways out for operators that do not exist.
_WITH_A_NUMBER = "both sides must be vectors or matrices: wp.vec3(1.0) repeats a number"
_BY_COMPONENTS = "apply it to each component"
_BETWEEN_TWO = {
    "mul": "wp.cw_mul multiplies component by component, wp.dot sums",
    "div": "wp.cw_div divides each",
    "matmul": "wp.dot is the product of two vectors",
}
_INSTEAD: dict[tuple[str, CompositeKind | None, CompositeKind | None], str] = {
    ("mul", QUATERNION, VECTOR): "wp.quat_rotate(q, v) turns a vector",
    ("mul", TRANSFORM, VECTOR): "wp.transform_point(t, p) and wp.transform_vector(t, v) take vectors",
}


def equal(e: Emitter, symbol: str, x: Binding, y: Binding, span: Span) -> Operand:
    """The truth value that all components are equal, which `==` is and `!=` negates."""
    rule = operator("eq", x, y)
    if rule is None or symbol not in ("==", "!="):
        given = f"({describe(x)}, {describe(y)})"
        raise KernelTypeError(f"`{symbol}` does not take {given}", span, "compare the components: u[0] < v[0]")
    return rule(e, symbol, "eq", x, y, span)
