"""How a handwritten kernel is launched: blocks, threads and shared memory, as its author says."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

from jwarp.errors import LaunchError
from jwarp.frontend.cuda_kernel import Definition

MAX_BLOCK = 1024
# Of the axes x and y; batch elements run along z.
MAX_GRID = (2**31 - 1, 65535)
MAX_SHARED = 227 * 1024  # what the largest GPUs give one block


@dataclass(frozen=True, slots=True)
class Configuration:
    """Threads of a block, blocks along x and y, and bytes of dynamic shared memory."""

    block: int
    grid: tuple[int, int]
    shared: int


def configuration(definition: Definition, dims: tuple[int, ...], block_dim: int | None) -> Configuration:
    """The configuration of a launch over `dims`, in blocks as its author says where `block_dim` is None.

    Raises:
        LaunchError: what the author said of it is impossible for these launch dimensions.
    """
    block = read_block(definition.name, definition.block_dim if block_dim is None else block_dim)
    if 0 in dims:
        # Nothing runs, and what the author's functions say of it does not matter.
        return Configuration(block, (1, 1), 0)
    grid = definition.grid
    if grid is None:
        grid = _covering(definition, dims, block)
    elif callable(grid):
        grid = grid(dims)
    shared = definition.shared_bytes
    shared = shared(dims) if callable(shared) else shared
    return Configuration(block, read_grid(definition, grid, dims), read_shared(definition.name, shared))


def _covering(definition: Definition, dims: tuple[int, ...], block: int) -> Any:
    """Blocks with a thread to each index of the launch: its last dimension along x, the one before along y."""
    shape = definition.block_shape
    if len(shape) < 2 or block != definition.block_dim:
        return -(-math.prod(dims) // block)
    if len(dims) != 2 or math.prod(shape[2:]) != 1:
        raise LaunchError(
            f"kernel '{definition.name}': blocks of {shape} threads do not say which blocks a launch over {dims} has",
            hint="give grid=, or launch a kernel with two-dimensional blocks over (rows, columns)",
        )
    return -(-dims[1] // shape[0]), -(-dims[0] // shape[1])


def read_shape(name: str, block: Any) -> tuple[int, tuple[int, ...]]:
    """The threads of a block, and along x, y and z if they are given so."""
    if not isinstance(block, (tuple, list)):
        return read_block(name, block), ()
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
    return math.prod(shape), shape


def read_block(name: str, block: Any) -> int:
    size = _integer(block)
    if size is None or not 1 <= size <= MAX_BLOCK:
        raise LaunchError(f"kernel '{name}': block_dim must be 1 to {MAX_BLOCK} threads, got {block!r}")
    return size


def read_grid(definition: Definition, grid: Any, dims: tuple[int, ...] | None = None) -> tuple[int, int]:
    """The blocks along x and y."""
    entries = grid if isinstance(grid, (tuple, list)) else (grid,)
    blocks = [_integer(n) for n in entries]
    found = [n for n in blocks if n is not None]
    if len(found) != len(entries) or not 1 <= len(found) <= 2:
        raise LaunchError(
            f"kernel '{definition.name}': grid must be the number of blocks, or those along x and y, got {grid!r}",
            hint="batch elements of jax.vmap take the axis z",
        )
    x, y = (*found, 1)[:2]
    if not (1 <= x <= MAX_GRID[0] and 1 <= y <= MAX_GRID[1]):
        where = "" if dims is None else f" for a launch over {dims}"
        raise LaunchError(
            f"kernel '{definition.name}': a grid of {(x, y)} blocks{where} is impossible; there may be 1 to 2**31 - 1 "
            "along x and 1 to 65535 along y",
            hint="give grid=, and let each thread do several elements",
        )
    return x, y


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
