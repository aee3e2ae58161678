"""Of a derivative, stores to scratch arrays that nothing reads and fields of records that nothing reads are dropped."""

import dataclasses

import pytest
from textual_ir import expect, read

from jwarp.passes.prune import prune

pytestmark = pytest.mark.quick


def pruned(text, returned, shared=()):
    kernel = read(text)
    return dataclasses.replace(kernel, body=prune(kernel.body, returned, shared))


def test_stores_to_scratch_need_a_load_after_them():
    text = """
        kernel k(x: array[float32], scratch: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          %1: float32 = load x[%0]
          store scratch[%0], %1
          %2: float32 = load scratch[%0]
          store y[%0], %2
          %3: float32 = sin %1
          store scratch[%0], %3
    """
    expect(
        pruned(text, {2}),
        """
            kernel k(x: array[float32], scratch: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              store scratch[%0], %1
              %2: float32 = load scratch[%0]
              store y[%0], %2
        """,
    )
    # The next thread, or whoever gets the array, reads the last one.
    for needed in (pruned(text, {1, 2}), pruned(text, {2}, shared={1})):
        expect(needed, text)
    expect(pruned(text, ()), "kernel k(x: array[float32], scratch: array[float32], y: array[float32]), tid 1\n")


def test_in_a_loop_every_load_comes_after_every_store():
    text = """
        kernel k(x: array[float32], scratch: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          for %1: int32 = 0 .. 3 step 1 {
            %2: float32 = load scratch[%1]
            atomic_add y[%0], %2
            %3: float32 = load x[%1]
            store scratch[%0], %3
          }
          store scratch[%0], 1.0
    """
    expect(
        pruned(text, {2}),
        """
            kernel k(x: array[float32], scratch: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              for %1: int32 = 0 .. 3 step 1 {
                %2: float32 = load scratch[%1]
                atomic_add y[%0], %2
                %3: float32 = load x[%1]
                store scratch[%0], %3
              }
        """,
    )


def test_fields_that_nothing_reads_are_not_recorded():
    expect(
        pruned(
            """
            kernel k(x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: float32 = sin %1
              %3: float32 = cos %1
              push tape 0, %2, %0, %3 uniform [1]
              push tape 1, %1
              %4: float32 = top tape 0 field 2
              %5: int32 = top tape 0 field 1
              store y[%5], %4
              pop tape 1
              pop tape 0
            """,
            {1},
        ),
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              %1: float32 = load x[%0]
              %2: float32 = cos %1
              push tape 0, %0, %2 uniform [0]
              %3: float32 = top tape 0 field 1
              %4: int32 = top tape 0 field 0
              store y[%4], %3
              pop tape 0
        """,
    )


def test_logs_are_kept_where_an_array_is_restored():
    text = """
        kernel k(x: array[float32], y: array[float32]), tid 1
          %0: int32 = tid 0
          save x[%0]
          store x[%0], 2.0
          %1: float32 = load x[%0]
          store y[%0], %1
    """
    expect(
        pruned(text, {1}),
        """
            kernel k(x: array[float32], y: array[float32]), tid 1
              %0: int32 = tid 0
              store x[%0], 2.0
              %1: float32 = load x[%0]
              store y[%0], %1
        """,
    )
    restored = (
        text
        + """
          undo x
          %2: float32 = load x[%0]
          store y[0], %2
    """
    )
    expect(pruned(restored, {1}), restored)
