"""Linear forms: what a derivative rule of JAX makes of tangents that are not numbers yet, one for each input.

A rule is read once with such forms as its tangents. What it gives are the coefficients, which are derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import ScalarType


class NotLinear(Exception):
    """A rule does something with a tangent that is not linear, or that is not known to be."""


class Unknown(NotLinear):
    """A tangent is used in a way that may be linear and is not understood, as in a loop."""


@dataclass(frozen=True, eq=False)
class Form:
    """The sum of the tangents by number, each times its coefficient."""

    type: ScalarType
    terms: dict[int, Operand]


Scalar = Operand | Form


def as_form(x: Scalar) -> Form:
    """The form that `x` is: a constant zero is one without terms."""
    if isinstance(x, Form):
        return x
    if isinstance(x, Const) and x.type.is_float and x.value == 0.0:
        return Form(x.type, {})
    raise NotLinear


def coefficients(forms: list[Form]) -> list[int]:
    """The numbers of the tangents that some of the forms have."""
    return sorted({k for form in forms for k in form.terms})


def _plain(x: Scalar) -> Operand:
    if isinstance(x, Form):
        raise NotLinear
    return x


def _sum(build: Builder, args: tuple[Scalar, ...], type: ScalarType) -> Scalar:
    x, y = map(as_form, args)
    terms = dict(x.terms)
    for k, c in y.terms.items():
        terms[k] = build.op("add", terms[k], c) if k in terms else c
    return Form(type, terms)


def _difference(build: Builder, args: tuple[Scalar, ...], type: ScalarType) -> Scalar:
    return _sum(build, (args[0], _each("neg")(build, (as_form(args[1]),), type)), type)


def _each(name: str) -> Callable[[Builder, tuple[Scalar, ...], ScalarType], Scalar]:
    """The rule that applies an operation to each coefficient; the other operands are numbers."""

    def rule(build: Builder, args: tuple[Scalar, ...], type: ScalarType) -> Scalar:
        rest = tuple(map(_plain, args[1:]))
        return Form(type, {k: build.op(name, c, *rest, type=type) for k, c in as_form(args[0]).terms.items()})

    return rule


def _product(build: Builder, args: tuple[Scalar, ...], type: ScalarType) -> Scalar:
    x, y = args if isinstance(args[0], Form) else args[::-1]
    return _each("mul")(build, (x, y), type)


def _followed(build: Builder, args: tuple[Scalar, ...], type: ScalarType) -> Scalar:
    x, y, none = as_form(args[0]), as_form(args[1]), zero(type)
    return Form(type, {k: build.op("follow", x.terms.get(k, none), y.terms.get(k, none)) for k in coefficients([x, y])})


def _selected(build: Builder, args: tuple[Scalar, ...], type: ScalarType) -> Scalar:
    condition, x, y = _plain(args[0]), as_form(args[1]), as_form(args[2])
    none = zero(type)
    return Form(
        type,
        {k: build.op("select", condition, x.terms.get(k, none), y.terms.get(k, none)) for k in coefficients([x, y])},
    )


def _converted(build: Builder, args: tuple[Scalar, ...], type: ScalarType) -> Scalar:
    if not type.is_float:
        raise NotLinear
    return _each("cast")(build, args, type)


# The rules of operations of the IR on forms. Those without a row are not linear.
_LINEAR: dict[str, Callable[[Builder, tuple[Scalar, ...], ScalarType], Scalar]] = {
    "add": _sum,
    "sub": _difference,
    "neg": _each("neg"),
    "mul": _product,
    "div": _each("div"),
    "select": _selected,
    "cast": _converted,
    "follow": _followed,
    "slope": lambda build, args, type: args[0],
}


def linear_op(build: Builder, name: str, args: tuple[Scalar, ...], type: ScalarType | None) -> Scalar:
    """An operation of the IR on operands of which some are forms.

    Raises:
        NotLinear: it is not linear in these.
    """
    rule = _LINEAR.get(name)
    if rule is None:
        raise NotLinear
    of = args[-1].type if type is None else type
    assert isinstance(of, ScalarType)
    return rule(build, args, of)
