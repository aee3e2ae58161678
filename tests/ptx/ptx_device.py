"""Launches on arrays of a GPU, run by the PTX machine, in a process with the stand-in for the driver."""

import contextlib

import pytest

import jwarp as wp


@contextlib.contextmanager
def machine(*arrays):
    """Launches run on the PTX machine, which sees these arrays and what the launcher allocates."""
    from ptx_xla import DEVICE, images_are_stubs

    bases = [a if a.base is None else a.base for a in arrays]
    with pytest.MonkeyPatch.context() as patch, wp.config(cuda_arch="sm_90", cache_dir=""):
        images_are_stubs(patch)
        DEVICE.pieces = [(b.ctypes.data, b.nbytes, f"array {k}", True) for k, b in enumerate(bases)]
        DEVICE.fault = None
        DEVICE.launches.clear()
        yield DEVICE
        if DEVICE.fault is not None:
            raise DEVICE.fault
