"""Warns of a launch over more or fewer dimensions than the kernel reads coordinates of its threads."""

from __future__ import annotations

import math
import warnings

from jwarp.caches import MAX_KERNELS, Cache
from jwarp.config import surface
from jwarp.errors import KernelWarning
from jwarp.ir import nodes
from jwarp.launching.geometry import BlockDim
from jwarp.launching.sizes import Symbolic

_Key = tuple[str, int, int, int]
_WARNED: Cache[_Key, bool] = Cache("launches over other dimensions than a kernel reads", MAX_KERNELS)


def warn_of_other_counts(kernel: nodes.Kernel, dims: tuple[int, ...], block_dim: BlockDim | None) -> None:
    """Warn, once for a kernel and two counts, of threads with equal coordinates and of coordinates that are always 0.

    The threads of a block, as the last dimension, may go unread, and so may dimensions of extent 1. A single thread
    reads as many coordinates as it likes, and none does no harm. Programs
    under the name `warp` are not warned: NVIDIA Warp launches so without a word, and they mean it.
    """
    read, given = kernel.tid_dims, len(dims)
    if surface.is_warps or read == given or 0 in dims:
        return
    unread = list(dims[read:])
    if unread and unread[-1] == block_dim:
        unread.pop()
    fewer = given < read and not _is_one(dims)
    if not fewer and _is_one(tuple(unread)):
        return
    place = max(coordinates(kernel), key=lambda op: op.number, default=None)
    if place is None:  # no thread asks which one it is
        return
    key = (place.span.file, place.span.line, read, given)
    if _WARNED.get(key):
        return
    _WARNED.keep(key, True)
    names = f"wp.tid() reads {_counted(read, 'coordinate')}, and the launch is over {_counted(given, 'dimension')}"
    if fewer:
        effect = "the last coordinates are always 0"
    else:
        effect = "every statement, `+=` too, runs again for each element of the dimensions that are not read"
    warnings.warn_explicit(
        f"kernel '{kernel.name}', {place.span}: {names}: {effect}",
        KernelWarning, place.span.file, place.span.line,
    )  # fmt: skip


def coordinates(kernel: nodes.Kernel) -> list[nodes.Op]:
    """The operations that read coordinates of a thread."""
    return [n for n in nodes.walk(kernel.body) if isinstance(n, nodes.Op) and n.row.is_coordinate]


def _is_one(dims: tuple[int, ...]) -> bool:
    """True if there is one thread over these dimensions, or none."""
    return not any(isinstance(n, Symbolic) for n in dims) and math.prod(dims) <= 1


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
