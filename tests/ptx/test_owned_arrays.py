"""Programs with arrays that live on a GPU, which the PTX machine stands for, against the processor."""

import array_programs
import numpy as np
import pytest
import tape_programs
from forked_tests import own_process

import jwarp as wp
from jwarp.backend.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason="needs NVRTC")

PROGRAMS = {f.__name__: f for f in (*array_programs.PROGRAMS, *tape_programs.LIKE_WARP)}


def run(name, device):
    """A program on a device, which is given or in use."""
    program = PROGRAMS[name]
    with wp.ScopedDevice(device):
        return program(device) if program in array_programs.PROGRAMS else program()


@own_process(seconds=300)
@pytest.mark.parametrize(
    "names", [("creation", "copies", "launches", "repeats", "captured"), ("gradients", "asked_gradients")]
)
def test_programs(names):
    from test_device_arrays import machine

    for name in names:
        with machine() as device:
            found = run(name, "cuda:0")
            assert device.launches or name == "creation"
        assert all(a.device == "cuda:0" for a in found.values())
        array_programs.compare(found, run(name, "cpu"))


@own_process(seconds=300)
def test_tapes():
    from test_device_arrays import machine

    for program in tape_programs.LIKE_WARP:
        with machine() as device:
            found = run(program.__name__, "cuda:0")
            assert device.launches
        assert all(a.device == "cuda:0" for a in found.values())
        array_programs.compare(found, run(program.__name__, "cpu"))


@wp.kernel
def shifted(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def optional(x: wp.array[float], more: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]
    if more.shape[0] > 0:
        y[i] = more[i]


@own_process(seconds=300)
def test_arrays_that_overlap_or_are_missing():
    """Reads give the content from before the launch, and an array may be None."""
    from test_device_arrays import machine

    made = []
    for device in ("cuda:0", "cpu"):
        with machine():
            x = wp.array(np.arange(8.0), dtype=float, device=device)
            wp.launch(shifted, 6, inputs=[x[:6], x[2:]])
            wp.launch(shifted, 8, inputs=[x, x])
            y, w = (wp.zeros(8, dtype=float, device=device) for _ in "yw")
            wp.launch(optional, 8, inputs=[x, None, y])
            wp.launch(optional, 8, inputs=[x, y, w])
            z = x + y * 2.0 - w
            made.append({"x": x, "y": y, "w": w, "z": z})
    array_programs.compare(*made)
