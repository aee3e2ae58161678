"""The derivative of every operation: one row each, read by forward and by reverse mode.

A row has one rule for each argument. A rule takes `g` to `g` times the derivative of the result by that
argument; None stands for a derivative that is zero wherever it exists. Where the derivative is infinite or
undefined at one point, and the textbook formula would make NaN of a zero, the rule gives zero there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from jwarp.errors import NotDifferentiableError
from jwarp.ir.attributes import Attribute
from jwarp.ir.builder import Builder, nearest, zero
from jwarp.ir.nodes import Const, Operand
from jwarp.types import ScalarType

A = TypeVar("A")


@dataclass(frozen=True)
class Applied:
    """An operation with its arguments and its result, and a builder for what its derivative needs."""

    builder: Builder
    args: tuple[Operand, ...]
    result: Operand
    name: str = ""
    attr: Attribute | None = None

    def attr_as(self, kind: type[A]) -> A:
        """The attribute, which is of this kind."""
        assert isinstance(self.attr, kind)
        return self.attr

    def do(self, name: str, *args: Operand | float) -> Operand:
        """Build an operation; Python numbers are rounded to the type of the result."""
        operands = (nearest(self.result.type, a) if isinstance(a, (int, float)) else a for a in args)
        return self.builder.op(name, *operands)

    def unless_zero(self, x: Operand, value: Operand) -> Operand:
        """`value`, and zero where `x` is zero."""
        return self.do("select", self.do("eq", x, 0), zero(value.type), value)


Rule = Callable[[Applied, Operand], Operand] | None


def _same(a: Applied, g: Operand) -> Operand:
    return g


def _negated(a: Applied, g: Operand) -> Operand:
    return a.do("neg", g)


def _barred(a: Applied, g: Operand) -> Operand:
    raise NotDifferentiableError(a.attr_as(str), a.builder.span, "take the derivative by another argument")


def _times(k: int) -> Rule:
    return lambda a, g: a.do("mul", g, a.args[k])


def _by_second(a: Applied, g: Operand) -> Operand:
    return a.do("div", g, a.args[1])


def _quotient(a: Applied, g: Operand) -> Operand:
    """By the result first: what the numerator's derivative is may overflow, and the result be zero."""
    return a.do("neg", a.do("div", a.do("mul", g, a.result), a.args[1]))


def _modulus(a: Applied, g: Operand) -> Operand:
    return a.do("neg", a.do("mul", g, a.do("trunc", a.do("div", *a.args))))


@dataclass(frozen=True)
class Chosen:
    """The rule of an argument that is the result where a condition holds, or where it does not hold.

    Everything passes there, and nothing elsewhere.
    """

    condition: Callable[[Applied], Operand]
    holds: bool

    def __call__(self, a: Applied, g: Operand) -> Operand:
        none, condition = zero(g.type), self.condition(a)
        return a.do("select", condition, g, none) if self.holds else a.do("select", condition, none, g)

    def where(self, a: Applied) -> Operand:
        """The condition under which the argument is the result."""
        return self.condition(a) if self.holds else a.do("not", self.condition(a))


def _wins(loses: str) -> tuple[Rule, Rule]:
    """One of two arguments passes everything: a number, if the other is NaN, and at a tie the second.

    `loses` compares the second with the first one, which then is not the result.
    """

    def first_wins(a: Applied) -> Operand:
        x, y = a.args
        return a.do("and", a.do("not", a.do(loses, y, x)), a.do("eq", x, x))

    return Chosen(first_wins, True), Chosen(first_wins, False)


def _power_base(a: Applied, g: Operand) -> Operand:
    x, y = a.args
    return a.unless_zero(y, a.do("mul", g, a.do("mul", y, a.do("pow", x, a.do("sub", y, 1)))))


def _power_exponent(a: Applied, g: Operand) -> Operand:
    x, _ = a.args
    return a.unless_zero(x, a.do("mul", g, a.do("mul", a.result, a.do("log", x))))


def _angle(own: int, other: int, sign: str) -> Rule:
    """d atan2(y, x): the other coordinate over the squared radius, scaled so that nothing overflows."""

    def rule(a: Applied, g: Operand) -> Operand:
        size = a.do("max", a.do("abs", a.args[own]), a.do("abs", a.args[other]))
        u, v = a.do("div", a.args[own], size), a.do("div", a.args[other], size)
        squares = a.do("add", a.do("mul", u, u), a.do("mul", v, v))
        slope = a.do("div", a.do("div", v, squares), size)
        gradient = a.do("mul", g, slope)
        return a.unless_zero(size, a.do("neg", gradient) if sign == "-" else gradient)

    return rule


def _copied_sign(a: Applied, g: Operand) -> Operand:
    signs = (a.do("copysign", Const(g.type, 1.0), x) for x in a.args)
    return a.do("mul", g, a.do("mul", *signs))


def _magnitude(a: Applied, g: Operand) -> Operand:
    x = a.args[0]
    signed = a.do("select", a.do("lt", x, 0), a.do("neg", g), g)
    return a.unless_zero(x, signed)


def _root(a: Applied, g: Operand) -> Operand:
    return a.unless_zero(a.result, a.do("div", g, a.do("mul", a.result, 2)))


def _norm(k: int) -> Rule:
    """One side over the norm, as `wp.normalize` computes it: squares neither overflow nor vanish."""

    def rule(a: Applied, g: Operand) -> Operand:
        positive, one = a.do("gt", a.result, 0), nearest(a.result.type, 1.0)
        inverse = a.do("div", one, a.do("select", positive, a.result, one))
        scale = a.do("select", positive, inverse, a.result)  # zero of zero, NaN of NaN
        return a.do("mul", g, a.do("mul", a.args[k], scale))

    return rule


def _by_divisor(a: Applied, g: Operand) -> Operand:
    return a.do("neg", a.do("mul", a.do("mul", g, a.result), a.args[2]))


def _cube_root(a: Applied, g: Operand) -> Operand:
    return a.unless_zero(a.result, a.do("div", g, a.do("mul", 3, a.do("mul", a.result, a.result))))


def _tangent(a: Applied, g: Operand) -> Operand:
    return a.do("mul", g, a.do("add", a.do("mul", a.result, a.result), 1))


def _inverse_sine(sign: str) -> Rule:
    """1 / sqrt(1 - x^2) inside (-1, 1); outside, where x is clamped, and at the ends zero."""

    def rule(a: Applied, g: Operand) -> Operand:
        x = a.args[0]
        inside = a.do("lt", a.do("abs", x), 1)
        rest = a.do("mul", a.do("sub", 1, x), a.do("add", 1, x))
        slope = a.do("sqrt", a.do("select", inside, rest, Const(g.type, 1.0)))
        gradient = a.do("div", g, slope)
        gradient = a.do("neg", gradient) if sign == "-" else gradient
        return a.do("select", inside, gradient, zero(g.type))

    return rule


def _inverse_tangent(a: Applied, g: Operand) -> Operand:
    x = a.args[0]
    return a.do("div", g, a.do("add", a.do("mul", x, x), 1))


def _over(factor: float) -> Rule:
    return lambda a, g: a.do("div", g, a.do("mul", a.args[0], factor) if factor != 1 else a.args[0])


def _times_function(name: str, sign: str = "") -> Rule:
    def rule(a: Applied, g: Operand) -> Operand:
        product = a.do("mul", g, a.do(name, a.args[0]))
        return a.do("neg", product) if sign == "-" else product

    return rule


def _times_result(a: Applied, g: Operand) -> Operand:
    return a.do("mul", g, a.result)


def _hyperbolic_tangent(a: Applied, g: Operand) -> Operand:
    return a.do("mul", g, a.do("mul", a.do("sub", 1, a.result), a.do("add", 1, a.result)))


def _bell(factor: float) -> Rule:
    """factor * exp(-x^2), the derivative of the error function."""

    def rule(a: Applied, g: Operand) -> Operand:
        x = a.args[0]
        return a.do("mul", g, a.do("mul", factor, a.do("exp", a.do("neg", a.do("mul", x, x)))))

    return rule


def _inverse_bell(factor: float) -> Rule:
    """factor * exp(y^2), where y is the result of an inverse error function."""

    def rule(a: Applied, g: Operand) -> Operand:
        return a.do("mul", g, a.do("mul", factor, a.do("exp", a.do("mul", a.result, a.result))))

    return rule


def _converted(a: Applied, g: Operand) -> Operand:
    type: ScalarType = a.args[0].type if g.type is a.result.type else a.result.type
    return a.builder.op("cast", g, type=type)


_STEEPNESS = 2 / math.sqrt(math.pi)

# Rules by argument. `cast` is the one whose `g` changes its type.
DERIVATIVES: dict[str, tuple[Rule, ...]] = {
    "add": (_same, _same),
    "sub": (_same, _negated),
    "mul": (_times(1), _times(0)),
    "div": (_by_second, _quotient),
    "mod": (_same, _modulus),
    "min": _wins("le"),
    "max": _wins("ge"),
    "pow": (_power_base, _power_exponent),
    "atan2": (_angle(0, 1, "+"), _angle(1, 0, "-")),
    "copysign": (_copied_sign, None),
    "fma": (_times(1), _times(0), _same),
    "neg": (_negated,),
    "abs": (_magnitude,),
    "sqrt": (_root,),
    "sin": (_times_function("cos"),),
    "cos": (_times_function("sin", "-"),),
    "tan": (_tangent,),
    "asin": (_inverse_sine("+"),),
    "acos": (_inverse_sine("-"),),
    "atan": (_inverse_tangent,),
    "exp": (_times_result,),
    "log": (_over(1.0),),
    "log2": (_over(math.log(2)),),
    "log10": (_over(math.log(10)),),
    "sinh": (_times_function("cosh"),),
    "cosh": (_times_function("sinh"),),
    "tanh": (_hyperbolic_tangent,),
    "cbrt": (_cube_root,),
    "erf": (_bell(_STEEPNESS),),
    "erfc": (_bell(-_STEEPNESS),),
    "erfinv": (_inverse_bell(1 / _STEEPNESS),),
    "erfcinv": (_inverse_bell(-1 / _STEEPNESS),),
    "over": (_times(2), _by_divisor, None),
    "select": (None, *(Chosen(lambda a: a.args[0], first) for first in (True, False))),
    "follow": (None, _same),
    "slope": (_same, _times(2), None),
    "barred": (_same, _barred),
    "replayed": (_same, None),
    "symmetric": (_same, None, None),
    "separation": (_same,),
    "cast": (_converted,),
}

# Those of operations of any number of arguments: the rule of the argument at a position.
DERIVATIVES_AT: dict[str, Callable[[int], Rule]] = {"norm": _norm}
