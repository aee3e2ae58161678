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

import compiled_variants
import numpy as np
import pytest
from forked_tests import build_mock
from ptx_machine import Machine
from ptx_running import PtxKernel

# The files of the gradient cases of the suite.
GRADIENTS = (
    "tests/api/test_check_grads.py", "tests/autodiff", "tests/backend/test_fuzz_gradients.py",
    "tests/backend/test_local_arrays_of_blocks.py", "tests/backend/test_many_logs.py", "tests/bind/test_collisions.py",
    "tests/bind/test_collisions_apart.py", "tests/bind/test_composed.py", "tests/bind/test_counters.py",
    "tests/bind/test_deterministic.py", "tests/bind/test_func_grad.py", "tests/bind/test_gradient_kinds.py",
    "tests/bind/test_gradient_transforms.py", "tests/bind/test_gradients.py", "tests/bind/test_jax_func.py",
    "tests/bind/test_jax_func_factors.py", "tests/bind/test_jax_func_table.py", "tests/bind/test_linear_transpose.py",
    "tests/bind/test_reported_gradients.py", "tests/bind/test_stencil_gradients.py", "tests/bind/test_structs.py",
    "tests/bind/test_tiles_review.py", "tests/bind/test_tiles_transforms.py", "tests/bind/test_transforms.py",
    "tests/dispatch/test_eager_adjoints.py", "tests/frontend/test_grad_calls.py",
    "tests/frontend/test_native_functions.py", "tests/frontend/test_struct_values.py",
    "tests/frontend/test_tile_func_grad.py", "tests/frontend/test_lane_arrays.py",
    "tests/frontend/test_tile_transforms.py", "tests/lib/test_decomposition_gradients.py",
    "tests/lib/test_geometry_follows.py", "tests/lib/test_gradients_at_rest.py", "tests/lib/test_hash_grid.py",
    "tests/lib/test_mesh.py", "tests/lib/test_noise.py", "tests/lib/test_rotations.py",
)  # fmt: skip
# Tests that a GPU would not pass, by how their names begin, and why.
OTHERWISE = {
    "tests/bind/test_collisions.py::test_where_nothing_tells_the_launch_ends": "without debug mode the gradient is NaN",
}  # fmt: skip
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
    os.environ["JWARP_LIBCUDA"] = str(build_mock())  # before the native module looks for the driver
    compiled_variants.Compiled = OnMachine  # type: ignore[misc]
    Machine.finds_races_in_arrays = False  # some tests are of threads that collide there


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name, reason in OTHERWISE.items():
            if item.nodeid.startswith(name):
                item.add_marker(pytest.mark.skip(reason=f"on a GPU: {reason}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    from ptx_xla import DEVICE

    entries = collections.Counter(DEVICE.launches)
    terminalreporter.write_line(
        f"on the PTX machine: {sum(entries.values())} launches of {len(entries)} names, "
        f"and {sum(ran.values())} runs of kernels by themselves"
    )
