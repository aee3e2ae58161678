"""Every row of the table of simplifications is right, in every type, on operands at which operations go wrong."""

from __future__ import annotations

import numpy as np
import pytest
from op_kernels import operand_sets, same

from jwarp.ir.builder import simplify_op
from jwarp.ir.evaluate import EVAL_RULES, as_array, as_constant, evaluate
from jwarp.ir.nodes import Const, Value
from jwarp.ir.ops import OPS
from jwarp.ir.rewrites import FINITE_REWRITES, OF_FINITE, REWRITES, Rewrite, Variable, constant_of
from jwarp.types import SCALARS, ScalarType, bool_, float32, int32, uint8
from jwarp.types.tiles import tile_type


def operand_types(row: Rewrite, result: ScalarType) -> list[ScalarType]:
    """The types of the operands of a row whose result has a type."""
    if row.operation == "cast" and not isinstance(row.pattern[0], Variable):
        return [float32]
    return [bool_, result, result] if row.operation == "select" else [result] * len(row.pattern)


def result_types(row: Rewrite) -> list[ScalarType]:
    found = [t for t in SCALARS.values() if t.kind in row.kinds and t.kind in OPS[row.operation].kinds]
    assert found, row
    return found


CASES = [(row, type_) for row in REWRITES for type_ in result_types(row)]


@pytest.mark.parametrize("operation", sorted({row.operation for row in REWRITES}))
def test_rows_give_what_the_operation_gives(operation):
    for row, result in CASES:
        if row.operation != operation:
            continue
        types = operand_types(row, result)
        values: dict[Variable, np.ndarray] = {}
        for term, type_ in zip(row.pattern, types, strict=True):
            if isinstance(term, Variable) and term not in values:
                values[term] = operand_sets(type_, 1, seed=len(values))[0]
        size = min(map(len, values.values()))
        args = [
            values[term][:size] if isinstance(term, Variable) else np.full(size, constant_of(type_, term), type_.dtype)
            for term, type_ in zip(row.pattern, types, strict=True)
        ]
        with np.errstate(all="ignore"):
            exact = evaluate(operation, tuple(args), result)
            fixed = not isinstance(row.result, Variable)
            given = np.full(size, constant_of(result, row.result), result.dtype) if fixed else values[row.result][:size]
            assert same(exact, given), (row, result)


def test_rows_are_found():
    for row, result in CASES:
        values = {}
        args = []
        for term, type_ in zip(row.pattern, operand_types(row, result), strict=True):
            if isinstance(term, Variable):
                args.append(values.setdefault(term, Value(type_)))
            else:
                args.append(Const(type_, constant_of(type_, term)))
        made = simplify_op(row.operation, tuple(args), result)
        if isinstance(row.result, Variable):
            assert made is values[row.result], (row, result)
        else:
            assert made == Const(result, constant_of(result, row.result)), (row, result)


@pytest.mark.parametrize("row", FINITE_REWRITES, ids=lambda row: row.operation)
def test_rows_for_finite_values_hold_for_either_zero(row):
    rng = np.random.default_rng(0)
    for result in result_types(row):
        types, values, args, given = operand_types(row, result), {}, [], []
        for term, type_ in zip(row.pattern, types, strict=True):
            if isinstance(term, Variable):
                drawn = rng.integers(0, 2, 50) if type_ is bool_ else rng.integers(-8, 8, 50) * 0.25
                if type_.kind == "uint":
                    drawn = np.abs(drawn)
                args.append(values.setdefault(term, drawn.astype(type_.dtype)))
                given.append(next((g for g, t in zip(given, row.pattern, strict=False) if t is term), Value(type_)))
            else:
                zeros = rng.choice([0.0, -0.0], 50) if type_.is_float else np.zeros(50)
                args.append(zeros.astype(type_.dtype))
                given.append(Const(type_, constant_of(type_, term)))
        found = OF_FINITE.rewritten(row.operation, tuple(given), result)
        if isinstance(row.result, Variable):
            k = row.pattern.index(row.result)
            assert found is given[k]
            expected = args[k]
        else:
            assert found == Const(result, constant_of(result, row.result))
            expected = np.full(50, found.value, result.dtype)
        np.testing.assert_array_equal(evaluate(row.operation, tuple(args), result), expected)


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("add", ["x 0.0", "0.0 x"]),  # -0.0
        ("sub", ["x x", "x -0.0", "0.0 x"]),  # infinities; 0.0 - -0.0
        ("mul", ["x 0.0", "0.0 x", "x -1.0"]),
        ("div", ["x x", "0.0 x"]),
        ("eq", ["x x"]),  # NaN
        ("ne", ["x x"]),
        ("le", ["x x"]),
        ("ge", ["x x"]),
        ("floordiv", ["x 1.0"]),
    ],
)
def test_what_is_wrong_for_some_float_is_no_row(name, patterns):
    x = Value(float32)
    for pattern in patterns:
        args = tuple(x if word == "x" else Const(float32, float(word)) for word in pattern.split())
        type_ = bool_ if name in ("eq", "ne", "le", "ge") else float32
        assert simplify_op(name, args, type_) is None


def test_a_row_keeps_the_type():
    tile = tile_type(float32, (3,))
    x, cond = Value(tile), Value(bool_)
    assert simplify_op("mul", (x, Const(tile, 1.0)), tile) is x
    assert simplify_op("select", (cond, x, x), tile) is x
    bools = tile_type(bool_, (3,))
    assert simplify_op("select", (cond, Const(bools, True), Const(bools, False)), bools) is None
    assert simplify_op("cast", (Value(int32),), uint8) is None


def test_folding_is_what_the_operation_gives():
    rng = np.random.default_rng(0)
    for name in ("add", "mul", "min", "and", "shl"):
        for type_ in (int32, uint8):
            x, y = (as_constant(v, type_) for v in rng.integers(0, 100, 2).astype(type_.dtype))
            expected = EVAL_RULES[name](*(np.asarray(as_array(c)) for c in (x, y)))
            assert simplify_op(name, (x, y), type_).value == expected
