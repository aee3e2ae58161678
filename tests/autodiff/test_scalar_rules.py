"""Every rule of DERIVATIVES against central differences, and finite at the points where formulas divide by zero."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jwarp as wp
from jwarp.autodiff.scalar_rules import DERIVATIVES, Applied
from jwarp.ir.evaluate import evaluate
from jwarp.ir.nodes import Const
from jwarp.ir.ops import OPS
from jwarp.types import bool_, float64

pytestmark = pytest.mark.quick

# Operations that are constant between jumps.
STEPS = {name for name, row in OPS.items() if row.numeric.is_step}
RANGES = {
    "asin": (-0.95, 0.95),
    "acos": (-0.95, 0.95),
    "erfinv": (-0.95, 0.95),
    "erfcinv": (0.05, 1.95),
    "sqrt": (0.1, 3.0),
    "log": (0.1, 3.0),
    "log2": (0.1, 3.0),
    "log10": (0.1, 3.0),
    "pow": (0.1, 3.0),
}
SMOOTH = sorted(set(DERIVATIVES) - {"select", "cast", "follow", "slope", "barred", "over"})
STEP = 1e-6


class Values:
    """A builder that computes instead of building, one thread's numbers at a time."""

    def op(self, name, *args, type=None):
        result = type or OPS[name].result(tuple(a.type for a in args))
        with np.errstate(all="ignore"):
            value = evaluate(name, tuple(np.asarray(a.value, a.type.dtype) for a in args), result)
        return Const(result, np.asarray(value).item())


def apply(name, *numbers):
    return Values().op(name, *(Const(float64, float(x)) for x in numbers)).value


def slope(name, k, *numbers, g=1.0):
    """The result of the rule of argument `k` for `g`."""
    args = tuple(Const(float64, float(x)) for x in numbers)
    rule = DERIVATIVES[name][k]
    return rule(Applied(Values(), args, Values().op(name, *args)), Const(float64, g)).value


def test_every_operation_on_floats_has_a_derivative_or_is_known_to_have_none():
    made = {
        name
        for name, row in OPS.items()
        if row.effect == "pure"
        and row.arity
        and "float" in row.kinds
        and row.result
        and row.result((bool_ if name == "select" else float64, *[float64] * (row.arity - 1))) is float64
    }
    assert made - set(DERIVATIVES) - STEPS == set()
    assert not set(DERIVATIVES) & STEPS
    assert set(DERIVATIVES) | STEPS <= set(OPS)
    assert all(len(rules) == OPS[name].arity for name, rules in DERIVATIVES.items())


@pytest.mark.parametrize("name", SMOOTH)
def test_rules_against_central_differences(name):
    made = np.random.default_rng(len(name) + ord(name[0]))
    low, high = RANGES.get(name, (-2.5, 2.5))
    for _ in range(20):
        numbers = made.uniform(low, high, len(DERIVATIVES[name]))
        for k, rule in enumerate(DERIVATIVES[name]):
            step = STEP * np.eye(len(numbers))[k]
            difference = (apply(name, *numbers + step) - apply(name, *numbers - step)) / (2 * STEP)
            found = slope(name, k, *numbers, g=1.5) if rule else 0.0
            # Rounding leaves about 1e-16 / STEP of the difference, truncation STEP^2 of a third derivative.
            assert_allclose(
                found, 1.5 * difference, rtol=2e-6, atol=1e-7, err_msg=f"{name}, argument {k}, at {numbers}"
            )


@pytest.mark.parametrize(
    ("name", "numbers", "slopes"),
    [
        ("sqrt", (0.0,), (0.0,)),
        ("cbrt", (0.0,), (0.0,)),
        ("abs", (0.0,), (0.0,)),
        ("abs", (-0.0,), (0.0,)),
        ("asin", (1.0,), (0.0,)),
        ("asin", (-1.0,), (0.0,)),
        ("asin", (1.5,), (0.0,)),
        ("acos", (1.0,), (0.0,)),
        ("acos", (-1.0,), (0.0,)),
        ("acos", (-1.5,), (0.0,)),
        ("atan2", (0.0, 0.0), (0.0, 0.0)),
        ("atan2", (1e200, 1e200), (0.5e-200, -0.5e-200)),
        ("min", (2.0, 2.0), (0.0, 1.0)),
        ("max", (2.0, 2.0), (0.0, 1.0)),
        ("pow", (0.0, 0.0), (0.0, 0.0)),
        ("pow", (0.0, 1.0), (1.0, 0.0)),
        ("pow", (0.0, 2.0), (0.0, 0.0)),
        ("pow", (-2.0, 0.0), (0.0, None)),
        ("pow", (-2.0, 3.0), (12.0, None)),
    ],
)
def test_kinks_and_guards(name, numbers, slopes):
    """None stands for a derivative that no real number is: by the exponent of a negative base."""
    for k, expected in enumerate(slopes):
        if expected is not None:
            assert_allclose(slope(name, k, *numbers), expected, rtol=1e-12, err_msg=f"argument {k}")


@pytest.mark.parametrize("first", [True, False])
def test_select_passes_to_the_chosen_one(first):
    args = (Const(bool_, first), Const(float64, 2.0), Const(float64, 3.0))
    applied = Applied(Values(), args, Const(float64, 2.0 if first else 3.0))
    found = [rule(applied, Const(float64, 1.5)).value for rule in DERIVATIVES["select"][1:]]
    assert found == ([1.5, 0.0] if first else [0.0, 1.5])


def test_follow_has_the_derivative_of_its_second_argument():
    assert DERIVATIVES["follow"][0] is None
    assert slope("follow", 1, 2.0, 5.0, g=1.5) == 1.5
    assert apply("follow", 2.0, 5.0) == 2.0


@wp.kernel
def squashed(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * wp.tanh(x[i]) + x[i]


def test_an_operation_without_a_rule_is_refused_when_its_derivative_is_taken(monkeypatch):
    monkeypatch.delitem(DERIVATIVES, "tanh")
    x = np.ones(3, np.float32)
    squashed_fn = wp.jax_kernel(squashed)
    assert_allclose(squashed_fn(x)[0], 2.0 * np.tanh(1.0) + 1.0, rtol=1e-6)
    for derivative in (jax.grad(lambda x: squashed_fn(x)[0].sum()), lambda x: jax.jvp(squashed_fn, (x,), (x,))):
        with pytest.raises(wp.NotDifferentiableError, match="`tanh` has no derivative yet"):
            derivative(x)


def divided(dtype):
    x = wp.array[dtype]

    @wp.kernel
    def quotients(x: x, y: x, q: x):
        i = wp.tid()
        q[i] = x[i] / y[i]

    launched = wp.jax_kernel(quotients)
    return lambda x, y: jax.tree.leaves(launched(x, y))[0]


@pytest.mark.parametrize("dtype", [wp.float16, wp.float32])
def test_quotient_by_its_divisor_is_a_number_where_the_numerators_derivative_overflows(dtype):
    """Zeros over tiny numbers, and what is small over them, with a large cotangent: g / y is infinite."""
    kind = dtype.dtype
    tiny, large = np.sqrt(np.finfo(kind).tiny), np.sqrt(np.finfo(kind).max)
    rng = np.random.default_rng(6)
    y = (tiny * rng.uniform(0.1, 0.2, 64) * rng.choice([-1, 1], 64)).astype(kind)
    g = (large * rng.uniform(0.5, 0.9, 64)).astype(kind)
    x = np.where(np.arange(64) % 2, 0.0, y * tiny * rng.uniform(0.1, 0.2, 64)).astype(kind)
    with np.errstate(over="ignore"):
        assert not np.isfinite(g / y).any()
    exact = -g.astype(np.float64) * x / y.astype(np.float64) ** 2
    assert (abs(exact) < np.finfo(kind).max).all()
    divide = divided(dtype)
    (by_y,) = jax.vjp(lambda y: divide(x, y), y)[1](jax.numpy.asarray(g))
    along_y = jax.jvp(lambda y: divide(x, y), (y,), (g,))[1]
    for found in (by_y, along_y):
        assert_allclose(np.asarray(found, np.float64), exact, rtol=0.2 if kind == np.float16 else 1e-4)
    assert (x == 0).any() and (exact != 0).any()


def test_second_derivatives_of_a_quotient_where_it_is_zero():
    divide, y = divided(wp.float32), np.float32(1.7)

    def first(k):
        return jax.grad(lambda x, y: divide(x[None], y[None])[0], k)

    for k, other in ((0, 1), (1, 0)):
        assert_allclose(jax.grad(first(k), other)(np.float32(0.0), y), -1 / y**2, rtol=1e-6)
