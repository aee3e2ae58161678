"""Runs tests as they are with the PTX machine in the place of the processor: a plugin of pytest.

    python -m pytest -p ptx_everywhere tests/autodiff tests/bind/test_gradients.py …

Launches in JAX programs, derivatives too, are lowered for CUDA and run by XLA:CPU, through our own handlers, a stand-in
for the driver and the machine; so are kernels that tests compile by themselves (`harness.Compiled`). Launches on NumPy
arrays in place stay on the processor. At the end it says how much ran on the machine.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Sequence
from typing import Any

import harness
import numpy as np
import pytest
from own_process import build_mock
from ptx_running import PtxKernel

os.environ["JWARP_LIBCUDA"] = str(build_mock())  # before the native module looks for the driver
ran: collections.Counter[str] = collections.Counter()


class OnMachine:
    """A kernel as `harness.Compiled` has it, for the PTX machine."""

    def __init__(self, kernel: Any, variant: Any):
        self.made = PtxKernel(getattr(kernel, "kernel", kernel), "flat checked")
        self.kernel = self.made.made.kernel

    def run(
        self, dims: tuple[int, ...], args: Sequence[Any], threads: int = 1, zeros: Sequence[int] = ()
    ) -> list[np.ndarray]:
        given = [np.zeros_like(a) if p in zeros else a for p, a in enumerate(args)]
        ran[self.kernel.variant] += 1
        return self.made.run(dims, given, order=1 - threads)


@pytest.fixture(autouse=True, scope="session")
def _launches_run_on_the_machine() -> Any:
    import ptx_xla

    import jwarp as wp
    from jwarp.bind import compat
    from jwarp.bind.handwritten import handwritten_p
    from jwarp.bind.primitive import launch_p, lower_cuda

    ptx_xla.register_on_cpu()
    for primitive in (launch_p, handwritten_p):
        compat.mlir.register_lowering(primitive, lower_cuda, platform="cpu", inline=False)
    with pytest.MonkeyPatch.context() as patch:
        ptx_xla.images_are_stubs(patch)
        wp.config.cuda_arch = "sm_90"
        yield


def pytest_configure() -> None:
    harness.Compiled = OnMachine  # type: ignore[misc]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    from ptx_xla import DEVICE

    entries = collections.Counter(DEVICE.launches)
    terminalreporter.write_line(
        f"on the PTX machine: {sum(entries.values())} launches of {len(entries)} names, "
        f"and {sum(ran.values())} runs of kernels by themselves"
    )
