"""Vectors and matrices in memory: the elements of consecutive threads in one wide load or store."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jwarp.backend.cpu.code import BODY, Code, Lanes, memory_type, suffix
from jwarp.backend.cpu.memory import Element, Memory
from jwarp.backend.cpu.shapes import VARYING
from jwarp.ir.nodes import Const, Node, Op
from jwarp.types import ArrayType, ScalarType

# Above this, the shuffles cost about what they save, and LLVM takes several times as long.
MAX_COMPONENTS = 36


def component_of(node: Op, array: ArrayType) -> int | None:
    """The position of the component that an access is to, if that is known and there is such a component."""
    indices = node.indices
    position = 0
    for index, extent in zip(indices[array.dims :], array.components, strict=True):
        if not isinstance(index, Const) or not 0 <= index.value < extent:
            return None
        position = position * extent + index.value
    return position


def group(nodes: Sequence[Node], start: int, arrays: dict[int, ArrayType]) -> list[Op]:
    """The accesses from `start` on that are to different components of the same elements of an array; it may be one."""
    first = nodes[start]
    if not isinstance(first, Op) or not first.row.is_access:
        return []
    array = arrays[first.array]
    if array.dims == 0 or (first.row.is_atomic and first.name != "atomic_add"):
        return []
    found: list[Op] = []
    seen: set[int | None] = {None}
    for node in nodes[start:]:
        if not isinstance(node, Op) or node.name != first.name or node.array != first.array:
            break
        position = component_of(node, array)
        if node.args[: array.dims] != first.args[: array.dims] or position in seen:
            break
        seen.add(position)
        found.append(node)
    return found


class WideElements:
    """One wide access: `size` components for each of the vector's threads, element by element.

    With `active`, a count of threads, it is to the elements of so many threads from the first one on.
    """

    def __init__(self, code: Code, memory: Memory, param: int, indices: Sequence[Lanes], active: str | None = None):
        self.take_up(code, memory, param, indices, active)
        level = max(i.level for i in indices)
        out = code.instructions(level, False)
        offset = memory.plus(out, *memory.offset(out, param, memory.indices(indices, False)))
        first = out.binary("mul", "i64", offset, str(self.size))
        self.address = code.define(f"getelementptr {self.kind}, ptr %p{param}, i64 {first}", level)
        self.vector = code.vector(self.kind, code.width * self.size)

    def take_up(
        self, code: Code, memory: Memory, param: int, indices: Sequence[Lanes], active: str | None = None
    ) -> None:
        self.code, self.memory, self.param, self.indices, self.active = code, memory, param, indices, active
        array = memory.arrays[param]
        self.type: ScalarType = array.dtype
        self.size = math.prod(array.components)
        self.kind = memory_type(self.type)
        self.align = f"align {self.type.bits // 8}"

    def load(self, positions: Sequence[int]) -> list[str]:
        """The components at `positions`, each as a vector over the threads."""
        self.memory.used.append("wide load + shuffle")
        if self.active is None:
            whole = self.code.define(f"load {self.vector}, ptr {self.address}, {self.align}")
        else:
            whole = self.joined([(self.load_part(k), self.code.width) for k in range(self.size)])
        orders = ([lane * self.size + p for lane in self.code.lane_numbers] for p in positions)
        return [self.memory.from_memory(self.type, self.pick(whole, order), True) for order in orders]

    def in_order(self, positions: Sequence[int], components: Sequence[str]) -> list[str]:
        return [component for _, component in sorted(zip(positions, components, strict=True))]

    def store_at(self, positions: Sequence[int], components: Sequence[str]) -> None:
        """Store components, which are vectors over the threads; all there are, as far as they are one access."""
        self.memory.used.append("shuffle + wide store")
        ordered = self.in_order(positions, components)
        parts = [(self.memory.to_memory(self.type, text, True), self.code.width) for text in ordered]
        whole = self.joined(parts)
        width = self.code.width
        order = [p * width + lane for lane in self.code.lane_numbers for p in range(self.size)]
        if self.active is None:
            self.code.line(f"store {self.vector} {self.pick(whole, order)}, ptr {self.address}, {self.align}")
        else:
            for k in range(self.size):
                self.store_part(k, self.pick(whole, order[k * width : (k + 1) * width]))

    def joined(self, parts: list[tuple[str, int]]) -> str:
        """Vectors one after the other, in one: neighbours are joined until it holds everything."""
        while len(parts) > 1:
            paired = [self.join(x, y) for x, y in zip(parts[::2], parts[1::2], strict=False)]
            parts = paired + parts[len(paired) * 2 :]
        return parts[0][0]

    # LLVM takes masks apart, bit by bit, that are no power of two long: parts are as long as other vectors.

    def load_part(self, k: int) -> str:
        """The numbers from k times the width on, of active threads."""
        code = self.code
        name = f"llvm.masked.load.{suffix(self.kind, code.width)}.p0"
        return self.memory.masked_load(name, "ptr", self.kind, f"{self.align} {self.place_of(k)}", self.mask(k))

    def store_part(self, k: int, text: str) -> None:
        code, vector, lanes = self.code, self.code.vector(self.kind), self.code.vector("i1")
        name = f"llvm.masked.store.{suffix(self.kind, code.width)}.p0"
        code.declare("void", name, [vector, "ptr", lanes])
        code.line(f"call void @{name}({vector} {text}, ptr {self.align} {self.place_of(k)}, {lanes} {self.mask(k)})")

    def place_of(self, k: int) -> str:
        return self.code.define(f"getelementptr {self.kind}, ptr {self.address}, i64 {k * self.code.width}")

    def mask(self, k: int) -> str:
        """Which numbers from k times the width on are of active threads."""
        code, type = self.code, self.code.vector("i32")
        count = code.define(f"mul i32 {code.define(f'trunc i64 {self.active} to i32')}, {self.size}")
        order = ", ".join(f"i32 {k * code.width + lane}" for lane in code.lane_numbers)
        return code.define(f"icmp ult {type} <{order}>, {code.splat(count, 'i32')}")

    def one_by_one(self, positions: Sequence[int]) -> list[Element]:
        """The components at `positions`, each to be accessed by itself, of the threads' elements."""
        out = self.code.instructions(BODY, True)
        elements, known = self.memory.offset(out, self.param, self.memory.indices(self.indices, True))
        first = out.binary("mul", "i64", elements, out.spread(str(self.size), "i64"))
        return [Element(self.param, self.type, VARYING, first, BODY, None, known * self.size + p) for p in positions]

    def pick(self, vector: str, order: Sequence[int], length: int | None = None) -> str:
        type = self.code.vector(self.kind, length or self.code.width * self.size)
        mask = self._mask([str(k) for k in order])
        return self.code.define(f"shufflevector {type} {vector}, {type} poison, {mask}")

    def join(self, x: tuple[str, int], y: tuple[str, int]) -> tuple[str, int]:
        """Two vectors one after the other; the second may be the shorter one."""
        (left, n), (right, m) = x, y
        if m < n:
            mask = self._mask([str(k) if k < m else "poison" for k in range(n)])
            type = self.code.vector(self.kind, m)
            right = self.code.define(f"shufflevector {type} {right}, {type} poison, {mask}")
        type = self.code.vector(self.kind, n)
        mask = self._mask([str(k) for k in range(n + m)])
        return self.code.define(f"shufflevector {type} {left}, {type} {right}, {mask}"), n + m

    def _mask(self, entries: Sequence[str]) -> str:
        return f"{self.code.vector('i32', len(entries))} <{', '.join(f'i32 {entry}' for entry in entries)}>"
