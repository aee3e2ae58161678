"""Components of vectors and matrices: the elements of consecutive lanes in one wide load or store, and shuffles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from jwarp.analysis.uniformity import VARYING
from jwarp.backend.cpu.access import atomics
from jwarp.backend.cpu.access.addresses import Element, Memory
from jwarp.backend.cpu.access.descriptor import Access, Mask
from jwarp.backend.cpu.access.instructions import gather, masked_load, masked_store, scatter
from jwarp.backend.cpu.access.patterns import Pattern
from jwarp.backend.cpu.body import Body, Writer
from jwarp.backend.cpu.code import BODY, Code, Lanes, memory_type, scalar_type
from jwarp.types import ScalarType

# Above this, the shuffles cost about what they save, and LLVM takes several times as long.
MAX_COMPONENTS = 36

# Writes a fast and a slow path: for when all lanes are active, and for when the leading ones are.
Choice = Callable[[Writer, Writer, Sequence[str]], list[str]]


class WideElements:
    """One wide access: all components of the elements of consecutive lanes, element by element.

    Where the active lanes are the leading ones, it is masked itself.
    """

    def __init__(self, body: Body, access: Access):
        code, memory, param = body.code, body.memory, access.nodes[0].array
        self.take_up(code, memory, param, [body.lanes(i) for i in access.nodes[0].args[: memory.arrays[param].dims]])
        self.is_masked = access.mask is Mask.LEADING and access.elements is Pattern.CONTIGUOUS
        self.is_partial = self.is_masked and access.never_full
        self.choose: Choice | None = body.if_all_lanes if self.is_masked and not self.is_partial else None
        level = max(i.level for i in self.indices)
        out = code.instructions(level, False)
        offset = memory.plus(out, *memory.offset(out, param, memory.indices(self.indices, False)))
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

    def inside(self) -> str:
        """The condition under which the elements of all lanes are in their array."""
        return "true"

    def load(self, positions: Sequence[int]) -> list[str]:
        """The components at `positions`, each as a vector over the threads."""
        whole = self.joined([(part, self.code.width) for part in self.parts()])
        orders = ([lane * self.size + p for lane in self.code.lane_numbers] for p in positions)
        return [self.memory.from_memory(self.type, self.pick(whole, order), True) for order in orders]

    def in_order(self, positions: Sequence[int], components: Sequence[str]) -> list[str]:
        return [component for _, component in sorted(zip(positions, components, strict=True))]

    def store_at(self, positions: Sequence[int], components: Sequence[str]) -> None:
        """Store components, which are vectors over the threads; all there are, as far as they are one access."""
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

    def either(self, full: Writer, partial: Writer, types: Sequence[str] = ()) -> list[str]:
        """The results, of `types`, of what is for when all threads are active, and for when the first ones are."""
        if self.choose is not None:
            return self.choose(full, partial, types)
        return (partial if self.is_partial else full)()

    def active_part(self, k: int) -> str:
        """The numbers from k times the width on, of active threads."""
        return masked_load(self.code, self.kind, self.place_of(k), self.align, self.mask(k))

    def store_active(self, k: int, text: str) -> None:
        masked_store(self.code, self.kind, text, self.place_of(k), self.align, self.mask(k))

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


# -- strategies: each loads, stores or adds by one layout, or number by number where that does not fit

Layout = Callable[[Body, Access], WideElements]


def load_by(layout: Layout) -> Callable[[Body, Access], list[str]]:
    """The writer of loads of components by a layout."""

    def write(body: Body, access: Access) -> list[str]:
        wide, positions = layout(body, access), _positions(access)
        types = [body.code.vector(scalar_type(access.type))] * len(positions)

        def slow() -> list[str]:
            return [gather(body.memory, element, body.mask) for element in _one_by_one(body, access, wide)]

        if access.elements is Pattern.STRIDED:  # lanes that are not active may load what is in the array, too
            inside = None if access.proved and access.mask is Mask.FULL else wide.inside()
            return wide.load(positions) if inside is None else body.fast_or_slow(
                inside, lambda: wide.load(positions), slow, types
            )  # fmt: skip
        return _whole(body, wide, None, lambda: wide.load(positions), slow, types)

    return write


def store_by(layout: Layout) -> Callable[[Body, Access], list[str]]:
    """The writer of stores to components by a layout."""

    def write(body: Body, access: Access) -> list[str]:
        wide, inside, positions = *_tested(body, access, layout), _positions(access)
        values = body.stored(access.nodes)

        def fast() -> list[str]:
            wide.store_at(positions, values)
            return []

        def slow() -> list[str]:
            for element, value in zip(_one_by_one(body, access, wide), values, strict=True):
                scatter(body.memory, element, value, body.mask)
            return []

        return _whole(body, wide, inside, fast, slow)

    return write


def add_by(layout: Layout) -> Callable[[Body, Access], list[str]]:
    """The writer of additions to components that are free of write conflicts."""

    def write(body: Body, access: Access) -> list[str]:
        wide, inside, positions = *_tested(body, access, layout), _positions(access)
        values = body.stored(access.nodes)

        def fast() -> list[str]:
            totals, out = wide.load(range(access.size)), body.code.instructions(BODY, True)
            for p, value in zip(positions, values, strict=True):
                totals[p] = atomics.plus(out, access.type, totals[p], value)
            wide.store_at(range(access.size), totals)
            return []

        def slow() -> list[str]:
            for node, value in zip(access.nodes, values, strict=True):
                atomics.add_lanes(body, body.element(node, node.indices), value)
            return []

        return _whole(body, wide, inside, fast, slow)

    return write


def _tested(body: Body, access: Access, layout: Layout) -> tuple[WideElements, str | None]:
    wide = layout(body, access)
    return wide, None if access.proved else wide.inside()


def _whole(
    body: Body, wide: WideElements, inside: str | None, fast: Writer, slow: Writer, types: Sequence[str] = ()
) -> list[str]:
    """The fast path where all lanes are active and inside; a layout that is masked itself needs no other."""
    return fast() if wide.is_masked else body.if_all_lanes(fast, slow, types, inside)


def _one_by_one(body: Body, access: Access, wide: WideElements) -> list[Element]:
    """The numbers of an access, each to be accessed by itself."""
    if access.proved:
        return wide.one_by_one(_positions(access))
    return [body.element(node, node.indices, lane_by_lane=True) for node in access.nodes]


def _positions(access: Access) -> tuple[int, ...]:
    assert access.components is not None
    return access.components
