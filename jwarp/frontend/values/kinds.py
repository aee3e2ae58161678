"""What each kind of composite is made of and what operators do with it: the tables, and how they are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jwarp.errors import KernelTypeError, Span
from jwarp.frontend.values.bindings import Binding, Composite, describe
from jwarp.frontend.values.composites import Emitter, from_components, pairwise, product, same, scaled
from jwarp.ir.nodes import Operand
from jwarp.types import CompositeType
from jwarp.types.composites import MATRIX, VECTOR, CompositeKind

Constructor = Callable[[Emitter, CompositeType, Sequence[Binding], Span], Composite]
CONSTRUCTORS: dict[CompositeKind, Constructor] = {VECTOR: from_components, MATRIX: from_components}

ELEMENTWISE = ("add", "sub", "mod", "and", "or", "xor", "shl", "shr")

# By the operation and what stands on either side, where None is a number. A rule takes the emitter, the operator as it
# is written, the operation, both sides, and where they stand.
Rule = Callable[[Emitter, str, str, Any, Any, Span], Any]
Rows = dict[tuple[str, CompositeKind | None, CompositeKind | None], Rule]


def linear(kind: CompositeKind) -> Rows:
    """What all kinds have: sums, products with numbers, and whether two values are equal."""
    scaling = {("mul", kind, None): scaled, ("mul", None, kind): scaled, ("div", kind, None): scaled}
    return {("add", kind, kind): pairwise, ("sub", kind, kind): pairwise, ("eq", kind, kind): same, **scaling}


# A kind that is added gets `**linear(KIND)`, and a row for each operator that it has besides.
OPERATORS: Rows = {
    **linear(VECTOR),
    **linear(MATRIX),
    **{(name, kind, kind): pairwise for name in ELEMENTWISE for kind in (VECTOR, MATRIX)},
    **{("div", None, kind): scaled for kind in (VECTOR, MATRIX)},
    **{(name, MATRIX, kind): product for name in ("mul", "matmul") for kind in (VECTOR, MATRIX)},
    **{(name, VECTOR, MATRIX): product for name in ("mul", "matmul")},
}


def operator(name: str, x: Binding, y: Binding) -> Rule | None:
    """The rule of an operation between two values, at least one of them composite; None if there is none."""
    left, right = (side.type.kind if isinstance(side, Composite) else None for side in (x, y))
    return OPERATORS.get((name, left, right))


def construct(e: Emitter, type: CompositeType, args: Sequence[Binding], span: Span) -> Composite:
    """`type(…)` of any kind."""
    return CONSTRUCTORS[type.kind](e, type, args, span)


def binary(e: Emitter, symbol: str, name: str, x: Binding, y: Binding, span: Span) -> Binding:
    """A binary operator of which at least one side is a vector or matrix."""
    rule = operator(name, x, y)
    if rule is None:
        both = isinstance(x, Composite) and isinstance(y, Composite)
        hint = _BETWEEN_TWO.get(name, "") if both else _WITH_A_NUMBER
        raise KernelTypeError(f"`{symbol}` does not take ({describe(x)}, {describe(y)})", span, hint)
    return rule(e, symbol, name, x, y, span)


# What to do instead of an operator that there is not.
_WITH_A_NUMBER = "both sides must be vectors or matrices: wp.vec3(1.0) repeats a number"
_BETWEEN_TWO = {
    "mul": "wp.cw_mul multiplies component by component, wp.dot sums",
    "div": "wp.cw_div divides each",
    "matmul": "wp.dot is the product of two vectors",
}


def equal(e: Emitter, symbol: str, x: Binding, y: Binding, span: Span) -> Operand:
    """Whether all components are equal, for `==` and `!=`."""
    rule = operator("eq", x, y)
    if rule is None or symbol not in ("==", "!="):
        given = f"({describe(x)}, {describe(y)})"
        raise KernelTypeError(f"`{symbol}` does not take {given}", span, "compare the components: u[0] < v[0]")
    return rule(e, symbol, "eq", x, y, span)
