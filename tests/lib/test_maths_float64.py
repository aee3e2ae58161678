"""Accuracy and special values of the float64 functions of jwarp/lib, against mpmath and NumPy."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from elementwise import evaluate
from scipy import special

import jwarp as wp
from jwarp.ir.evaluate import evaluate as reference
from jwarp.ir.ops import ELEMENTARY, OPS

ULP_LIMIT = 2.0
TWO_ARGUMENTS = tuple(sorted(name for name in ELEMENTARY if OPS[name].arity == 2))
ONE_ARGUMENT = tuple(sorted(ELEMENTARY.difference(TWO_ARGUMENTS)))
COUNT = 150

pytestmark = pytest.mark.usefixtures("x64")

LARGEST = 1.7976931348623157e308
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, -2.5, 4.0, -8.0]
    + [np.inf, -np.inf, np.nan, LARGEST, -LARGEST, 5e-324, -5e-324, 1e-310, -1e-310]
    + [2.0**53 - 1, 1.0 - 2.0**53, 2.0**53, 2.0**52 - 0.5, 709.7827128933841, -745.1332191019412, -746.0, 711.0]
    + [1.0 + 2.0**-52, 1.0 - 2.0**-53, -1.0 - 2.0**-52, 2.0**20, 2.0**20 + 1, 1e22, -1e300]
)


def inverse(x: mpmath.mpf, start: float, function, sign: int) -> mpmath.mpf:
    """Where erf (sign 1) or erfc (sign -1) is x, by Newton's method from SciPy's answer."""
    y = mpmath.mpf(start)
    for _ in range(8):
        slope = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y)
        y -= sign * (function(y) - x) / slope
    return y


def exact(name: str, *arguments: float) -> mpmath.mpf:
    """The function in more digits than it needs, within its domain."""
    x, *rest = (mpmath.mpf(a) for a in arguments)
    match name:
        case "pow":
            return mpmath.power(x, rest[0])
        case "atan2":
            return mpmath.atan2(x, rest[0])
        case "log2":
            return mpmath.log(x) / mpmath.log(2)
        case "cbrt":
            return mpmath.sign(x) * mpmath.cbrt(abs(x))
        case "erfinv":
            return inverse(x, float(special.erfinv(arguments[0])), mpmath.erf, 1)
        case "erfcinv":
            return inverse(x, min(float(special.erfcinv(arguments[0])), 27.2), mpmath.erfc, -1)
    return getattr(mpmath, name)(x)


def check(name: str, *arguments: np.ndarray, digits: int = 40) -> None:
    results = evaluate(name, *arguments)
    worst = (0.0, None)
    with mpmath.workdps(digits):
        for result, *point in zip(results.tolist(), *(a.tolist() for a in arguments), strict=True):
            wanted = exact(name, *point)
            if abs(wanted) > LARGEST:
                assert result == float(wanted), point
                continue
            last_place = mpmath.ldexp(1, max(int(mpmath.frexp(wanted)[1]) - 53, -1074))
            worst = max(worst, (float(abs(result - wanted) / last_place), point), key=lambda pair: pair[0])
    assert worst[0] <= ULP_LIMIT, worst


def uniform(seed: int, low: float, high: float, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, count)


def samples(name: str) -> np.ndarray:
    """Arguments at which the function varies, of every size that it takes."""
    rng = np.random.default_rng(1)
    tiny = 10.0 ** uniform(2, -12.0, 0.0)
    match name:
        case "asin" | "acos" | "erfinv":
            next_to_one = 1.0 - 10.0 ** uniform(3, -15.0, -0.3)
            return np.concatenate([uniform(4, -1.0, 1.0), next_to_one, -next_to_one, -tiny[tiny < 1.0]])
        case "erfcinv":
            subnormal = np.array([5e-324, 1e-320, 1e-310])
            return np.concatenate([uniform(5, 0.0, 2.0), 10.0 ** uniform(6, -307.0, 0.0), 2.0 - tiny, subnormal])
        case "log" | "log2" | "log10":
            subnormal = rng.integers(1, 1 << 52, 20).view(np.float64)
            usual = np.exp(uniform(7, -700.0, 700.0))
            return np.concatenate([usual, uniform(8, 0.5, 2.0), 1.0 + tiny * 0.1, 1.0 - tiny * 0.1, subnormal])
        case "exp" | "sinh" | "cosh":
            return np.concatenate([uniform(9, -750.0, 712.0), rng.normal(0, 1, COUNT), tiny])
        case "erfc":
            return np.concatenate([uniform(10, -3.0, 27.3), uniform(11, 0.3, 1.2), -tiny])
        case "cbrt":
            return np.concatenate([rng.normal(0, 1, COUNT), 10.0 ** uniform(12, -323.0, 308.0)])
    return np.concatenate([rng.normal(0, 1, COUNT), rng.normal(0, 30, COUNT), tiny, -(10.0 ** uniform(13, 0, 8))])


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_one_argument(name):
    check(name, samples(name), digits=60 if name == "acos" else 40)


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_special_values_of_one_argument(name):
    compare(name, SPECIAL)


@pytest.mark.parametrize("name", TWO_ARGUMENTS)
def test_special_values_of_two_arguments(name):
    compare(name, *(grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL)))


def compare(name: str, *arguments: np.ndarray) -> None:
    """NumPy and SciPy are within 10 units or so, and right about infinities, NaN and signs of zero."""
    result, expected = evaluate(name, *arguments), reference(name, arguments, wp.float64)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_array_equal(np.signbit(result)[~np.isnan(result)], np.signbit(expected)[~np.isnan(result)])
    np.testing.assert_allclose(result, expected, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("name", ("sin", "cos", "tan"))
def test_arguments_of_any_size(name):
    rng = np.random.default_rng(14)
    x = np.ldexp(rng.uniform(1.0, 2.0, 200), rng.integers(15, 1024, 200))
    # The float64 number closest to a multiple of pi/2: Muller, Elementary Functions (2016).
    x[0], x[1] = np.ldexp(6381956970095103.0, 797), -x[2]
    check(name, x, digits=400)


@pytest.mark.parametrize("name", ("sin", "cos", "tan"))
def test_next_to_multiples_of_half_pi(name):
    x = np.random.default_rng(15).integers(1, 660000, 100) * (np.pi / 2)
    check(name, np.concatenate([x, np.nextafter(x, 0.0), -np.nextafter(x, np.inf)]), digits=60)


def test_pow():
    rng = np.random.default_rng(16)
    check("pow", np.exp(rng.normal(0.0, 2.0, 400)), rng.normal(0.0, 100.0, 400))
    check("pow", 1.0 + rng.normal(0.0, 0.01, 300), rng.normal(0.0, 10000.0, 300))
    check("pow", rng.integers(1, 1 << 52, 50).view(np.float64), rng.normal(0.0, 0.5, 50))
    check("pow", -np.exp(rng.normal(0.0, 1.0, 100)), np.rint(rng.normal(0.0, 100.0, 100)))


def test_atan2():
    rng = np.random.default_rng(17)
    check("atan2", *rng.normal(0.0, 1.0, (2, 400)))
    check("atan2", *np.ldexp(rng.normal(0.0, 1.0, (2, 200)), rng.integers(-1060, -1030, (2, 200))))
    check("atan2", *np.ldexp(rng.uniform(0.5, 1.0, (2, 200)), rng.integers(1000, 1025, (2, 200))))


def test_exact_results():
    n = np.arange(-1074, 1024)
    np.testing.assert_array_equal(evaluate("log2", np.ldexp(1.0, n)), n)
    np.testing.assert_array_equal(evaluate("pow", np.full(n.shape, 2.0), n.astype(float)), np.ldexp(1.0, n))
    cubes = np.arange(-1000.0, 1000.0)
    np.testing.assert_array_equal(evaluate("cbrt", cubes**3), cubes)


@pytest.mark.parametrize("name", ("sin", "tan", "asin", "atan", "sinh", "tanh", "cbrt", "erf", "erfinv"))
def test_odd_functions_are_exactly_odd(name):
    x = np.concatenate([uniform(18, 0.0, 1.0), uniform(19, 0.0, 1e7)])
    np.testing.assert_array_equal(evaluate(name, -x), -evaluate(name, x))
