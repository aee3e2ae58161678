"""Runs tests as they are on a GPU in the place of the processor: a plugin of pytest.

    python -m pytest -n 12 -p gpu_everywhere tests/autodiff tests/bind tests/lib …

JAX puts its arrays on the GPU, so launches in JAX programs go there, derivatives too; kernels that tests compile by
themselves (`harness.Compiled`) are launched there, by this plugin. Launches on NumPy arrays in place stay on the CPU.
At the end it says how many of the kernels that tests compile have run there. Without a GPU it is an error.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

# Several processes share one GPU. Must precede the first use of a device.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["JAX_PLATFORMS"] = "cuda,cpu"

import harness
import jax
import numpy as np
import pytest
from gpu_launches import launched

_runs = {"count": 0}


class OnGpu:
    """A kernel as `harness.Compiled` has it, for the GPU."""

    def __init__(self, kernel: Any, variant: Any):
        self.kernel = getattr(kernel, "kernel", kernel)

    def run(
        self, dims: tuple[int, ...], args: Sequence[Any], threads: int = 1, zeros: Sequence[int] = ()
    ) -> list[np.ndarray]:
        _runs["count"] += 1
        given = [np.zeros_like(a) if p in zeros else a for p, a in enumerate(args)]
        return launched(self.kernel, dims, given, jax.devices("cuda")[0])


def pytest_configure() -> None:
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        raise pytest.UsageError(f"no GPU: {error}") from None
    harness.Compiled = OnGpu  # type: ignore[misc]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"on the GPU: {_runs['count']} runs of kernels that tests compile by themselves")
