"""Parameters that are one array become one: every access to it goes to the parameter that stays."""

import pytest
from textual_ir import expect, read

from jwarp.ir.printing import format_kernel
from jwarp.passes.merge import merge_arrays

pytestmark = pytest.mark.quick


def test_accesses_of_every_kind_are_renamed():
    before = read("""
        kernel k(x: array[float32], y: array[float32], z: array[float32]), tid 1
          local a: array[float32] of [1]
          clear a
          %0: int32 = tid 0
          %1: int32 = shape y axis 0
          if True {
            %2: float32 = load y[%0]
            store z[%1], %2
            atomic_add y[0], %2
            store a[0], %2
          }
          %3: float32 = load x[%0]
          store x[%1], %3
    """)
    expect(
        merge_arrays(before, {1: 0, 2: 0}),
        """
            kernel k(x: array[float32], y: array[float32], z: array[float32]), tid 1
              local a: array[float32] of [1]
              clear a
              %0: int32 = tid 0
              %1: int32 = shape x axis 0
              if True {
                %2: float32 = load x[%0]
                store x[%1], %2
                atomic_add x[0], %2
                store a[0], %2
              }
              %3: float32 = load x[%0]
              store x[%1], %3
        """,
    )


def test_nothing_to_merge():
    kernel = read("kernel k(x: array[float32], y: array[float32]), tid 1\n  store y[0], 1.0")
    expect(merge_arrays(kernel, {}), format_kernel(kernel))
