"""Exact meaning of the pure operations on NumPy arrays, and constant folding by it."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from jwarp.ir.nodes import Const
from jwarp.ir.ops import ELEMENTARY, OPS
from jwarp.types import FLOATS, ScalarType, ValueType, bool_, float32, scalar_of

Array = np.ndarray


def _is_int(x: Array) -> bool:
    return x.dtype.kind in "iu"


def _divisor(x: Array, y: Array) -> Array:
    """`y` with 1 where the hardware has no quotient: y == 0, and the one quotient that overflows."""
    bad = y == 0
    if x.dtype.kind == "i":
        bad = bad | ((y == -1) & (x == np.iinfo(x.dtype).min))
    return np.where(bad, y.dtype.type(1), y)


def _all_bits_where_zero(y: Array, quotient: Array) -> Array:
    return np.where(y == 0, ~y.dtype.type(0), quotient)


def _div(x: Array, y: Array) -> Array:
    if not _is_int(x):
        return np.true_divide(x, y)
    divisor = _divisor(x, y)
    # fmod has C's sign, so that what is left divides exactly and the direction of // does not matter.
    return _all_bits_where_zero(y, (x - np.fmod(x, divisor)) // divisor)


def _floordiv(x: Array, y: Array) -> Array:
    if not _is_int(x):
        return np.floor(np.true_divide(x, y))
    return _all_bits_where_zero(y, np.floor_divide(x, _divisor(x, y)))


def _mod(x: Array, y: Array) -> Array:
    if not _is_int(x):
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, _divisor(x, y)))


def _min(x: Array, y: Array) -> Array:
    if _is_int(x):
        return np.minimum(x, y)
    # Of two equal values only zeros can differ. NumPy's fmin takes any of them, and NaN where it is a signalling one.
    first = (x < y) | ((x == y) & np.signbit(x)) | (y != y)
    return np.where(first & (x == x), x, y)


def _max(x: Array, y: Array) -> Array:
    return np.maximum(x, y) if _is_int(x) else -_min(-x, -y)


def neutral(combiner: str, type: ScalarType) -> Const:
    """The value that changes nothing: of the extrema of floats that is NaN, since any number wins over it."""
    if type.kind == "bool":
        return Const(type, combiner == "and")
    if type.is_float:
        return Const(type, {"add": -0.0, "mul": 1.0, "min": math.nan, "max": math.nan}[combiner])
    ones = -1 if type.kind == "int" else type.max
    whole = {"add": 0, "mul": 1, "min": type.max, "max": type.min, "and": ones, "or": 0, "xor": 0}
    return Const(type, whole[combiner])


def scan_start(combiner: str, type: ScalarType) -> Const:
    """The running result before the first element, which exclusive scans give: of sums it is 0, not -0."""
    return neutral(combiner, type) if combiner != "add" else Const(type, 0.0 if type.is_float else 0)


def _norm(*xs: Array) -> Array:
    return np.sqrt(functools.reduce(np.add, [x * x for x in xs]))


def _fma_float64(x: float, y: float, z: float) -> float:
    """x * y + z of finite doubles, rounded once."""
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        # An exact zero takes its sign from IEEE's rules for the product and the sum.
        return float(exact) if exact else x * y + z
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _fma(x: Array, y: Array, z: Array) -> Array:
    if x.dtype == np.float64:
        # A product too large for a double is still finite next to an infinite z.
        plain = np.where(np.isfinite(x) & np.isfinite(y) & np.isinf(z), z, x * y + z)
        x, y, z, plain = np.broadcast_arrays(x, y, z, plain)
        out = np.array(plain)
        finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
        numbers = zip(x[finite].tolist(), y[finite].tolist(), z[finite].tolist(), strict=True)
        out[finite] = [_fma_float64(*xyz) for xyz in numbers]
        return out
    # The product is exact in float64. The sum is rounded to odd there (its last bit says whether
    # anything was lost), so that the rounding to float32 is the only one.
    product, addend = x.astype(np.float64) * y, z.astype(np.float64)
    total = np.asarray(product + addend)
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (lost != 0) & even
    odd = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    return np.where(inexact, odd, total).astype(x.dtype)


def _round(x: Array) -> Array:
    whole = np.trunc(x)
    # Adding 0.5 first would be wrong for 0.49999997; the fraction below is exact.
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


def _through_float64(function: Callable[..., Any]) -> Callable[..., Array]:
    """`function` computed in float64 and rounded to the type of its arguments."""

    def rule(*args: Array) -> Array:
        return np.asarray(function(*(a.astype(np.float64) for a in args))).astype(args[0].dtype)

    return rule


def _clamped(function: Callable[[Array], Array]) -> Callable[..., Array]:
    """`function` of the argument moved into [-1, 1]."""
    return _through_float64(lambda x: function(np.clip(x, -1.0, 1.0)))


def _special(name: str) -> Callable[[Array], Array]:
    """A function of SciPy, which is slow to import and seldom needed here."""

    def function(x: Array) -> Array:
        from scipy import special

        return np.asarray(getattr(special, name)(x))

    return function


def _erfinv(x: Array) -> Array:
    return np.copysign(_special("erfinv")(x), x)  # SciPy's loses the sign of zero


def _erfcinv(x: Array) -> Array:
    # SciPy's is -0 at 1 and infinite at the smallest number.
    return np.where(x == 5e-324, 27.21329321081295, _special("erfcinv")(x) + 0.0)


def _bit_count(x: Array) -> Array:
    # NumPy counts the bits of the absolute value.
    return np.bitwise_count(x.view(f"u{x.itemsize}")).astype(np.int32)


def _float_to_int(x: Array, target: ScalarType) -> Array:
    wide = np.trunc(x.astype(np.float64))
    past_end = 2.0 ** (target.bits - (target.kind == "int"))
    inside = (wide >= float(target.min)) & (wide < past_end)
    limits = np.array([target.min, target.max], target.dtype)
    clamped = np.where(wide >= past_end, limits[1], np.where(wide < 0, limits[0], target.dtype.type(0)))
    return np.where(inside, np.where(inside, wide, 0).astype(target.dtype), clamped)


def _cast(x: Array, target: ScalarType) -> Array:
    kind = x.dtype.kind
    if target is bool_:
        return x != 0
    if target.is_int:
        return x.astype(target.dtype) if kind in "biu" else _float_to_int(x, target)
    if target.bits == 16 and x.dtype.itemsize > 2:
        x = x.astype(np.float32)
    return x.astype(target.dtype)


def _bitcast(x: Array, target: ScalarType) -> Array:
    return x.view(target.dtype)


# One row per pure operation that is a function of its arguments. A rule takes arrays of one type and
# returns an array of the result's; those typed by their target take that type as well.
EVAL_RULES: dict[str, Callable[..., Any]] = {
    # Elementary functions are NumPy's of their names, if it has them, but for those with rows below.
    **{name: _through_float64(getattr(np, name)) for name in ELEMENTARY if hasattr(np, name)},
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _min,
    "max": _max,
    "copysign": np.copysign,
    "fma": _fma,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "norm": _norm,
    "over": lambda x, y, z: x / y,
    "asin": _clamped(np.arcsin),
    "acos": _clamped(np.arccos),
    "erf": _through_float64(_special("erf")),
    "erfc": _through_float64(_special("erfc")),
    "erfinv": _through_float64(_erfinv),
    "erfcinv": _through_float64(_erfcinv),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _round,
    "rint": np.rint,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "bit_count": _bit_count,
    # NumPy defines shifts by any amount, taken as unsigned, the way the table asks.
    "shl": np.left_shift,
    "shr": np.right_shift,
    "nonzero": lambda x: x != 0,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "select": np.where,
    "replayed": lambda x, y: x,
    "given": lambda *args: args[-1],
    "lane_affinity": lambda x: x,
    "lane_divergence": lambda x: x,
    "any_lane": lambda x: x,
    "many_lanes": lambda x: x,
    "one_of": lambda x: x,
    "follow": lambda x, y: x,
    "slope": lambda x, y, z: x,
    "barred": lambda x, y: x,
    "symmetric": lambda x, y, z: x,
    "separation": lambda x: x,
    "cast": _cast,
    "bitcast": _bitcast,
}


def evaluate(name: str, args: tuple[Any, ...], result_type: ValueType) -> Array:
    """Apply operation `name` to arrays, which broadcast; there are no floating-point warnings."""
    with np.errstate(all="ignore"):
        return evaluate_quietly(name, [np.asarray(a) for a in args], result_type)


def evaluate_quietly(name: str, arrays: Sequence[Array], result_type: ValueType) -> Array:
    """As `evaluate`, where floating-point warnings are off already."""
    rule, row = EVAL_RULES[name], OPS[name]
    if row.has_target:
        return np.asarray(rule(*arrays, scalar_of(result_type)))
    if arrays[0].itemsize == 2 and not row.transfer.moves_bits and all(a.dtype in _HALVES for a in arrays):
        arrays = [a.astype(float32.dtype) for a in arrays]
        return np.asarray(rule(*arrays)).astype(scalar_of(result_type).dtype)
    return np.asarray(rule(*arrays))


_HALVES = tuple(type_.dtype for type_ in FLOATS if type_.bits == 16)


def as_array(constant: Const) -> Array:
    """The constant as an array without dimensions, of its type's dtype."""
    return np.array(constant.value, constant.type.dtype)


def as_constant(value: Any, type_: ValueType) -> Const:
    """The constant that holds the one element of `value`, which already has `type_`'s dtype."""
    python_type = {"bool": bool, "float": float}.get(type_.kind, int)
    return Const(type_, python_type(np.asarray(value)[()]))


def fold(name: str, args: tuple[Const, ...], result_type: ValueType) -> Const | None:
    """The constant that `name` makes of constants, or None where it is not a function of them."""
    if name not in EVAL_RULES:
        return None
    result = evaluate(name, tuple(as_array(a) for a in args), result_type)
    # A constant does not keep which of the NaNs it is, so bits must not be read from one or become one.
    if OPS[name].transfer.reinterprets and any(isinstance(v, float) and v != v for v in (args[0].value, float(result))):
        return None
    return as_constant(result, result_type)


def represents(type_: ScalarType, value: Any) -> bool:
    """True if `type_` represents this Python value exactly."""
    if type_.kind == "bool":
        return type(value) is bool
    if type_.is_int:
        return type(value) is int and type_.min <= value <= type_.max
    if type(value) is not float:
        return False
    with np.errstate(all="ignore"):
        return value != value or float(type_.dtype.type(value)) == value
