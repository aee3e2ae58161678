"""Lays out the shared memory of a block: its tiles, and places by which threads tell each other what they found."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from jwarp.backend.cuda.barriers import is_told
from jwarp.backend.cuda.rules import memory_type
from jwarp.errors import KernelTypeError
from jwarp.ir.nodes import For, Kernel, Op, used_values, walk, written_params

# What generated code calls the whole memory, the place for a value of each warp, and that for one of the first thread.
ARENA, SCRATCH, SLOT = "arena", "scratch", "slot"
ALIGNMENT = 16
WARP = 32
WIDEST = 8  # bytes of a value
# Bytes that a block can have at most, by the number of the architecture.
LIMITS = {
    80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10,
    103: 227 << 10, 110: 227 << 10, 120: 99 << 10, 121: 99 << 10,
}  # fmt: skip
_ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d+)")


@dataclass(frozen=True)
class Shared:
    """Where in the shared memory everything begins, by its C++ declaration, and the bytes of it all.

    With `twice`, tiles that are fetched ahead have two places, one after the other.
    """

    starts: tuple[tuple[str, str, int], ...]  # type, name, offset
    size: int
    twice: bool = False

    def declarations(self) -> list[str]:
        if not self.size:
            return []
        memory = f"extern __shared__ __align__({ALIGNMENT}) unsigned char {ARENA}[];"
        return [memory, *(f"{type}* const {name} = ({type}*)({ARENA} + {start});" for type, name, start in self.starts)]


def lay_out(kernel: Kernel, names: Mapping[int, str], twice: Container[int]) -> Shared:
    """The shared memory of a lowered kernel, whose arrays are called `names`.

    The arrays `twice` have two places, if that is not more than all GPUs have.
    """
    whole = _laid_out(kernel, names, twice)
    return whole if whole.size <= min(LIMITS.values()) else _laid_out(kernel, names, ())


def _laid_out(kernel: Kernel, names: Mapping[int, str], twice: Container[int]) -> Shared:
    parts = [("void", SCRATCH, _scratch_bytes(kernel)), ("void", SLOT, _slot_bytes(kernel))]
    for number, local in enumerate(kernel.locals, len(kernel.params)):
        if local.shared:
            places = 2 if number in twice else 1
            parts.append((memory_type(local.dtype), names[number], places * local.size * local.dtype.dtype.itemsize))
    starts, end = [], 0
    for type, name, size in parts:
        if size:
            starts.append((type, name, end))
            end += -(-size // ALIGNMENT) * ALIGNMENT
    return Shared(tuple(starts), end, twice != ())


def _scratch_bytes(kernel: Kernel) -> int:
    """A value for each warp, where threads combine values."""
    nodes = list(walk(kernel.body))
    combines = any(isinstance(n, For) and n.lanes is not None and n.params for n in nodes)
    scans = any(isinstance(n, Op) and n.name == "tile_scan" for n in nodes)
    return -(-kernel.block_dim // WARP) * WIDEST if combines or scans else 0


def _slot_bytes(kernel: Kernel) -> int:
    """A value, where the first thread tells others what it found."""
    written, used = frozenset(written_params(kernel)), used_values(kernel.body)
    told = (n for n in walk(kernel.body) if isinstance(n, Op) and is_told(kernel, n, written, used))
    return WIDEST if any(told) else 0


def refuse_large(kernel: Kernel, size: int, architectures: Sequence[str]) -> None:
    """Raise KernelTypeError if some of the GPUs have less than `size` bytes for a block."""
    for architecture in architectures:
        found = _ARCHITECTURE.match(architecture)
        limit = LIMITS.get(int(found[1])) if found else None
        if limit is not None and size > limit:
            raise KernelTypeError(
                f"kernel `{kernel.name}`: its tiles need {size} bytes of shared memory for a block, and GPUs of "
                f"{architecture} have {limit}",
                kernel.span,
                "make the tiles smaller, or launch with other values for their shapes",
            )
