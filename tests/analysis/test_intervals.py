"""Intervals have every value that the interpreter finds, and are as narrow as the definitions say."""

from __future__ import annotations

import numpy as np
import pytest
from textual_ir import read

from jwarp.analysis.intervals import INTERVALS, Interval, Intervals, upward_loops
from jwarp.ir.builder import Builder
from jwarp.ir.contents import contents_of
from jwarp.ir.evaluate import EVAL_RULES, evaluate
from jwarp.ir.nodes import Block, Const, Value
from jwarp.ir.ops import OPS
from jwarp.types import ScalarType, bool_, int8, int32, int64, uint8, uint32

pytestmark = pytest.mark.quick


def stored(text: str, **options: bool) -> list[Interval]:
    """The intervals of the values that a kernel stores."""
    body = read(text).body
    contents = contents_of(body)
    found = Intervals(contents.definitions, upward_loops(body), **options)
    return [found.of(n.args[-1]) for n in contents.ops if n.row.is_store]


def test_arithmetic_of_a_coordinate():
    assert stored("""
        kernel k(x: array[int64]), tid 1
          %0: int32 = tid 0
          %1: int32 = and %0, 7
          %2: int32 = mul %1, 4
          %3: int32 = sub %2, 3
          %4: int32 = floordiv %3, 2
          %5: int32 = mod %3, 5
          %6: int32 = shr %2, 1
          %7: int64 = cast %4
          %8: int64 = cast %5
          %9: int64 = cast %6
          store x[%0], %7
          store x[%0], %8
          store x[%0], %9
    """) == [(-2, 12), (-3, 4), (0, 14)]


def test_loops_and_choices():
    text = """
        kernel k(x: array[int32], n: int32), tid 1
          %0: int32 = tid 0
          %1: int32 = param n
          for %2: int32 = 2 .. 10 step 1 {
            %3: bool = lt %2, %1
            %4: int32 = select %3, %2, -1
            store x[%0], %2
            store x[%0], %4
          }
          for %5: int32 = 0 .. %1 step 1 {
            store x[%0], %5
          }
    """
    assert stored(text) == [(2, 9), (-1, 9), (0, int32.max - 1)]


def test_what_may_wrap_has_any_value():
    text = """
        kernel k(x: array[int32]), tid 1
          %0: int32 = tid 0
          %1: int32 = add %0, 5
          %2: int32 = mul %0, 2
          store x[%0], %1
          store x[%0], %2
    """
    anything = (int32.min, int32.max)
    assert stored(text) == [anything, anything]
    assert stored(text, assumes_exact=True) == [(5, int32.max), (0, int32.max)]


def test_a_narrower_type_cuts_off_although_integers_are_taken_not_to_wrap():
    text = """
        kernel k(x: array[int8]), tid 1
          %0: int32 = tid 0
          %1: int8 = cast %0
          store x[%0], %1
    """
    assert stored(text, assumes_exact=True) == [(-128, 127)]


def operands(rng: np.random.Generator, type_: ScalarType) -> tuple[Interval, np.ndarray]:
    """An interval of a type, and values in it, with its ends."""
    if type_ is bool_:
        return Interval(0, 1), np.array([False, True] * 20)
    ends = [0, 1, -1, 3, 7, type_.min, type_.max, type_.max // 2, *rng.integers(-20, 20, 4).tolist()]
    low, high = sorted(int(e) for e in rng.choice([e for e in ends if type_.min <= e <= type_.max], 2))
    span = min(high - low, 1 << 62)
    inside = [low + int(rng.integers(0, span, endpoint=True)) for _ in range(38)]
    return Interval(low, high), np.array([low, high, *inside], type_.dtype)


@pytest.mark.parametrize("name", sorted(INTERVALS.keys() & EVAL_RULES.keys()))
def test_every_value_is_in_the_interval(name):
    rng = np.random.default_rng(len(name))
    narrow = 0
    for round_ in range(120):
        type_ = (int8, uint8, int32, uint32, int64)[round_ % 5]
        row = OPS[name]
        types = [bool_, type_, type_] if row.transfer.chooses else [type_] * (row.arity or 0)
        result = (int8, int32, int64, uint32)[round_ % 4] if row.transfer.converts else type_
        made = [operands(rng, t) for t in types]
        args = [Value(t) for t in types]
        builder = Builder()
        value = builder.op(name, *args, type=result)
        if not isinstance(value, Value) or value in args:
            continue
        known = {x: interval for x, (interval, _) in zip(args, made, strict=True)}
        body = Block(tuple(builder.nodes))
        found = Intervals(contents_of(body).definitions, known=known).of(value)
        arrays = [rng.permutation(values) for _, values in made]
        exact = evaluate(name, tuple(arrays), result)
        assert found.low <= int(exact.min()) and int(exact.max()) <= found.high, (name, type_, made)
        narrow += found != (result.min, result.max)
    assert narrow >= 20, "a rule that says nothing"


def test_constants_and_parameters():
    found = Intervals({})
    assert found.of(Const(int32, 5)) == (5, 5)
    assert found.of(Value(uint8)) == (0, 255)
    assert found.is_count(Value(uint32)) and not found.is_count(Value(int32)) and not found.is_count(Value(bool_))
    assert found.within(Const(int64, 3), 0, 3) and not found.within(Const(int64, 4), 0, 3)
