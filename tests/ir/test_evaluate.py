"""The pure operations against Python's integers, exact fractions and the standard library."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from jwarp.ir.evaluate import evaluate, fold
from jwarp.ir.nodes import Const
from jwarp.types import (
    FLOATS,
    INTS,
    SCALARS,
    SIGNED_INTS,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)

pytestmark = pytest.mark.quick

BINARY_INT = {
    "add": lambda x, y, t: x + y,
    "sub": lambda x, y, t: x - y,
    "mul": lambda x, y, t: x * y,
    "div": lambda x, y, t: -1 if y == 0 else int(math.copysign(1, x) * math.copysign(1, y)) * (abs(x) // abs(y)),
    "floordiv": lambda x, y, t: -1 if y == 0 else x // y,
    "mod": lambda x, y, t: x if y == 0 else int(math.copysign(1, x)) * (abs(x) % abs(y)),
    "min": lambda x, y, t: min(x, y),
    "max": lambda x, y, t: max(x, y),
    "and": lambda x, y, t: x & y,
    "or": lambda x, y, t: x | y,
    "xor": lambda x, y, t: x ^ y,
    "shl": lambda x, y, t: x << y if 0 <= y < t.bits else 0,
    "shr": lambda x, y, t: x >> (y if 0 <= y < t.bits else t.bits),
}
UNARY_INT = {"neg": lambda x: -x, "abs": abs, "not": lambda x: ~x}


def wrap(value, type_):
    """`value` reduced to the bits of an integer type."""
    value &= (1 << type_.bits) - 1
    return value - (1 << type_.bits) if value > type_.max else value


def sample(type_, rng, count=64):
    """The corners of an integer type and random values, large and small."""
    corners = [type_.min, type_.min + 1, type_.max, type_.max - 1, 0, 1, 2, 3, type_.bits - 1, type_.bits]
    if type_.kind == "int":
        corners += [-1, -2, -3]
    numbers = [int(v) for v in rng.integers(type_.min, type_.max, count, type_.dtype, endpoint=True)]
    small = [int(v) for v in rng.integers(0, 12, count // 4)]
    return [wrap(v, type_) for v in corners + numbers + small]


@pytest.mark.parametrize("type_", INTS, ids=repr)
@pytest.mark.parametrize("name", BINARY_INT)
def test_integer_operations_are_pythons_wrapped(name, type_):
    rng = np.random.default_rng(0)
    xs = sample(type_, rng)
    pairs = [(x, y) for x in xs[:30] for y in xs[:30]] + list(zip(xs, reversed(xs), strict=True))
    x, y = np.array(pairs, type_.dtype).T
    got = evaluate(name, (x, y), type_)
    assert got.dtype == type_.dtype
    assert got.tolist() == [wrap(BINARY_INT[name](x, y, type_), type_) for x, y in pairs]


@pytest.mark.parametrize("type_", INTS, ids=repr)
@pytest.mark.parametrize("name", UNARY_INT)
def test_unary_integer_operations_wrap(name, type_):
    xs = sample(type_, np.random.default_rng(1))
    got = evaluate(name, (np.array(xs, type_.dtype),), type_)
    assert got.dtype == type_.dtype
    assert got.tolist() == [wrap(UNARY_INT[name](x), type_) for x in xs]


@pytest.mark.parametrize("type_", SIGNED_INTS, ids=repr)
def test_the_one_overflowing_quotient_wraps(type_):
    for name, expected in (("div", type_.min), ("floordiv", type_.min), ("mod", 0)):
        assert fold(name, (Const(type_, type_.min), Const(type_, -1)), type_) == Const(type_, expected)


def test_bools_are_logic():
    x, y = np.array([[False, False, True, True], [False, True, False, True]])
    for name, expected in (("and", x & y), ("or", x | y), ("xor", x ^ y), ("eq", x == y), ("ne", x != y)):
        assert evaluate(name, (x, y), bool_).tolist() == expected.tolist()
    assert evaluate("not", (x,), bool_).tolist() == (~x).tolist()


@pytest.mark.parametrize("source", INTS, ids=repr)
@pytest.mark.parametrize("target", INTS, ids=repr)
def test_integer_conversions_wrap(source, target):
    xs = sample(source, np.random.default_rng(2))
    got = evaluate("cast", (np.array(xs, source.dtype),), target)
    assert got.dtype == target.dtype
    assert got.tolist() == [wrap(x, target) for x in xs]


@pytest.mark.parametrize("source", FLOATS, ids=repr)
@pytest.mark.parametrize("target", INTS, ids=repr)
def test_float_to_integer_truncates_and_saturates(source, target):
    rng = np.random.default_rng(3)
    wide = rng.standard_normal(200) * 10.0 ** rng.integers(-2, 22, 200)
    ends = [float(target.min), float(target.max), float(target.min) - 1.0, 2.0**63, -(2.0**63), 2.0**64]
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, -0.99, 0.99, -1.5, 1.5]
    with np.errstate(over="ignore"):
        xs = np.array([*wide, *ends, *special]).astype(source.dtype)
    expected = []
    for x in xs.astype(np.float64).tolist():
        if math.isnan(x):
            expected.append(0)
        elif math.isinf(x):
            expected.append(target.max if x > 0 else target.min)
        else:
            expected.append(max(target.min, min(target.max, math.trunc(x))))
    got = evaluate("cast", (xs,), target)
    assert got.dtype == target.dtype
    assert got.tolist() == expected


@pytest.mark.parametrize("source", SCALARS.values(), ids=repr)
def test_cast_to_bool_is_not_zero(source):
    values = [False, True] if source is bool_ else [0, 1, 2, 100]
    got = evaluate("cast", (np.array(values, source.dtype),), bool_)
    assert got.dtype == bool and got.tolist() == [v != 0 for v in values]
    if source.is_float:
        special = np.array([math.nan, 0.25, -0.0], source.dtype)
        assert evaluate("cast", (special,), bool_).tolist() == [True, True, False]


def test_cast_between_floats_rounds_without_a_warning():
    x = np.array([0.1, 1e30, -1e300, math.inf, 5e-324])
    expected = [float(np.float32(0.1)), float(np.float32(1e30)), -math.inf, math.inf, 0.0]
    assert evaluate("cast", (x,), float32).tolist() == expected
    assert evaluate("cast", (x,), float16).tolist()[1:3] == [math.inf, -math.inf]
    assert float(evaluate("cast", (np.array(0.1),), bfloat16)) == 0.10009765625
    assert evaluate("cast", (np.array([2**63, 2**64 - 1], np.uint64),), float64).tolist() == [
        2.0**63,
        2.0**64,
    ]


def test_bitcast_keeps_the_bits():
    x = np.array([1.0, -0.0, math.inf, 3.1415927], np.float32)
    expected = [struct.unpack("<i", struct.pack("<f", v))[0] for v in x.tolist()]
    assert evaluate("bitcast", (x,), int32).tolist() == expected
    assert evaluate("bitcast", (np.array(expected, np.int32),), float32).tolist() == x.tolist()
    assert evaluate("bitcast", (np.array(1.0, bfloat16.dtype),), int16) == 0x3F80


ROUNDINGS = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "rint": round,
    "round": lambda v: math.floor(v + Fraction(1, 2)) if v >= 0 else math.ceil(v - Fraction(1, 2)),
}


@pytest.mark.parametrize("type_", FLOATS, ids=repr)
@pytest.mark.parametrize("name", ROUNDINGS)
def test_rounding_against_fractions(name, type_):
    rng = np.random.default_rng(4)
    halves = [v + 0.5 for v in range(-6, 6)]
    below_half = [
        float(np.nextafter(np.float32(0.5), np.float32(0))),
        np.nextafter(0.5, 0),
        4503599627370495.5,
    ]
    with np.errstate(over="ignore"):
        xs = np.array([*halves, *below_half, *(rng.standard_normal(100) * 5), 8389.0, 0.0]).astype(type_.dtype)
    xs = xs[np.isfinite(xs.astype(np.float64))]
    got = evaluate(name, (xs,), type_)
    assert got.dtype == type_.dtype
    exact = [ROUNDINGS[name](Fraction(float(x))) for x in xs]
    assert [float(v) for v in got] == [float(type_.dtype.type(v)) for v in exact]
    special = np.array([-0.0, math.inf, -math.inf, math.nan], type_.dtype)
    kept = evaluate(name, (special,), type_).astype(np.float64)
    assert math.copysign(1, kept[0]) == -1 and kept[1:3].tolist() == [math.inf, -math.inf]
    assert math.isnan(kept[3])


def test_round_of_the_number_below_one_half_is_zero():
    assert fold("round", (Const(float32, float(np.float32(0.49999997))),), float32) == Const(float32, 0.0)
    assert fold("round", (Const(float64, 0.49999999999999994),), float64) == Const(float64, 0.0)
    assert fold("round", (Const(float32, -2.5),), float32) == Const(float32, -3.0)
    assert fold("rint", (Const(float32, -2.5),), float32) == Const(float32, -2.0)


@pytest.mark.parametrize("type_", FLOATS, ids=repr)
def test_of_a_number_and_nan_min_and_max_are_the_number(type_):
    x = np.array([1.0, math.nan, 2.0, math.nan], type_.dtype)
    y = np.array([2.0, 1.0, math.nan, math.nan], type_.dtype)
    low, high = (evaluate(n, (x, y), type_).astype(np.float64) for n in ("min", "max"))
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [False, False, False, True]
    assert low[:3].tolist() == [1.0, 1.0, 2.0] and high[:3].tolist() == [2.0, 1.0, 2.0]


def nearest(exact, type_):
    """`exact`, a Fraction, rounded once to a type (through float32 to a shorter one)."""
    if type_ is float64:
        return float(exact)
    down = np.float32(float(exact))
    around = [np.nextafter(down, np.float32(-np.inf)), down, np.nextafter(down, np.float32(np.inf))]
    # Of two equally near, the one whose last bit is 0.
    best = min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1))
    return float(best if type_ is float32 else type_.dtype.type(best))


@pytest.mark.parametrize("type_", FLOATS, ids=repr)
def test_arithmetic_is_rounded_once(type_):
    rng = np.random.default_rng(5)
    x, y, z = (rng.standard_normal((3, 400)) * 2.0 ** rng.integers(-6, 6, (3, 400))).astype(type_.dtype)
    # Half of the sums cancel all but what only the exact product has.
    product = evaluate("mul", (x, y), type_)
    z = np.where(np.arange(400) % 2 == 0, evaluate("neg", (product,), type_), z)
    fractions = [[Fraction(float(v)) for v in vs] for vs in (x, y, z)]
    for name, args, exact in (
        ("add", (x, y), lambda x, y, z: x + y),
        ("sub", (x, y), lambda x, y, z: x - y),
        ("mul", (x, y), lambda x, y, z: x * y),
        ("div", (x, y), lambda x, y, z: x / y),
        ("fma", (x, y, z), lambda x, y, z: x * y + z),
    ):
        got = evaluate(name, args, type_)
        assert got.dtype == type_.dtype
        expected = [nearest(exact(*xyz), type_) for xyz in zip(*fractions, strict=True)]
        assert [float(v) for v in got] == expected, name


def test_fma_where_rounding_the_sum_twice_would_show():
    # Just below the midpoint of two float32, by less than float64 sees next to z.
    x, y, z = 2.0**-12 * (1 + 2.0**-22), 2.0**-12 * (1 - 2.0**-22), 1 + 2.0**-23
    assert float(np.float32(x * y + z)) == 1 + 2.0**-22
    assert fold("fma", tuple(Const(float32, v) for v in (x, y, z)), float32) == Const(float32, z)
    assert fold("fma", tuple(Const(float32, v) for v in (-x, y, -z)), float32) == Const(float32, -z)


@pytest.mark.parametrize("type_", [float32, float64], ids=repr)
def test_fma_of_special_values(type_):
    inf, nan, big = math.inf, math.nan, float(np.finfo(type_.dtype).max)
    rows = [(inf, 1.0, 1.0, inf), (inf, 0.0, 1.0, nan), (inf, 1.0, -inf, nan), (1.0, 1.0, -inf, -inf)]
    rows += [(big, 2.0, 0.0, inf), (big, 2.0, -big, big), (big, -2.0, 0.0, -inf), (nan, 1.0, 1.0, nan)]
    rows += [(0.0, -1.0, -0.0, -0.0), (1.0, 1.0, -1.0, 0.0), (-0.0, 1.0, 0.0, 0.0)]
    for *args, expected in rows:
        got = fold("fma", tuple(Const(type_, v) for v in args), type_)
        assert got == Const(type_, expected), args


LIBRARY = {"sin": math.sin, "cos": math.cos, "tan": math.tan, "exp": math.exp, "tanh": math.tanh}
LIBRARY |= {"log": lambda x: math.log(abs(x)), "sqrt": lambda x: math.sqrt(abs(x))}


@pytest.mark.parametrize("type_", FLOATS, ids=repr)
@pytest.mark.parametrize("name", LIBRARY)
def test_functions_against_the_standard_library(name, type_):
    x = (np.random.default_rng(6).standard_normal(200) * 3).astype(type_.dtype)
    x = np.abs(x) if name in ("log", "sqrt") else x
    got = evaluate(name, (x,), type_)
    assert got.dtype == type_.dtype
    expected = np.array([LIBRARY[name](float(v)) for v in x])
    unit = 2.0 ** -{"float16": 10, "bfloat16": 7, "float32": 23, "float64": 51}[type_.name]
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=unit, atol=0)


def test_functions_of_two_arguments_and_their_special_values():
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((2, 100)).astype(np.float32)
    expected = [math.atan2(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_allclose(evaluate("atan2", (x, y), float32), expected, rtol=2**-23)
    expected = [abs(a) ** b for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_allclose(evaluate("pow", (np.abs(x), y), float32), expected, rtol=2**-23)
    nan, inf = math.nan, math.inf
    for a, b, c in ((1.0, nan, 1.0), (nan, 0.0, 1.0), (-2.0, 3.0, -8.0), (-2.0, 0.5, nan), (0.0, -1.0, inf)):
        assert fold("pow", (Const(float32, a), Const(float32, b)), float32) == Const(float32, c)


def test_divisions_of_floats():
    x, y = np.array([7.5, -7.5, 1.0, -1.0], np.float32), np.array([2.0, 2.0, 0.0, 0.0], np.float32)
    assert evaluate("div", (x, y), float32).tolist() == [3.75, -3.75, math.inf, -math.inf]
    assert evaluate("floordiv", (x, y), float32).tolist() == [3.0, -4.0, math.inf, -math.inf]
    assert evaluate("mod", (x[:2], y[:2]), float32).tolist() == [1.5, -1.5]


@pytest.mark.parametrize("type_", [t for t in SCALARS.values() if t is not bool_], ids=repr)
def test_comparisons_and_select(type_):
    x, y = np.array([[1, 2, 3], [2, 2, 2]], type_.dtype)
    for name, expected in (("lt", [1, 0, 0]), ("le", [1, 1, 0]), ("gt", [0, 0, 1]), ("ge", [0, 1, 1])):
        got = evaluate(name, (x, y), bool_)
        assert got.dtype == bool and got.tolist() == [bool(v) for v in expected]
    assert evaluate("eq", (x, y), bool_).tolist() == [False, True, False]
    assert evaluate("ne", (x, y), bool_).tolist() == [True, False, True]
    chosen = evaluate("select", (np.array([True, False, True]), x, y), type_)
    assert chosen.dtype == type_.dtype and chosen.tolist() == [1, 2, 3]
    if type_.is_float:
        nan = np.array(math.nan, type_.dtype)
        compared = [bool(evaluate(n, (nan, nan), bool_)) for n in ("lt", "le", "eq", "ne")]
        assert compared == [False, False, False, True]


def test_folding_gives_python_values_of_the_type():
    for name, args, expected in (
        ("add", (Const(int32, int32.max), Const(int32, 1)), Const(int32, int32.min)),
        ("add", (Const(float32, float(np.float32(0.1))), Const(float32, float(np.float32(0.2)))),
         Const(float32, float(np.float32(0.1) + np.float32(0.2)))),
        ("mul", (Const(float16, 300.0), Const(float16, 300.0)), Const(float16, math.inf)),
        ("add", (Const(bfloat16, 256.0), Const(bfloat16, 1.0)), Const(bfloat16, 256.0)),
        ("sub", (Const(uint8, 0), Const(uint8, 1)), Const(uint8, 255)),
        ("not", (Const(uint64, 0),), Const(uint64, uint64.max)),
        ("lt", (Const(int8, -1), Const(int8, 0)), Const(bool_, True)),
        ("select", (Const(bool_, False), Const(int64, 1), Const(int64, -5)), Const(int64, -5)),
        ("div", (Const(float32, 0.0), Const(float32, 0.0)), Const(float32, math.nan)),
        ("neg", (Const(float64, 0.0),), Const(float64, -0.0)),
    ):  # fmt: skip
        got = fold(name, args, expected.type)
        assert got == expected and type(got.value) is type(expected.value), name


def test_what_cannot_be_folded():
    assert fold("tid", (), int32) is None
    assert fold("load", (Const(int32, 0),), float32) is None
    assert fold("bitcast", (Const(float32, math.nan),), int32) is None
    assert fold("bitcast", (Const(uint32, 0xFFC00001),), float32) is None
    assert fold("bitcast", (Const(uint32, 0x3F800000),), float32) == Const(float32, 1.0)
