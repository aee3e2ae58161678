"""Operations leave loops and branches only where nothing else comes of it than of running them in place."""

import subprocess
import sys

import numpy as np
import pytest

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import For, If, Op, walk
from jwarp.ir.verify import verify
from jwarp.passes.hoist import hoist, speculate
from jwarp.passes.simplify import simplify

F = wp.array[float]
I = wp.array[int]


@wp.kernel
def counted(n: int, j: int, x: F, y: F):
    i = wp.tid()
    for _ in range(n):
        y[i] += x[j]


@wp.kernel
def counted_down(n: int, j: int, x: F, y: F):
    i = wp.tid()
    for q in range(n, 0, -1):
        y[i] += x[j] * float(q)


@wp.kernel
def twice(n: int, j: int, x: F, order: I, y: F):
    i = wp.tid()
    for _ in range(n):
        y[i] += x[order[j] + 1]


@wp.kernel
def nested(n: int, j: int, x: F, y: F):
    i = wp.tid()
    for k in range(3):
        for _ in range(n - k):
            y[i] += x[j]


@wp.kernel
def conditional(n: int, j: int, x: F, y: F):
    i = wp.tid()
    k = 0
    while k < n:
        y[i] += x[j]
        k += 1


@wp.kernel
def each_its_own(n: I, j: I, x: F, y: F):
    i = wp.tid()
    trips, place = n[i], j[i]
    for _ in range(trips):
        y[i] += x[place]


@wp.kernel
def constant_trips(j: int, x: F, y: F):
    i = wp.tid()
    for _ in range(40):
        y[i] += x[j]


@wp.kernel
def quotient(n: int, divisor: int, y: I):
    i = wp.tid()
    for _ in range(n):
        if divisor != 0:
            y[i] += i // divisor + i % divisor


WILD = 2**30
# Launches in which no trip is made with a wild index.
LAUNCHES = """
import numpy as np
import jwarp as wp
import test_hoist as kernels

x, order = np.arange(8, dtype=np.float32), np.full(8, 3, np.int32)
def sums(kernel, *args):
    return np.asarray(wp.launch(kernel, 32, list(args), [32])[0])
with wp.config(bounds="unchecked"):
    for n, j in ((0, WILD), (2, 5)):
        for kernel in (kernels.counted, kernels.counted_down, kernels.nested, kernels.conditional):
            expected = {0: 0, 2: 15 if kernel in (kernels.counted_down, kernels.nested) else 10}[n]
            assert (sums(kernel, n, j, x) == expected).all(), kernel.name
        assert (sums(kernels.twice, n, j, x, order) == 4 * n).all()
    trips = np.arange(32, dtype=np.int32) % 2
    for n in (trips, trips * 0):
        places = np.where(n == 0, WILD, 3).astype(np.int32)
        assert (sums(kernels.each_its_own, n, places, x) == 3 * n).all()
    assert (np.asarray(wp.launch(kernels.quotient, 32, [2, 0], [32])[0]) == 0).all()
"""


def test_without_bounds_tests_nothing_is_loaded_for_a_loop_without_trips():
    program = f"import sys; sys.path.insert(0, {__file__.rsplit('/', 1)[0]!r}); WILD = {WILD}\n{LAUNCHES}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def loads_of_x_in_loops(kernel) -> int:
    loops = [n for n in walk(kernel.body) if isinstance(n, For)]
    inside = [n for loop in loops for n in walk(loop.body) if isinstance(n, Op) and n.name == "load"]
    return sum(n.attr == 2 for n in inside)


@pytest.mark.parametrize("kernel", [counted, counted_down, twice, nested, conditional], ids=lambda k: k.name)
@pytest.mark.parametrize("guarded", [False, True])
def test_results_stay(kernel, guarded):
    ir = simplify(kernel.ir())
    moved = hoist(ir, guarded=guarded)
    verify(moved)
    order = [np.full(8, 3, np.int32)] if kernel is twice else []
    for n in (0, 1, 4):
        args = [n, 5, np.arange(8, dtype=np.float32), *order, np.zeros(4, np.float32)]
        for expected, found in zip(run(ir, (4,), args), run(moved, (4,), args), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_loads_are_moved_behind_a_test_whether_the_loop_has_a_trip():
    ir = simplify(counted.ir())
    assert loads_of_x_in_loops(ir) == 1
    for guarded in (False, True):
        moved = hoist(ir, guarded=guarded)
        assert loads_of_x_in_loops(moved) == 0
        assert sum(isinstance(n, If) for n in walk(moved.body)) == guarded


def test_a_loop_that_certainly_has_trips_needs_no_test():
    moved = hoist(simplify(constant_trips.ir()), guarded=True)
    assert not any(isinstance(n, If) for n in walk(moved.body))


def test_loads_stay_in_branches():
    @wp.kernel
    def guarded(x: F, j: int, y: F):
        i = wp.tid()
        if j < 8:
            y[i] = x[j + 1]

    ir = simplify(guarded.ir())
    (branch,) = (n for n in speculate(ir).body.nodes if isinstance(n, If))
    assert [n.name for n in branch.then.nodes if isinstance(n, Op)] == ["load", "store"]
