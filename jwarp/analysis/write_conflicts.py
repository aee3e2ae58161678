"""Finds plain stores that may meet those of other threads at one element, and what tells whose value stays."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jwarp.analysis.ownership import ThreadIndices, are_apart, owned_arrays
from jwarp.ir.attributes import NativeCall
from jwarp.ir.contents import Definitions, contents_of
from jwarp.ir.nodes import (
    Const,
    For,
    If,
    Kernel,
    Op,
    Operand,
    Value,
    While,
    is_found,
    touched_by_gradients,
    walk,
    walk_node,
)
from jwarp.types import int32, int64

NOWHERE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Slot:
    """Where the index of stores, at `position`, is what an addition to `counters` found, which counts up.

    The place of the counter is that of the store, or always the same: `places` are positions of indices, or constants.
    So no two threads store to one element, unless the counter is outside of its array or negative; nor do they load
    one that another stores to, where all loads are at such a place, too.
    """

    position: int
    counters: int
    places: tuple[int | Const, ...]


@dataclass(frozen=True)
class WriteConflicts:
    """The array parameters of floats with plain stores that are not proved to be the only ones at their elements.

    Those `decided_by_final` are only stored to: their content after the launch tells whose value stayed. That is not
    so for those that are `ambiguous`, where a thread may store what depends on what others did before. Those with the
    `same_value` are only stored to and loaded, in loops, where threads tend to walk the same way, as from the root of a
    tree to its leaves: there it does not matter who did what where all store the same. To others, threads store at
    `slots` of their own, and load nothing else of them.
    """

    decided_by_final: frozenset[int] = NOWHERE
    ambiguous: frozenset[int] = NOWHERE
    same_value: frozenset[int] = NOWHERE
    slots: Mapping[int, Slot] = field(default_factory=dict)

    @property
    def arrays(self) -> frozenset[int]:
        """All arrays with conflicts, but for those with slots."""
        return self.decided_by_final | self.ambiguous | self.same_value

    def __bool__(self) -> bool:
        return bool(self.arrays)


def conflicting_stores(
    kernel: Kernel, *, repeated: bool = False, alone: bool = False, single: Iterable[int] = ()
) -> WriteConflicts:
    """The arrays that two threads of `kernel` may store to; with `repeated`, several have the same coordinates.

    A thread that is `alone` has no conflicts; along the axes `single` there is one thread, or one block.
    """
    if alone:
        return WriteConflicts()
    owned = NOWHERE if repeated else owned_arrays(kernel, single)
    indices, used = ThreadIndices(kernel), contents_of(kernel.body).used
    found, others = dict[int, list[Op]](), set(touched_by_gradients(kernel))
    loads = dict[int, list[Op]]()
    changed = set(others)  # otherwise than by plain stores
    for node in contents_of(kernel.body).accesses:
        if kernel.local(node.array) is not None or not kernel.array(node.array).dtype.is_float:
            continue
        if is_found(kernel, node.array):  # of which no content is kept that tells: its derivative exchanges gradients
            continue
        if not is_plain_store(node, used):
            others.add(node.array)
            if not node.row.is_load:
                changed.add(node.array)
            else:
                loads.setdefault(node.array, []).append(node)
        elif node.array not in owned or not indices.differ(node.indices):
            found.setdefault(node.array, []).append(node)
    counted = None if kernel.block_dim else _Counted(kernel, indices.definitions)
    slots, arrays = dict[int, Slot](), set[int]()
    for p, stores in found.items():
        slot = None if counted is None or p in changed else counted.slot([*stores, *loads.get(p, ())])
        if slot is not None:
            slots[p] = slot
        elif repeated or p in others or not are_apart(kernel, stores, indices, single):
            arrays.add(p)
    if replays(kernel):
        # The placeholder of a value in a derivative may have other bits.
        return WriteConflicts(NOWHERE, frozenset(arrays), slots=slots)
    agreed = (
        NOWHERE if kernel.block_dim or repeated else frozenset(arrays & others - changed) & _stored_in_loops(kernel)
    )
    return WriteConflicts(frozenset(arrays - others), frozenset(arrays & others) - agreed, agreed, slots)


def _stored_in_loops(kernel: Kernel) -> frozenset[int]:
    """The arrays with stores that are all in loops. Elsewhere threads that meet seldom agree."""
    loops = [n for n in walk(kernel.body) if isinstance(n, For | While)]
    inside = {n for loop in loops for n in walk_node(loop)}
    stores = [n for n in contents_of(kernel.body).accesses if n.row.is_write]
    return frozenset(n.array for n in stores) - {n.array for n in stores if n not in inside}


def _counts(kernel: Kernel) -> Mapping[Value, Op]:
    """The results of atomic additions that count up, by value, where nothing else changes the counters.

    They may be given.
    """
    changes: dict[int, list[Op]] = {}
    for node in contents_of(kernel.body).accesses:
        if node.row.is_write and kernel.local(node.array) is None:
            changes.setdefault(node.array, []).append(node)
    nodes = [n for found in changes.values() if all(map(counts_up, found)) for n in found]
    nodes += (n for n in contents_of(kernel.body).ops if n.row.derivative.is_given)
    return {n.result: n for n in nodes if n.result is not None}


def counts_up(node: Op) -> bool:
    """True if an access adds one to a counter that no launch has threads enough to wrap round."""
    amount = node.values[0]
    return node.row.is_addition and amount in (Const(int32, 1), Const(int64, 1))


class _Counted:
    """The results of counters that the indices of a kernel contain."""

    def __init__(self, kernel: Kernel, definitions: Definitions):
        self.counts, self.definitions = _counts(kernel), definitions
        self.ways: dict[Value, tuple[Operand, ...]] = {}  # what values are that differ by the way taken
        for node in walk(kernel.body) if self.counts else ():
            if isinstance(node, If):
                pairs = zip(node.then.yields, node.orelse.yields, strict=True)
                self.ways.update(zip(node.results, pairs, strict=True))
            elif isinstance(node, Op) and node.row.transfer.chooses and node.result is not None:
                self.ways[node.result] = node.args[1:]

    def slot(self, accesses: Sequence[Op]) -> Slot | None:
        """The slot that all accesses to an array are at."""
        found = {self._slot_of(access) for access in accesses}
        return found.pop() if len(found) == 1 else None

    def _slot_of(self, access: Op) -> Slot | None:
        known = {i: k for k, i in enumerate(access.indices) if isinstance(i, Value)}
        for position, index in enumerate(access.indices):
            found = set[tuple[int, tuple[int | Const | None, ...]]]()
            for counter in self._counters(index):
                found.add((counter.array, tuple(i if isinstance(i, Const) else known.get(i) for i in counter.indices)))
            if len(found) == 1:
                (array, places) = found.pop()
                if None not in places:
                    return Slot(position, array, tuple(p for p in places if p is not None))
        return None

    def _counters(self, index: Operand) -> list[Op]:
        """The additions one of which found an index, whichever way is taken; none where it may be something else.

        Negative constants stand for no place: where they are indices, derivatives say so.
        """
        while isinstance(index, Value) and index not in self.counts and index in self.definitions:
            made = self.definitions[index]
            if not made.row.transfer.converts or index.type is not int64 or made.args[0].type is not int32:
                break  # with fewer bits, or as a float, two slots may be one
            (index,) = made.args
        if not isinstance(index, Value):
            return []
        if index in self.counts:
            return [self.counts[index]]
        found: list[Op] = []
        for way in self.ways.get(index, ()):
            if isinstance(way, Const) and way.type in (int32, int64) and way.value < 0:
                continue
            more = self._counters(way)
            if not more:
                return []
            found += more
        return found


def ambiguity(kernel: Kernel, array: int) -> str:
    """Why the content of an array does not tell whose value stayed, as part of a sentence."""
    used = contents_of(kernel.body).used
    others = (n for n in contents_of(kernel.body).accesses if n.array == array and not is_plain_store(n, used))
    if next(others, None) is not None or array in touched_by_gradients(kernel):
        return "which the kernel also reads or adds to"
    return "of values that a derivative computes in another way, as it does with replays and decompositions"


def is_plain_store(node: Op, used: Container[Value | None]) -> bool:
    """True if an access overwrites an element regardless of its value, as an exchange whose result nothing reads."""
    return node.row.is_store or (node.row.is_exchange and node.result not in used)


def replays(kernel: Kernel) -> bool:
    """True if a derivative computes some value of the kernel in another way than the kernel."""
    ops = contents_of(kernel.body).ops
    return any(n.row.derivative.has_replay or (n.row.is_native and n.attr_as(NativeCall).replay) for n in ops)


__all__ = ["Slot", "WriteConflicts", "ambiguity", "conflicting_stores", "counts_up", "is_plain_store"]
