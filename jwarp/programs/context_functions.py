"""`warp._src.context`: functions of numbers alone, about the threads of launches and the code of GPUs."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import geometry
from jwarp.launching.geometry import block_of_program

# Threads of a block of a GPU where nobody says, and the least architecture that compilers of CUDA 13 make code for.
_GPU_BLOCK = 256
_LEAST_OF_CUDA_13 = 75


def canonical_dim(dim: int | Sequence[int]) -> tuple[int, ...]:
    """The extents of a launch as a tuple of ints; such a tuple is itself.

    Raises:
        TypeError: an extent is no integer.
    """
    if type(dim) is tuple and all(type(n) is int for n in dim):
        return dim
    entries = dim if isinstance(dim, (tuple, list)) else (dim,)
    return tuple(n if type(n) is int else operator.index(n) for n in entries)


def launch_block_dim(device: Any, block_dim: int | None) -> int:
    """The threads that blocks of a launch have: on the CPU one, unless `enable_cpu_blocks` is set.

    Raises:
        LaunchError: more than a block has on the CPU.
    """
    if device.is_cuda:
        return block_dim if block_dim is not None and block_dim > 0 else _GPU_BLOCK
    found: int = block_of_program(block_dim, device, "")
    return found


def kernel_bounds(dim: int | Sequence[int], kernel: Kernel, block_dim: int | None = None) -> geometry.Bounds:
    """The threads of a launch of a kernel, as records tell them.

    Raises:
        LaunchError: coordinates that a thread reads do not fit in an int32.
    """
    dims, tid_dims = geometry.read_dim(dim, kernel.name), kernel.ir().tid_dims
    geometry.fold(dims, tid_dims, kernel.name)
    return geometry.bounds_of(dims, tid_dims)


def check_architecture(arch: int, toolkit: tuple[int, int] | None, device: str = "") -> None:
    """Refuse a GPU that the compiler of a CUDA toolkit makes no code for.

    Raises:
        RuntimeError: the toolkit is CUDA 13 or later, and the GPU is older than sm_75.
    """
    if toolkit is not None and toolkit[0] >= 13 and arch < _LEAST_OF_CUDA_13:
        where = f" of {device}" if device else ""
        raise RuntimeError(
            f"CUDA {toolkit[0]} makes code for sm_{_LEAST_OF_CUDA_13} and later, not for sm_{arch}{where}: a CUDA 12 "
            "build does"
        )


MEMBERS = {
    "operator": operator,
    "_canonicalize_dim": canonical_dim,
    "_resolve_launch_block_dim": launch_block_dim,
    "_build_launch_bounds_from_tuple": geometry.bounds_of,
    "_build_kernel_launch_bounds": kernel_bounds,
    "_validate_cuda_device_arch": check_architecture,
}
