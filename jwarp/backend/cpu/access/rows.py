"""Loads from a part of an array that lies in registers, of which every lane takes its element without a gather.

The part is a short row, or what is around the element of the first lane that is active: neighbours in a grid load from
there, and lanes that load one element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jwarp.backend.cpu.access.addresses import Memory
from jwarp.backend.cpu.access.instructions import masked_load
from jwarp.backend.cpu.code import BODY, ENTRY, Code, Lanes, memory_type
from jwarp.backend.cpu.target import Target

# Numbers of a row, and of a vector of such a processor.
LONGEST_ROW = 64
LANES = 16
# Rows of fewer numbers take fewer instructions: of two vectors, one instruction takes any.
LENGTHS = (2 * LANES, LONGEST_ROW)
# Consecutive elements of so many components lie in as many numbers, one for each thread of a vector.
MAX_NEAR = LONGEST_ROW // LANES


def has_tables(target: Target) -> bool:
    """True if one instruction takes any numbers out of two vectors."""
    return target.masks and target.width == LANES and "+avx512f" in target.features


class ShortRow:
    """Elements of the first array of `memory`, a row of all of its axes, where it is short."""

    def __init__(self, code: Code, memory: Memory, indices: Sequence[Lanes], trusted: bool):
        self.code, self.memory, self.indices, self.trusted = code, memory, indices, trusted
        self.array = memory.arrays[0]
        self.extents = [memory.extent(0, axis) for axis in range(self.array.dims)]
        self.length = str(math.prod(self.array.components))
        self.strides: list[str] = []  # in numbers
        for extent in reversed(self.extents):
            self.strides.insert(0, self.length)
            self.length = self.product(self.length, extent)

    def product(self, x: str, y: str) -> str:
        if x.isdigit() and y.isdigit():
            return str(int(x) * int(y))
        return y if x == "1" else x if y == "1" else self.code.define(f"mul i64 {x}, {y}", ENTRY)

    def fits(self, numbers: int) -> str:
        """The condition that the row has no more numbers than these."""
        # No extent is longer than the product of all, unless one of them is 0: then no index is inside.
        return self.code.define(f"icmp ule i64 {self.length}, {numbers}")

    def load(self, positions: Sequence[int], numbers: int) -> list[str]:
        """The components at `positions`, each as a vector over the threads, of a row of no more than `numbers`."""
        code = self.code
        out = code.instructions(BODY, True)
        total, inside = self.places()
        found = self.components(positions, total, self.tables(numbers))
        return [out.select(inside, self.kind, value, "zeroinitializer") if inside else value for value in found]

    def places(self) -> tuple[str, str]:
        """The number of each lane's first component in the row, and whether that is inside (nothing: it is)."""
        out = self.code.instructions(BODY, True)
        total, inside = "", ""
        for text, extent, stride in zip((i.text for i in self.indices), self.extents, self.strides, strict=True):
            if not self.trusted:
                spread = self.spread(extent)
                negative = out.compare("slt", "i32", text, out.spread("0", "i32"))
                text = out.select(negative, "i32", out.binary("add", "i32", text, spread), text)
                fits = out.compare("ult", "i32", text, spread)
                inside = out.binary("and", "i1", inside, fits) if inside else fits
            if stride != "1":
                text = out.binary("mul", "i32", text, self.spread(stride))
            total = out.binary("add", "i32", total, text) if total else text
        return total, inside

    def components(self, positions: Sequence[int], places: str, tables: Sequence[str]) -> list[str]:
        """The components at `positions` of elements that begin at `places` of the numbers in vectors."""
        out = self.code.instructions(BODY, True)
        found = []
        for position in positions:
            at = out.binary("add", "i32", places, out.spread(str(position), "i32")) if position else places
            value, *others = (self.taken(at, *tables[k : k + 2]) for k in range(0, len(tables), 2))
            for high in others:
                bit = out.binary("and", "i32", at, out.spread(str(2 * LANES), "i32"))
                value = out.select(out.compare("ne", "i32", bit, out.spread("0", "i32")), self.kind, high, value)
            found.append(value)
        return found

    @property
    def kind(self) -> str:
        return memory_type(self.array.dtype)

    def spread(self, number: str) -> str:
        """A number that all lanes have, of 32 bits."""
        if number.isdigit():
            return f"splat (i32 {number})"
        return self.code.splat(self.code.define(f"trunc i64 {number} to i32", ENTRY), "i32", ENTRY)

    def tables(self, numbers: int) -> list[str]:
        """The numbers of the row, in order, in vectors."""
        code, array, vectors = self.code, self.array, []
        for first in range(0, numbers, LANES):
            place = code.define(f"getelementptr {self.kind}, ptr %p0, i64 {first}") if first else "%p0"
            order = ", ".join(f"i32 {first + lane}" for lane in range(LANES))
            mask = code.define(f"icmp ult {code.vector('i32')} <{order}>, {self.spread(self.length)}")
            vectors.append(masked_load(code, self.kind, place, f"align {array.dtype.bits // 8}", mask))
        return vectors

    def taken(self, at: str, first: str, second: str) -> str:
        """The numbers at the lower five bits of `at` out of two vectors."""
        code, vector, lanes = self.code, self.code.vector(self.kind), self.code.vector("i32")
        name = f"llvm.x86.avx512.vpermi2var.{'ps' if self.kind == 'float' else 'd'}.512"
        code.declare(vector, name, [vector, lanes, vector])
        return code.define(f"call {vector} @{name}({vector} {first}, {lanes} {at}, {vector} {second})")


class Window(ShortRow):
    """Elements of the first array of `memory` that lie close to each other: some numbers around them are loaded.

    `fits` says whether those of all lanes that are active do; `load` is for where it does. A row has less than 2^31
    numbers, or does not fit, and neither do numbers that begin before it or end behind it.
    """

    def __init__(self, code: Code, memory: Memory, indices: Sequence[Lanes], trusted: bool, active: str):
        super().__init__(code, memory, indices, trusted)
        size = math.prod(self.array.components)
        self.count = 2 * LANES if size == 1 else LONGEST_ROW
        out = code.instructions(BODY, True)
        numbers, inside = self.places()
        self.valid = out.binary("and", "i1", active, inside) if inside else active
        name, vector, lanes = "llvm.experimental.vector.compress.v16i32", code.vector("i32"), code.vector("i1")
        code.declare(vector, name, [vector, lanes, vector])
        valid = code.define(
            f"call {vector} @{name}({vector} {numbers}, {lanes} {self.valid}, {vector} zeroinitializer)"
        )
        # Elements one after the other begin at the first lane's; others that are close may lie before it as well.
        self.before = (self.count - LANES * size) // 2
        self.first = code.define(f"extractelement {vector} {valid}, i64 0")
        spread = code.define(f"shufflevector {vector} {valid}, {vector} poison, {vector} zeroinitializer")
        self.at = out.binary("sub", "i32", numbers, spread)
        if self.before:
            self.at = out.binary("add", "i32", self.at, out.spread(str(self.before), "i32"))
        self.most = self.count - size

    def fits(self, numbers: int = 0) -> str:
        """The condition that the elements of active lanes are among the loaded numbers, and these in the row."""
        code = self.code
        out = code.instructions(BODY, True)
        bits = f"i{LANES}"
        apart = out.compare("ugt", "i32", self.at, out.spread(str(self.most), "i32"))
        far = code.define(f"bitcast {code.vector('i1')} {out.binary('and', 'i1', self.valid, apart)} to {bits}")
        near = code.define(f"icmp eq {bits} {far}, 0")
        # The last number that they may begin at; none if that is negative, or the row is too long.
        last = code.define(f"sub i64 {self.length}, {self.count}", ENTRY)
        few = code.define(f"icmp ult i64 {last}, {1 << 31}", ENTRY)
        last = code.define(f"select i1 {few}, i64 {last}, i64 -1", ENTRY)
        self.begin = code.define(f"sub i64 {code.define(f'zext i32 {self.first} to i64')}, {self.before}")
        low = code.define(f"icmp sge i64 {self.begin}, 0")
        high = code.define(f"icmp sle i64 {self.begin}, {last}")
        return code.define(f"and i1 {near}, {code.define(f'and i1 {low}, {high}')}")

    def load(self, positions: Sequence[int], numbers: int = 0) -> list[str]:
        """The components at `positions`, each as a vector over the threads: zero for what is not inside."""
        code = self.code
        out = code.instructions(BODY, True)
        vectors = []
        for first in range(0, self.count, LANES):
            number = code.define(f"add i64 {self.begin}, {first}") if first else self.begin
            place = code.define(f"getelementptr {self.kind}, ptr %p0, i64 {number}")
            vectors.append(
                code.define(f"load {code.vector(self.kind)}, ptr {place}, align {self.array.dtype.bits // 8}")
            )
        found = self.components(positions, self.at, vectors)
        return [out.select(self.valid, self.kind, value, "zeroinitializer") for value in found]
