"""Launches whose sizes are formulas: their values in the native module, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from launch_format import ADD, CONSTANT, FLOORDIV, IN_OUT, INPUT, MAX, MIN, MOD, MULTIPLY, VARIABLE, make_launch
from native_kernels import ARRAY, F32, STORED, UNKNOWN, Frame, make_plan, new_fingerprint, python_entry, register

from jwarp import _native

S32 = 4
BINARY = {
    ADD: lambda a, b: a + b,
    MULTIPLY: lambda a, b: a * b,
    FLOORDIV: lambda a, b: a // b,
    MOD: lambda a, b: a % b,
    MAX: max,
    MIN: min,
}
Formula = list[tuple[int, ...]]


def nothing(frame: Frame) -> None:
    pass


def variables(*values: int) -> np.ndarray:
    """The operand that has them as its extents."""
    return np.empty((0, *values), bool)


def random_formula(random: np.random.Generator, values: Sequence[int], depth: int) -> tuple[Formula, int | None]:
    """A formula and its value; None where it divides by 0."""
    if depth == 0 or random.random() < 0.2:
        if random.random() < 0.5:
            constant = int(random.integers(-20, 20))
            return [(CONSTANT, constant)], constant
        k = int(random.integers(len(values)))
        return [(VARIABLE, k)], values[k]
    first, a = random_formula(random, values, depth - 1)
    second, b = random_formula(random, values, depth - 1)
    operation = int(random.choice(list(BINARY)))
    if a is None or b is None or (b == 0 and operation in (FLOORDIV, MOD)):
        return [*first, *second, (operation,)], None
    return [*first, *second, (operation,)], BINARY[operation](a, b)


def test_values_are_pythons() -> None:
    """The launch dimension that an entry is given, against integers of any length."""
    random = np.random.default_rng(0)
    seen: list[int] = []
    fingerprint = register(make_plan(1, [(ARRAY, 1, F32, UNKNOWN)]), lambda frame: seen.append(frame.symbols[0]))
    outcomes = {"ran": 0, "empty": 0, "refused": 0}
    for _ in range(3000):
        values = [int(n) for n in random.integers(0, 40, random.integers(1, 4))]
        formula, expected = random_formula(random, values, int(random.integers(0, 5)))
        launch = make_launch([-1], [(0, -1, INPUT, 0)], variables=len(values), formulas=[formula])
        arrays = [np.zeros(3, np.float32), variables(*values)]
        seen.clear()
        if expected is None or not 0 <= expected < 2**31:
            with pytest.raises(ValueError, match="^jwarp: .*(divided by 0|make a launch dimension|beyond 2)"):
                _native.run_launch(fingerprint, launch, arrays)
            outcomes["refused"] += 1
        elif expected < 10**5:
            _native.run_launch(fingerprint, launch, arrays)
            assert set(seen) == ({expected} if expected else set())
            outcomes["ran" if expected else "empty"] += 1
    assert min(outcomes.values()) > 200


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ([(CONSTANT, 2**62), (CONSTANT, 2), (MULTIPLY,)], None),
        ([(CONSTANT, 2**63 - 1), (CONSTANT, 1), (ADD,)], None),
        ([(CONSTANT, -(2**63)), (CONSTANT, -1), (FLOORDIV,)], None),
        ([(CONSTANT, -(2**63)), (CONSTANT, -1), (MOD,)], None),
        ([(CONSTANT, -(2**63)), (CONSTANT, 2**62), (FLOORDIV,), (CONSTANT, 5), (ADD,)], 3),
        ([(CONSTANT, -(2**63)), (CONSTANT, 7), (MOD,)], -(2**63) % 7),
        ([(CONSTANT, 2**63 - 1), (CONSTANT, -9), (MOD,), (CONSTANT, -1), (MULTIPLY,)], -((2**63 - 1) % -9)),
    ],
)
def test_the_ends_of_int64(formula: Formula, value: int | None) -> None:
    fingerprint = register(make_plan(1, [(ARRAY, 1, S32, UNKNOWN)]), count_columns)
    launch = make_launch([-1], [(0, 0, IN_OUT, 0)], variables=1, formulas=[formula])
    total = np.zeros(1, np.int32)
    arrays = [total, variables(1), total]
    if value is None:
        with pytest.raises(ValueError, match=r"beyond 2\^63 - 1"):
            _native.run_launch(fingerprint, launch, arrays)
    else:
        _native.run_launch(fingerprint, launch, arrays)
        assert total[0] == value


def count_columns(frame: Frame) -> None:
    total = frame.array(0, (1,), np.int32)
    total[0] += (frame.row_end - frame.row_begin) * (frame.column_end - frame.column_begin)


def test_all_sizes_may_be_formulas() -> None:
    """Dims, repeat and batch; each call has its own, also where one call site is used again."""
    fingerprint = register(make_plan(2, [(ARRAY, 1, S32, UNKNOWN)]), count_columns)
    a, b = [(VARIABLE, 0)], [(VARIABLE, 1)]
    product = [*a, *b, (MULTIPLY,)]
    launch = make_launch([-1, -2], [(0, 0, IN_OUT, 1)], batch=[-2], repeat=-3, variables=2, formulas=[a, b, product])
    for first, second in [(1, 1), (3, 4), (0, 2), (5, 2)]:
        total = np.zeros((second, 1), np.int32)
        _native.run_launch(fingerprint, launch, [total, variables(first, second), total])
        np.testing.assert_array_equal(total, first * second * first * second)
    with pytest.raises(ValueError, match="expected batch extents"):
        _native.run_launch(fingerprint, launch, [total, variables(1, 3), total])


def test_a_record_with_other_variables() -> None:
    """A layout for some variables is not used for others."""
    fingerprint = register(make_plan(1, [(ARRAY, 1, S32, UNKNOWN)]), count_columns)
    launch = make_launch([-1], [(0, 0, IN_OUT, 0)], variables=1, formulas=[[(VARIABLE, 0)]])
    total = np.zeros(1, np.int32)
    call = _native.HostLaunch(fingerprint, b"", launch, [0, 1], [0])
    for n in (5, 7, 7, 0, 5):
        total[:] = 0
        call([total, variables(n)])
        assert total[0] == n


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formulas": [[]]}, "a formula has 0 values"),
        ({"formulas": [[(VARIABLE, 0), (VARIABLE, 0)]]}, "a formula has 2 values"),
        ({"formulas": [[(VARIABLE, 0), (ADD,)]]}, "a formula lacks an operand"),
        ({"formulas": [[(VARIABLE, 1)]]}, "a variable is 1"),
        ({"formulas": [[(VARIABLE, -1)]]}, "a variable is -1"),
        ({"formulas": [[(8,)]]}, "a step of a formula is 8"),
        ({"formulas": []}, "variables and no formulas"),
        ({"variables": 65}, "the number of variables is 65"),
        ({"dims": [-2]}, "a launch dimension is -2"),
        ({"repeat": -2}, "the repeat count is -2"),
        ({"batch": [-2]}, "a batch extent is -2"),
        ({"variables": 2}, r"shape \(0, 4\), expected 0 and 2 extents"),
    ],
)
def test_wrong_formulas_are_refused(changes: dict[str, object], message: str) -> None:
    fingerprint = register(make_plan(1, [(ARRAY, 1, F32, UNKNOWN)]), nothing)
    good: dict = {
        "dims": [-1],
        "bindings": [(0, -1, INPUT, 0)],
        "variables": 1,
        "formulas": [[(VARIABLE, 0)]],
    }
    x = np.zeros(4, np.float32)
    _native.run_launch(fingerprint, make_launch(**good), [x, variables(4)])
    with pytest.raises(ValueError, match=f"^jwarp: .*{message}"):
        _native.run_launch(fingerprint, make_launch(**(good | changes)), [x, variables(4)])
    for arrays, text in [([x], "lacks operand 1"), ([x, x], "expected 0 and 1 extents"),
                         ([x, np.zeros((1, 4), bool)], "expected 0 and 1 extents")]:  # fmt: skip
        with pytest.raises(ValueError, match=f"^jwarp: .*{text}"):
            _native.run_launch(fingerprint, make_launch(**good), arrays)


def test_random_damage_never_crashes() -> None:
    """Numbers changed at random give a launch that runs, or a ValueError."""
    random = np.random.default_rng(0)
    plan = make_plan(2, [(ARRAY, 2, F32, STORED), (ARRAY, 1, F32, UNKNOWN)])
    formulas: list[Formula] = [
        [(VARIABLE, 0), (CONSTANT, 2), (FLOORDIV,)],
        [(VARIABLE, 1), (VARIABLE, 0), (MOD,), (CONSTANT, 1), (MAX,)],
    ]
    launch = make_launch([-1, -2], [(0, 0, IN_OUT, 1), (1, -1, INPUT, 0)], [2], 1, 2, formulas)
    fixed = launch.size - len([2, 1, 2, 2, 0, 0, 1, 0, 1, -1, 0, 0]) + 1
    x = np.zeros((2, 3, 4), np.float32)
    entry, fingerprint = python_entry(nothing), new_fingerprint()
    _native.register_kernel(fingerprint, plan, entry, entry)
    small = np.arange(-3, 9)
    extreme = np.array([-(2**63), -(2**31), 2**31, 2**62, 2**63 - 1])
    outcomes = {"ran": 0, "refused": 0}
    for _ in range(4000):
        damaged = launch.copy()
        for _ in range(random.integers(0, 3)):
            at = random.integers(launch.size)
            # Huge sizes are valid launches that never end.
            damaged[at] = random.choice(small if at >= fixed - 2 else np.concatenate([small, extreme]))
        shape = random.integers(0, 6, random.integers(0, 4)) if random.random() < 0.2 else np.array([0, 7, 5])
        try:
            _native.run_launch(fingerprint, damaged, [x, np.zeros(3, np.float32), np.empty(shape, bool), x])
            outcomes["ran"] += 1
        except ValueError as error:
            assert str(error).startswith("jwarp: ")
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 200
