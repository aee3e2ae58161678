"""Primitives on numbers, one at a time; what XLA computes, and the derivatives that JAX gives at kinks and ties."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp.bind.jax_functions.lowering import Lowering, Scalars, primitive, scalar_type
from jwarp.bind.jax_functions.parts import Complex
from jwarp.ir.builder import FALSE, TRUE, zero
from jwarp.ir.nodes import Const
from jwarp.types import SCALARS, ScalarType, bool_, int32

Number = Callable[..., Any]  # takes the lowering and scalars, gives a scalar


# Primitives that are what they are for complex numbers, too: of others, operations would make something else.
_OF_COMPLEX = {
    "add", "add_any", "sub", "mul", "div", "neg", "abs", "exp", "log", "eq", "ne", "square", "copy", "copy_p",
    "stop_gradient", "real", "imag", "complex", "conj",
}  # fmt: skip


def of_numbers(*names: str) -> Callable[[Number], Number]:
    """Make the function below what the primitives of these names do at each place."""

    def entered(rule: Number) -> Number:
        @primitive(*names)
        def each(low: Lowering, equation: Any, *arrays: Scalars) -> Scalars:
            if any(isinstance(x, Complex) for array in arrays for x in array.flat) and not _OF_COMPLEX.issuperset(
                names
            ):
                raise low.error(
                    f"`{equation.primitive.name}` of complex numbers", "take their parts, z.real and z.imag"
                )
            return low.each(lambda *x: rule(low, *x), *arrays)

        return rule

    return entered


# The meaning of arithmetic on bools.
_BOOL = {"add": "or", "add_any": "or", "mul": "and", "max": "or", "min": "and"}


def _is(operation: str) -> Number:
    """A primitive that is an operation of the IR, also in what its derivative is."""

    def rule(low: Lowering, *x: Any) -> Any:
        return low.op(_BOOL.get(operation, operation) if x[0].type is bool_ else operation, *x)

    return rule


def _compares(operation: str) -> Number:
    def rule(low: Lowering, x: Any, y: Any) -> Any:
        if x.type is bool_:
            x, y = low.cast(x, int32), low.cast(y, int32)
        return low.op(operation, x, y)

    return rule


for _name, _rule in {
    "add": _is("add"), "add_any": _is("add"), "sub": _is("sub"), "mul": _is("mul"), "div": _is("div"),
    "rem": _is("mod"), "floor": _is("floor"), "ceil": _is("ceil"), "exp": _is("exp"), "log": _is("log"),
    "sin": _is("sin"), "cos": _is("cos"), "tan": _is("tan"), "atan": _is("atan"), "atan2": _is("atan2"),
    "sinh": _is("sinh"), "cosh": _is("cosh"), "tanh": _is("tanh"), "sqrt": _is("sqrt"), "cbrt": _is("cbrt"),
    "erf": _is("erf"), "erfc": _is("erfc"), "erf_inv": _is("erfinv"), "and": _is("and"), "or": _is("or"),
    "xor": _is("xor"), "not": _is("not"), "shift_left": _is("shl"),
    "eq": _compares("eq"), "ne": _compares("ne"), "lt": _compares("lt"), "le": _compares("le"),
    "gt": _compares("gt"), "ge": _compares("ge"),
}.items():  # fmt: skip
    of_numbers(_name)(_rule)


def ordered(low: Lowering, x: Any) -> Any:
    """An integer by which floats are in their total order: -NaN, -inf … -0, 0 … inf, NaN."""
    if not x.type.is_float:
        return low.cast(x, int32) if x.type is bool_ else x
    number = bits_of(x, low, "int")
    flipped = low.op("xor", number, Const(number.type, number.type.max))
    return low.where(low.op("lt", number, zero(number.type)), flipped, number)


@of_numbers("lt_to")
def _before(low: Lowering, x: Any, y: Any) -> Any:
    return low.op("lt", ordered(low, x), ordered(low, y))


@of_numbers("le_to")
def _not_after(low: Lowering, x: Any, y: Any) -> Any:
    return low.op("le", ordered(low, x), ordered(low, y))


@of_numbers("eq_to")
def _same_place(low: Lowering, x: Any, y: Any) -> Any:
    return low.op("eq", ordered(low, x), ordered(low, y))


@of_numbers("copy", "copy_p")
def _copy(low: Lowering, x: Any) -> Any:
    return x


@primitive("optimization_barrier")
def _barrier(low: Lowering, equation: Any, *arrays: Scalars) -> list[Scalars]:
    return list(arrays)


@of_numbers("stop_gradient")
def _stopped(low: Lowering, x: Any) -> Any:
    return low.undifferentiated(x)


@of_numbers("neg")
def _neg(low: Lowering, x: Any) -> Any:
    return low.op("sub", zero(x.type), x) if x.type.kind == "uint" else low.op("neg", x)


@of_numbers("abs")
def _abs(low: Lowering, x: Any) -> Any:
    if not x.type.is_float:
        return x if x.type.kind == "uint" else low.op("abs", x)
    one = low.number(x.type, 1)
    return low.sloped(low.op("abs", x), (x, low.where(low.op("ge", x, zero(x.type)), one, low.number(x.type, -1))))


@of_numbers("sign")
def _sign(low: Lowering, x: Any) -> Any:
    none, one = zero(x.type), low.number(x.type, 1)
    if x.type.kind == "uint":
        return low.where(low.op("eq", x, none), none, one)
    minus = low.number(x.type, -1)
    signed = low.where(low.op("lt", x, none), minus, low.where(low.op("gt", x, none), one, x))  # zeros, and NaN
    return low.undifferentiated(signed)


def _tie(low: Lowering, wins: Any, ties: Any, type: ScalarType) -> Any:
    """The slope by one of two: all of it where that is the result, half of it where both are."""
    one, half = low.number(type, 1), low.number(type, 0.5)
    return low.where(wins, one, low.where(ties, half, zero(type)))


def combined(low: Lowering, name: str, x: Any, y: Any) -> Any:
    """The larger or smaller of two numbers as JAX has it, without a derivative: NaN if either is."""
    if x.type is bool_:
        return low.op(_BOOL[name], x, y)
    value = low.op(name, x, y)
    if not x.type.is_float:
        return value
    is_nan = low.op("or", low.op("ne", x, x), low.op("ne", y, y))
    return low.where(is_nan, low.number(x.type, math.nan), value)


def extremum(low: Lowering, name: str, x: Any, y: Any) -> Any:
    """The larger or smaller of two numbers."""
    value = combined(low, name, x, y)
    if not x.type.is_float or isinstance(value, Const):
        return value
    more, ties = "gt" if name == "max" else "lt", low.op("eq", x, y)
    return low.sloped(
        value, (x, _tie(low, low.op(more, x, y), ties, x.type)), (y, _tie(low, low.op(more, y, x), ties, x.type))
    )


@of_numbers("max")
def _max(low: Lowering, x: Any, y: Any) -> Any:
    return extremum(low, "max", x, y)


@of_numbers("min")
def _min(low: Lowering, x: Any, y: Any) -> Any:
    return extremum(low, "min", x, y)


@of_numbers("clamp")
def _clamp(low: Lowering, lo: Any, x: Any, hi: Any) -> Any:
    value = combined(low, "min", combined(low, "max", x, lo), hi)
    if not x.type.is_float:
        return value
    one, none = low.number(x.type, 1), zero(x.type)
    inside = low.op("and", low.op("gt", x, lo), low.op("lt", x, hi))
    by_lo = low.where(low.op("and", low.op("gt", lo, x), low.op("lt", lo, hi)), one, none)
    by_hi = low.where(low.op("lt", hi, x), one, none)
    return low.sloped(value, (x, low.where(inside, one, none)), (lo, by_lo), (hi, by_hi))


@of_numbers("square")
def _square(low: Lowering, x: Any) -> Any:
    return low.op("mul", x, x)


@of_numbers("log2")
def _log2(low: Lowering, x: Any) -> Any:
    return low.op("mul", low.op("log", x), low.number(x.type, 1 / math.log(2.0)))


@of_numbers("one_minus_square")
def _one_minus_square(low: Lowering, x: Any) -> Any:
    return low.op("sub", low.number(x.type, 1), low.op("mul", x, x))


@primitive("polynomial")
def _polynomial(low: Lowering, equation: Any, *arrays: Scalars) -> Scalars:
    """By W. G. Horner's rule; the coefficients begin with the constant."""
    shape = equation.outvars[0].aval.shape
    x, *coefficients = (np.broadcast_to(array, shape) for array in arrays)
    found = coefficients.pop()
    for coefficient in reversed(coefficients):
        found = low.each(lambda a, x, c: low.op("add", low.op("mul", a, x), c), found, x, coefficient)
    return found


@primitive("integer_pow")
def _integer_pow(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    return low.each(lambda x: whole_power(low, x, equation.params["y"]), array)


def whole_power(low: Lowering, x: Any, exponent: int) -> Any:
    """A power by squaring."""
    one = low.number(x.type, 1)
    found, square, left = None, x, abs(exponent)
    while left:
        if left & 1:
            found = square if found is None else low.op("mul", found, square)
        left >>= 1
        square = low.op("mul", square, square) if left else square
    if found is None:
        return one
    return low.op("div", one, found) if exponent < 0 else found


# Up to here, powers by numbers that are known and whole are products.
_MAX_SQUARED = 8


@of_numbers("pow")
def _pow(low: Lowering, x: Any, y: Any) -> Any:
    if isinstance(y, Const) and abs(y.value) <= _MAX_SQUARED and y.value == int(y.value):
        return whole_power(low, x, int(y.value))
    return low.op("pow", x, low.cast(y, x.type))


@of_numbers("rsqrt")
def _rsqrt(low: Lowering, x: Any) -> Any:
    return low.op("div", low.number(x.type, 1), low.op("sqrt", x))


@of_numbers("exp2")
def _exp2(low: Lowering, x: Any) -> Any:
    value = low.op("pow", low.number(x.type, 2), x)
    return low.sloped(value, (x, low.op("mul", value, low.number(x.type, math.log(2)))))


@of_numbers("logistic")
def _logistic(low: Lowering, x: Any) -> Any:
    one = low.number(x.type, 1)

    def value() -> Any:
        return low.op("div", one, low.op("add", one, low.op("exp", low.op("neg", x))))

    if low.order <= 0:
        return low.undifferentiated(value())
    with low.derived(low.order - 1):
        own = _logistic(low, x)
        slope = low.op("mul", own, low.op("sub", one, own))
    return low.sloped(value(), (x, slope))


@of_numbers("log1p")
def _log1p(low: Lowering, x: Any) -> Any:
    """By the logarithm of the rounded sum, and what was lost in rounding (W. Kahan)."""
    one = low.number(x.type, 1)
    u = low.op("add", one, x)
    lost = low.op("sub", u, one)
    value = low.op("mul", low.op("log", u), low.op("div", x, lost))
    plain = low.op("eq", lost, zero(x.type))
    value = low.where(plain, x, low.where(low.op("eq", u, x), low.op("log", u), value))
    value = low.where(low.op("eq", x, low.number(x.type, -1)), low.number(x.type, -math.inf), value)
    return low.sloped(value, (x, low.op("div", one, u)))


@of_numbers("expm1")
def _expm1(low: Lowering, x: Any) -> Any:
    """By the rounded exponential and its logarithm (W. Kahan)."""
    one = low.number(x.type, 1)
    u = low.op("exp", x)
    less = low.op("sub", u, one)
    value = low.op("div", low.op("mul", less, x), low.op("log", u))
    far = low.op("gt", low.op("abs", x), low.number(x.type, 1))  # where nothing cancels
    value = low.where(low.op("eq", u, one), x, low.where(far, less, value))
    return low.sloped(value, (x, u))


def _inside(name: str) -> None:
    @of_numbers(name)
    def rule(low: Lowering, x: Any) -> Any:
        """NaN outside of -1 to 1."""
        outside = low.op("gt", low.op("abs", x), low.number(x.type, 1))
        return low.where(outside, low.number(x.type, math.nan), low.op(name, x))


_inside("asin")
_inside("acos")


@primitive("round")
def _round(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    name = "round" if int(equation.params["rounding_method"]) == 0 else "rint"
    return low.each(lambda x: low.op(name, x), array)


@of_numbers("is_finite")
def _is_finite(low: Lowering, x: Any) -> Any:
    return low.op("lt", low.op("abs", x), low.number(x.type, math.inf))


def bits_of(x: Any, low: Lowering, kind: str = "uint") -> Any:
    """The bits of a number as an integer."""
    return low.op("bitcast", low.undifferentiated(x), type=SCALARS[f"{kind}{x.type.bits}"])


@of_numbers("nextafter")
def _nextafter(low: Lowering, x: Any, y: Any) -> Any:
    none, number = zero(x.type), bits_of(x, low)
    one = Const(number.type, 1)
    away = low.op("eq", low.op("lt", x, y), low.op("lt", none, x))
    moved = low.op("bitcast", low.where(away, low.op("add", number, one), low.op("sub", number, one)), type=x.type)
    least = low.op("copysign", low.op("bitcast", one, type=x.type), y)
    found = low.where(low.op("eq", x, y), y, low.where(low.op("eq", x, none), least, moved))
    is_nan = low.op("or", low.op("ne", x, x), low.op("ne", y, y))
    return low.undifferentiated(low.where(is_nan, low.op("add", x, y), found))


@of_numbers("shift_right_logical")
def _shift_right(low: Lowering, x: Any, y: Any) -> Any:
    if x.type.kind == "uint":
        return low.op("shr", x, y)
    return low.op("bitcast", low.op("shr", bits_of(x, low), bits_of(y, low)), type=x.type)


@of_numbers("shift_right_arithmetic")
def _shift_right_signed(low: Lowering, x: Any, y: Any) -> Any:
    if x.type.kind == "int":
        return low.op("shr", x, y)
    return low.op("bitcast", low.op("shr", bits_of(x, low, "int"), bits_of(y, low, "int")), type=x.type)


@of_numbers("population_count")
def _bit_count(low: Lowering, x: Any) -> Any:
    return low.cast(low.op("bit_count", x), x.type)


@of_numbers("clz")
def _leading_zeros(low: Lowering, x: Any) -> Any:
    """How many bits are above the first one: those that are not set once all below it are."""
    number, shift = bits_of(x, low), 1
    while shift < x.type.bits:
        number = low.op("or", number, low.op("shr", number, Const(number.type, shift)))
        shift *= 2
    return low.cast(low.op("bit_count", low.op("not", number)), x.type)


@primitive("convert_element_type")
def _converted(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    kind = scalar_type(equation.params["new_dtype"], "a conversion", low.span)
    return low.each(lambda x: low.cast(x, kind), array)


@primitive("bitcast_convert_type")
def _bitcast(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    kind = scalar_type(equation.params["new_dtype"], "a conversion", low.span)
    if any(x.type.bits != kind.bits for x in array.flat):
        raise low.error("the bits of a number are taken for those of a number of another width", "shift and mask them")
    return low.each(lambda x: low.undifferentiated(low.op("bitcast", low.undifferentiated(x), type=kind)), array)


@primitive("reduce_precision")
def _reduce_precision(low: Lowering, equation: Any, array: Scalars) -> Scalars:
    widths = equation.params["exponent_bits"], equation.params["mantissa_bits"]
    name = {(11, 52): "float64", (8, 23): "float32", (5, 10): "float16", (8, 7): "bfloat16"}.get(widths)
    if name is None:
        raise low.error(f"numbers are rounded to {widths[0]} bits of exponent and {widths[1]} of mantissa")
    kind = SCALARS[name]
    return low.each(lambda x: x if x.type.bits <= kind.bits else low.cast(low.cast(x, kind), x.type), array)


@primitive("select_n")
def _select(low: Lowering, equation: Any, which: Scalars, *cases: Scalars) -> Scalars:
    def chosen(k: Any, *values: Any) -> Any:
        if len(values) == 1:
            return values[0]
        if k.type is bool_:
            return low.where(k, values[1], values[0])
        found = values[-1]
        for number in reversed(range(len(values) - 1)):
            found = low.where(low.op("eq", k, Const(k.type, number)), values[number], found)
        return found

    return low.each(chosen, which, *cases)


def truth(low: Lowering, x: Any) -> Any:
    """The truth value that a number is not zero."""
    if isinstance(x, Const):
        return TRUE if x.value else FALSE
    return x if x.type is bool_ else low.op("ne", x, zero(x.type))
