"""Derivatives that count under conditions: sums, choices and rules, as the values that they stand for."""

import itertools

import pytest

from jwarp.autodiff.conditional import Conditional, Derivatives
from jwarp.autodiff.scalar_rules import Applied
from jwarp.ir.builder import FALSE, TRUE, Builder
from jwarp.ir.nodes import Const, Op, Value
from jwarp.types import bool_, float32

pytestmark = pytest.mark.quick

NAN = float("nan")
CONDITIONS = [None, TRUE, FALSE]


def number(x):
    return Const(float32, x)


def derivatives():
    return Derivatives(Builder())


def holds(where):
    return where is None or where == TRUE


def given(value, where):
    """A derivative that is NaN where it does not count."""
    return Conditional(number(value if holds(where) else NAN), where, is_settled=where is None)


@pytest.mark.parametrize(("first", "second"), [*itertools.product(CONDITIONS, CONDITIONS)])
def test_sums_take_what_counts(first, second):
    made, x = derivatives(), Value(float32)
    made.add(x, given(2.0, first))
    made.add(x, given(3.0, second))
    assert made[x].where is None or holds(made[x].where) == (holds(first) or holds(second))
    assert made.take(x) == number(2.0 * holds(first) + 3.0 * holds(second))
    assert x not in made and made.total(x) == number(0.0)


def test_zero_is_not_added():
    made, x = derivatives(), Value(float32)
    made.add(x, Conditional(number(0.0)))
    assert x not in made


def test_one_condition_is_asked_once():
    made, x, where = derivatives(), Value(float32), Value(bool_)
    a, b = Value(float32), Value(float32)
    made.add(x, Conditional(a, where, is_settled=False))
    made.add(x, Conditional(b, where, is_settled=False))
    assert made[x].where is where and not made[x].is_settled
    made.total(x)
    assert [n.name for n in made.builder.nodes] == ["add", "select"]
    assert made.builder.nodes[1].args[0] is where


@pytest.mark.parametrize(
    ("condition", "x", "y"), [*itertools.product([TRUE, FALSE], [*CONDITIONS, "none"], [*CONDITIONS, "none"])]
)
def test_choices(condition, x, y):
    made = derivatives()
    sides = [None if where == "none" else given(value, where) for where, value in ((x, 2.0), (y, 3.0))]
    found = made.chosen(condition, *sides, number(0.0))
    taken = sides[0] if condition == TRUE else sides[1]
    counts = taken is not None and holds(taken.where)
    expected = (2.0 if condition == TRUE else 3.0) if counts else 0.0
    assert made.settled(found) == number(expected)
    if all(sides):
        assert holds(found.where) == counts


def test_a_rule_that_multiplies_by_a_variable_leaves_zero_unsettled():
    """0 * inf is NaN: what does not count is settled once more afterwards."""
    made, where, factor, g = derivatives(), Value(bool_), Value(float32), Value(float32)
    applied = Applied(made.builder, (factor,), Value(float32), "sin", None)
    scaled = made.through(lambda a, g: a.do("mul", g, factor), applied, Conditional(g, where))
    negated = made.through(lambda a, g: a.do("neg", g), applied, Conditional(g, where))
    assert not scaled.is_settled and negated.is_settled and scaled.where is negated.where is where
    assert made.through(lambda a, g: a.do("mul", g, factor), applied, Conditional(g)).is_settled
    assert all(n.name in ("mul", "neg") for n in made.builder.nodes if isinstance(n, Op))


def test_what_was_not_chosen_does_not_count():
    made, where, inner = derivatives(), Value(bool_), Value(bool_)
    part = made.where(where, Conditional(Value(float32), inner))
    assert not part.is_settled
    (both,) = made.builder.nodes
    assert (both.name, both.args) == ("and", (inner, where)) and part.where is both.result
    assert made.anywhere([part, Conditional(number(1.0))]) is None
    assert made.anywhere([part]) is part.where
