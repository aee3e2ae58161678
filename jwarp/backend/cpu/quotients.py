"""Integer division of a vector by one number for all lanes: by its reciprocal, which is found once."""

from __future__ import annotations

import struct
from collections.abc import Callable

from jwarp.backend.cpu.code import BODY, Code, Lanes, scalar_type
from jwarp.ir.nodes import Op
from jwarp.types import ScalarType, bool_, float64

# A little more than 1. The quotient of two integers of up to 32 bits is an integer, or farther below the next one than
# this adds: so the product with a reciprocal that is this much larger has the quotient's integer part. It is more than
# what rounding the reciprocal and the product may take away.
ABOVE_ONE = f"0x{struct.unpack('<Q', struct.pack('<d', 1.0 + 2.0**-49))[0]:016X}"

Rule = Callable[["Divided"], str]


class Divided:
    """The quotient of a vector and one number, rounded towards zero; by 0, that by 1."""

    def __init__(self, code: Code, type: ScalarType, dividend: str, divisor: Lanes):
        self.type, self.dividend, self.kind = type, dividend, scalar_type(type)
        signed = type.kind == "int"
        to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        level = divisor.level
        once, self.out = code.instructions(level, False), code.instructions(BODY, True)
        self.is_zero = once.compare("eq", type, divisor.text, "0")
        number = once.convert(to, type, once.select(self.is_zero, type, "1", divisor.text), float64)
        if signed:  # the lowest number has a quotient by 1, and none by -1
            number = once.intrinsic("fabs", float64, (float64, number))
        reciprocal = code.splat(once.binary("fdiv", float64, ABOVE_ONE, number), "double", level)
        wide = self.out.convert(to, type, dividend, float64)
        quotient = self.out.convert(back, float64, self.out.binary("fmul", float64, wide, reciprocal), type)
        if signed:
            sign = once.binary("ashr", type, divisor.text, str(type.bits - 1))
            minus = code.splat(sign, self.kind, level)
            quotient = self.out.binary("sub", type, self.out.binary("xor", type, quotient, minus), minus)
        self.quotient, self.divisor = quotient, code.splat(divisor.text, self.kind, level)
        self.any_zero = code.splat(self.is_zero, "i1", level)

    def constant(self, value: int) -> str:
        return self.out.constant(self.type, value)

    def unless_zero(self, value: int, result: str) -> str:
        """A result, or a number where the divisor is 0."""
        return self.out.select(self.any_zero, self.type, self.constant(value), result)

    @property
    def rest(self) -> str:
        """The remainder; all of the number where the divisor is 0."""
        return self.out.binary(
            "sub", self.type, self.dividend, self.out.binary("mul", self.type, self.quotient, self.divisor)
        )


def _div(d: Divided) -> str:
    return d.unless_zero(-1 if d.type.kind == "int" else d.type.max, d.quotient)


def _mod(d: Divided) -> str:
    return d.rest


def _floordiv(d: Divided) -> str:
    if d.type.kind == "uint":
        return _div(d)
    out, rest, zero = d.out, d.rest, d.constant(0)
    inexact = out.compare("ne", d.type, rest, zero)
    opposite = out.compare("slt", d.type, out.binary("xor", d.type, rest, d.divisor), zero)
    lower = out.binary("sub", d.type, d.quotient, d.constant(1))
    return d.unless_zero(-1, out.select(out.binary("and", bool_, inexact, opposite), d.type, lower, d.quotient))


RULES: dict[str, Rule] = {"div": _div, "mod": _mod, "floordiv": _floordiv}


def divides(node: Op, divisor: Lanes) -> bool:
    """True if an operation on a vector is a division by one number that is not known, of up to 32 bits."""
    type = node.args[0].type
    is_known = not divisor.text.startswith("%")
    return node.name in RULES and divisor.shape.is_uniform and not is_known and not type.is_float and type.bits <= 32


def divided(code: Code, node: Op, dividend: str, divisor: Lanes) -> str:
    """The result of such an operation, a vector."""
    return RULES[node.name](Divided(code, node.args[0].type, dividend, divisor))
