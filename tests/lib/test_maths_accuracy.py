"""Accuracy and special values of the float32 functions of jwarp/lib, against NumPy, SciPy and mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from elementwise import evaluate
from scipy import special

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.ops import OPS
from jwarp.lib.expansions import EXPANSIONS

ULP_LIMIT = 2.0
REFERENCES = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": lambda x: np.arcsin(np.clip(x, -1.0, 1.0)),
    "acos": lambda x: np.arccos(np.clip(x, -1.0, 1.0)),
    "atan": np.arctan,
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "cbrt": np.cbrt,
    "erf": special.erf,
    "erfc": special.erfc,
    # SciPy has another sign of zero in one place each.
    "erfinv": lambda x: np.copysign(special.erfinv(x), x),
    "erfcinv": lambda x: special.erfcinv(x) + 0.0,
}
ONE_ARGUMENT = tuple(REFERENCES)
REFERENCES |= {"pow": np.power, "atan2": np.arctan2}
assert REFERENCES.keys() == {name for name, row in OPS.items() if row.code.is_elementary}
LARGEST = 3.4028235e38
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, -2.5]
    + [np.inf, -np.inf, np.nan, LARGEST, -LARGEST]
    + [1e-45, -1e-45, 1e-38, -1e-38, 16777215.0, -16777215.0, 16777216.0, 8388607.5, 1.0000001, 0.9999999]
    + [-1.0000001, 88.72284, -103.97209, 104.0, 16384.0, 16384.002, -16384.0, 1e10, -1e10],
    np.float32,
)


def interpret(name: str, *arguments: np.ndarray) -> np.ndarray:
    """The library's form of the function, elementwise, by the interpreter."""
    function = EXPANSIONS[name, wp.float32]

    @wp.kernel
    def unary(x: wp.array[float], result: wp.array[float]):
        i = wp.tid()
        result[i] = function(x[i])

    with np.errstate(all="ignore"):
        return run(unary.ir(), arguments[0].shape, [*arguments, np.zeros_like(arguments[0])])[-1]


def reference(name: str, *arguments: np.ndarray) -> np.ndarray:
    """The function in float64, whose error is far below float32's spacing."""
    with np.errstate(all="ignore"):
        return REFERENCES[name](*(a.astype(np.float64) for a in arguments))


def ulps(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place that float32 has at `exact`."""
    last_place = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 24, -149))
    return np.abs(result.astype(np.float64) - exact) / last_place


def check(name: str, *arguments: np.ndarray) -> None:
    result, exact = evaluate(name, *arguments), reference(name, *arguments)
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
    finite = np.isfinite(rounded) & np.isfinite(result)
    wrong = ~finite & ~((result == rounded) | (np.isnan(result) & np.isnan(rounded)))
    wrong[finite] = ulps(result[finite], exact[finite]) > ULP_LIMIT
    wrong |= (np.signbit(result) != np.signbit(rounded)) & ~np.isnan(rounded)
    assert not wrong.any(), [(*(a[wrong][0] for a in arguments), result[wrong][0], rounded[wrong][0])]


def any_float(seed: int, count: int) -> np.ndarray:
    """Floats of random bits: all signs, exponents, NaNs and subnormals."""
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32).view(np.float32)


def typical(seed: int, count: int, scale: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, scale, count).astype(np.float32)


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_one_argument_over_all_floats(name):
    check(name, any_float(1, 4000))


@pytest.mark.parametrize("name", ONE_ARGUMENT)
@pytest.mark.parametrize("scale", (0.05, 1.0, 30.0))
def test_one_argument_where_it_varies(name, scale):
    check(name, typical(2, 3000, scale))


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_special_values_of_one_argument(name):
    check(name, SPECIAL)


@pytest.mark.parametrize("name", ("pow", "atan2"))
def test_special_values_of_two_arguments(name):
    x, y = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    check(name, x, y)


@pytest.mark.parametrize("name", ("pow", "atan2"))
def test_two_arguments_over_all_floats(name):
    check(name, any_float(3, 3000), any_float(4, 3000))


def test_pow_of_typical_arguments():
    check("pow", np.exp(typical(5, 3000, 2.0)), typical(6, 3000, 20.0))
    check("pow", np.float32(1.0) + typical(7, 2000, 0.01), typical(8, 2000, 2000.0))


def test_pow_of_negative_base_and_whole_exponent():
    base = -np.exp(typical(9, 1000, 1.0))
    check("pow", base, np.rint(typical(10, 1000, 20.0)))


def test_atan2_of_typical_arguments():
    check("atan2", typical(11, 3000, 1.0), typical(12, 3000, 1.0))
    check("atan2", typical(13, 1000, 1e-39), typical(14, 1000, 1e-38))


@pytest.mark.parametrize("name", ("sin", "cos", "tan"))
def test_next_to_multiples_of_half_pi(name):
    multiples = np.random.default_rng(15).integers(1, 1 << 20, 1500) * (np.pi / 2)
    x = multiples.astype(np.float32)
    check(name, np.concatenate([x, np.nextafter(x, np.float32(0.0)), -np.nextafter(x, np.float32(np.inf))]))


@pytest.mark.parametrize("name", ("sin", "cos", "tan"))
def test_huge_arguments_against_mpmath(name):
    rng = np.random.default_rng(16)
    x = np.ldexp(rng.uniform(1.0, 2.0, 300), rng.integers(14, 128, 300)).astype(np.float32)
    # The float32 numbers closest to a multiple of pi/2: Muller, Elementary Functions (2016).
    x[0], x[1] = np.ldexp(np.float32(16367173), 72), -x[0]
    with mpmath.workprec(300):
        exact = np.array([float(getattr(mpmath, name)(mpmath.mpf(float(v)))) for v in x])
    assert ulps(evaluate(name, x), exact).max() <= ULP_LIMIT


def test_exp_of_results_that_are_subnormal_or_overflow():
    rng = np.random.default_rng(17)
    check("exp", rng.uniform(-105.0, -86.0, 2000).astype(np.float32))
    check("exp", rng.uniform(86.0, 90.0, 2000).astype(np.float32))


def test_log_next_to_one_and_of_subnormals():
    check("log", np.float32(1.0) + typical(18, 2000, 1e-4))
    check("log", np.random.default_rng(19).integers(1, 1 << 23, 1000, np.uint32).view(np.float32))


@pytest.mark.parametrize("name", ("log2", "log10"))
def test_logarithms_next_to_one_and_of_subnormals(name):
    check(name, np.float32(1.0) + typical(18, 2000, 1e-4))
    check(name, np.random.default_rng(19).integers(1, 1 << 23, 1000, np.uint32).view(np.float32))


def test_log2_of_powers_of_two_is_exact():
    x = np.arange(-149, 128)
    np.testing.assert_array_equal(evaluate("log2", np.ldexp(1.0, x).astype(np.float32)), x.astype(np.float32))


@pytest.mark.parametrize("name", ("asin", "acos", "erfinv"))
def test_functions_on_the_interval_from_minus_one_to_one(name):
    rng = np.random.default_rng(21)
    next_to_one = 1.0 - 10.0 ** rng.uniform(-8.0, 0.0, 1000)
    x = np.concatenate([rng.uniform(-1.0, 1.0, 5000), next_to_one, -next_to_one]).astype(np.float32)
    check(name, x)


def test_erfcinv_over_its_interval():
    rng = np.random.default_rng(22)
    check("erfcinv", rng.uniform(0.0, 2.0, 4000).astype(np.float32))
    check("erfcinv", (10.0 ** rng.uniform(-45.0, 0.0, 2000)).astype(np.float32))
    check("erfcinv", (2.0 - 10.0 ** rng.uniform(-7.0, 0.0, 1000)).astype(np.float32))


def test_erfc_down_to_its_underflow():
    check("erfc", np.random.default_rng(23).uniform(-4.0, 10.5, 4000).astype(np.float32))


@pytest.mark.parametrize("name", ("sinh", "cosh"))
def test_hyperbolic_functions_up_to_their_overflow(name):
    check(name, np.random.default_rng(24).uniform(-90.0, 90.0, 4000).astype(np.float32))


@pytest.mark.parametrize("name", ("sin", "tan", "tanh", "asin", "atan", "sinh", "cbrt", "erf", "erfinv"))
def test_odd_functions_are_exactly_odd(name):
    x = np.abs(any_float(20, 1000))
    np.testing.assert_array_equal(evaluate(name, -x), -evaluate(name, x))


def test_tanh_of_large_arguments_is_exactly_one():
    x = np.array([9.1, 20.0, 89.0, LARGEST, np.inf], np.float32)
    np.testing.assert_array_equal(evaluate("tanh", np.concatenate([x, -x])), np.repeat([1.0, -1.0], 5))


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_the_compiled_function_is_the_interpreted_one(name):
    x = np.concatenate([typical(5, 2000, 10.0), any_float(6, 500)])
    compiled, interpreted = evaluate(name, x), interpret(name, x)
    finite = np.isfinite(interpreted)
    np.testing.assert_array_equal(np.isfinite(compiled), finite)
    assert ulps(compiled[finite], interpreted[finite].astype(np.float64)).max() <= 2.0
