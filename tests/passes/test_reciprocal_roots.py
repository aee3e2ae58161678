"""Quotients by square roots become products where results may be rounded otherwise."""

import numpy as np
import pytest
from textual_ir import expect, read

import jwarp as wp
from jwarp.backend.interpreter.machine import run
from jwarp.compiler.cuda import CudaKernel
from jwarp.config import Settings
from jwarp.ir.nodes import Op, walk
from jwarp.passes.reciprocal_roots import by_reciprocal_roots

pytestmark = pytest.mark.quick

A, D = wp.array[float], wp.array[wp.float64]


@wp.kernel
def quotients(x: A, y: A, r: wp.array2d[float]):
    i = wp.tid()
    v = y[i]
    s = wp.sqrt(v)
    r[i, 0] = x[i] / s
    r[i, 1] = x[i] / (v * s)
    r[i, 2] = x[i] / (s * v)
    r[i, 3] = x[i] / (2.0 * s)
    r[i, 4] = x[i] / (v * s * 3.0)


@wp.kernel
def others(x: A, y: A, z: D, r: wp.array2d[float], q: D):
    i = wp.tid()
    s = wp.sqrt(y[i])
    r[i, 0] = 1.0 / s
    r[i, 1] = s / x[i]
    r[i, 2] = x[i] / (x[i] * s)
    r[i, 3] = x[i] / (s + 1.0)
    r[i, 4] = x[i] / (s * 1.0e-35)
    q[i] = z[i] / wp.sqrt(z[i])


def divisions(kernel):
    return [node.args for node in walk(kernel.body) if isinstance(node, Op) and node.name == "div"]


def drawn(kernel, count, low=0.01):
    rng = np.random.default_rng(0)
    return [rng.uniform(low, 9.0, (count, 5) if p.name == "r" else count).astype(p.dtype.dtype) for p in kernel.params]


def test_products():
    kernel = quotients.ir()
    made, args = by_reciprocal_roots(kernel), drawn(kernel, 200)
    assert all(numerator.value == 1.0 for numerator, _ in divisions(made)) and len(divisions(made)) == 5
    for x, y in zip(run(made, (200,), args), run(kernel, (200,), args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_corners():
    """Of zero, infinity and NaN, but not where a product on the way is too small or large for float32."""
    special = np.array([0.0, np.inf, -np.inf, np.nan, 1e-24, 1e24, -2.0, 2.0], np.float32)
    x, y = (v.ravel() for v in np.meshgrid(special, np.delete(special, 2)))
    args = [x, y, np.zeros((len(x), 5), np.float32)]
    kernel = quotients.ir()
    with np.errstate(all="ignore"):
        found, expected = run(by_reciprocal_roots(kernel), (len(x),), args)[2], run(kernel, (len(x),), args)[2]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_stays():
    kernel = others.ir()
    assert divisions(by_reciprocal_roots(kernel)) == divisions(kernel)


@pytest.mark.parametrize("fast", [False, True])
def test_only_where_it_is_asked_for(fast):
    made = CudaKernel(quotients.ir(), Settings(cache_dir="", fast_math=fast))
    divided = [numerator for numerator, _ in divisions(made.proofs.kernel)]
    assert len(divided) == (1 if fast else 5)


def test_a_quotient_becomes_a_product():
    before = read("""
        kernel k(x: array[float32], y: array[float32], r: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: float32 = load y[%0]
          %3: float32 = sqrt %2
          %4: float32 = mul %2, %3
          %5: float32 = mul %4, 4.0
          %6: float32 = div %1, %3
          %7: float32 = div %1, %5
          %8: float32 = div 1.0, %3
          %9: float32 = div %3, %1
          store r[0], %6
          store r[1], %7
          store r[2], %8
          store r[3], %9
    """)
    expect(
        by_reciprocal_roots(before),
        """
            kernel k(x: array[float32], y: array[float32], r: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: float32 = load y[%0]
              %3: float32 = sqrt %2
              %4: float32 = mul %2, %3
              %5: float32 = mul %4, 4.0
              %6: float32 = div 1.0, %3
              %7: float32 = mul %1, %6
              %8: float32 = div 1.0, %3
              %9: float32 = mul %1, 0.25
              %10: float32 = mul %9, %8
              %11: float32 = mul %8, %8
              %12: float32 = mul %10, %11
              %13: float32 = div 1.0, %3
              %14: float32 = div %3, %1
              store r[0], %7
              store r[1], %12
              store r[2], %13
              store r[3], %14
        """,
    )
