"""Refusals of the stand-in for the driver, which are the driver's; the launcher avoids them."""

import ctypes

import numpy as np
import pytest
from cuda_calls import STREAMS, attributes, register_scale, scale_launch
from fake_xla import Xla, XlaError
from forked_tests import native, own_process
from mock_driver import driver

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_IN_CAPTURES = 1, 201, 400, 900
X, K = np.arange(5, dtype=np.float32), np.asarray(np.float32(3))


class LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_ulong), ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


def loaded_kernel() -> ctypes.c_ulong:
    cuda, library, kernel = driver().library, ctypes.c_ulong(), ctypes.c_ulong()
    assert cuda.cuInit(0) == 0
    assert cuda.cuLibraryLoadData(ctypes.byref(library), b"\x7fELF", None, None, 0, None, None, 0) == 0
    assert cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"kernel") == 0
    return kernel


@own_process
def test_launches_that_no_gpu_runs():
    cuda, kernel = driver().library, loaded_kernel()

    def launch(grid=(1, 1, 1), block=(32, 1, 1), shared=0, stream=STREAMS[0], handle=kernel):
        config = LaunchConfig((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), shared, stream, None, 0)
        parameters = (ctypes.c_void_p * 1)(0)
        return cuda.cuLaunchKernelEx(ctypes.byref(config), handle, parameters, None)

    assert launch() == INVALID_CONTEXT
    driver().current = 0x1000
    assert launch() == launch(stream=0) == 0
    assert launch(stream=STREAMS[1]) == INVALID_HANDLE
    assert launch(handle=ctypes.c_ulong(5)) == INVALID_HANDLE
    for grid in [(0, 1, 1), (1, 0, 1), (1, 1, 0), (2**31, 1, 1), (1, 65536, 1), (1, 1, 65536)]:
        assert launch(grid=grid) == INVALID_VALUE, grid
    for block in [(0, 1, 1), (1025, 1, 1), (32, 32, 2), (1, 1, 65)]:
        assert launch(block=block) == INVALID_VALUE, block
    assert launch((2**31 - 1, 65535, 65535), (32, 32, 1)) == 0
    assert launch(shared=48 << 10) == 0
    assert launch(shared=(48 << 10) + 1) == INVALID_VALUE
    assert cuda.cuKernelSetAttribute(8, 60_000, kernel, 0) == 0
    assert cuda.cuKernelSetAttribute(8, 232_449, kernel, 0) == INVALID_VALUE
    assert launch(shared=60_000) == 0 and launch(shared=60_001) == INVALID_VALUE
    driver().current = 0x1001  # nothing was asked for there
    assert launch(shared=60_000, stream=STREAMS[1]) == INVALID_VALUE


@own_process
def test_memory():
    cuda, address = driver().library, ctypes.c_ulonglong()
    cuda.cuInit(0)
    assert cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(16), ctypes.c_ulong(0)) == INVALID_CONTEXT
    driver().current = 0x1000
    stream = ctypes.c_ulong(STREAMS[0])
    assert cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(0), stream) == INVALID_VALUE
    assert cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(16), stream) == 0
    assert np.isnan(np.ctypeslib.as_array((ctypes.c_float * 4).from_address(address.value))).all()
    assert driver().allocated == 1
    assert cuda.cuMemFreeAsync(address, stream) == 0
    assert cuda.cuMemFreeAsync(address, stream) == INVALID_VALUE
    assert driver().allocated == 0


@own_process
@pytest.mark.parametrize("checks", [False, True])
def test_captures_of_what_may_not_be_captured(checks):
    """An error says which function it was; without checks, and loaded before, nothing is wrong."""
    register_scale()
    site = Xla(native().cuda_handlers(checks)).instantiate(attributes(scale_launch(5)))
    y = np.zeros(5, np.float32)
    driver().current = 0x1000
    driver().set(capturing=1)
    with pytest.raises(XlaError, match="cuLibraryLoadData failed with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        site.execute(STREAMS[0], [X, K], [y])
    driver().set(capturing=0)
    site.prepare()
    site.initialize(STREAMS[0])
    driver().set(capturing=1)
    if checks:
        with pytest.raises(XlaError, match="cuMemAlloc failed with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
            site.execute(STREAMS[0], [X, K], [y])
        driver().set(capturing=0)
        site.execute(STREAMS[0], [X, K], [y])
        driver().set(capturing=1)  # its memory is there by now, but it waits for what it has noted
        with pytest.raises(XlaError, match="cuStreamSynchronize failed with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
            site.execute(STREAMS[0], [X, K], [y])
    else:
        site.execute(STREAMS[0], [X, K], [y])
    np.testing.assert_array_equal(y, 3 * X)
