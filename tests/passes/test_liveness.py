"""Operations, branches, loops and carried values that nothing needs are dropped, and no others."""

import dataclasses

import pytest
from textual_ir import agree, expect, read

from jwarp.ir.printing import format_kernel
from jwarp.passes.liveness import drop_unused

pytestmark = pytest.mark.quick


def dropped(kernel):
    return dataclasses.replace(kernel, body=drop_unused(kernel.body))


def test_what_reaches_no_effect_is_dropped():
    before = read("""
        kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: float32 = mul %1, %1
          %3: float32 = sin %2
          %4: bool = lt %1, 0.0
          if %4 {
            %5: float32 = neg %1
            %6: float32 = exp %1
            yield %5, %6
          } else {
            yield %1, 1.0
          } -> %7: float32, %8: float32
          if %4 {
            %9: float32 = sqrt %1
            yield %9
          } else {
            yield 0.0
          } -> %10: float32
          store y[%0], %7
    """)
    expect(
        dropped(before),
        """
            kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: bool = lt %1, 0.0
              if %2 {
                %3: float32 = neg %1
                yield %3
              } else {
                yield %1
              } -> %4: float32
              store y[%0], %4
        """,
    )
    agree(before, dropped(before))


def test_what_loops_carry_for_nothing_is_dropped():
    """A carried value that only feeds itself is needed by nobody; one that feeds a needed one is."""
    before = read("""
        kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: int32 = load n[%0]
          for %2: int32 = 0 .. %1 step 1 carry (%3: float32 = 0.0, %4: float32 = 1.0, %5: float32 = 2.0) {
            %6: float32 = load x[%2]
            %7: float32 = add %3, %4
            %8: float32 = mul %4, %6
            %9: float32 = mul %5, %5
            yield %7, %8, %9
          } -> %10: float32, %11: float32, %12: float32
          while carry (%13: int32 = %1, %14: float32 = 0.0) {
            %15: bool = gt %13, 0
            yield %15
          } do {
            %16: int32 = sub %13, 1
            %17: float32 = add %14, 1.0
            yield %16, %17
          } -> %18: int32, %19: float32
          while carry (%20: int32 = %1) {
            %21: bool = gt %20, 0
            yield %21
          } do {
            %22: int32 = sub %20, 1
            yield %22
          } -> %23: int32
          %24: float32 = cast %18
          %25: float32 = add %24, %10
          store y[%0], %25
    """)
    expect(
        dropped(before),
        """
            kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: int32 = load n[%0]
              for %2: int32 = 0 .. %1 step 1 carry (%3: float32 = 0.0, %4: float32 = 1.0) {
                %5: float32 = load x[%2]
                %6: float32 = add %3, %4
                %7: float32 = mul %4, %5
                yield %6, %7
              } -> %8: float32, %9: float32
              while carry (%10: int32 = %1) {
                %11: bool = gt %10, 0
                yield %11
              } do {
                %12: int32 = sub %10, 1
                yield %12
              } -> %13: int32
              %14: float32 = cast %13
              %15: float32 = add %14, %8
              store y[%0], %15
        """,
    )
    agree(before, dropped(before))


def test_effects_and_what_they_need_stay():
    before = read("""
        kernel k(n: array[int32], x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          %2: bool = lt %1, 100.0
          check %2, "small"
          print "%f", %1
          %3: float32 = atomic_add y[%0], %1
          %4: bool = gt %1, 0.0
          if %4 {
            for %5: int32 = 0 .. 3 step 1 {
              atomic_add y[%5], 1.0
            }
          }
    """)
    expect(dropped(before), format_kernel(before))
