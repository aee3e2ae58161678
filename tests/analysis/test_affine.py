"""Linear forms, and the conditions that they give: their arithmetic, and what launches make of them."""

import itertools

import pytest

from jwarp.analysis.affine import (
    ALWAYS,
    MAX_CLAUSES,
    UNKNOWN,
    Affine,
    Symbol,
    at_least_zero,
    both,
    either,
    evaluate,
)

pytestmark = pytest.mark.quick


def test_arithmetic_is_that_of_what_forms_stand_for():
    values = {"a": 3, "b": -5}

    def value(form):
        return form.constant + sum(c * values[atom] for atom, c in form.terms)

    a, b = Affine.of("a"), Affine.of("b")
    forms = [a, b, a * 2 + b + 1, b - a, -a + 4, Affine.number(7), a - a]
    for x, y in itertools.product(forms, forms):
        assert value(x + y) == value(x) + value(y) and value(x - y) == value(x) - value(y)
        assert value(x * -3) == -3 * value(x) and value(x + 2) == value(x) + 2
        assert (x == y) == (x.coefficients == y.coefficients and x.constant == y.constant)
        assert x != y or hash(x) == hash(y)
    assert (a - a).is_number and (a + b - b) == a and a + b == b + a and (a * 0).is_number
    assert not a.is_number and a != a + 1


COUNT, ANY = Symbol(0, 0, 1 << 31), Symbol(1, -(1 << 31), (1 << 31) - 1)
N, X = Affine.of(COUNT), Affine.of(ANY)


@pytest.mark.parametrize("form", [N, N + 3, Affine.number(0), N * 2 + 1, X + (1 << 31), N + X + (1 << 31)])
def test_what_always_holds_is_no_condition(form):
    assert at_least_zero(form) == ALWAYS


@pytest.mark.parametrize("form", [-N - 1, Affine.number(-1), -N * 3 - 7, N * (1 << 62) - (1 << 63) - 5])
def test_what_no_launch_meets_is_unknown(form):
    assert at_least_zero(form) == UNKNOWN


def test_a_condition_is_evaluated_by_the_symbols():
    condition = at_least_zero(N - 5)
    assert condition not in (ALWAYS, UNKNOWN) and at_least_zero(-X) not in (ALWAYS, UNKNOWN)
    assert [evaluate(condition, {0: n}) for n in (4, 5, None)] == [False, True, None]
    assert evaluate(condition, {}) is None
    assert evaluate(ALWAYS, {}) is True and evaluate(UNKNOWN, {}) is False


def test_conditions_combine_as_truth_values_do():
    parts = [ALWAYS, UNKNOWN, at_least_zero(N - 5), at_least_zero(X), at_least_zero(X - N)]
    for x, y in itertools.product(parts, parts):
        for n, number in itertools.product((0, 5, 9), (-7, 0, 6)):
            known = {0: n, 1: number}
            first, second = evaluate(x, known), evaluate(y, known)
            assert evaluate(both(x, y), known) == (first and second)
            assert evaluate(either(x, y), known) == (first or second)
    assert evaluate(both(at_least_zero(N - 5), at_least_zero(X)), {0: 4}) is False  # whatever the other one is
    assert evaluate(either(at_least_zero(N - 5), at_least_zero(X)), {0: 5}) is True


def test_conditions_do_not_grow_without_end():
    many = both(*(at_least_zero(N - k) for k in range(1, MAX_CLAUSES + 1)))
    assert len(many) == MAX_CLAUSES
    assert both(many, at_least_zero(X)) == UNKNOWN
    few = both(*(at_least_zero(N - k) for k in range(1, 8)))
    assert either(few, at_least_zero(X)) == few  # the first one alone: that is enough
