"""Vectors and matrices in memory: the elements of consecutive threads in one wide load or store."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from jwarp.backend.cpu.access.addresses import Element, Memory
from jwarp.backend.cpu.code import BODY, Code, Lanes, memory_type, suffix
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


# Writes code and gives the texts of its results; and what writes one for when all threads are active, and another one.
Way = Callable[[], list[str]]
Choice = Callable[[Way, Way, Sequence[str]], list[str]]


class WideElements:
    """One wide access: `size` components for each of the vector's threads, element by element.

    With `is_partial`, only the first threads are active. `choose` is there where that is found out by the code.
    """

    def __init__(
        self,
        code: Code,
        memory: Memory,
        param: int,
        indices: Sequence[Lanes],
        choose: Choice | None = None,
        is_partial: bool = False,
    ):
        self.take_up(code, memory, param, indices)
        self.choose, self.is_partial = choose, is_partial
        level = max(i.level for i in indices)
        out = code.instructions(level, False)
        offset = memory.plus(out, *memory.offset(out, param, memory.indices(indices, False)))
        first = out.binary("mul", "i64", offset, str(self.size))
        self.address = code.define(f"getelementptr {self.kind}, ptr %p{param}, i64 {first}", level)

    def take_up(self, code: Code, memory: Memory, param: int, indices: Sequence[Lanes]) -> None:
        self.code, self.memory, self.param, self.indices = code, memory, param, indices
        array = memory.arrays[param]
        self.type: ScalarType = array.dtype
        self.size = math.prod(array.components)
        self.kind = memory_type(self.type)
        self.align = f"align {self.type.bits // 8}"
        self.cut()

    def cut(self) -> None:
        """Say which parts of an element are accessed at once, where it is not taken as a whole."""

    def load(self, positions: Sequence[int]) -> list[str]:
        """The components at `positions`, each as a vector over the threads."""
        self.memory.used.append("wide load + shuffle")
        whole = self.joined([(part, self.code.width) for part in self.parts()])
        orders = ([lane * self.size + p for lane in self.code.lane_numbers] for p in positions)
        return [self.memory.from_memory(self.type, self.pick(whole, order), True) for order in orders]

    def in_order(self, positions: Sequence[int], components: Sequence[str]) -> list[str]:
        return [component for _, component in sorted(zip(positions, components, strict=True))]

    def store_at(self, positions: Sequence[int], components: Sequence[str]) -> None:
        """Store components, which are vectors over the threads; all there are, as far as they are one access."""
        self.memory.used.append("shuffle + wide store")
        ordered = self.in_order(positions, components)
        parts = [(self.memory.to_memory(self.type, text, True), self.code.width) for text in ordered]
        whole, width = self.joined(parts), self.code.width
        order = [p * width + lane for lane in self.code.lane_numbers for p in range(self.size)]
        cut = (self.pick(whole, order[k * width : (k + 1) * width]) for k in range(self.size))
        self.store_parts(list(cut) if self.choose else cut)

    def joined(self, parts: list[tuple[str, int]]) -> str:
        """Vectors one after the other, in one: neighbours are joined until it holds everything."""
        while len(parts) > 1:
            paired = [self.join(x, y) for x, y in zip(parts[::2], parts[1::2], strict=False)]
            parts = paired + parts[len(paired) * 2 :]
        return parts[0][0]

    # Parts are as long as other vectors: LLVM takes masks apart, bit by bit, that are no power of two long.

    def parts(self) -> list[str]:
        """The numbers of all elements, in vectors; zero where they are of threads that are not active."""
        vector, each = self.code.vector(self.kind), range(self.size)
        return self.either(
            lambda: [self.code.define(f"load {vector}, ptr {self.place_of(k)}, {self.align}") for k in each],
            lambda: [self.active_part(k) for k in each],
            [vector] * self.size,
        )

    def store_parts(self, parts: Iterable[str]) -> None:
        """Store the numbers of all elements, as far as they are of active threads."""
        code, vector = self.code, self.code.vector(self.kind)

        def whole() -> list[str]:
            for k, text in enumerate(parts):
                code.line(f"store {vector} {text}, ptr {self.place_of(k)}, {self.align}")
            return []

        def active() -> list[str]:
            for k, text in enumerate(parts):
                self.store_active(k, text)
            return []

        self.either(whole, active)

    def either(self, full: Way, partial: Way, types: Sequence[str] = ()) -> list[str]:
        """The results, of `types`, of what is for when all threads are active, and for when the first ones are."""
        if self.choose is not None:
            return self.choose(full, partial, types)
        return (partial if self.is_partial else full)()

    def active_part(self, k: int) -> str:
        """The numbers from k times the width on, of active threads."""
        name = f"llvm.masked.load.{suffix(self.kind, self.code.width)}.p0"
        return self.memory.masked_load(name, "ptr", self.kind, f"{self.align} {self.place_of(k)}", self.mask(k))

    def store_active(self, k: int, text: str) -> None:
        code, vector, lanes = self.code, self.code.vector(self.kind), self.code.vector("i1")
        name = f"llvm.masked.store.{suffix(self.kind, code.width)}.p0"
        code.declare("void", name, [vector, "ptr", lanes])
        code.line(f"call void @{name}({vector} {text}, ptr {self.align} {self.place_of(k)}, {lanes} {self.mask(k)})")

    def place_of(self, k: int) -> str:
        if k == 0:
            return self.address
        return self.code.define(f"getelementptr {self.kind}, ptr {self.address}, i64 {k * self.code.width}")

    def mask(self, k: int) -> str:
        """Which numbers from k times the width on are of active threads."""
        code, type = self.code, self.code.vector("i32")
        count = code.define(f"mul i32 {code.define(f'trunc i64 {self.memory.active_lanes} to i32')}, {self.size}")
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
