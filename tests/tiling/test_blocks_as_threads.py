"""Blocks side by side in a vector: a thread does what a block did, where nothing else depends on blocks."""

import numpy as np
import pytest
from textual_ir import random_arguments, read

from jwarp.backend.interpreter.machine import run
from jwarp.ir.nodes import For, walk
from jwarp.tiling.blocks_as_threads import as_threads, gains_as_threads

pytestmark = pytest.mark.quick

FACTOR = """
    kernel k(x: array3d[float32], y: array3d[float32]), tid 1, block_dim 8
      %0: int32 = tid 0
      %1: int32[3x3] = fill %0 [3, 3]
      %2: int32[3x3] = iota shape [3, 3] axis 0
      %3: int32[3x3] = iota shape [3, 3] axis 1
      %4: float32[3x3] = load x[%1, %2, %3]
      %5: float32[3x3] = cholesky %4
      {}
      store y[%1, %2, %3], %5
"""


def test_a_thread_does_what_a_block_did():
    kernel = read(FACTOR.format(""))
    assert gains_as_threads(kernel)
    made = as_threads(kernel)
    assert made.block_dim == 0 and not any(local.shared for local in made.locals)
    assert all(loop.lanes is None for loop in walk(made.body) if isinstance(loop, For))
    x, y = random_arguments(kernel, (5, 3, 3))
    x = x @ x.transpose(0, 2, 1) + np.eye(3, dtype=np.float32)
    expected = run(kernel, (5,), [x, y])[1]
    np.testing.assert_allclose(run(made, (5,), [x, y])[1], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(expected, np.linalg.cholesky(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "more",
    [
        'check True, "fine"',
        'print "here"',
        "atomic_add y[0, 0, 0], 1.0",
        "lanes %7: int32 = 0 .. 3 step 1 {\n}",
    ],
)
def test_blocks_that_are_told_apart_stay(more):
    assert not gains_as_threads(read(FACTOR.format(more)))
    assert not gains_as_threads(read("kernel k(x: array[float32]), tid 1, block_dim 8\n  store x[0], 1.0"))
