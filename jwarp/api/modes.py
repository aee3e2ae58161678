"""What programs of Warp's choose among: each is a name for something that works here in one way, or is accepted."""

from __future__ import annotations

import enum
from typing import Any

from jwarp.errors import CompileError, KernelTypeError


class LaunchArrayAccessMode(enum.IntEnum):
    """What `wp.config.launch_array_access_mode` may be. Devices of arrays are always checked here."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


class CaptureMode(enum.IntEnum):
    """What `capture_mode` of captures may be, which says how CUDA takes calls that a capture cannot have."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class MemoryKind(enum.IntEnum):
    """What memory an array is in."""

    UNKNOWN = 0
    HOST = 1
    PINNED = 2
    CUDA_DEVICE = 3
    CUDA_MEMPOOL = 4
    CUDA_MANAGED = 5


class JaxModulePreloadMode(enum.IntEnum):
    """What `module_preload_mode` of `wp.jax_kernel` may be. Kernels here are compiled when JAX lowers them."""

    NONE = 0
    CURRENT_DEVICE = 1
    ALL_DEVICES = 2


class JaxCallableGraphMode(enum.IntEnum):
    """What `graph_mode` of `wp.jax_callable` may be. XLA has the launches as parts of its own program here."""

    NONE = 0
    JAX = 1
    WARP = 2
    WARP_STAGED = 3
    WARP_STAGED_EX = 4


class GraphColoringAlgorithm(enum.IntEnum):
    """How `wp.utils.graph_coloring_assign` colours graphs."""

    MCS = 0
    GREEDY = 1


def clear_jax_callable_graph_cache(*functions: Any) -> None:
    """Nothing: no graphs are kept."""


# What Warp raises where a kernel cannot be compiled.
WarpCodegenError = WarpCodegenAttributeError = WarpCodegenIndexError = CompileError
WarpCodegenKeyError = WarpCodegenValueError = WarpDeterminismError = CompileError
WarpCodegenTypeError = KernelTypeError
