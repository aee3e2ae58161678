"""Results of atomic operations on thread-private arrays have derivatives, as no other thread interferes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from textual_ir import agree, expect, read

import jwarp as wp
from jwarp.passes.own_atomics import plain_atomics

pytestmark = pytest.mark.quick

F = wp.float64


@pytest.fixture(autouse=True)
def double_precision(x64):
    pass


@wp.kernel
def running(x: wp.array2d[F], at: wp.array[int], y: wp.array[F]):
    i = wp.tid()
    bins = wp.zeros(shape=4, dtype=F)
    most = wp.zeros(shape=2, dtype=F)
    s = F(1.0)
    for k in range(at.shape[0]):
        v = x[i, k]
        before = wp.atomic_add(bins, at[k], v * s)
        high = wp.atomic_max(most, k % 2, v)
        old = wp.atomic_exch(bins, 3 - at[k], before * v + high)
        s += wp.sin(before) * old + wp.atomic_sub(bins, at[k], v)
    y[i] = s * bins[1] + bins[2]


def test_they_are_differentiated():
    rng = np.random.default_rng(3)
    x, at = jnp.asarray(rng.normal(size=(5, 6))), jnp.asarray(rng.integers(0, 4, 6), jnp.int32)
    f = wp.jax_kernel(running, output_dims=5, launch_dims=5)
    wp.check_grads(lambda x: f(x, at), (x,))
    assert np.abs(jax.grad(lambda x: f(x, at)[0].sum())(x)).min() > 1e-6
    step = jnp.asarray(rng.normal(size=x.shape)) * 1e-6
    both = [jax.grad(lambda x: f(x, at)[0].sum())(x + sign * step) for sign in (1, -1)]
    _, along = jax.jvp(jax.grad(lambda x: f(x, at)[0].sum()), (x,), (step * 1e6,))
    np.testing.assert_allclose(along, (both[0] - both[1]) / 2e-6, rtol=1e-5, atol=1e-6)


def test_a_load_and_a_store_stand_for_an_atomic_operation_whose_old_value_is_used():
    before = read("""
        kernel k(x: array[float32], y: array[float32]), tid 1
          local a: array[float32] of [2]
          clear a
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          atomic_add a[0], %1
          %2: float32 = atomic_add a[0], %1
          %3: float32 = atomic_min a[1], %2
          %4: float32 = atomic_exch a[1], %3
          %5: float32 = atomic_cas a[1], %4, 1.0
          %6: float32 = atomic_add y[%0], %1
          %7: float32 = load a[0]
          %8: float32 = add %4, %5
          %9: float32 = add %6, %8
          store y[%0], %9
    """)
    made = plain_atomics(before)
    expect(
        made,
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              local a: array[float32] of [2]
              clear a
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              atomic_add a[0], %1
              %2: float32 = load a[0]
              %3: float32 = add %2, %1
              store a[0], %3
              %4: float32 = load a[1]
              %5: float32 = min %4, %2
              store a[1], %5
              %6: float32 = load a[1]
              store a[1], %4
              %7: float32 = atomic_cas a[1], %6, 1.0
              %8: float32 = atomic_add y[%0], %1
              %9: float32 = load a[0]
              %10: float32 = add %6, %7
              %11: float32 = add %8, %10
              store y[%0], %11
        """,
    )
    agree(before, made)


def test_without_such_operations_the_kernel_stays():
    kernel = read("""
        kernel k(y: array[float32]), tid 1
          local a: array[float32] of [2]
          clear a
          atomic_add a[0], 1.0
          %0: float32 = atomic_add y[0], 1.0
          store y[1], %0
    """)
    assert plain_atomics(kernel) is kernel
