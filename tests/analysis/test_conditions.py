"""A condition in words, read as Python, is true of the same launches as the condition itself."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

import jwarp as wp
from jwarp.analysis.affine import ALWAYS, Affine, evaluate, symbols_of
from jwarp.analysis.conditions import condition_text

pytestmark = pytest.mark.quick


@wp.kernel
def kernel(x: wp.array2d[float], v: wp.array[wp.vec3], n: int):
    i, j = wp.tid()
    x[i, j] = v[i][0] + float(n)


IR = kernel.ir()
SYMBOLS = symbols_of(IR)
SHAPES = [SYMBOLS.extents[0, 0], SYMBOLS.extents[0, 1], SYMBOLS.extents[1, 0], SYMBOLS.extents[1, 1]]
EVERY = [*SYMBOLS.dims[:2], *SHAPES, SYMBOLS.scalars[2]]


def random_condition(draw: random.Random):
    def form():
        terms = tuple((symbol, draw.choice((-3, -1, 1, 2))) for symbol in draw.sample(EVERY, draw.randint(1, 3)))
        return Affine(terms, draw.randint(-4, 4))

    return frozenset(frozenset(form() for _ in range(draw.randint(1, 3))) for _ in range(draw.randint(1, 4)))


def test_texts_mean_the_condition():
    draw = random.Random(11)
    seen = set()
    for _ in range(400):
        condition = random_condition(draw)
        words = condition_text(condition, IR, SYMBOLS) or "True"
        for _ in range(10):
            values = {symbol.index: draw.randint(1, 6) for symbol in EVERY}
            values[SYMBOLS.extents[1, 1].index] = 3
            values[SYMBOLS.scalars[2].index] = draw.randint(-6, 6)
            dim = [values[symbol.index] for symbol in SYMBOLS.dims[:2]]
            x, v = (SimpleNamespace(shape=[values[s.index] for s in shape]) for shape in (SHAPES[:2], SHAPES[2:]))
            said = eval(words, {"dim": dim, "x": x, "v": v, "n": values[SYMBOLS.scalars[2].index]})
            assert said == evaluate(condition, values), words
            seen.add(said)
    assert seen == {True, False}


def test_what_follows_is_left_out():
    x, _, v, component = (Affine.of(symbol) for symbol in SHAPES)
    threads, n = Affine.of(SYMBOLS.dims[0]), Affine.of(SYMBOLS.scalars[2])
    inside = [x - threads - 2, x - threads - 1, x - 3, x - 2, component - 3, v - n - 1]
    condition = frozenset(frozenset({form}) for form in inside)
    assert condition_text(condition, IR, SYMBOLS) == "dim[0] + 2 <= x.shape[0] and n < v.shape[0]"
    either = frozenset({frozenset({x - threads, x - n, x - n - 5})})
    assert condition_text(either, IR, SYMBOLS) == "dim[0] <= x.shape[0] or n <= x.shape[0]"
    assert condition_text(ALWAYS, IR, SYMBOLS) == ""
