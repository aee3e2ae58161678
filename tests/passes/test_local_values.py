"""Local arrays taken apart into values: the same results, and no array is left that a loop overwrites."""

import numpy as np
import pytest
from textual_ir import agree, expect, read

import jwarp as wp
from jwarp.autodiff.checkpoints import Storage
from jwarp.autodiff.reverse import vjp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.attributes import ArrayNumber
from jwarp.ir.nodes import Op, walk
from jwarp.ir.verify import verify
from jwarp.passes.local_values import local_values
from jwarp.passes.simplify import simplify

pytestmark = pytest.mark.quick

N = 40


@wp.kernel
def in_loops(x: wp.array2d[float], k: wp.array[int], o: wp.array2d[float]):
    t = wp.tid()
    a = wp.zeros(7, dtype=float)
    for i in range(k[t]):
        a[i % 7] += x[t, i]
        if a[i % 7] > 0.5:
            a[k[t] - i] = a[i % 7] - a[-i]
            b = wp.zeros(3, dtype=float)
            b[i % 4] = x[t, 0]
            a[1] = b[k[t] % 3] + a[1]
    while a[k[t] % 7] < 1.0:
        a[k[t] % 7] += 0.75
        a[2] -= 0.25
    for i in range(7):
        o[t, i] = a[i]


@wp.kernel
def of_two_axes(x: wp.array2d[float], k: wp.array[int], o: wp.array2d[float]):
    t = wp.tid()
    a = wp.zeros((2, 3), dtype=wp.vec2)
    for i in range(5):
        a[i % 2, k[t]] = wp.vec2(x[t, i], 1.0)
        a[k[t], i % 4][1] = x[t, 2 * i]
    o[t, 0] = a[1, 2][0] + a[0, k[t]][1] + a[-1, -2][1]


@pytest.mark.parametrize("kernel", [in_loops, of_two_axes])
def test_results_are_the_same(kernel):
    rng = np.random.default_rng(2)
    x, k = rng.normal(size=(N, 12)).astype(np.float32), rng.integers(-1, 12, N).astype(np.int32)
    args = [x, k, np.zeros((N, 7), np.float32)]
    made = local_values(kernel.ir())
    for form in (made, simplify(made)):
        verify(form)
        np.testing.assert_array_equal(run(form, (N,), args)[-1], run(kernel.ir(), (N,), args)[-1])
    arrays = range(len(made.params), len(made.params) + len(made.locals))
    assert not [n for n in walk(made.body) if isinstance(n, Op) and n.row.attribute is ArrayNumber and n.attr in arrays]


def test_a_loop_that_overwrites_a_local_array_is_reversed_without_a_record():
    rng = np.random.default_rng(4)
    x, k = rng.normal(size=(N, 12)).astype(np.float32), rng.integers(0, 12, N).astype(np.int32)
    w = rng.normal(size=(N, 7)).astype(np.float32)
    args, found = [x, k, np.zeros((N, 7), np.float32)], []
    for storage in Storage:
        made = vjp(in_loops.ir(), [0], [2], storage=storage)
        verify(made.kernel)
        given = {"gradient": lambda p: np.zeros_like(args[p]), "cotangent": lambda p: w}
        operands = [given.get(o.kind, args.__getitem__)(o.param) for o in made.origins]
        arrays = [o for o, p in zip(made.origins, made.kernel.params, strict=True) if p.is_array]
        results = dict(zip([o.kind for o in arrays], run(made.kernel, (N,), operands), strict=True))
        found.append(results["gradient"])
    assert np.abs(found[0]).max() > 0.1
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_elements_become_values():
    before = read("""
        kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
          local a: array[float32] of [2]
          clear a
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: int32 = load n[%0]
          store a[0], %1
          %3: bool = gt %1, 0.0
          if %3 {
            store a[%2], 2.0
          }
          for %4: int32 = 0 .. %2 step 1 {
            atomic_add a[1], %1
          }
          %5: float32 = load a[-1]
          %6: float32 = load a[0]
          %7: float32 = sub %5, %6
          store y[%0], %7
    """)
    made = local_values(before)
    expect(
        made,
        """
            kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
              local a: array[float32] of [2]
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: int32 = load n[%0]
              %3: bool = gt %1, 0.0
              if %3 {
                %4: bool = eq %2, 0
                %5: bool = eq %2, -2
                %6: bool = or %4, %5
                %7: bool = eq %2, 1
                %8: bool = eq %2, -1
                %9: bool = or %7, %8
                %10: float32 = select %6, 2.0, %1
                %11: float32 = select %9, 2.0, 0.0
                yield %10, %11
              } else {
                yield %1, 0.0
              } -> %12: float32, %13: float32
              for %14: int32 = 0 .. %2 step 1 carry (%15: float32 = %12, %16: float32 = %13) {
                %17: float32 = add %16, %1
                yield %15, %17
              } -> %18: float32, %19: float32
              %20: float32 = sub %19, %18
              store y[%0], %20
        """,
    )
    agree(before, made)
    expect(
        simplify(made),
        """
            kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
              local a: array[float32] of [2]
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: int32 = load n[%0]
              %3: bool = gt %1, 0.0
              if %3 {
                %4: bool = eq %2, 0
                %5: bool = eq %2, -2
                %6: bool = or %4, %5
                %7: bool = eq %2, 1
                %8: bool = eq %2, -1
                %9: bool = or %7, %8
                %10: float32 = select %6, 2.0, %1
                %11: float32 = select %9, 2.0, 0.0
                yield %10, %11
              } else {
                yield %1, 0.0
              } -> %12: float32, %13: float32
              for %14: int32 = 0 .. %2 step 1 carry (%15: float32 = %13) {
                %16: float32 = add %15, %1
                yield %16
              } -> %17: float32
              %18: float32 = sub %17, %12
              store y[%0], %18
        """,
    )
    agree(before, simplify(made))


@pytest.mark.parametrize(
    "use",
    [
        "%1: float32 = atomic_max a[0], 1.0",
        "while {\n  store a[0], 1.0\n  yield False\n} do {\n}",
        "lanes %1: int32 = 0 .. 3 step 1 {\n  store a[0], 1.0\n}",
    ],
)
def test_arrays_that_are_used_otherwise_stay(use):
    kernel = read(
        f"kernel k(y: array[float32]), tid 1\nlocal a: array[float32] of [2]\nclear a\n{use}\n"
        "%0: float32 = load a[0]\nstore y[0], %0"
    )
    assert local_values(kernel) is kernel
    large = read("kernel k(y: array[float32]), tid 1\nlocal a: array[float32] of [1025]\nclear a\nstore a[0], 1.0")
    assert local_values(large) is large and local_values(kernel, only=()) is kernel
