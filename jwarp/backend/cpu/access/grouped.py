"""Writes accesses to components of elements together, in the quickest way that the threads of a vector allow."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

from jwarp.backend.cpu.access import atomics, components, rows, shared_stores
from jwarp.backend.cpu.access.addresses import Element, counts_up
from jwarp.backend.cpu.access.shared_loads import Loading, declaration, near
from jwarp.backend.cpu.access.strided import (
    StridedElements,
    StridedNumbers,
    StridedRun,
    consecutive,
    is_strided,
    is_transposed,
)
from jwarp.backend.cpu.body import Body
from jwarp.backend.cpu.code import BODY, ENTRY, Lanes, scalar_type
from jwarp.backend.cpu.shapes import UNIFORM, Shape
from jwarp.ir.nodes import Op, Operand, walk_all
from jwarp.wire import Cover

# Each load in line takes LLVM 4 ms, and saves as much as a call takes: of what longer kernels take, that is little.
MAX_NODES = 60
# Longer kernels have scatters and blocks that they repeat in functions, and treat elements at equal distances as any:
# LLVM takes half as long, and a call some cycles.
MAX_NODES_IN_LINE = 2000

# Writes code and gives the texts of its results, if it has any.
Way = Callable[[], list[str] | None]


class Accesses(Body):
    """Loads and stores of one vector of threads."""

    @property
    def ways_of_groups(self) -> tuple[Callable[[list[Op]], bool], ...]:
        """Ways to write accesses together, each of which says whether it has; the first one that may be is taken."""
        return self.access_of_one, self.wide_access, self.loads_by_unit, self.stores_by_function

    @functools.cached_property
    def is_short(self) -> bool:
        """Whether the kernel is so short that it takes loads in line."""
        return not self.has_more_nodes(MAX_NODES)

    @functools.cached_property
    def is_long(self) -> bool:
        """Whether the kernel is so long that what takes much code is in functions."""
        return self.has_more_nodes(MAX_NODES_IN_LINE)

    def has_more_nodes(self, count: int) -> bool:
        return any(True for _ in itertools.islice(walk_all(self.proofs.kernel), count, None))

    def element(self, node: Op, indices: tuple[Operand, ...], lane_by_lane: bool = False) -> Element:
        lanes = [self.lanes(i) for i in indices]
        if lane_by_lane and any(not i.shape.is_uniform for i in lanes):
            lanes = [Lanes(self.vector(i), i.type, Shape(None), BODY) for i in lanes]
        return self.memory.element(node.array, lanes, node in self.trusted)

    def access(
        self,
        node: Op,
        indices: tuple[Operand, ...],
        write: Callable[[Element], list[str] | None],
        types: Sequence[str] = (),
    ) -> list[str]:
        """Write an access; where elements may be consecutive and inside, that case on its own."""
        element = self.element(node, indices)
        if element.shape.stride != 1 or element.inside is None:
            return write(element) or []
        general = self.element(node, indices, lane_by_lane=True)
        inside = dataclasses.replace(element, inside=None)
        return self.two_ways(element.inside, lambda: write(inside), lambda: write(general), types)

    def adds_alone(self, node: Op) -> bool:
        """Whether an operation adds to elements that no other thread of the processor looks at meanwhile.

        Those are in arrays of a block, in copies, or of the thread's own: launches run threads that repeat in turn.
        """
        array, covers = node.array, self.proofs.covers
        if array in self.sums or array in self.blocks.arrays:
            return True
        is_own = array < len(covers) and covers[array] is Cover.OWN
        return is_own and node.name == "atomic_add" and node.result not in self.used

    def wide_access(self, accesses: list[Op]) -> bool:
        """Write the accesses to components of one element together; whether that was possible."""
        if not accesses or accesses[0].array in self.private.arrays:
            return False
        first, array = accesses[0], self.memory.arrays[accesses[0].array]
        # A component is not proved to be inside unless the launch promises the shape of the components.
        trusted = all(node in self.trusted for node in accesses)
        adds = first.row.is_atomic
        if adds and not all(self.adds_alone(node) and node.result not in self.used for node in accesses):
            return False
        indices = [self.lanes(i) for i in first.args[: array.dims]]
        size = math.prod(array.components)
        pays = size <= components.MAX_COMPONENTS and len(accesses) * (1 if first.name == "store" else 2) >= size
        at = [p for p in (components.component_of(node, array) for node in accesses) if p is not None]
        if len(at) < len(accesses):
            return False
        inside: str | None = None
        in_part = False  # whether the wide access is that of the first threads, too, where not all are active
        anyway = False  # whether what lies inside is loaded for threads that are not active, too
        if counts_up(indices) and trusted and len(accesses) > 1:
            in_part = self.first_lanes_active
            is_partial = in_part and self.is_partial
            choose = self.if_all_lanes if in_part and not is_partial else None
            wide = consecutive(self.code, self.memory, first.array, indices, choose, is_partial)
        elif is_strided(indices, array, self.code) and not counts_up(indices) and (adds or not self.is_long):
            made = StridedElements if pays and size > 1 else StridedNumbers
            if adds and made is StridedNumbers:
                return False
            wide = strided = made(self.code, self.memory, first.array, indices)
            anyway = first.name == "load" and self.mask is not None
            inside, pays = None if trusted and not anyway else strided.inside(), True
        else:
            return False

        def one_by_one() -> list[Element]:
            if inside is None or (trusted and anyway):
                return wide.one_by_one(at)
            return [self.element(node, node.indices, lane_by_lane=True) for node in accesses]

        values = [] if first.name == "load" else [self.vector(self.lanes(node.args[-1])) for node in accesses]

        def load(by: components.WideElements | None) -> list[str]:
            if by is not None:
                return by.load(at)
            return [self.memory.load(element, self.mask) for element in one_by_one()]

        def store(by: components.WideElements | None) -> list[str]:
            if by is not None:
                by.store_at(at, values)
            else:
                for element, value in zip(one_by_one(), values, strict=True):
                    self.memory.store(element, value, self.mask)
            return []

        def add(by: components.WideElements | None) -> list[str]:
            if by is None:
                for node, value in zip(accesses, values, strict=True):
                    self.add(node, value)
                return []
            totals, out = by.load(range(size)), self.code.instructions(BODY, True)
            for p, value in zip(at, values, strict=True):
                totals[p] = atomics.plus(out, array.dtype, totals[p], value)
            by.store_at(range(size), totals)
            return []

        write = load if first.name == "load" else add if adds else store
        types = [self.code.vector(scalar_type(array.dtype))] * (len(accesses) if first.name == "load" else 0)
        if anyway:
            assert inside is not None
            texts = self.two_ways(inside, lambda: write(wide), lambda: write(None), types)
        elif pays and in_part:
            texts = write(wide)
        elif pays:
            texts = self.if_all_lanes(lambda: write(wide), lambda: write(None), types, inside)
        else:
            texts = write(None)
        for node, text in zip(accesses, texts, strict=False):
            assert node.result is not None
            self.bind(node.result, text)
        return True

    def run_of_loads(self, loads: list[Op]) -> bool:
        """Write loads of numbers side by side in rows at equal distances together; whether that was possible."""
        if not loads or loads[0].array in self.private.arrays or loads[0].array in self.blocks.arrays:
            return False
        first, array = loads[0], self.memory.arrays[loads[0].array]
        indices = [self.lanes(i) for i in first.args]
        if array.components or not indices[-1].shape.is_uniform or not is_strided(indices, array, self.code):
            return False
        run = StridedRun(self.code, self.memory, first.array, indices)
        trusted = self.mask is None and all(node in self.trusted for node in loads)

        def one_by_one() -> list[str]:
            found = (self.element(node, node.indices, lane_by_lane=True) for node in loads)
            return [self.memory.load(element, self.mask) for element in found]

        def together() -> list[str]:
            return run.load(range(len(loads)))

        types = [self.code.vector(scalar_type(array.dtype))] * len(loads)
        texts = together() if trusted else self.two_ways(run.inside(), together, one_by_one, types)
        for node, text in zip(loads, texts, strict=True):
            assert node.result is not None
            self.bind(node.result, text)
        return True

    def add(self, node: Op, value: str) -> None:
        """Add to elements as `adds_alone` says."""
        self.access(
            node, node.indices,
            lambda element: atomics.add(self.memory, element, value, self.mask, self.mask is self.thread_mask),
        )  # fmt: skip

    def access_of_one(self, accesses: list[Op]) -> bool:
        """Write loads that are of one element for all threads where remainders are zero; whether they may be."""
        if not accesses or accesses[0].name != "load" or accesses[0].array in self.private.arrays:
            return False
        known = {i: self.zero_if[i] for i in accesses[0].args if i in self.zero_if}
        others = (i for node in accesses for i in node.args if i not in known)
        if not known or not all(self.shape_of(i).is_uniform for i in others):
            return False
        holds = ""
        for condition in known.values():
            holds = self.code.define(f"and i1 {holds}, {condition}") if holds else condition

        def once() -> list[str]:
            found = []
            for node in accesses:
                indices = [Lanes("0", i.type, UNIFORM, ENTRY) if i in known else self.lanes(i) for i in node.args]
                element = self.memory.element(node.array, indices, node in self.trusted)
                found.append(self.code.splat(self.memory.load(element, self.mask), scalar_type(element.type)))
            return found

        types = [self.code.vector(scalar_type(node.result.type)) for node in accesses if node.result is not None]
        for node, text in zip(accesses, self.two_ways(holds, once, lambda: self.by_lane(accesses), types), strict=True):
            assert node.result is not None
            self.bind(node.result, text)
        return True

    def loads_by_unit(self, accesses: list[Op]) -> bool:
        """Write loads of components of elements in a row by a function of the runtime; whether they may be."""
        texts = self.by_unit(accesses)
        for node, text in zip(accesses, texts or (), strict=False):
            assert node.result is not None
            self.bind(node.result, text)
        return texts is not None

    def stores_by_function(self, accesses: list[Op]) -> bool:
        """Write stores to components of elements that may lie anywhere by a function, in a long kernel."""
        if not accesses or accesses[0].name != "store" or not self.is_long:
            return False
        first, array = accesses[0], self.memory.arrays[accesses[0].array]
        if first.array in self.private.arrays or first.array in self.blocks.arrays:
            return False
        at = [p for p in (components.component_of(node, array) for node in accesses) if p is not None]
        indices = [self.lanes(i) for i in first.args[: array.dims]]
        anywhere = bool(array.components) or not counts_up(indices)
        if len(at) < len(accesses) or not anywhere or all(i.shape.is_uniform for i in indices):
            return False
        if array.dtype.bits not in shared_stores.BITS:
            return False
        trusted = all(node in self.trusted for node in accesses)
        axis = next(k for k, i in enumerate(indices) if not i.shape.is_uniform)
        row, extents = self.memory.row(first.array, indices[:axis], trusted)
        types, size = tuple(i.type for i in indices[axis:]), math.prod(array.components)
        scatter = shared_stores.Scatter(array.dtype, size, tuple(at), types, trusted)
        values = [self.vector(self.lanes(node.args[-1])) for node in accesses]
        shared_stores.store(self.code, scatter, [row, *extents], [*map(self.vector, indices[axis:])], values, self.mask)
        self.memory.used.append("scatter")
        return True

    def by_unit(self, accesses: list[Op]) -> list[str] | None:
        """Loads of components by a function of the runtime, each as a vector; None where they are few gathers."""
        if not accesses or accesses[0].name != "load" or accesses[0].array in self.private.arrays:
            return None
        first, array = accesses[0], self.memory.arrays[accesses[0].array]
        at = [p for p in (components.component_of(node, array) for node in accesses) if p is not None]
        by_row = self.is_in_row(first)
        whole = len(accesses) > 1 and is_transposed(array, len(accesses), self.code)
        indices = [self.lanes(i) for i in first.args[: array.dims]]
        if len(at) < len(accesses) or not (by_row or whole) or all(i.shape.is_uniform for i in indices):
            return None
        trusted = all(node in self.trusted for node in accesses)
        axis = next(k for k, i in enumerate(indices) if not i.shape.is_uniform)
        row, extents = self.memory.row(first.array, indices[:axis], trusted)
        known = all(text.isdigit() for text in extents)
        load = Loading(
            self.code.width,
            "float32" if array.dtype.is_float else "int32",
            math.prod(array.components),
            tuple(at),
            tuple(i.type.name for i in indices[axis:]),
            trusted,
            by_row,
            whole,
            tuple(map(int, extents)) if known else (),
        )
        return self.code_of_unit(load, [row, *([] if known else extents), *map(self.vector, indices[axis:])])

    def code_of_unit(self, load: Loading, given: list[str]) -> list[str]:
        """A call; what it gives for each position."""
        code, name = self.code, load.symbol
        if self.is_short and (in_line := near(load)):
            code.in_line[load], name = None, in_line
        if name == load.symbol or not load.is_short:
            code.units[load] = None
        code.declarations.add(declaration(load, name))
        active = "-1" if self.mask is None else code.define(f"bitcast {code.vector('i1')} {self.mask} to i{code.width}")
        passed = ", ".join(f"{type} {text}" for type, text in zip(load.params, [*given, active], strict=True))
        called = code.define(f"call {load.result} @{name}({passed})")
        self.memory.used += load.ways
        return [code.define(f"extractvalue {load.result} {called}, {k}") for k in range(len(load.positions))]

    def by_lane(self, accesses: list[Op]) -> list[str]:
        """Loads of components of elements that may lie anywhere, each as a vector."""
        texts = self.by_unit(accesses)
        if texts is None:
            found = (self.element(node, node.args, lane_by_lane=True) for node in accesses)
            return [self.memory.load(element, self.mask) for element in found]
        return texts

    def is_in_row(self, node: Op) -> bool:
        """Whether a load may take its elements from a short row."""
        if node.name != "load" or node.array in self.private.arrays:
            return False
        array = self.memory.arrays[node.array]
        shapes = [self.shape_of(i) for i in node.args[: array.dims]]
        return rows.is_in_row(shapes, [i.type for i in node.args[: array.dims]], array, self.code.options.target)

    def if_all_lanes(self, whole: Way, masked: Way, types: Sequence[str] = (), inside: str | None = None) -> list[str]:
        """The results of `whole` where all lanes are threads that are active, else those of `masked`.

        With a condition `inside`, that has to hold, too.
        """
        if self.is_partial:
            return masked() or []
        holds = inside
        if self.mask is not None:
            width = self.code.width
            bits = self.code.define(f"bitcast {self.code.vector('i1')} {self.mask} to i{width}")
            holds = self.code.define(f"icmp eq i{width} {bits}, -1")
            if inside is not None:
                holds = self.code.define(f"and i1 {holds}, {inside}")
        return (whole() or []) if holds is None else self.two_ways(holds, whole, masked, types)

    def two_ways(self, cond: str, then: Way, orelse: Way, types: Sequence[str] = ()) -> list[str]:
        """Two ways of doing one thing; the results, which have `types`."""
        first, second, done = (self.code.new_label(name) for name in ("fast", "slow", "done"))
        self.jump_if(cond, first, second)
        incoming = []
        for label, write in ((first, then), (second, orelse)):
            self.code.label(label)
            texts = write() or []
            incoming.append([(text, self.code.block) for text in texts])
            self.jump(done)
        self.code.label(done)
        return [self.phi(type, *pair) for type, *pair in zip(types, *incoming, strict=True)]
