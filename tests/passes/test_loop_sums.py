"""Additions to elements that a loop does not choose are made once after it, in CUDA code."""

import numpy as np
import pytest
from textual_ir import agree, expect, read

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import For, If, Op, walk
from jwarp.ir.verify import verify
from jwarp.passes.loop_sums import carried_sums
from jwarp.passes.simplify import simplify

pytestmark = pytest.mark.quick

A, A2 = wp.array[float], wp.array2d[float]


@wp.kernel
def many(x: A2, n: int, h: wp.array[wp.float16], y: wp.array[wp.vec2], z: A, k: wp.array[int], s: wp.array[wp.float16]):
    i = wp.tid()
    for j in range(n):
        v = x[i, j]
        wp.atomic_add(y, i, wp.vec2(v, -2.0 * v))
        wp.atomic_sub(z, 1, v * v)
        wp.atomic_add(z, 1, 0.5 * v)
        wp.atomic_add(z, 2 + j, v)  # the loop chooses it
        wp.atomic_add(s, i, h[j])
        for m in range(j):
            wp.atomic_add(k, i, m + 1)
            wp.atomic_add(k, j, 1)


@wp.kernel
def stays(x: A2, n: int, y: A, z: A, w: A, k: wp.array[int], p: A):
    i = wp.tid()
    for j in range(n):
        wp.atomic_add(y, 0, x[i, j])  # and is read in the loop
        z[j] = y[1]
    for j in range(n):
        if x[i, j] > 0.0:
            wp.atomic_add(w, 0, x[i, j])
    for _ in range(n):  # it asks for an old value
        wp.atomic_add(p, 0, float(wp.atomic_add(k, 0, 1)))


def inside(kernel):
    """The names of arrays that loops add to, in and after them."""
    loops = [n for n in walk(kernel.body) if isinstance(n, For)]
    within = {id(op) for loop in loops for op in walk(loop.body)}
    adds = [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_atomic]
    names = [kernel.params[n.array].name for n in adds]
    return sorted(x for x, n in zip(names, adds, strict=True) if id(n) in within), names


def test_what_moves():
    ir = simplify(many.ir())
    made = carried_sums(ir)
    verify(made)
    assert inside(ir)[0] == ["k", "k", "s", "y", "y", "z", "z", "z"]
    # Of the inner loop both go to the outer one, which may run without it, and stay there.
    assert inside(made)[0] == ["k", "k", "z"]
    rng = np.random.default_rng(0)
    for n in (0, 1, 6):
        args = [rng.normal(size=(3, 6)).astype(np.float32), n, rng.normal(size=6).astype(np.float16),
                rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=9).astype(np.float32),
                rng.integers(0, 9, 6).astype(np.int32), rng.normal(size=3).astype(np.float16)]  # fmt: skip
        given = [np.asarray(a, p.dtype.dtype) for a, p in zip(args, ir.params, strict=True)]
        expected, found = (run(kernel, (3,), [g.copy() for g in given]) for kernel in (ir, made))
        for x, y, param in zip(expected, found, [p for p in ir.params if p.is_array], strict=True):
            rtol = 4e-3 if param.dtype.bits == 16 else 2e-6
            np.testing.assert_allclose(x.astype(float), y.astype(float), rtol=rtol, atol=rtol)
    # In 32 bits many small halves add up, one after the other they would not.
    halves = simplify(halves_only.ir())
    start, total = np.full(4000, 1e-3, np.float16), np.ones(1, np.float16)
    *_, total = run(carried_sums(halves), (1,), [start, total])
    assert abs(float(total[0]) - 5.0) < 0.01


@wp.kernel
def halves_only(h: wp.array[wp.float16], s: wp.array[wp.float16]):
    for j in range(h.shape[0]):
        wp.atomic_add(s, wp.tid(), h[j])


def test_what_stays():
    ir = simplify(stays.ir())
    made = carried_sums(ir)
    assert inside(made) == inside(ir)


def test_threads_in_order_stay():
    from jwarp.compiler.program import program_of

    with wp.config(deterministic=True):
        kernel = program_of(halves_only, wp.config.settings).gpu_kernel
    assert not kernel.order or carried_sums(kernel) is kernel


@wp.kernel
def listed(count: wp.array[int], place: wp.array[int], x: A, out: A):
    i = wp.tid()
    for j in range(count[i]):
        wp.atomic_add(out, place[i], x[j])


def test_a_loop_without_trips_adds_nothing():
    """As of a list of neighbours where one that is empty has no place."""
    made = carried_sums(simplify(listed.ir()))
    verify(made)
    outside = [n for n in made.body.nodes if isinstance(n, Op) and n.row.is_atomic]
    guarded = [n for b in made.body.nodes if isinstance(b, If) for n in b.then.nodes if isinstance(n, Op)]
    assert not outside
    assert [n.name for n in guarded if n.row.is_atomic] == ["atomic_add"]


def test_a_sum_is_carried_and_added_once():
    before = read("""
        kernel k(n: array[int32], x: array[int32], y: array2d[int32], h: array[float16]), tid 1
          %0: int32 = tid 0
          %1: int32 = load n[%0]
          for %2: int32 = 0 .. %1 step 1 carry (%3: int32 = 7) {
            %4: int32 = load x[%2]
            atomic_add y[%0, 0], %4
            atomic_add y[%0, %2], 1
            atomic_add y[%0, 0], 2
            atomic_add h[%0], 1.0:float16
            %5: int32 = add %3, %4
            yield %5
          } -> %6: int32
          store x[%0], %6
    """)
    made = carried_sums(before)
    expect(
        made,
        """
            kernel k(n: array[int32], x: array[int32], y: array2d[int32], h: array[float16]), tid 1
              %0: int32 = tid 0
              %1: int32 = load n[%0]
              for %2: int32 = 0 .. %1 step 1 carry (%3: int32 = 7, %4: int32 = 0, %5: float32 = 0.0) {
                %6: int32 = load x[%2]
                %7: int32 = add %4, %6
                atomic_add y[%0, %2], 1
                %8: int32 = add %7, 2
                %9: float32 = add %5, 1.0
                %10: int32 = add %3, %6
                yield %10, %8, %9
              } -> %11: int32, %12: int32, %13: float32
              %14: bool = lt 0, %1
              if %14 {
                atomic_add y[%0, 0], %12
                %15: float16 = cast %13
                atomic_add h[%0], %15
              }
              store x[%0], %11
        """,
    )
    agree(before, made, dims=(5,), extents=(5, 5), high=4)


def test_a_loop_with_certain_iterations_needs_no_test():
    before = read("""
        kernel k(x: array[float32], y: array[float32]), tid 1
          for %0: int32 = 4 .. 0 step -1 {
            %1: float32 = load x[%0]
            atomic_add y[0], %1
          }
    """)
    expect(
        carried_sums(before),
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              for %0: int32 = 4 .. 0 step -1 carry (%1: float32 = 0.0) {
                %2: float32 = load x[%0]
                %3: float32 = add %1, %2
                yield %3
              } -> %4: float32
              atomic_add y[0], %4
        """,
    )
