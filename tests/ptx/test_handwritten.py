"""Handwritten kernels with blocks of several axes, as people write them, run by the PTX machine."""

import jax
import numpy as np
import pytest
from ptx_running import PtxHandwritten

import jwarp as wp
from jwarp.compiler.handwritten import Handwritten
from jwarp.compiler.program import program_of
from jwarp.launching.handwritten import read_blocks

pytestmark = pytest.mark.usefixtures("compiler")
A2 = wp.array2d[float]

# With what such files include and say.
TRANSPOSE = """\
#include <stdio.h>
#include <cassert>
#include <math.h>
#include <stdint.h>
#include "jwarp/block.cuh"
#define TILE 16

// y = x transposed, by tiles of 16 x 16: threadIdx.y is the row.
__global__ void __launch_bounds__(256, 2)
transpose(const float* x, float* y, float* largest, int rows, int columns) {
  __shared__ float tile[TILE][TILE + 1];
  int32_t column = blockIdx.x * blockDim.x + threadIdx.x;
  int32_t row = blockIdx.y * blockDim.y + threadIdx.y;
  float value = -INFINITY;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = value = x[row * columns + column];
  float most = jw::block_reduce<jw::max>(value);
  if (threadIdx.x == 0 && threadIdx.y == 0) largest[blockIdx.y * gridDim.x + blockIdx.x] = most * (M_PI > 3.0);
  __syncthreads();
  int to_row = blockIdx.x * TILE + threadIdx.y, to_column = blockIdx.y * TILE + threadIdx.x;
  assert(blockDim.x == TILE && blockDim.y == TILE && blockDim.z == 1);
  if (to_row < columns && to_column < rows) y[to_row * rows + to_column] = tile[threadIdx.x][threadIdx.y];
}
"""
PARAMS = {"x": A2, "y": A2, "largest": wp.array[float], "rows": int, "columns": int}


def transpose(**keywords):
    return wp.cuda_kernel(TRANSPOSE, "transpose", PARAMS, outputs=["y", "largest"], cpu=lambda x: x.T, **keywords)


def test_blocks_with_two_axes():
    kernel = transpose(block_dim=(16, 16))
    x = np.random.default_rng(0).normal(size=(20, 37)).astype(np.float32)
    made = PtxHandwritten(kernel)
    assert "__launch_bounds__(256, 2)" in made.unit((20, 37)).text
    y, largest = made.run((20, 37), [x, 20, 37], [(37, 20), 6])
    np.testing.assert_array_equal(y, x.T)
    tops = [x[i : i + 16, j : j + 16].max() for i in (0, 16) for j in (0, 16, 32)]
    np.testing.assert_allclose(largest, tops, rtol=1e-6)


def test_an_axis_that_blocks_do_not_have():
    """A 16 x 16 kernel in blocks of 256 along x would leave most of its elements."""

    def image(kernel, block=None):
        program = program_of(kernel, wp.config.settings)
        blocks = read_blocks("transpose", block) if block else kernel.definition.blocks
        return Handwritten(kernel.definition, program.kernel, program.settings).image(["sm_90"], blocks)

    with wp.config(cache_dir=""):
        for kernel, block in ((transpose(), None), (transpose(block_dim=(8, 16)), 256)):
            message = r"(?s)looks at threadIdx.y, and its blocks have the axis x alone.*<transpose>:13"
            with pytest.raises(wp.CompileError, match=message):
                image(kernel, block)
        image(transpose(block_dim=(256, 1)))  # which says that this is meant
        with pytest.raises(wp.LaunchError, match=r"__launch_bounds__ say 256 threads at most, and its blocks have 512"):
            image(transpose(block_dim=(32, 16)))


@pytest.mark.parametrize("block", [(16, 0), (64, 32), (1, 1, 128), (2, 2, 2, 2), (16, "x"), ()])
def test_blocks_that_there_are_not(block):
    with pytest.raises(wp.LaunchError, match="kernel 'transpose': block_dim must be"):
        transpose(block_dim=block)


def test_a_grid_that_nobody_says():
    kernel = transpose(block_dim=(16, 16))
    x = np.zeros((4, 4), np.float32)
    function = jax.jit(
        lambda x: wp.launch(kernel, (2, 1, 4, 4), {"x": x, "rows": 4, "columns": 4}, {"y": (4, 4), "largest": 1})
    )
    with pytest.raises(wp.LaunchError, match=r"blocks of \(16, 16\) threads do not say which blocks a launch"):
        function.trace(x).lower(lowering_platforms=("cuda",))
