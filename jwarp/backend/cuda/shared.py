"""Lays out the shared memory of a block: its tiles, and places by which threads tell each other what they found."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from jwarp.backend.cuda.barriers import is_told
from jwarp.backend.cuda.copies import Copies
from jwarp.backend.cuda.rules import memory_type
from jwarp.errors import KernelTypeError
from jwarp.ir.attributes import ArrayName, BlockMatmul
from jwarp.ir.nodes import For, Kernel, Op, arrays_changed, arrays_read, used_values, walk, written_params
from jwarp.types import bfloat16, float16, float32, float64

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
# What all of these have.
LEAST_ROOM = min(LIMITS.values())
FIRST_WITH_TILES = 80
_ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d+)")


def room_of(architectures: Sequence[str]) -> int:
    """The bytes of shared memory that a block can have on all of the architectures."""
    found = (_ARCHITECTURE.match(a) for a in architectures)
    return min((LIMITS.get(int(f[1]), LEAST_ROOM) if f else LEAST_ROOM for f in found), default=LEAST_ROOM)


@dataclass(frozen=True)
class Padding:
    """Rows of a tile begin `step` elements apart, of which `columns` are its own."""

    columns: int
    step: int

    def size(self, count: int) -> int:
        return count // self.columns * self.step


@dataclass(frozen=True)
class Shared:
    """Where in the shared memory everything begins, by its C++ declaration, and the bytes of it all.

    With `twice`, tiles that are fetched ahead have two places, one after the other. The arrays in `paddings` have more
    room than their elements need.
    """

    starts: tuple[tuple[str, str, int], ...]  # type, name, offset
    size: int
    twice: bool
    paddings: Mapping[int, Padding]

    def declarations(self) -> list[str]:
        if not self.size:
            return []
        memory = f"extern __shared__ __align__({ALIGNMENT}) unsigned char {ARENA}[];"
        return [memory, *(f"{type}* const {name} = ({type}*)({ARENA} + {start});" for type, name, start in self.starts)]


def lay_out(kernel: Kernel, names: Mapping[int, str], copies: Copies, room: int = LEAST_ROOM) -> Shared:
    """The shared memory of a lowered kernel, whose arrays are called `names`.

    Tiles that are fetched ahead have two places, and the rows of those that matrix instructions read are apart, if that
    is not more than `room` bytes.
    """
    padded = paddings(kernel, copies)
    results = {
        node.told(BlockMatmul).c for node in walk(kernel.body) if isinstance(node, Op) and node.name == "tile_matmul"
    }
    operands = {k: p for k, p in padded.items() if k not in results}
    for twice in (copies.twice, frozenset[int]()):
        for apart in (padded, operands, {}):
            made = _laid_out(kernel, names, twice, apart)
            if made.size <= room:
                return made
    return _laid_out(kernel, names, (), {})


def _laid_out(kernel: Kernel, names: Mapping[int, str], twice: Container[int], padded: Mapping[int, Padding]) -> Shared:
    parts = [("void", SCRATCH, _scratch_bytes(kernel)), ("void", SLOT, _slot_bytes(kernel))]
    for number, local in enumerate(kernel.locals, len(kernel.params)):
        if local.shared:
            places = 2 if number in twice else 1
            size = padded[number].size(local.size) if number in padded else local.size
            parts.append((memory_type(local.dtype), names[number], places * size * local.dtype.dtype.itemsize))
    starts, end = [], 0
    for type, name, size in parts:
        if size:
            starts.append((type, name, end))
            end += -(-size // ALIGNMENT) * ALIGNMENT
    return Shared(tuple(starts), end, twice != frozenset() and twice != (), padded)


def paddings(kernel: Kernel, copies: Copies) -> dict[int, Padding]:
    """Where rows of tiles are better apart: those that matrix instructions read a column at a time.

    Shared memory has 32 banks of 4 bytes, and what a warp reads of one bank it reads in turn. Rows of 128 bytes all
    begin in the same bank. What other routines work on, and copies whose rows are others, keep their elements close.
    """
    found: dict[int, Padding] = {}
    excluded: set[ArrayName] = set()
    for node in walk(kernel.body):
        if not isinstance(node, Op) or not node.row.is_unit:
            continue
        if node.name != "tile_matmul":
            excluded |= {*arrays_read(node), *arrays_changed(node)}
            continue
        told = node.told(BlockMatmul)
        a, b, c = (kernel.array(x).dtype for x in (told.a, told.b, told.c))
        halves = a in (float16, bfloat16) and c in (a, float32) and told.m % 16 == told.n % 8 == told.k % 16 == 0
        doubles = a == c == float64 and told.m % 8 == told.n % 8 == told.k % 4 == 0
        columns = {
            told.a: told.m if told.transposes.a else told.k,
            told.b: told.k if told.transposes.b else told.n,
            told.c: told.n,
        }
        for array, count in columns.items():
            width = kernel.array(array).dtype.dtype.itemsize
            # Eight rows of 16 bytes, four of 32 or two of 64: in as many banks where the step is an odd multiple.
            unit = 16 if width == 2 else 64 if width == 8 and array == told.c else 32
            padding = Padding(count, count + (unit // width if count * width % (2 * unit) == 0 else 0))
            if not (a == b and (halves or doubles)) or found.setdefault(array, padding) != padding:
                excluded.add(array)
    for all_copies in copies.of.values():
        excluded |= {
            c.target for c in all_copies if c.target in found and not _fits(found[c.target], c.rows, c.columns)
        }
    return {k: p for k, p in found.items() if k not in excluded and p.step > p.columns and kernel.local(k) is not None}


def _fits(padding: Padding, rows: int, columns: int) -> bool:
    return columns == padding.columns or (rows == 1 and columns % padding.columns == 0)


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
    """Raise KernelTypeError if some of the GPUs have no tiles, or less than `size` bytes for a block."""
    for architecture in architectures:
        found = _ARCHITECTURE.match(architecture)
        if found and int(found[1]) < FIRST_WITH_TILES:
            raise KernelTypeError(
                f"kernel `{kernel.name}`: tiles need a GPU of sm_{FIRST_WITH_TILES} or later, not {architecture}",
                kernel.span,
                "name later architectures in wp.config.cuda_arch, or launch on the CPU",
            )
        limit = LIMITS.get(int(found[1])) if found else None
        if limit is not None and size > limit:
            raise KernelTypeError(
                f"kernel `{kernel.name}`: its tiles need {size} bytes of shared memory for a block, and GPUs of "
                f"{architecture} have {limit}",
                kernel.span,
                "make the tiles smaller, or launch with other values for their shapes",
            )
