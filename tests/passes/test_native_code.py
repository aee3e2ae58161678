"""Where a kernel runs is settled before it is compiled: as a constant, whose other branch is dropped."""

import pytest
from textual_ir import expect, read

from jwarp.errors import CompileError
from jwarp.passes.native_code import refuse_native_code, settled

pytestmark = pytest.mark.quick

EITHER = """
    kernel k(x: array[float32]), tid 1
      %0: int32 = tid 0
      %1: bool = on_gpu
      if %1 {
        native "fast" "__nanosleep(1);" "" params [] reads [] changes [] adjoint [] replay []
        yield 1.0
      } else {
        yield 2.0
      } -> %2: float32
      store x[%0], %2
"""


def test_elsewhere_what_stands_for_the_code_runs():
    found = settled(read(EITHER), on_gpu=False)
    expect(found, "kernel k(x: array[float32]), tid 1\n  %0: int32 = tid 0\n  store x[%0], 2.0")
    refuse_native_code(found)


def test_on_a_gpu_the_code_runs_and_is_refused_anywhere_else():
    found = settled(read(EITHER), on_gpu=True)
    expect(
        found,
        """
            kernel k(x: array[float32]), tid 1
              %0: int32 = tid 0
              native "fast" "__nanosleep(1);" "" params [] reads [] changes [] adjoint [] replay []
              store x[%0], 1.0
        """,
    )
    with pytest.raises(CompileError, match="kernel `k`: `fast` is native code, which runs on GPUs alone"):
        refuse_native_code(found)


def test_a_kernel_that_does_not_ask_stays():
    kernel = read("kernel k(x: array[float32]), tid 1\n  store x[0], 1.0\n  store x[0], 1.0")
    assert settled(kernel, on_gpu=True) is kernel
