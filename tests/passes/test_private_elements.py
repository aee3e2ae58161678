"""Elements that each thread keeps in values and stores once, against the kernel that adds to zeros in memory."""

import numpy as np
import pytest
from textual_ir import assert_same_bits, expect, random_arguments, read

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import Op, walk
from jwarp.passes.private_elements import replaced_elements
from jwarp.passes.simplify import simplify

pytestmark = pytest.mark.quick


@wp.kernel
def gathered(x: wp.array[float], n: wp.array[int], total: wp.array[float], pairs: wp.array[wp.vec2]):
    i = wp.tid()
    for k in range(n[i]):
        total[i] += x[(i + k) % 9]
        if x[k] > 0.0:
            pairs[i][1] = x[k] + pairs[i][0]
            pairs[i][0] += total[i]
    if n[i] > 2:
        total[i] = 2.0 * total[i]


@wp.kernel
def planes(x: wp.array2d[float], y: wp.array2d[float], shifted: wp.array2d[float], turned: wp.array2d[float]):
    i, j = wp.tid()
    if x[i, j] > 0.0:
        y[i, j] += x[i, j]
        shifted[i, j] = y[i, j]
    turned[j, i] += x[i, j]
    shifted[i, (j + 1) % 4] += 0.0


def accesses(kernel, p):
    return sorted(n.name for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_access and n.array == p)


def test_elements_are_stored_once():
    kernel, rng = simplify(gathered.ir()), np.random.default_rng(0)
    held = replaced_elements(kernel, (2, 3))
    assert accesses(kernel, 2) != ["store"]
    assert accesses(held, 2) == ["store"] and accesses(held, 3) == ["store", "store"]
    assert not held.locals and replaced_elements(held, (2, 3)) is held
    x, n = rng.normal(size=9).astype(np.float32), rng.integers(0, 5, 9).astype(np.int32)
    zeros = [np.zeros(9, np.float32), np.zeros((9, 2), np.float32)]
    left = [rng.normal(size=z.shape).astype(np.float32) for z in zeros]  # what a buffer has in it
    for a, b in zip(run(held, (9,), [x, n, *left]), run(kernel, (9,), [x, n, *zeros]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_elements_that_others_touch_stay():
    kernel, rng = simplify(planes.ir()), np.random.default_rng(1)
    held = replaced_elements(kernel, (1, 2, 3))
    assert accesses(held, 1) == ["store"]
    for p in (2, 3):
        assert accesses(held, p) == accesses(kernel, p)
    x, zeros = rng.normal(size=(4, 4)).astype(np.float32), [np.zeros((4, 4), np.float32)] * 2
    y = rng.normal(size=(4, 4)).astype(np.float32)
    expected = run(kernel, (4, 4), [x, np.zeros_like(x), *zeros])
    for a, b in zip(run(held, (4, 4), [x, y, *zeros]), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_element_is_a_value_until_the_end():
    before = read("""
        kernel k(x: array[float32], y: array[vec2], z: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          for %2: int32 = 0 .. 3 step 1 {
            %3: float32 = load y[%0, 1]
            %4: float32 = mul %3, %1
            store y[%0, 0], %4
            atomic_add y[%0, 1], 1.0
          }
          %5: float32 = load z[0]
          atomic_add z[%0], %5
    """)
    made = replaced_elements(before, (1, 2))
    expect(
        made,
        """
            kernel k(x: array[float32], y: array[vec2], z: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              for %2: int32 = 0 .. 3 step 1 carry (%3: float32 = 0.0, %4: float32 = 0.0) {
                %5: float32 = mul %4, %1
                %6: float32 = add %4, 1.0
                yield %5, %6
              } -> %7: float32, %8: float32
              %9: float32 = load z[0]
              atomic_add z[%0], %9
              store y[%0, 0], %7
              store y[%0, 1], %8
        """,
    )
    args = random_arguments(before, (7,))
    zeros = [args[0], np.zeros((7, 2), np.float32), args[2]]
    for x, y in zip(run(made, (7,), args), run(before, (7,), zeros), strict=True):
        assert_same_bits(x, y)


def test_elements_that_are_only_stored_and_kernels_in_order_stay():
    text = """
        kernel k(y: array[float32]), tid 1{}
          %0: int32 = tid 0
          store y[%0], 1.0
          {}
    """
    stored = read(text.format("", ""))
    assert replaced_elements(stored, (0,)) is stored
    added = read(text.format("", "atomic_add y[%0], 1.0"))
    expect(replaced_elements(added, (0,)), text.format("", "").replace("1.0", "2.0"))
    ordered = read(text.format(", in order", "atomic_add y[%0], 1.0"))
    assert replaced_elements(ordered, (0,)) is ordered
