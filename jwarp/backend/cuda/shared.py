"""Lays out the shared memory of a block: its tiles, and places by which threads tell each other what they found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jwarp.backend.cuda.accumulators import HALVES, NO_ACCUMULATORS, TF32, Accumulators, instruction, thread_columns
from jwarp.backend.cuda.barriers import is_broadcast
from jwarp.backend.cuda.copies import Copies
from jwarp.backend.cuda.rules import memory_type
from jwarp.backend.cuda.warpgroups import ALIGNMENT as ALIGNMENT_OF_GROUPS
from jwarp.errors import KernelTypeError
from jwarp.ir.attributes import ArrayName, BlockMatmul, BlockScan
from jwarp.ir.nodes import For, Kernel, Op, arrays_changed, arrays_read, used_values, walk, written_params

# Names in generated code: the whole memory, the place for a value of each warp, and that of the first thread.
ARENA, SCRATCH, SLOT = "arena", "scratch", "slot"
ALIGNMENT = 16
WARP = 32
WIDEST = 8  # bytes of a value
# Bytes that a block can have at most, by the number of the architecture.
LIMITS = {
    80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10,
    103: 227 << 10, 110: 227 << 10, 120: 99 << 10, 121: 99 << 10,
}  # fmt: skip
# Properties of all of these.
LEAST_ROOM = min(LIMITS.values())
FIRST_WITH_TILES = 80
RESERVED = 1 << 10  # of each block, in addition to its request
READ_TOGETHER = 8  # threads that read 16 bytes each
# Places for what is fetched ahead, and blocks at a time that hide what others wait for.
STAGES = (4, 3, 2)
ENOUGH_BLOCKS = 2
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
    """The layout of shared memory: the place of each part, by its C++ declaration, and the bytes of it all.

    Tiles that are fetched ahead have as many places as there are `stages`, one after the other, `steps` elements apart.
    The arrays in `paddings` have more room than their elements need.
    """

    starts: tuple[tuple[str, str, int], ...]  # type, name, offset
    size: int
    stages: int
    steps: Mapping[int, int]
    paddings: Mapping[int, Padding]
    alignment: int = ALIGNMENT

    def declarations(self) -> list[str]:
        if not self.size:
            return []
        memory = f"extern __shared__ __align__({self.alignment}) unsigned char {ARENA}[];"
        return [memory, *(f"{type}* const {name} = ({type}*)({ARENA} + {start});" for type, name, start in self.starts)]


def lay_out(
    kernel: Kernel,
    names: Mapping[int, str],
    copies: Copies,
    accumulators: Accumulators = NO_ACCUMULATORS,
    room: int = LEAST_ROOM,
) -> Shared:
    """The shared memory of a lowered kernel, whose arrays are called `names`, of at most `room` bytes if that can be.

    Where there is room, tiles that are fetched ahead have several places, and the rows of those that products read are
    apart. More places are not worth that fewer blocks run at a time.
    """
    plan = _Plan(kernel, names, copies, accumulators)
    padded = paddings(kernel, copies, accumulators.tf32)
    padded = {k: p for k, p in padded.items() if k not in accumulators.swizzles}
    results = {n.attr_as(BlockMatmul).c for n in _products(kernel)}
    choices: tuple[dict[int, Padding], ...] = (padded, {k: p for k, p in padded.items() if k not in results}, {})
    for several in (STAGES if copies.pipelines else (1,), (1,)):
        for apart in choices:
            made = [plan.laid_out(stages, apart) for stages in several]
            fitting = [m for m in made if m.size <= room]
            if fitting:
                at_once = min(ENOUGH_BLOCKS, _blocks(fitting[-1].size, room))
                return next(m for m in fitting if _blocks(m.size, room) >= at_once)
    return plan.laid_out(1, {})


def _blocks(size: int, room: int) -> int:
    """The number of blocks that can be at work at a time."""
    return (room + RESERVED) // (size + RESERVED)


@dataclass(frozen=True)
class _Plan:
    """The layout."""

    kernel: Kernel
    names: Mapping[int, str]
    copies: Copies
    accumulators: Accumulators

    def laid_out(self, stages: int, padded: Mapping[int, Padding]) -> Shared:
        kernel, steps = self.kernel, {}
        starts: list[tuple[str, str, int]] = []

        def placed(at: int, array: int) -> int:
            """Put an array at an offset; the end of it."""
            local = kernel.local(array)
            assert local is not None
            size = padded[array].size(local.size) if array in padded else local.size
            width = local.dtype.dtype.itemsize
            places = stages if array in self.copies.ahead else 1
            alignment = ALIGNMENT_OF_GROUPS if array in self.accumulators.swizzles else ALIGNMENT
            at, step = _whole(at, alignment), _whole(size * width, alignment)
            steps[array] = step // width
            if size:
                starts.append((memory_type(local.dtype), self.names[array], at))
            return at + places * step

        end, done = 0, set[int]()
        for name, size in ((SCRATCH, _scratch_bytes(kernel)), (SLOT, _slot_bytes(kernel))):
            if size:
                starts.append(("void", name, end))
                end += _whole(size)
        for first, second in self.in_turn():
            ends = []
            for arrays in (first, second):
                at = end
                for array in sorted(arrays):
                    at = placed(at, array)
                ends.append(at)
            end, done = max(ends), done | first | second
        for array, local in enumerate(kernel.locals, len(kernel.params)):
            if local.shared and array not in done:
                end = placed(end, array)
        alignment = ALIGNMENT_OF_GROUPS if self.accumulators.swizzles else ALIGNMENT
        return Shared(tuple(starts), end, stages, steps, padded, alignment)

    def in_turn(self) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
        """Arrays that are in registers while a loop fetches others, and these: either may have the same memory."""
        done = frozenset[int]()
        for loop, pipeline in self.copies.pipelines.items():
            in_registers = frozenset(run.array for run in self.accumulators.runs if loop in run.inside)
            in_registers -= done | self.copies.ahead  # something is on its way to other places of these
            if in_registers and not pipeline.targets & done:
                done |= in_registers | pipeline.targets
                yield in_registers, pipeline.targets


def _whole(size: int, alignment: int = ALIGNMENT) -> int:
    return -(-size // alignment) * alignment


def _products(kernel: Kernel) -> list[Op]:
    return [n for n in walk(kernel.body) if isinstance(n, Op) and n.row.is_product]


def paddings(kernel: Kernel, copies: Copies, tf32: bool = False) -> dict[int, Padding]:
    """The tiles whose rows are better apart: those that products read a column at a time.

    Shared memory has 32 banks of 4 bytes, and what a warp reads of one bank it reads in turn. Rows of 128 bytes all
    begin in the same bank. What other routines work on, and copies whose rows are others, keep their elements close.
    """
    found: dict[int, Padding] = {}
    excluded: set[ArrayName] = set()
    for node in walk(kernel.body):
        if not isinstance(node, Op) or not node.row.code.is_unit:
            continue
        if not node.row.is_product:
            excluded |= {*arrays_read(node), *arrays_changed(node)}
            continue
        for array, (columns, unit) in _rows(kernel, node, tf32).items():
            width = kernel.array(array).dtype.dtype.itemsize
            step = columns + (unit // width if unit and columns * width % (2 * unit) == 0 else 0)
            known = found.get(array)
            if known is None or (known.columns == columns and known.step == columns):
                found[array] = Padding(columns, step)
            elif known.columns != columns:
                excluded.add(array)
    moved = [(c.target, c.rows, c.columns) for some in copies.of.values() for c in some]
    moved += [(a.source, a.rows, a.columns) for some in copies.additions.values() for a in some]
    excluded |= {x for x, rows, columns in moved if x in found and not _fits(found[x], rows, columns)}
    return {k: p for k, p in found.items() if k not in excluded and p.step > p.columns and kernel.local(k) is not None}


def _rows(kernel: Kernel, node: Op, tf32: bool) -> dict[int, tuple[int, int]]:
    """Of the arrays of a product, the elements in a row, and of which number of bytes rows should be odd multiples.

    That is eight rows of 16 bytes, four of 32 or two of 64 that are read at a time; 0 where it does not matter.
    """
    attr, unit = node.attr_as(BlockMatmul), instruction(kernel, node, tf32)
    # True if an operand is read along its rows.
    along = {attr.a: not attr.transposes.a, attr.b: attr.transposes.b}
    rows = {
        attr.a: attr.m if attr.transposes.a else attr.k,
        attr.b: attr.k if attr.transposes.b else attr.n,
        attr.c: attr.n,
    }
    if unit is None:
        floats = all(kernel.array(x).dtype.is_float for x in rows)
        wanted = {x: 16 if floats and is_along else 0 for x, is_along in along.items()} | {attr.c: 0}
        if thread_columns(attr.m, attr.n, kernel.block_dim) >= READ_TOGETHER:
            wanted[attr.a] = 0  # threads that read together read one row
    else:
        # Elements of 16 bits come eight at a time, and floats four, but only along rows.
        width = kernel.array(attr.c).dtype.dtype.itemsize
        eights = unit is HALVES
        wanted = {x: 16 if eights or (unit is TF32 and is_along) else 32 for x, is_along in along.items()}
        wanted[attr.c] = 8 * width
    return {x: (rows[x], wanted[x]) for x in rows}


def _fits(padding: Padding, rows: int, columns: int) -> bool:
    return columns == padding.columns or (rows == 1 and columns % padding.columns == 0)


def _scratch_bytes(kernel: Kernel) -> int:
    """A value for each warp, where threads combine values."""
    nodes = list(walk(kernel.body))
    combines = any(isinstance(n, For) and n.lanes is not None and n.params for n in nodes)
    scans = any(isinstance(n, Op) and n.row.attribute is BlockScan for n in nodes)
    return -(-kernel.block_dim // WARP) * WIDEST if combines or scans else 0


def _slot_bytes(kernel: Kernel) -> int:
    """A value, where the first thread tells others what it found."""
    written, used = frozenset(written_params(kernel)), used_values(kernel.body)
    broadcasts = (n for n in walk(kernel.body) if isinstance(n, Op) and is_broadcast(kernel, n, written, used))
    return WIDEST if any(broadcasts) else 0


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
