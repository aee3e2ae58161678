"""Elements at equal distances in memory, one for each thread of a vector: few wide accesses and shuffles, no gather."""

from __future__ import annotations

from collections.abc import Sequence

from jwarp.backend.cpu.access.addresses import Memory
from jwarp.backend.cpu.access.components import MAX_COMPONENTS, WideElements
from jwarp.backend.cpu.access.descriptor import Access, Mask
from jwarp.backend.cpu.access.plain import gather_each
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, ENTRY, Code, Lanes, scalar_type, suffix

# Components that are accessed at once, as many as a block of 128 bits has.
BLOCK = 4
# From so many components on, consecutive elements are taken so, too: of shuffles of all that was loaded LLVM makes more
# code, which takes up to three times as long to make, and to run. For stores this begins later, and at wide vectors;
# where vectors are never full it has to outweigh a copy.
MIN_LOADED, MIN_STORED, MIN_COPIED = 8, 10, 12


def loads_transposed(access: Access) -> bool:
    """True if consecutive elements are loaded as those at equal distances are."""
    copied = access.mask is Mask.LEADING and access.never_full
    return access.shuffles and access.size >= (MIN_COPIED if copied else MIN_LOADED)


def stores_transposed(size: int, width: int) -> bool:
    """True if consecutive elements that are loaded so are stored so, too."""
    return size >= MIN_STORED and width > 2 * BLOCK


class StridedNumbers(WideElements):
    """Some components of the elements of all threads of a vector, each of which is active and inside its array.

    Every number is accessed by itself, from a scalar address, which takes half the time of a gather.
    """

    def __init__(self, body: Body, access: Access):
        super().__init__(body, access)
        code, memory, param = self.code, self.memory, self.param
        strides = [i.shape.stride or 0 for i in self.indices]
        out = code.instructions(ENTRY, False)
        step = out.binary("mul", "i64", memory.plus(out, *memory.offset(out, param, strides)), str(self.size))
        # Few distances, which registers have a place for: from thread to thread of a block, and from block to block.
        self.steps = [out.binary("mul", "i64", step, str(lane)) for lane in range(BLOCK + 1)]

    def place(self, start: int, lane: int) -> str:
        """The address of the components from `start` on of a thread's element."""
        code, element = self.code, self.address
        for _ in range(lane // BLOCK):
            element = code.define(f"getelementptr {self.kind}, ptr {element}, i64 {self.steps[BLOCK]}")
        if lane % BLOCK:
            element = code.define(f"getelementptr {self.kind}, ptr {element}, i64 {self.steps[lane % BLOCK]}")
        return code.define(f"getelementptr {self.kind}, ptr {element}, i64 {start}") if start else element

    def inside(self) -> str:
        """The condition that the elements of the first and the last lane are in their array, with no negative index."""
        memory, code, holds = self.memory, self.code, ""
        for axis, index in enumerate(self.indices):
            first = memory.wide(index)
            ends = [first]
            if index.shape.stride:
                ends.append(code.define(f"add i64 {first}, {index.shape.stride * (code.width - 1)}", index.level))
            for end in ends:
                fits = code.define(f"icmp ult i64 {end}, {memory.extent(self.param, axis)}", index.level)
                holds = code.define(f"and i1 {holds}, {fits}") if holds else fits
        return holds

    def load(self, positions: Sequence[int]) -> list[str]:
        return [self.memory.from_memory(self.type, self.numbers(p), True) for p in positions]

    def numbers(self, position: int) -> str:
        code, text = self.code, "poison"
        for lane in code.lane_numbers:
            number = code.define(f"load {self.kind}, ptr {self.place(position, lane)}, {self.align}")
            text = code.define(f"insertelement {code.vector(self.kind)} {text}, {self.kind} {number}, i64 {lane}")
        return text

    def store_at(self, positions: Sequence[int], components: Sequence[str]) -> None:
        code = self.code
        for position, component in zip(positions, components, strict=True):
            text = self.memory.to_memory(self.type, component, True)
            for lane in code.lane_numbers:
                number = code.define(f"extractelement {code.vector(self.kind)} {text}, i64 {lane}")
                code.line(f"store {self.kind} {number}, ptr {self.place(position, lane)}, {self.align}")


class StridedElements(StridedNumbers):
    """The elements of all threads of a vector, each of which is active and inside its array.

    The blocks of four threads with the same number within their four make a vector; 4 x 4 numbers are then transposed
    within the 128 bits that most shuffles stay inside.
    """

    def cut(self) -> None:
        """Which parts of an element are accessed at once, and how long they are."""
        self.starts = sorted({*range(0, self.size - BLOCK + 1, BLOCK), max(0, self.size - BLOCK)})
        self.part = min(self.size, BLOCK)

    def load(self, positions: Sequence[int]) -> list[str]:
        """The components at `positions`, each as a vector over the threads."""
        found: dict[int, str] = {}
        for start in self.starts:
            if any(start <= p < start + BLOCK and p not in found for p in positions):
                columns = self.transposed(
                    [self.joined([(self.row(start, 4 * b + k), BLOCK) for b in self.blocks]) for k in range(4)]
                )
                found.update((start + k, text) for k, text in enumerate(columns))
        return [self.memory.from_memory(self.type, found[p], True) for p in positions]

    def store_at(self, positions: Sequence[int], components: Sequence[str]) -> None:
        components = self.in_order(positions, components)
        for start in self.starts:
            given = list(components[start : start + BLOCK])
            rows = self.transposed(given + ["poison"] * (BLOCK - len(given)))
            for k, row in enumerate(rows):
                for b in self.blocks:
                    place = self.place(start, 4 * b + k)
                    part = self.pick(row, range(4 * b, 4 * b + 4), self.code.width)
                    self.store_row(place, part)

    @property
    def blocks(self) -> range:
        return range(self.code.width // BLOCK)

    def row(self, start: int, lane: int) -> str:
        """Components of one thread's element from `start` on."""
        code, row, place = self.code, f"<4 x {self.kind}>", self.place(start, lane)
        if self.part == BLOCK:
            return code.define(f"load {row}, ptr {place}, {self.align}")
        name = f"llvm.masked.load.{suffix(self.kind, BLOCK)}.p0"
        code.declare(row, name, ["ptr", "<4 x i1>", row])
        return code.define(f"call {row} @{name}(ptr {self.align} {place}, <4 x i1> {self.few}, {row} zeroinitializer)")

    def store_row(self, place: str, part: str) -> None:
        code, row = self.code, f"<4 x {self.kind}>"
        if self.part == BLOCK:
            code.line(f"store {row} {part}, ptr {place}, {self.align}")
            return
        name = f"llvm.masked.store.{suffix(self.kind, BLOCK)}.p0"
        code.declare("void", name, [row, "ptr", "<4 x i1>"])
        code.line(f"call void @{name}({row} {part}, ptr {self.align} {place}, <4 x i1> {self.few})")

    @property
    def few(self) -> str:
        return "<" + ", ".join(f"i1 {'true' if k < self.part else 'false'}" for k in range(BLOCK)) + ">"

    def transposed(self, rows: Sequence[str]) -> list[str]:
        """Four vectors, with the 4 x 4 numbers in the same 128 bits of each transposed."""
        a, b, c, d = rows
        ab, cd = (self.both(x, y, (0, 0, 1, 1)) for x, y in ((a, b), (c, d)))
        ab_high, cd_high = (self.both(x, y, (2, 2, 3, 3)) for x, y in ((a, b), (c, d)))
        pairs = ((ab, cd), (ab_high, cd_high))
        return [self.halves(x, y, first) for x, y in pairs for first in (0, 2)]

    def both(self, x: str, y: str, order: Sequence[int]) -> str:
        """The numbers of two vectors in turns."""
        width = self.code.width
        return self.shuffled(x, y, [4 * b + n + (k % 2) * width for b in self.blocks for k, n in enumerate(order)])

    def halves(self, x: str, y: str, first: int) -> str:
        """Two numbers of one vector and two of the other."""
        width = self.code.width
        order = [first, first + 1, first + width, first + 1 + width]
        return self.shuffled(x, y, [4 * b + n for b in self.blocks for n in order])

    def shuffled(self, x: str, y: str, order: Sequence[int]) -> str:
        type = self.code.vector(self.kind)
        return self.code.define(f"shufflevector {type} {x}, {type} {y}, {self._mask([str(k) for k in order])}")


class ConsecutiveElements(StridedElements):
    """The elements of consecutive threads. Where not all are active, a copy stands in for what is in memory."""

    __init__ = WideElements.__init__

    def place(self, start: int, lane: int) -> str:
        offset = start + lane * self.size
        return self.code.define(f"getelementptr {self.kind}, ptr {self.at}, i64 {offset}") if offset else self.at

    def load(self, positions: Sequence[int]) -> list[str]:
        self.at = self.either(lambda: [self.address], self.copied, ["ptr"])[0]
        return super().load(positions)

    def store_at(self, positions: Sequence[int], components: Sequence[str]) -> None:
        if not stores_transposed(self.size, self.code.width):
            WideElements.store_at(self, positions, components)
            return
        self.at = self.either(lambda: [self.address], lambda: [self.copy], ["ptr"])[0]
        super().store_at(positions, components)
        self.either(list, self.written_back)

    def copied(self) -> list[str]:
        """The address of a copy of what is in memory."""
        for k in range(self.size):
            self.code.line(f"store {self.code.vector(self.kind)} {self.active_part(k)}, ptr {self.place_in_copy(k)}")
        return [self.copy]

    def written_back(self) -> list[str]:
        for k in range(self.size):
            vector = self.code.vector(self.kind)
            self.store_active(k, self.code.define(f"load {vector}, ptr {self.place_in_copy(k)}"))
        return []

    def place_in_copy(self, k: int) -> str:
        return self.code.define(f"getelementptr {self.code.vector(self.kind)}, ptr {self.copy}, i64 {k}")

    @property
    def copy(self) -> str:
        return self.memory.copy_of_elements(self.kind, MAX_COMPONENTS)


class StridedRun(StridedElements):
    """A run: a few consecutive numbers of the row of each lane, from the place of the indices on.

    They are only loaded; the positions count from the first one on.
    """

    def cut(self) -> None:
        self.starts, self.part = [0], BLOCK

    def inside(self) -> str:
        """The condition that all of them are in their array."""
        code, last = self.code, self.indices[-1]
        end = code.define(f"add i64 {self.memory.wide(last)}, {BLOCK - 1}", last.level)
        fits = code.define(f"icmp ult i64 {end}, {self.memory.extent(self.param, len(self.indices) - 1)}", last.level)
        return code.define(f"and i1 {super().inside()}, {fits}")


class AnyElements(StridedElements):
    """The elements of the threads of a vector, wherever they are in an array that has any: they are only loaded.

    Threads that are not active, or are outside of the array, load its first element.
    """

    def __init__(self, code: Code, memory: Memory, param: int, indices: Sequence[Lanes], trusted: bool):
        self.take_up(code, memory, param, indices)
        self.trusted = trusted

    def load_active(self, positions: Sequence[int], mask: str | None) -> list[str]:
        """As `load`, zero for threads outside of the array."""
        memory, out = self.memory, self.code.instructions(BODY, True)
        texts, inside = memory.indices(self.indices, True), None
        if not self.trusted:
            texts, inside = memory.wrapped(out, self.param, texts)
        elements = memory.plus(out, *memory.offset(out, self.param, texts))
        numbers = out.binary("mul", "i64", elements, out.spread(str(self.size), "i64"))
        valid = memory.both(mask, inside)
        self.offsets = numbers if valid is None else out.select(valid, "i64", numbers, out.spread("0", "i64"))
        found = self.load(positions)
        return found if inside is None else [out.select(inside, self.type, x, "zeroinitializer") for x in found]

    def place(self, start: int, lane: int) -> str:
        offset = self.code.define(f"extractelement {self.code.vector('i64')} {self.offsets}, i64 {lane}")
        element = self.code.define(f"getelementptr {self.kind}, ptr %p{self.param}, i64 {offset}")
        return self.code.define(f"getelementptr {self.kind}, ptr {element}, i64 {start}") if start else element


def load_run(body: Body, access: Access) -> list[str]:
    """Load numbers next to each other in rows at equal distances."""
    run = StridedRun(body, access)
    positions = range(len(access.nodes))
    if access.proved and access.mask is Mask.FULL:
        return run.load(positions)
    types = [body.code.vector(scalar_type(access.type))] * len(positions)
    return body.fast_or_slow(run.inside(), lambda: run.load(positions), lambda: gather_each(body, access), types)
