"""Which arrays have elements that one thread alone touches: as proved from indices, and counted over a launch."""

import itertools

import numpy as np
import pytest
from textual_ir import read

from jwarp.analysis.ownership import MAX_OFFSET, owned_arrays, reaches
from jwarp.analysis.stencils import stencils
from jwarp.backend.interpreter.machine import run

pytestmark = pytest.mark.quick

HEAD = "kernel k(x: array[int32], n: int32), tid 2\n  %0: int32 = tid 0\n  %1: int32 = tid 1\n  %2: int32 = param n\n"
# Indices of a one-dimensional array in a launch over (i, 1): whether threads have elements of their own.
INDICES = {
    "%3: int32 = add %0, 0": True,
    "%3: int32 = add 2, %0": True,
    "%3: int32 = sub %0, -3": True,
    "%4: int64 = cast %0\n  %3: int32 = cast %4": True,
    "%3: int32 = sub %0, 1": False,  # counts from the end
    "%3: int32 = add %0, %2": False,
    "%3: int32 = mul %0, 2": False,  # not recognised here
    "%3: int32 = div %0, 2": False,
    "%3: int32 = mod %0, 3": False,
    "%3: int32 = neg %0": False,
    "%3: int32 = mul %2, 1": False,
}


@pytest.mark.parametrize("index", INDICES)
def test_an_array_that_is_indexed_by_a_coordinate_is_the_threads_own(index):
    kernel = read(f"{HEAD}  {index}\n  atomic_add x[%3], 1\n")
    assert owned_arrays(kernel, single=[1]) == (frozenset({0}) if INDICES[index] else frozenset())
    assert owned_arrays(kernel) == frozenset()  # of the second coordinate nothing is told
    touched = run(kernel, (5, 1), [np.zeros(9, np.int32), np.int32(2)])[0]
    if INDICES[index]:
        assert touched.max() == 1 and touched.sum() == 5


def test_all_accesses_agree_in_one_index_for_each_coordinate():
    text = """
        kernel k(x: array2d[float32], y: array2d[float32], z: array2d[float32]), tid 2
          %0: int32 = tid 0
          %1: int32 = tid 1
          %2: int32 = add %1, 1
          store x[%0, %1], 1.0
          store y[%1, %0], 1.0
          store z[%0, %1], 1.0
          if True {
            %3: float32 = load x[%0, %1]
            store z[%0, %2], %3
          }
    """
    assert owned_arrays(read(text)) == {0, 1}
    assert owned_arrays(read(text), single=[1]) == {0, 1, 2}


def test_blocks_have_multiples_of_their_coordinate():
    text = """
        kernel k(x: array[float32]), tid 1, block_dim 4
          %0: int32 = tid 0
          %1: int32 = mul %0, {step}
          %2: int32[4] = fill %1 [4]
          %3: int32[4] = iota shape [4] axis 0
          %4: int32[4] = add %2, %3
          store x[%4], 1.0:float32[4]
    """
    assert owned_arrays(read(text.format(step=4))) == {0}
    assert owned_arrays(read(text.format(step=3))) == frozenset()


def test_stencils_are_read_around_the_thread():
    text = """
        kernel k(x: array2d[float32], y: array2d[float32], z: array[float32], o: array2d[float32]), tid 2
          %0: int32 = tid 0
          %1: int32 = tid 1
          %2: int32 = sub %1, 1
          %3: int32 = add %0, {offset}
          %4: float32 = load x[%1, %3]
          %5: float32 = load x[%2, %0]
          %6: float32 = load y[%0, %0]
          %7: float32 = load z[%0]
          store o[%0, %1], 1.0
    """
    assert stencils(read(text.format(offset=1))) == {0: (1, 0)}
    assert stencils(read(text.format(offset=MAX_OFFSET + 1))) == {}


def test_integers_that_wrap_in_large_launches():
    kernel = read("""
        kernel k(x: array[float32]), tid 2
          %0: int32 = tid 0
          %1: int32 = tid 1
          %2: int32 = mul %0, 1000
          %3: int32 = add %2, %1
          store x[%3], 1.0
    """)
    found = reaches(kernel)
    for dims in itertools.product([1, 5, 2_000_000, 2_147_484, 2_147_490], [1, 1000]):
        wraps = 1000 * (dims[0] - 1) + dims[1] - 1 > 2**31 - 1
        assert any(reach.wraps(dims) for reach in found) == wraps
