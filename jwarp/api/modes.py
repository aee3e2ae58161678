"""Warp's enumerations of modes: the names exist, and most of them change nothing here."""

from __future__ import annotations

import enum
from typing import Any

from jwarp.errors import JwarpError


class LaunchArrayAccessMode(enum.IntEnum):
    """Values of `wp.config.launch_array_access_mode`. Devices of arrays are always checked here."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


class CaptureMode(enum.IntEnum):
    """Values of `capture_mode`: how CUDA treats calls that cannot be captured."""

    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class MemoryKind(enum.IntEnum):
    """Kinds of memory that an array may be in."""

    UNKNOWN = 0
    HOST = 1
    PINNED = 2
    CUDA_DEVICE = 3
    CUDA_MEMPOOL = 4
    CUDA_MANAGED = 5


class JaxModulePreloadMode(enum.IntEnum):
    """Values of `module_preload_mode` of `wp.jax_kernel`. Kernels here are compiled when JAX lowers them."""

    NONE = 0
    CURRENT_DEVICE = 1
    ALL_DEVICES = 2


class JaxCallableGraphMode(enum.IntEnum):
    """Values of `graph_mode` of `wp.jax_callable`. Here the launches are part of XLA's own program."""

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
    """Has no effect: jwarp stores no such graphs."""


# Warp's exceptions for a kernel that cannot be compiled: the base of the four classes, as Warp sorts faults otherwise.
WarpCodegenError = WarpCodegenAttributeError = WarpCodegenIndexError = WarpCodegenKeyError = JwarpError
WarpCodegenTypeError = WarpCodegenValueError = WarpDeterminismError = JwarpError
