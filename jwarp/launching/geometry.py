"""The `dim` of a launch, brought into the one form that the native module takes."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.config import config
from jwarp.devices import get_device
from jwarp.errors import LaunchError
from jwarp.ir.verify import MAX_BLOCK_DIM
from jwarp.launching.sizes import Symbolic
from jwarp.types import MAX_DIMS

# Thread coordinates are int32 inside kernels, their number is int64 in the native module.
MAX_EXTENT = 2**31 - 1
MAX_THREADS = 2**63 - 1


# Threads of a block; of blocks of handwritten kernels also those along x, y and z.
BlockDim = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Extents of the coordinates that `tid()` reads, padded with 1, and runs of each coordinate.

    All of them may be symbolic.
    """

    dims: tuple[int, ...]
    repeat: int = 1

    @property
    def may_repeat(self) -> bool:
        """True if several threads may have the same coordinates."""
        return isinstance(self.repeat, Symbolic) or self.repeat > 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """The threads of a launch: extents along the axes that `tid()` reads, threads in all, and threads of each place."""

    shape: tuple[int, ...]
    size: int
    coord_mult: int

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


def bounds_of(dims: tuple[int, ...], tid_dims: int) -> Bounds:
    """The bounds of a launch over `dims` threads, whose `tid()` reads `tid_dims` coordinates."""
    shape = (*dims[:tid_dims], *(1,) * (tid_dims - len(dims)))
    return Bounds(shape, math.prod(dims), math.prod(dims[tid_dims:]))


def read_extents(dims: Any, name: str, where: str, kind: Any) -> tuple[int, ...]:
    """The extents of an output whose shape may have the axes of the components of its elements, or not.

    Raises:
        LaunchError: the last axes are not those of the components.
    """
    given = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    rank, components = getattr(kind, "dims", None), getattr(kind, "components", ())
    if not components or rank is None or len(given) != rank + len(components):
        return read_dim(dims, name, where)
    if given[rank:] != components:
        raise LaunchError(
            f"kernel '{name}': {where} is {given}, whose last axes are no components of {kind!r}, {components}"
        )
    return read_dim(given[:rank], name, where)


def read_dim(dim: Any, kernel_name: str, what: str = "dim") -> tuple[int, ...]:
    """`dim` as a tuple of up to four ints or symbolic sizes; `what` names the argument in errors."""
    if isinstance(dim, np.ndarray) and dim.ndim == 1 and dim.dtype.kind in "iu":
        dim = dim.tolist()
    entries = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    where = f"kernel '{kernel_name}': {what}"
    if len(entries) > MAX_DIMS:
        raise LaunchError(f"{where} has at most {MAX_DIMS} dimensions, got {len(entries)}")
    return tuple(_read_extent(entry, where, axis) for axis, entry in enumerate(entries))


def _read_extent(entry: Any, where: str, axis: int) -> Any:
    if isinstance(entry, Symbolic):
        return entry
    try:
        # A bool is an index to Python; as a number of threads it is a slip.
        extent = None if isinstance(entry, bool) else operator.index(entry)
    # Traced extents refuse with errors of their own, which do not name the kernel.
    except Exception:
        extent = None
    if extent is None:
        raise LaunchError(
            f"{where} must be an int or up to {MAX_DIMS} ints, got {type(entry).__name__} {str(entry)[:80]}",
            hint="it must be known when the launch is traced: use ints, for example from an array's shape",
        )
    if extent < 0:
        raise LaunchError(f"{where} must be non-negative, got {extent}")
    if extent > MAX_THREADS:
        raise LaunchError(f"{where} must be at most 2**63 - 1, got {extent} in dimension {axis}")
    return extent


def read_block_dim(block_dim: Any, kernel_name: str, *, as_warp: bool = False) -> BlockDim | None:
    """`block_dim` as a positive int, those along x, y and z of a handwritten kernel, or None.

    To read it `as_warp` does is to leave out what is not positive.
    """
    if block_dim is None:
        return None
    if as_warp and isinstance(block_dim, int) and not isinstance(block_dim, bool) and block_dim <= 0:
        return None
    if isinstance(block_dim, (tuple, list)):
        return tuple(one_block_dim(n, kernel_name) for n in block_dim)
    return one_block_dim(block_dim, kernel_name)


def one_block_dim(block_dim: Any, kernel_name: str) -> int:
    """`block_dim` as a positive int."""
    if isinstance(block_dim, bool) or not hasattr(block_dim, "__index__"):
        fault = f"block_dim must be an integer or None, got {block_dim!r}"
        raise LaunchError(f"kernel '{kernel_name}': {fault}", also=TypeError)
    size = operator.index(block_dim)
    if not 1 <= size < 2**31:
        raise LaunchError(f"kernel '{kernel_name}': block_dim must be positive, and have 32 bits, got {block_dim!r}")
    return size


def block_of_program(block_dim: Any, device: Any, kernel_name: str) -> Any:
    """The threads of a block in a program of Warp's, which on the CPU has one, unless `enable_cpu_blocks` is set.

    Raises:
        LaunchError: more threads than a block has, or no such device.
    """
    if get_device(device).is_cuda or isinstance(block_dim, (tuple, list)):
        return block_dim
    size = 1 if block_dim is None else read_block_dim(block_dim, kernel_name, as_warp=True) or 1
    if isinstance(size, int) and size > MAX_BLOCK_DIM:
        raise LaunchError(
            f"kernel '{kernel_name}': block_dim must be at most {MAX_BLOCK_DIM}, got {block_dim}: a block has at most "
            f"{MAX_BLOCK_DIM} on CPU, too"
        )
    return size if config.of_warp["enable_cpu_blocks"] else 1


def blocks(
    dims: tuple[int, ...], block_dim: int, tid_dims: int, kernel_name: str
) -> tuple[Geometry, int | None, int | None, tuple[int, ...]]:
    """The blocks of a launch over `dims` threads, and the axis of `tid()` along which a block has its lanes.

    A block is `block_dim` consecutive threads; its coordinates are those of its first one. There is no such axis
    where `tid()` does not read the last dimension. Where the last block is not full, the number of threads comes third.
    Where blocks go from one row of the launch to the next, threads are counted along one axis, and the dimensions come
    last.
    """
    dims = dims or (1,)
    *leading, last = dims
    lane_axis = len(dims) - 1 if len(dims) <= tid_dims else None
    if not isinstance(last, Symbolic) and last % block_dim == 0:
        return fold((*leading, last // block_dim), tid_dims, kernel_name), lane_axis, None, ()
    is_row = not any(isinstance(n, Symbolic) or n != 1 for n in leading) and not isinstance(last, Symbolic)
    if is_row and (lane_axis is not None or last <= block_dim):
        return fold((*leading, -(last // -block_dim)), tid_dims, kernel_name), lane_axis, last, ()
    if any(isinstance(n, Symbolic) for n in dims) or math.prod(dims) > MAX_EXTENT:
        raise not_whole(kernel_name, dims, block_dim, "it is symbolic, or has too many threads")
    threads = math.prod(dims)
    return fold((-(threads // -block_dim),), 1, kernel_name), 0, None if threads % block_dim == 0 else threads, dims


def not_whole(kernel_name: str, dims: tuple[int, ...], block_dim: int, why: str) -> LaunchError:
    """The error for a launch whose blocks would have to go from one row to the next."""
    return LaunchError(
        f"kernel '{kernel_name}' has tiles, so its threads come in blocks of block_dim={block_dim}: the last of "
        f"dim {dims} is no multiple of that, and blocks cannot go from one row to the next: {why}",
        hint="wp.launch_tiled takes the number of blocks, and adds block_dim as the last dimension",
    )


def fold(dims: tuple[int, ...], tid_dims: int, kernel_name: str) -> Geometry:
    """The geometry of `dims` threads for a kernel whose `tid()` reads `tid_dims` coordinates."""
    if math.prod(n for n in dims if not isinstance(n, Symbolic)) > MAX_THREADS:
        raise LaunchError(f"kernel '{kernel_name}': dim {dims} is more than 2**63 - 1 threads in all")
    read, repeated = dims[:tid_dims], dims[tid_dims:]
    if is_long(read):
        read = _cut(dims, read, kernel_name)
    return Geometry((*read, *(1,) * (MAX_DIMS - len(read))), math.prod(repeated))


def is_long(dims: tuple[int, ...]) -> bool:
    """True if coordinates along one of these dimensions may not fit in an int32."""
    return any(not isinstance(n, Symbolic) and n > MAX_EXTENT for n in dims)


def _cut(dims: tuple[int, ...], read: tuple[int, ...], kernel_name: str) -> tuple[int, ...]:
    """Dimensions that `tid()` reads, some of which are too long: without threads, no coordinate is."""
    if any(not isinstance(n, Symbolic) and n == 0 for n in dims):
        return tuple(n if isinstance(n, Symbolic) else min(n, MAX_EXTENT) for n in read)
    axis = next(axis for axis, n in enumerate(read) if is_long((n,)))
    raise LaunchError(
        f"kernel '{kernel_name}': dim must be at most 2**31 - 1 in one dimension: "
        f"Warp cannot launch a kernel using wp.tid() with extent {read[axis]} in dimension {axis}",
        hint="split the range over two dimensions",
    )
