"""The table of strategies for accesses: which one is taken for which facts, and that the table is sound as a whole."""

from __future__ import annotations

import dataclasses
import random

import pytest

from jwarp.analysis.uniformity import UNIFORM, VARYING, Shape
from jwarp.backend.cpu.access import costs
from jwarp.backend.cpu.access.descriptor import Access, Mask, Space
from jwarp.backend.cpu.access.patterns import Pattern, pattern_of
from jwarp.backend.cpu.access.strategies import ATOMICS, LOADS, STORES, STRATEGIES, Fit, Strategy, choose
from jwarp.backend.cpu.target import Target
from jwarp.ir.nodes import Op, Value
from jwarp.types import float32, float64, int8, int32, int64

WIDE = Target("", "x86-64-v4", "+avx512f", width=16, masks=True, fma=True)
NARROW = Target("", "x86-64", "", width=4, masks=False, fma=False)


def nodes(name: str, count: int = 1) -> tuple[Op, ...]:
    return tuple(Op(name, (), 0, None if name == "store" else Value(float32)) for _ in range(count))


# One number of an array of numbers, by all lanes of a vector.
PLAIN = Access(
    nodes=nodes("load"),
    kind="load",
    space=Space.LAUNCH,
    type=float32,
    size=1,
    components=(0,),
    elements=Pattern.CONTIGUOUS,
    numbers=Pattern.CONTIGUOUS,
    stride=1,
    mask=Mask.FULL,
    never_full=False,
    proved=True,
    exclusive=False,
    stored_once=False,
    uniform_value=False,
    wanted=False,
    uniform_if=(),
    row_length=None,
    run=False,
    short_kernel=True,
    long_kernel=False,
    target=WIDE,
)


def access(name: str = "load", count: int = 1, pattern: Pattern = Pattern.CONTIGUOUS, size: int = 1, **facts) -> Access:
    """An access to `count` components, or numbers, whose elements have this pattern."""
    kind = "atomic" if name.startswith("atomic") else name
    given = {"components": tuple(range(count)), "elements": pattern, "size": size, "nodes": nodes(name, count)}
    numbers = pattern if size == 1 or pattern is Pattern.UNIFORM else Pattern.ARBITRARY
    return dataclasses.replace(PLAIN, kind=kind, **{**given, "numbers": numbers, **facts})


def fast_and_slow(given: Access) -> tuple[str, ...]:
    strategy = choose(given)
    assert strategy is not None
    return strategy.explained(given)


STRIDED, ROW, ANY = Pattern.STRIDED, Pattern.ROW, Pattern.ARBITRARY
LEADING = {"mask": Mask.LEADING}
IN_BRANCH = {"mask": Mask.PARTIAL}


@pytest.mark.parametrize(
    "given, expected",
    [
        (access(), ("vector load",)),
        (access(mask=Mask.PARTIAL), ("vector load",)),
        (access(proved=False), ("vector load", "gather")),
        (access(pattern=Pattern.UNIFORM, proved=False), ("scalar load",)),
        (access(pattern=ANY), ("gather",)),
        (access(pattern=ANY, uniform_if=("%c",)), ("scalar load", "gather")),
        (access(pattern=ROW), ("row in registers", "gather")),
        (access(pattern=ROW, target=NARROW), ("gather",)),
        (access(pattern=ROW, type=float64), ("gather",)),
        (access(pattern=ROW, row_length=64), ("row in registers",)),
        (access(pattern=ROW, row_length=65), ("row in registers", "gather")),
        (access(pattern=ROW, size=3, count=3), ("row in registers", "loads from anywhere + transpose")),
        (access(pattern=STRIDED), ("loads",)),
        (access(pattern=STRIDED, long_kernel=True), ("gather",)),
        (access(pattern=STRIDED, proved=False), ("loads", "gather")),
        (access(pattern=STRIDED, size=3, count=3), ("loads + transpose",)),
        (access(pattern=STRIDED, size=3, count=3, **IN_BRANCH), ("loads + transpose", "gather")),
        (access(pattern=STRIDED, size=9, count=3), ("loads",)),
        (access(count=4, pattern=STRIDED, run=True), ("loads + transpose",)),
        (access(size=3, count=3), ("wide load + shuffle",)),
        (access(size=3, count=3, **LEADING), ("wide load + shuffle",)),
        (access(size=3, count=3, **IN_BRANCH), ("wide load + shuffle", "gather")),
        (access(size=3, count=3, never_full=True, **IN_BRANCH), ("gather",)),
        (access(size=9, count=9), ("loads + transpose",)),
        (access(size=9, count=9, never_full=True, **LEADING), ("wide load + shuffle",)),
        (access(size=3, count=3, proved=False), ("loads from anywhere + transpose",)),
        (access(space=Space.THREAD, pattern=Pattern.UNIFORM), ("local vector load",)),
        (access(space=Space.THREAD, pattern=ANY), ("gather",)),
        (access("store"), ("vector store",)),
        (access("store", proved=False), ("vector store", "scatter")),
        (access("store", pattern=Pattern.UNIFORM, uniform_value=True), ("scalar store",)),
        (access("store", pattern=Pattern.UNIFORM), ("scatter",)),
        (access("store", size=3, count=3), ("shuffle + wide store",)),
        (access("store", size=9, count=9), ("shuffle + wide store",)),
        (access("store", size=12, count=12), ("transpose + stores",)),
        (access("store", pattern=STRIDED, size=4, count=4), ("transpose + stores",)),
        (access("store", pattern=STRIDED), ("stores",)),
        (access("store", pattern=STRIDED, never_full=True, **IN_BRANCH), ("scatter",)),
        (access("atomic_add", pattern=Pattern.UNIFORM), ("one atomic per vector",)),
        (access("atomic_add", pattern=Pattern.UNIFORM, wanted=True), ("atomic",)),
        (access("atomic_add", pattern=Pattern.UNIFORM, wanted=True, type=int32), ("one atomic per vector",)),
        (access("atomic_add", pattern=ANY), ("atomic",)),
        (access("atomic_add", pattern=Pattern.UNIFORM, exclusive=True), ("one addition per vector",)),
        (access("atomic_add", exclusive=True, proved=False), ("vector addition", "plain additions")),
        (access("atomic_add", pattern=ANY, exclusive=True), ("plain additions",)),
        (access("atomic_add", size=3, count=3, exclusive=True), ("wide load + shuffle", "shuffle + wide store")),
        (
            access("atomic_add", pattern=STRIDED, size=4, count=4, exclusive=True, **IN_BRANCH),
            ("loads + transpose", "transpose + stores", "plain additions"),
        ),
    ],
    ids=str,
)
def test_the_instructions_of(given, expected):
    assert fast_and_slow(given) == expected


def random_access(rng: random.Random) -> Access:
    """Any facts that go together."""
    name = rng.choice(["load", "load", "store", "atomic_add", "atomic_max", "atomic_cas"])
    size = rng.choice([1, 1, 2, 3, 4, 9, 12, 36, 37])
    run = name == "load" and size == 1 and rng.random() < 0.2
    count = 4 if run else rng.choice([size, rng.randint(1, size)]) if name in ("load", "store", "atomic_add") else 1
    pattern = rng.choice(list(Pattern))
    given = access(
        name, count, pattern, size,
        type=rng.choice([float32, float32, int32, float64]),
        space=rng.choice([Space.LAUNCH, Space.LAUNCH, Space.BLOCK, Space.THREAD]),
        stride={Pattern.CONTIGUOUS: 1, STRIDED: rng.choice([-3, -1, 2, 4])}.get(pattern),
        mask=rng.choice(list(Mask)),
        proved=rng.random() < 0.6,
        exclusive=name == "atomic_add" and rng.random() < 0.5,
        stored_once=name == "store" and rng.random() < 0.2,
        uniform_value=name == "store" and rng.random() < 0.5,
        wanted=name.startswith("atomic") and rng.random() < 0.3,
        uniform_if=("%c",) if name == "load" and not run and pattern in (ROW, ANY) and rng.random() < 0.2 else (),
        row_length=rng.choice([None, None, 16, 100]),
        run=run,
        short_kernel=rng.random() < 0.5,
        long_kernel=rng.random() < 0.3,
        target=rng.choice([WIDE, NARROW]),
    )  # fmt: skip
    return dataclasses.replace(given, never_full=given.mask is not Mask.FULL and rng.random() < 0.3)


@pytest.fixture(scope="module")
def accesses() -> list[Access]:
    rng = random.Random(0)
    return [random_access(rng) for _ in range(8000)]


def test_a_single_access_has_a_strategy(accesses):
    missing = [a for a in accesses if len(a.nodes) == 1 and choose(a) is None]
    assert not missing, missing[0]


def test_the_cheapest_is_taken_and_never_by_a_tie(accesses):
    for a in accesses:
        applying = sorted((s for s in STRATEGIES[a.kind] if s.applies(a)), key=lambda s: s.cost(a))
        chosen = choose(a)
        assert chosen is (applying[0] if applying else None)
        tied = [s for s in applying[1:] if s.cost(a) == applying[0].cost(a) and s.write is not applying[0].write]
        assert not tied, f"{tied[0].name} and {applying[0].name} cost the same for {a}"


def test_every_strategy_is_taken_for_some_access(accesses):
    taken = {s.name for a in accesses if (s := choose(a)) is not None}
    assert {s.name for s in (*LOADS, *STORES, *ATOMICS)} == taken


def test_every_access_is_explained(accesses):
    for a in accesses:
        strategy = choose(a)
        if strategy is not None:
            assert all(strategy.explained(a)) and strategy.explained(a)
            assert (strategy.fit(a) is not Fit.ALWAYS) <= bool(strategy.slow(a)), strategy.name


def test_names_are_those_of_one_strategy():
    names = [strategy.name for table in STRATEGIES.values() for strategy in table]
    assert len(names) == len(set(names))


def test_a_cheaper_strategy_takes_over(monkeypatch):
    found = Strategy("better", lambda a: a.numbers is ANY, lambda a: costs.ONE, lambda body, access: [])
    monkeypatch.setitem(STRATEGIES, "load", (*LOADS, found))
    assert choose(access(pattern=ANY)) is found
    assert choose(access()) is not found


@pytest.mark.parametrize(
    "shapes, types, expected",
    [
        ((UNIFORM, UNIFORM), (int32, int32), Pattern.UNIFORM),
        ((UNIFORM, Shape(1)), (int32, int32), Pattern.CONTIGUOUS),
        ((UNIFORM, Shape(1)), (int32, int64), Pattern.CONTIGUOUS),
        ((UNIFORM, Shape(1)), (int32, int8), Pattern.ARBITRARY),  # it may wrap within the array
        ((Shape(1), UNIFORM), (int32, int32), Pattern.STRIDED),
        ((Shape(1), Shape(1)), (int32, int32), Pattern.STRIDED),
        ((Shape(-1),), (int32,), Pattern.STRIDED),
        ((Shape(1 << 20),), (int32,), Pattern.ARBITRARY),
        ((UNIFORM, VARYING), (int32, int32), Pattern.ROW),
        ((VARYING,), (int32,), Pattern.ROW),
        ((VARYING,), (int64,), Pattern.ARBITRARY),
        ((Shape(1), VARYING), (int32, int32), Pattern.ARBITRARY),
    ],
    ids=str,
)
def test_patterns(shapes, types, expected):
    assert pattern_of(shapes, types) is expected
