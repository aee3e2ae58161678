"""Summaries of an analysis: what launches read from them, and that writing them down loses nothing."""

import itertools

import numpy as np
import pytest

import jwarp as wp
from jwarp.analysis.affine import Affine, Symbol
from jwarp.analysis.ranges import prove
from jwarp.analysis.summary import Coordinate, Summary, outside, reach, summarize, summary_from_bytes
from jwarp.compiler.cpu import CpuKernel
from jwarp.config import Settings

pytestmark = pytest.mark.quick


@wp.kernel
def stencil(x: wp.array2d[float], n: int, y: wp.array2d[float]):
    i, j = wp.tid()
    if i > 0 and j < n - 1:
        y[i, j] = x[i - 1, j + 1] + x[2 * i, j]


@wp.kernel
def backwards(x: wp.array[float], table: wp.array[int], k: wp.int64, y: wp.array[float]):
    i = wp.tid()
    last = x.shape[0] - 1
    y[i] = x[last - i] + x[table[i]] + x[-3] + x[0] + x[0]


@wp.kernel
def loop(x: wp.array3d[float], n: int, y: wp.array[float]):
    i = wp.tid()
    total = 0.0 * x[i, 0, 0]
    for j in range(n):
        total += x[i, j, j // 2]
    y[i] = total


@wp.kernel
def nothing(x: wp.array[float]):
    wp.tid()


@pytest.mark.parametrize("kernel", [stencil, backwards, loop, nothing], ids=lambda k: k.name)
def test_a_summary_survives_writing(kernel):
    ir = kernel.ir(Settings())
    proofs = prove(CpuKernel(ir, Settings(cache_dir="")).optimized())
    made = summarize(proofs)
    read = summary_from_bytes(made.to_bytes(), ir)
    assert read == made
    assert read.to_bytes() == made.to_bytes()
    assert read.condition == proofs.condition
    assert read.covers == proofs.covers
    assert {a.array for a in read.always} == {a.array for a in proofs.always}


def test_summaries_tell_conditions_apart():
    n, m = Symbol(4, 0, 9), Symbol(5, 0, 9)
    x, y = Affine.of(n), Affine.of(m) - 1
    conditions = [
        frozenset(clauses)
        for clauses in (
            [],
            [frozenset()],
            [frozenset({x})],
            [frozenset({x, y})],
            [frozenset({x}), frozenset({y})],
        )
    ]
    assert len({Summary(c, (), (), {}, 1).to_bytes() for c in conditions}) == len(conditions)


def test_reach_is_that_of_all_threads():
    random = np.random.default_rng(3)
    atoms = [Coordinate(0), Coordinate(2), Symbol(4, 0, 2**31 - 1)]
    for _ in range(50):
        dims = tuple(map(int, random.integers(1, 5, 4)))
        factors, constant = map(int, random.integers(-3, 4, 3)), int(random.integers(-5, 6))
        terms = tuple(zip(atoms, factors, strict=True))
        length = int(random.integers(0, 9))
        (_, a), (_, b), (_, c) = terms
        values = [a * i + b * k + c * length + constant for i, k in itertools.product(range(dims[0]), range(dims[2]))]
        assert reach(Affine(terms, constant), dims, {4: length}) == (min(values), max(values))
    assert reach(Affine.of(atoms[2]), (1, 1, 1, 1), {4: None}) is None


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ((0, 9), None),
        ((-10, 9), None),
        ((0, 10), 10),
        ((-11, 0), -11),
        ((-11, 10), 10),
        (None, None),
        ((0, 2**31), None),  # wraps, so it is not known where
        ((-(2**31) - 1, 0), None),
    ],
)
def test_only_what_is_certain_is_outside(span, found):
    assert outside(span, 10) == found
