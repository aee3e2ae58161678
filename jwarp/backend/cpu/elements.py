"""Vectors and matrices in memory: the elements of consecutive threads in one wide load or store."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jwarp.backend.cpu.code import BODY, Code, Lanes, memory_type
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
    """The accesses from `start` on that are to different components of the same elements of an array."""
    first = nodes[start]
    if not isinstance(first, Op) or not first.row.is_access or first.row.is_atomic:
        return []
    array = arrays[first.array]
    if not array.components or array.dims == 0:
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
    """One wide access: `size` components for each of the vector's threads, element by element."""

    def __init__(self, code: Code, memory: Memory, param: int, indices: Sequence[Lanes]):
        self.code, self.memory, self.param, self.indices = code, memory, param, indices
        array = memory.arrays[param]
        self.type: ScalarType = array.dtype
        self.size = math.prod(array.components)
        level = max(i.level for i in indices)
        out = code.instructions(level, False)
        offset = memory.plus(out, *memory.offset(out, param, memory.indices(indices, False)))
        first = out.binary("mul", "i64", offset, str(self.size))
        self.kind = memory_type(self.type)
        self.address = code.define(f"getelementptr {self.kind}, ptr %p{param}, i64 {first}", level)
        self.vector = code.vector(self.kind, code.width * self.size)
        self.align = f"align {self.type.bits // 8}"

    def load(self, positions: Sequence[int]) -> list[str]:
        """The components at `positions`, each as a vector over the threads."""
        self.memory.used.append("wide load + shuffle")
        whole = self.code.define(f"load {self.vector}, ptr {self.address}, {self.align}")
        orders = ([lane * self.size + p for lane in self.code.lane_numbers] for p in positions)
        return [self.memory.from_memory(self.type, self.pick(whole, order), True) for order in orders]

    def store(self, components: Sequence[str]) -> None:
        """Store all components, given in order as vectors over the threads."""
        self.memory.used.append("shuffle + wide store")
        parts = [(self.memory.to_memory(self.type, text, True), self.code.width) for text in components]
        while len(parts) > 1:  # join neighbours until one vector holds everything, component after component
            paired = [self.join(x, y) for x, y in zip(parts[::2], parts[1::2], strict=False)]
            parts = paired + parts[len(paired) * 2 :]
        width = self.code.width
        order = [p * width + lane for lane in self.code.lane_numbers for p in range(self.size)]
        whole = self.pick(parts[0][0], order, parts[0][1])
        self.code.line(f"store {self.vector} {whole}, ptr {self.address}, {self.align}")

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
