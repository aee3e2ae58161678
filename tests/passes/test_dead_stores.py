"""Stores that are undone before anything reads them are dropped, and no others."""

import dataclasses

import numpy as np
import pytest
from textual_ir import agree, expect, read

import jwarp as wp
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import Block, Const, If, Kernel, Op, Param, Value, walk
from jwarp.passes.dead_stores import drop_dead_stores, drop_unread_stores
from jwarp.types import ArrayType, bool_, float32, int32

pytestmark = pytest.mark.quick

A, OUT = 0, 1
ARRAY = ArrayType(float32, 1)


def place(k):
    return Const(int32, k)


def number(x):
    return Const(float32, x)


def save(k):
    return Op("save", (place(k),), A)


def store(k, x):
    return Op("store", (place(k), number(x)), A)


def add(k, x, result=None):
    return Op("atomic_add", (place(k), number(x)), A, result)


UNDO = Op("undo", (), A)


def copy(k, to):
    """Copy an element of the array to the output."""
    value = Value(float32)
    return [Op("load", (place(k),), A, value), Op("store", (place(to), value), OUT)]


def branch(*nodes):
    return If(Const(bool_, True), Block(nodes), Block(), ())


OLD = Value(float32)

DROPPED = {
    "one": [save(0), store(0, 5.0), UNDO, *copy(0, 0)],
    "two": [save(0), store(0, 5.0), save(1), store(1, 6.0), UNDO, UNDO, *copy(0, 0), *copy(1, 1)],
    "an addition": [save(0), add(0, 5.0), UNDO, *copy(0, 0)],
    "inside a branch": [branch(save(0), store(0, 5.0), UNDO), *copy(0, 0)],
}
KEPT = {
    "read": [save(0), store(0, 5.0), *copy(0, 0), UNDO, *copy(0, 1)],
    "read in a branch": [save(0), store(0, 5.0), branch(*copy(0, 0)), UNDO, *copy(0, 1)],
    "the old value": [save(0), add(0, 5.0, OLD), Op("store", (place(0), OLD), OUT), UNDO, *copy(0, 1)],
    "undone in a branch": [save(0), store(0, 5.0), branch(UNDO), save(1), store(1, 6.0), *copy(0, 0), *copy(1, 1)],
    "another undo": [save(0), store(0, 5.0), branch(save(1), store(1, 6.0)), UNDO, UNDO, *copy(0, 0), *copy(1, 1)],
    "added to what was stored": [save(0), store(0, 5.0), save(0), add(0, 1.0), *copy(0, 0), UNDO, UNDO, *copy(0, 1)],
    "without a record": [save(0), store(0, 5.0), store(1, 6.0), UNDO, *copy(0, 0), *copy(1, 1)],
}


def result(nodes):
    params = (Param("a", ARRAY), Param("out", ARRAY))
    kernel = Kernel("k", params, 1, Block(tuple(nodes)))
    rng = np.random.default_rng(1)
    return run(kernel, (1,), [rng.normal(size=3).astype(np.float32), np.zeros(3, np.float32)])


@pytest.mark.parametrize("name", [*DROPPED, *KEPT])
def test_results_stay(name):
    nodes = {**DROPPED, **KEPT}[name]
    body = Block(tuple(nodes))
    dropped = drop_dead_stores(body)
    for x, y in zip(result(nodes), result(dropped.nodes), strict=True):
        np.testing.assert_array_equal(x, y)
    logs = [n for n in walk(dropped) if isinstance(n, Op) and n.name in ("save", "undo")]
    assert bool(logs) is (name in KEPT)


@wp.kernel
def halves(x: wp.array[wp.mat22], y: wp.array[wp.mat22]):
    i = wp.tid()
    y[i] = 0.5 * x[i]
    if x[i][0, 0] > 0.0:
        y[i][0, 1] = x[i][1, 1]


def test_cotangents_are_not_set_to_zero_for_nobody():
    """Each component is read once; only the one that is stored twice is read again after its zero."""
    kernel = halves.ir()
    derived = vjp(kernel, [0], [1]).kernel
    stores = [n for n in walk(derived.body) if isinstance(n, Op) and n.name == "store"]
    zeros = [n for n in stores if derived.params[n.array].name == "adj_y"]
    assert len(zeros) == 1
    rng = np.random.default_rng(0)
    x, g = (rng.normal(size=(7, 2, 2)).astype(np.float32) for _ in range(2))
    given = {"x": x, "adj_y": g, "adj_x": np.zeros_like(x)}
    found = run(derived, (7,), [given[p.name].copy() for p in derived.params])
    expected = 0.5 * g
    taken = x[:, 0, 0] > 0
    expected[taken, 0, 1] = 0
    expected[taken, 1, 1] += g[taken, 0, 1]
    adj_x = found[[p.name for p in derived.params].index("adj_x")]
    np.testing.assert_allclose(adj_x, expected, rtol=1e-6)


def without_unread(text, arrays=(2,)):
    kernel = read(text)
    return dataclasses.replace(kernel, body=drop_unread_stores(kernel.body, arrays))


def test_stores_that_nothing_reads_are_dropped():
    before = """
        kernel k(x: array[float32], y: array[float32]), tid 1
          local a: array[float32] of [4]
          clear a
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          store a[0], %1
          store a[1], %1
          store a[%0], 5.0
          %2: bool = gt %1, 0.0
          if %2 {
            %3: float32 = load a[1]
            store y[%0], %3
            store a[2], %1
          } else {
            store a[-1], %1
            %4: float32 = load a[3]
            store y[%0], %4
          }
          store a[3], 1.0
    """
    after = without_unread(before)
    expect(
        after,
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              local a: array[float32] of [4]
              clear a
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              store a[1], %1
              store a[%0], 5.0
              %2: bool = gt %1, 0.0
              if %2 {
                %3: float32 = load a[1]
                store y[%0], %3
              } else {
                store a[-1], %1
                %4: float32 = load a[3]
                store y[%0], %4
              }
        """,
    )
    agree(read(before), after)


def test_what_a_loop_stores_its_next_iteration_may_read():
    before = """
        kernel k(x: array[float32], y: array[float32]), tid 1
          local a: array[float32] of [4]
          clear a
          %0: int32 = tid 0
          for %1: int32 = 0 .. 3 step 1 {
            %2: float32 = load a[0]
            store y[%0], %2
            %3: float32 = load x[%1]
            store a[0], %3
          }
          store a[0], 1.0
    """
    after = without_unread(before)
    expect(
        after,
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              local a: array[float32] of [4]
              clear a
              %0: int32 = tid 0
              for %1: int32 = 0 .. 3 step 1 {
                %2: float32 = load a[0]
                store y[%0], %2
                %3: float32 = load x[%1]
                store a[0], %3
              }
        """,
    )
    agree(read(before), after)
