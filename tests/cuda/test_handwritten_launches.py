"""Handwritten kernels launched in place on a GPU, with a stand-in for the driver that runs them."""

import numpy as np
import pytest
from cuda_calls import STREAMS
from foreign_gpu_arrays import Lender
from forked_tests import own_process
from mock_driver import Words, driver, float_at

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")
A2 = wp.array2d[float]

TEXT = """\
__global__ void scale(const float* x, float k, float* y, int n) {
  int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = k * x[i];
}
"""


def scale_kernel(**keywords):
    return wp.cuda_kernel(TEXT, "scale", {"x": A2, "k": float, "y": A2, "n": int}, outputs=["y"], **keywords)


def run_scale(words, shape):
    """The effect of the image."""
    given = Words.read(words, symbols=4 + 2 + 2 + 1, parameters=4)
    x, k, y, _ = given.arrays
    assert given.items == 1 and given.symbols[4:8] == (3, 50, 3, 50)
    for i in range(150):
        float_at(y + 4 * i).value = float_at(x + 4 * i).value * float_at(k).value


def setup():
    driver().register("jwarp_scale", run_scale)
    wp.config.cuda_arch = "sm_90"


# The keywords of the kernel, the dimensions of the launch, and what the driver is told.
CONFIGURATIONS = {
    "by default": ({}, 150, "grid=1,1,1 block=256,1,1 shared=0"),
    "two dimensions": ({"block_dim": 64}, (3, 50), "grid=3,1,1 block=64,1,1 shared=0"),
    "functions": (
        {"block_dim": 32, "grid": lambda dim: (2, dim[0]), "shared_bytes": lambda dim: 4 * dim[1]},
        (3, 50),
        "grid=2,3,1 block=32,1,1 shared=200",
    ),
    "numbers": ({"grid": (5, 2), "shared_bytes": 64}, (3, 5, 10, 1), "grid=5,2,1 block=256,1,1 shared=64"),
}


@own_process
@pytest.mark.parametrize("name", list(CONFIGURATIONS))
def test_configurations(name):
    setup()
    keywords, dims, launched = CONFIGURATIONS[name]
    x, y = (
        Lender(np.random.default_rng(0).uniform(size=(3, 50)).astype(np.float32)),
        Lender(np.zeros((3, 50), np.float32)),
    )
    wp.launch(scale_kernel(**keywords), dims, {"x": x, "k": 3.0, "n": 150}, {"y": y}, stream=STREAMS[0])
    np.testing.assert_array_equal(y.array, np.float32(3.0) * x.array)
    (log,) = driver().log("cuLaunchKernelEx")
    assert f"jwarp_scale {launched} stream={hex(STREAMS[0])}" in log


@own_process
def test_one_array_for_two_parameters():
    setup()
    x = Lender(np.zeros((3, 50), np.float32))
    with pytest.raises(wp.LaunchError, match="output 'y' and 'x' are the same array, and a kernel written in CUDA"):
        wp.launch(scale_kernel(), 150, {"x": x, "k": 3.0, "n": 150}, {"y": x})
    assert driver().log("cuLaunchKernelEx") == []


@own_process
def test_no_threads():
    setup()
    x, y = Lender(np.zeros((3, 50), np.float32)), Lender(np.ones((3, 50), np.float32))
    driver().register("jwarp_scale", lambda words, shape: None)
    wp.launch(scale_kernel(grid=lambda dim: dim[0]), 0, {"x": x, "k": 3.0, "n": 150}, {"y": y})
    assert y.array.min() == 1.0
