"""The configuration of a handwritten kernel's launch: blocks, threads and shared memory, as its author says."""

from __future__ import annotations

import dataclasses
import math
import operator
from dataclasses import dataclass
from typing import Any

from jwarp.errors import LaunchError
from jwarp.frontend.cuda_kernel import Blocks, Definition
from jwarp.launching.geometry import BlockDim

MAX_BLOCK = 1024
# Along x, y and z; of blocks along z there are at most so many of a kernel's own, and as many batch elements.
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_SHARED = 227 * 1024  # what the largest GPUs give one block


@dataclass(frozen=True, slots=True)
class Configuration:
    """Blocks, how many of them lie along x and y of the GPU's grid, and their bytes of dynamic shared memory.

    The kernel's own axis z is the slower part of x: z of the GPU's grid is for batch elements.
    """

    blocks: Blocks
    grid: tuple[int, int]
    shared: int


def configuration(definition: Definition, dims: tuple[int, ...], block_dim: BlockDim | None) -> Configuration:
    """The configuration of a launch over `dims`, in blocks as its author says where `block_dim` is None.

    Raises:
        LaunchError: what the author said of it is impossible for these launch dimensions.
    """
    blocks = definition.blocks
    if block_dim is not None and block_dim != blocks.size:
        blocks = read_blocks(definition.name, block_dim)
    if 0 in dims:
        # Nothing runs, and what the author's functions say of it does not matter.
        return Configuration(blocks, (1, 1), 0)
    grid = definition.grid
    if grid is None:
        grid = _covering(definition, dims, blocks)
    elif callable(grid):
        grid = grid(dims)
    shared = definition.shared_bytes
    shared = shared(dims) if callable(shared) else shared
    x, y, z = read_grid(definition, grid, dims)
    return Configuration(dataclasses.replace(blocks, depth=z), (x * z, y), read_shared(definition.name, shared))


def _covering(definition: Definition, dims: tuple[int, ...], blocks: Blocks) -> Any:
    """Blocks with a thread to each index of the launch: its last dimension along x, the one before along y."""
    if len(blocks.shape) < 2:
        return -(-math.prod(dims) // blocks.size)
    shape, extents = (*blocks.shape, 1)[:3], (*dims[::-1], 1)[:3]
    if len(dims) not in (2, 3) or (len(dims) == 2 and shape[2] != 1):
        raise LaunchError(
            f"kernel '{definition.name}': blocks of {blocks.shape} threads do not say which blocks a launch over "
            f"{dims} has",
            hint="give grid=, or launch a kernel over (rows, columns), or (layers, rows, columns)",
        )
    return tuple(-(-extent // size) for extent, size in zip(extents, shape, strict=True))


def read_blocks(name: str, block: Any) -> Blocks:
    """The threads of a block, and along x, y and z if they are given so."""
    if not isinstance(block, (tuple, list)):
        size = _integer(block)
        if size is None or not 1 <= size <= MAX_BLOCK:
            raise LaunchError(f"kernel '{name}': block_dim must be 1 to {MAX_BLOCK} threads, got {block!r}")
        return Blocks(size)
    shape = tuple(_integer(n) or 0 for n in block)
    if (
        not 1 <= len(shape) <= 3
        or any(n < 1 for n in shape)
        or math.prod(shape) > MAX_BLOCK
        or max(shape[2:], default=1) > 64
    ):
        raise LaunchError(
            f"kernel '{name}': block_dim must be up to three numbers of threads, of which there are {MAX_BLOCK} in all "
            f"and 64 along z at most, got {block!r}"
        )
    return Blocks(math.prod(shape), shape)


def read_grid(definition: Definition, grid: Any, dims: tuple[int, ...] | None = None) -> tuple[int, int, int]:
    """The blocks along x, y and z."""
    entries = grid if isinstance(grid, (tuple, list)) else (grid,)
    found = [n for n in map(_integer, entries) if n is not None]
    if len(found) != len(entries) or not 1 <= len(found) <= 3:
        raise LaunchError(
            f"kernel '{definition.name}': grid must be the number of blocks, or those along x and y, or x, y and z, "
            f"got {grid!r}"
        )
    x, y, z = (*found, 1, 1)[:3]
    if not all(1 <= n <= most for n, most in zip((x, y, z), MAX_GRID, strict=True)) or x * z > MAX_GRID[0]:
        where = "" if dims is None else f" for a launch over {dims}"
        raise LaunchError(
            f"kernel '{definition.name}': a grid of {tuple(found)} blocks{where} is impossible; there may be 1 to "
            "2**31 - 1 along x, times those along z, and 1 to 65535 along y and z",
            hint="give grid=, and let each thread do several elements",
        )
    return x, y, z


def read_shared(name: str, shared: Any) -> int:
    size = _integer(shared)
    if size is None or not 0 <= size <= MAX_SHARED:
        raise LaunchError(f"kernel '{name}': shared_bytes must be 0 to {MAX_SHARED} bytes, got {shared!r}")
    return size


def _integer(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
