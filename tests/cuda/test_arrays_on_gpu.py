"""Mutable arrays in the memory of a GPU: programs with them, against the same ones on the processor.

Without a GPU nothing here runs; `test_arrays_on_stand_in.py` has some of it.
"""

import gc
import importlib

import array_programs
import numpy as np
import pytest
import tape_programs
from array_programs import compare, floats, smooth, weighed

import jwarp as wp
from jwarp.devices import DEVICES

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def gpu():
    """The GPU that arrays are on."""
    if not wp.is_cuda_available():
        pytest.skip(f"no GPU: {DEVICES.why_none}")
    yield wp.get_device("cuda:0")


@pytest.mark.parametrize("program", array_programs.PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program, gpu):
    compare(program(gpu), program("cpu"))


@pytest.mark.parametrize("program", tape_programs.LIKE_WARP, ids=lambda f: f.__name__)
def test_tapes(program, gpu):
    """Programs that name no device, as they are, with a GPU in use."""
    with wp.ScopedDevice("cpu"):
        wanted = program()
    with wp.ScopedDevice(gpu):
        found = program()
    assert all(a.device is gpu for a in found.values())
    compare(found, wanted)


def test_the_device(gpu):
    assert gpu.is_cuda and gpu.ordinal == 0 and str(gpu) == "cuda:0" and gpu.arch >= 75 and gpu.sm_count > 0
    assert 0 < gpu.free_memory <= gpu.total_memory and gpu in wp.get_cuda_devices() and gpu.name
    before = wp.get_device()
    with wp.ScopedDevice("cuda"):
        assert wp.get_device() is gpu and wp.zeros(3, dtype=float).device is gpu
    assert wp.get_device() is before


def test_large_arrays(gpu):
    """Launches one after the other, that nobody waits for, on arrays that are freed meanwhile."""
    n = 1 << 22
    x = floats(0, n)
    wanted = x
    a = wp.array(x, device=gpu)
    for _ in range(20):
        b = wp.empty_like(a)
        wp.launch(smooth, n, inputs=[a, 1.0], outputs=[b])
        a = b
        wanted = np.sin(wanted) * wanted
    np.testing.assert_allclose(a.numpy(), wanted, rtol=1e-3, atol=1e-6)


def test_memory_is_given_back(gpu):
    wp.synchronize()
    gc.collect()
    before = gpu.free_memory
    for _ in range(100):
        wp.zeros(1 << 28, dtype=wp.uint8, device=gpu)  # 25 GiB, if they were kept
    wp.synchronize()
    assert before - gpu.free_memory < 4 << 30
    with pytest.raises(wp.LaunchError, match="there is no memory on cuda:0"):
        wp.zeros(1 << 48, dtype=wp.uint8, device=gpu)
    wp.zeros(4, dtype=float, device=gpu)


def test_gradients_are_differences(gpu):
    """The gradient of a sum of two launches against differences of 64 bits."""
    x, w = floats(1, 5), floats(2, 5)

    def loss(x):
        y = np.sin(2 * x.astype(np.float64)) * x
        return np.sum(w * y * y)

    a, b = (wp.array(v, requires_grad=True, device=gpu) for v in (x, w))
    y, total = (wp.zeros(n, dtype=float, requires_grad=True, device=gpu) for n in (5, 1))
    with wp.Tape() as tape:
        wp.launch(smooth, 5, inputs=[a, 2.0, y])
        wp.launch(weighed, 5, inputs=[y, b, total])
    tape.backward(total)
    step = 1e-5
    differences = [(loss(x + step * e) - loss(x - step * e)) / (2 * step) for e in np.eye(5)]
    np.testing.assert_allclose(a.grad.numpy(), differences, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("library", ["cupy", "torch", "jax"])
def test_other_libraries(library, gpu):
    """Both see the same memory."""
    module = pytest.importorskip(library)
    a = wp.array(floats(3, (4, 3)), dtype=wp.vec3, device=gpu)
    if library == "jax":
        try:
            module.devices("cuda")
        except RuntimeError as error:
            pytest.skip(f"no GPU for JAX: {error}")
        importlib.import_module("jax.dlpack")
        seen = module.dlpack.from_dlpack(a)
        np.testing.assert_array_equal(np.asarray(seen), a.numpy())
        b = wp.from_dlpack(seen * 2, dtype=wp.vec3)
        np.testing.assert_array_equal(b.numpy(), 2 * a.numpy())
        return
    if library == "torch" and not module.cuda.is_available():
        pytest.skip("torch has no CUDA")
    seen = module.from_dlpack(a)
    seen *= 2
    b = wp.from_dlpack(seen, dtype=wp.vec3)
    module.cuda.synchronize() if library == "torch" else module.cuda.get_current_stream().synchronize()
    np.testing.assert_array_equal(a.numpy(), 2 * floats(3, (4, 3)))
    b.fill_(1.0)
    wp.synchronize()
    assert float(seen.sum()) == 12.0


def test_what_is_refused(gpu):
    here, there = wp.zeros(4, dtype=float), wp.zeros(4, dtype=float, device=gpu)
    with pytest.raises(wp.LaunchError, match="parameter 'y': the array is on cuda:0, and the launch is on cpu"):
        wp.launch(smooth, 4, inputs=[here.to("cpu"), 1.0], outputs=[there], device="cpu")
    with pytest.raises(wp.LaunchError, match="parameter 'x': the array is on cpu, and the launch is on cuda:0"):
        wp.launch(smooth, 4, inputs=[wp.zeros(4, dtype=float, device="cpu"), 1.0], outputs=[there], device=gpu)
