"""Captures of work on a GPU are CUDA graphs: one call of the driver's for all, with what the launches would give."""

import gc
import logging

import numpy as np
import pytest
from forked_tests import own_process
from ptx_device import machine

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")
N = 300


@wp.kernel
def step(x: wp.array[float], v: wp.array[float], dt: float):
    i = wp.tid()
    v[i] = v[i] - dt * x[i]
    x[i] = x[i] + dt * v[i]


@wp.kernel
def summed(x: wp.array[float], total: wp.array[float]):
    wp.atomic_add(total, 0, x[wp.tid()])


def program(device, launches=4):
    """A capture that is launched some times: the numbers that come of it, and the calls of the driver, each time."""
    from mock_driver import driver

    rng = np.random.default_rng(2)
    x, v = (wp.array(rng.normal(size=N).astype(np.float32), device=device) for _ in range(2))
    before, total = wp.zeros_like(x), wp.zeros(1, dtype=float, device=device)
    with wp.ScopedCapture(device=device) as capture:
        wp.copy(before, x)
        for dt in (0.1, 0.2):
            wp.launch(step, N, [x, v, dt], device=device)
        total.zero_()
        wp.launch(summed, N, [x, total], device=device)
    found, logs = [], []
    for k in range(launches):
        driver().clear()
        wp.capture_launch(capture.graph)
        logs.append(driver().names())
        found.append([a.numpy().copy() for a in (x, v, before, total)])
        if k == 1:
            x.assign(np.ones(N, np.float32))  # what changes between is seen
    return found, logs


@own_process(seconds=300)
def test_captures():
    wanted, _ = program("cpu")
    with machine():
        found, logs = program("cuda:0")
    for k, (ours, right) in enumerate(zip(found, wanted, strict=True)):
        for a, b in zip(ours, right, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=str(k))
    assert logs[0].count("cuLaunchKernelEx") == 3 and "cuGraphLaunch" not in logs[0]
    assert logs[1].count("cuGraphInstantiateWithFlags") == 1 and logs[1].count("cuGraphLaunch") == 1
    for log in logs[2:]:
        assert "cuLaunchKernelEx" not in log and log.count("cuGraphLaunch") == 1 and len(log) <= 4, log


@own_process(seconds=300)
def test_graphs_are_given_back():
    from mock_driver import driver

    with machine():
        program("cuda:0")
        gc.collect()
    # The log begins with the last launch of the graph.
    assert driver().names().count("cuGraphLaunch") == driver().names().count("cuGraphDestroy") == 1


@own_process(seconds=300)
def test_what_is_no_part_of_a_graph():
    """Launches that are waited for, and copies from the host, are done one after the other, and that is said."""
    from mock_driver import driver

    told = []

    class Handler(logging.Handler):
        def emit(self, record):
            told.append(record.getMessage())

    logging.getLogger("jwarp").addHandler(Handler())
    logging.getLogger("jwarp").setLevel(logging.INFO)
    x, v = (wp.array(np.ones(N, np.float32), device="cuda:0") for _ in range(2))
    here = wp.array(np.arange(N, dtype=np.float32))
    with machine():
        with wp.config(bounds="error"), wp.ScopedCapture(device="cuda:0") as checked:
            wp.launch(summed, N, [x, v])
        with wp.ScopedCapture(device="cuda:0") as copied:
            v.fill_(2.0)
            wp.launch(step, N, [x, v, 0.5])
            wp.copy(x, here)
            x[::3].fill_(7.0)
            wp.copy(v, x)
        for _ in range(3):
            wp.capture_launch(checked.graph)
        assert v.numpy()[0] == 1 + 3 * N
        assert any("1 commands on cuda:0 are no CUDA graph: the launch of 'summed' has checks" in t for t in told)
        wanted = here.numpy().copy()
        wanted[::3] = 7
        for _ in range(3):
            driver().clear()
            wp.capture_launch(copied.graph)
        assert driver().names().count("cuGraphLaunch") == 2  # around what goes by way of the host
        for a in (x, v):
            np.testing.assert_array_equal(a.numpy(), wanted)
        driver().clear()
        # Where the driver refuses, they run one after the other.
        with wp.ScopedCapture(device="cuda:0") as capture:
            wp.launch(step, N, [x, v, 0.5])
        driver().fail("cuStreamBeginCapture_v2", 900)
        for _ in range(3):
            wp.capture_launch(capture.graph)
        assert any("cuStreamBeginCapture failed with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" in t for t in told)
        assert not driver().log("cuGraphLaunch")
