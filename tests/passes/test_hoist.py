"""Operations leave loops and branches only where nothing else comes of it than of running them in place."""

import subprocess
import sys

import numpy as np
import pytest
from textual_ir import agree, expect, read

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import For, If, Op, walk
from jwarp.ir.verify import verify
from jwarp.passes.hoist import hoist, hoist_factors, speculate
from jwarp.passes.simplify import simplify

pytestmark = pytest.mark.quick

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


def test_what_does_not_change_in_a_loop_runs_before_it():
    before = read("""
        kernel k(n: int32, x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: int32 = param n
          for %2: int32 = 0 .. %1 step 1 {
            %3: float32 = load x[%0]
            %4: float32 = sin %3
            for %5: int32 = 0 .. %2 step 1 {
              %6: int32 = add %2, %0
              %7: float32 = load y[%0]
              %8: float32 = cast %6
              %9: float32 = mul %8, %4
              %10: float32 = add %7, %9
              store y[%0], %10
            }
          }
    """)
    expect(
        hoist(before),
        """
            kernel k(n: int32, x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: int32 = param n
              %2: float32 = load x[%0]
              %3: float32 = sin %2
              for %4: int32 = 0 .. %1 step 1 {
                %5: int32 = add %4, %0
                %6: float32 = cast %5
                %7: float32 = mul %6, %3
                for %8: int32 = 0 .. %4 step 1 {
                  %9: float32 = load y[%0]
                  %10: float32 = add %9, %7
                  store y[%0], %10
                }
              }
        """,
    )
    expect(
        hoist(before, guarded=True),
        """
            kernel k(n: int32, x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: int32 = param n
              %2: bool = lt 0, %1
              if %2 {
                %3: float32 = load x[%0]
                %4: float32 = sin %3
                yield %3, %4
              } else {
                yield 0.0, 0.0
              } -> %5: float32, %6: float32
              for %7: int32 = 0 .. %1 step 1 {
                %8: int32 = add %7, %0
                %9: float32 = cast %8
                %10: float32 = mul %9, %6
                for %11: int32 = 0 .. %7 step 1 {
                  %12: float32 = load y[%0]
                  %13: float32 = add %12, %10
                  store y[%0], %13
                }
              }
        """,
    )
    agree(before, hoist(before))
    agree(before, hoist(before, guarded=True))


def test_conditions_of_loops_run_at_least_once():
    before = read("""
        kernel k(n: int32, x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          while carry (%1: int32 = 0) {
            %2: int32 = param n
            %3: float32 = load x[0]
            %4: int32 = cast %3
            %5: int32 = max %2, %4
            %6: bool = lt %1, %5
            yield %6
          } do {
            %7: float32 = load x[%0]
            %8: float32 = exp 1.0
            %9: float32 = mul %7, %8
            store y[%0], %9
            %10: int32 = add %1, 1
            yield %10
          } -> %11: int32
    """)
    expect(
        hoist(before, guarded=True),
        """
            kernel k(n: int32, x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: int32 = param n
              %2: float32 = load x[0]
              %3: int32 = cast %2
              %4: int32 = max %1, %3
              %5: float32 = exp 1.0
              while carry (%6: int32 = 0) {
                %7: bool = lt %6, %4
                yield %7
              } do {
                %8: float32 = load x[%0]
                %9: float32 = mul %8, %5
                store y[%0], %9
                %10: int32 = add %6, 1
                yield %10
              } -> %11: int32
        """,
    )
    agree(before, hoist(before, guarded=True))


def test_integers_of_branches_are_computed_before_them():
    before = read("""
        kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: int32 = load n[%0]
          %2: bool = gt %1, 1
          if %2 {
            %3: int32 = sub %1, 1
            %4: float32 = load x[%3]
            %5: float32 = sqrt %4
            %6: bool = lt %3, 3
            if %6 {
              %7: int32 = mul %3, 2
              %8: int32 = load n[%7]
              %9: int32 = add %8, 1
              %10: float32 = cast %9
              store y[%0], %10
            }
            yield %5
          } else {
            %11: int32 = neg %1
            %12: float32 = cast %11
            yield %12
          } -> %13: float32
          atomic_add y[0], %13
    """)
    expect(
        speculate(before),
        """
            kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: int32 = load n[%0]
              %2: bool = gt %1, 1
              %3: int32 = sub %1, 1
              %4: bool = lt %3, 3
              %5: int32 = mul %3, 2
              %6: int32 = neg %1
              if %2 {
                %7: float32 = load x[%3]
                %8: float32 = sqrt %7
                if %4 {
                  %9: int32 = load n[%5]
                  %10: int32 = add %9, 1
                  %11: float32 = cast %10
                  store y[%0], %11
                }
                yield %8
              } else {
                %12: float32 = cast %6
                yield %12
              } -> %13: float32
              atomic_add y[0], %13
        """,
    )
    agree(before, speculate(before))


def test_factors_of_products_leave_loops():
    before = read("""
        kernel k(a: array[float32], y: array[float32]), tid 1, block_dim 4
          %0: float32 = load a[0]
          %3: float32[2x2] = fill %0 [2, 2]
          for %1: int32 = 0 .. 3 step 1 carry (%2: float32[2x2] = 0.0:float32[2x2]) {
            %4: float32[2x2] = add %3, 1.0:float32[2x2]
            %5: float32 = mul %0, 2.0
            %6: float32[2x2] = matmul %4, %4, %2
            yield %6
          } -> %7: float32[2x2]
          %8: float32 = reduce %7 add axes [0; 1]
          store y[0], %8
    """)
    expect(
        hoist_factors(before),
        """
            kernel k(a: array[float32], y: array[float32]), tid 1, block_dim 4
              %0: float32 = load a[0]
              %1: float32[2x2] = fill %0 [2, 2]
              %2: float32[2x2] = add %1, 1.0:float32[2x2]
              for %3: int32 = 0 .. 3 step 1 carry (%4: float32[2x2] = 0.0:float32[2x2]) {
                %5: float32 = mul %0, 2.0
                %6: float32[2x2] = matmul %2, %2, %4
                yield %6
              } -> %7: float32[2x2]
              %8: float32 = reduce %7 add axes [0; 1]
              store y[0], %8
        """,
    )
    agree(before, hoist_factors(before))
