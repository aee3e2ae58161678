"""Runs tests as they are on a GPU in the place of the processor: a plugin of pytest.

    python -m pytest -n 12 -p gpu_everywhere tests/autodiff tests/bind tests/lib …

JAX puts its arrays on the GPU, so launches in JAX programs go there, derivatives too; kernels that tests compile by
themselves (`harness.Compiled`) are launched there, by this plugin, with tiles one block after the other, since random
kernels store where others read. Launches on NumPy arrays in place stay on the CPU. Products are of full precision.
At the end it says how many of the kernels that tests compile have run there. Without a GPU it is an error.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

# Several processes share one GPU. Must precede the first use of a device.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["JAX_PLATFORMS"] = "cuda,cpu"

import compiled_variants
import jax
import numpy as np
import pytest
from gpu_launches import launched

import jwarp as wp
from jwarp.ir.nodes import Order

# Tests that ask for something else than a GPU does, by how their names begin, and why.
OTHERWISE = {
    "tests/api/test_cuda_kernel.py": "the texts in CUDA are stand-ins for functions of JAX",
    "tests/api/test_devices.py::test_loggers": "the processor is the only device",
    "tests/api/test_objects_as_pytrees.py::test_to_and_from_jax": "sines to the last bit",
    "tests/api/test_launch.py::test_the_settings_of_the_trace_are_kept": "asks for the processor's code",
    "tests/api/test_marching_cubes.py": "counts on the order of threads",
    "tests/api/test_prints.py::test_interpreter_and_code_print_the_same": "the order of threads",
    "tests/api/test_tools.py::test_the_report_tells_what_there_is": "the processor is the only device",
    "tests/arrays/test_seen_changes.py::test_arrays_of_jax_are_not_written": "arrays of JAX are in the GPU's memory",
    "tests/arrays/test_shapes.py::test_meshes": "two devices",
    "tests/autodiff/test_func_replay.py::test_a_counter": "the order of threads",
    "tests/backend/test_checks.py": "errors come later, and XLA adds to their texts",
    "tests/backend/test_compiled_decompositions.py": "the bits of the processor",
    "tests/backend/test_cpu_ops.py": "the bits of the processor; tests/cuda/test_gpu.py has its own limits",
    "tests/backend/test_functions.py::test_code_gives": "the bits of the processor",
    "tests/backend/test_tiles_compiled.py::test_random_kernels[316]": "lanes of a block that store to one element",
    "tests/backend/test_tiles_compiled.py::test_random_kernels[328]": "lanes of a block that store to one element",
    "tests/backend/test_sums.py::test_threads_do_not_change_a_bit": "the bits of the processor",
    "tests/bind/test_agreeing_stores.py::test_other_values": "errors come later",
    "tests/bind/test_batch_to_threads.py": "asks for what is lowered for the processor",
    "tests/bind/test_collisions.py": "which of the threads that meet stores last differs by launch",
    "tests/bind/test_collisions_apart.py": "which of the threads that meet stores last differs by launch",
    "tests/bind/test_damaged_calls.py": "asks for the processor's calls",
    "tests/bind/test_debug.py": "errors come later, and XLA adds to their texts",
    "tests/bind/test_processes.py::test_an_export": "the program it starts has no GPU",
    "tests/bind/test_sharding": "two devices",
    "tests/bind/test_transforms.py::test_explicit_mesh": "two devices",
    "tests/examples/test_handwritten_cuda.py::test_the_whole_example": "sums in another order, to 1.2e-6 and not 1e-6",
    "tests/bind/test_symbolic_shapes.py::test_all_dims": "threads of one element that are not atomic",
    "tests/bind/test_tiles_transforms.py::test_element_assignment": "refused by name: loops that remember many tiles",
    "tests/bind/test_tile_gradients.py::test_derivatives[carried]": "refused by name: loops that remember many tiles",
    "tests/dispatch/test_concurrency.py": "counts what is compiled for the processor",
    "tests/dispatch/test_in_place.py::test_sums_have": "the bits of the processor",
    "tests/dispatch/test_lanes.py": "asks for the processor's code",
    "tests/frontend/test_barriers.py::test_the_derivative": "refused by name: loops that remember many tiles",
    "tests/frontend/test_missing_arrays.py::test_debug_mode": "errors come later",
    "tests/frontend/test_native_functions.py": "native texts that differ from what stands for them",
    "tests/frontend/test_tile_lanes.py::test_every_thread_prints": "the order of threads",
    "tests/frontend/test_lane_arrays.py::test_derivatives": "refused by name: loops that remember many tiles",
    "tests/lib/test_geometry_follows.py": "asks for memory of NumPy",
    "tests/lib/test_maths": "the accuracy of the processor; CUDA has functions of its own",
}  # fmt: skip
_runs = {"count": 0}


class OnGpu:
    """A kernel as `harness.Compiled` has it, for the GPU."""

    def __init__(self, kernel: Any, variant: Any):
        self.kernel = getattr(kernel, "kernel", kernel)
        if self.kernel.block_dim:
            self.kernel = dataclasses.replace(self.kernel, order=Order.NUMBERS)

    def run(
        self, dims: tuple[int, ...], args: Sequence[Any], threads: int = 1, zeros: Sequence[int] = ()
    ) -> list[np.ndarray]:
        _runs["count"] += 1
        given = [np.zeros_like(a) if p in zeros else a for p, a in enumerate(args)]
        try:
            return launched(self.kernel, dims, given, jax.devices("cuda")[0])
        except (wp.LaunchError, wp.NotDifferentiableError) as error:  # what leaves its arrays, or remembers too much
            pytest.skip(f"refused by name: {str(error).splitlines()[0]}")


def pytest_configure() -> None:
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        raise pytest.UsageError(f"no GPU: {error}") from None
    compiled_variants.Compiled = OnGpu  # type: ignore[misc]
    jax.config.update("jax_default_matmul_precision", "highest")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name, reason in OTHERWISE.items():
            if item.nodeid.startswith(name):
                item.add_marker(pytest.mark.skip(reason=f"on a GPU: {reason}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"on the GPU: {_runs['count']} runs of kernels that tests compile by themselves")
