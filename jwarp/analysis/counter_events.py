"""Finds what each thread does to counters, so that a scan over the threads tells what their operations find."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from jwarp.analysis.ownership import owned_arrays
from jwarp.analysis.thread_order import counters
from jwarp.analysis.write_conflicts import conflicting_stores
from jwarp.ir.attributes import ArrayName
from jwarp.ir.contents import contents_of, native_arrays
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Op,
    Operand,
    Value,
    While,
    arrays_changed,
    arrays_read,
    blocks,
    changed_arrays,
    inner_params,
    results,
    touched_by_gradients,
    walk_node,
)


@dataclass(frozen=True, eq=False)
class Event:
    """One step of a thread on one element of a counter: an atomic operation, or all those of a loop.

    The element is the same in all iterations of the outermost `loop` around them.
    """

    counter: int
    sites: tuple[Op, ...]
    loop: For | While | None = None


@dataclass(frozen=True, eq=False)
class Counter:
    """The events of a thread on one array, in their order.

    They all do the `operation`, the name of one that combines; without one, they leave their value: always, or where
    the element is `expected`. With `is_one`, all threads count in the same element.
    """

    array: int
    events: tuple[Event, ...]
    operation: str
    expected: Const | None
    is_one: bool


def events_of(kernel: Kernel) -> tuple[Counter, ...] | None:
    """The counters of integers in a kernel; None if the threads of one of them have to run in order.

    `kernel` has no calls and no tiles.
    """
    owned = owned_arrays(kernel)
    arrays = sorted(p for p in counters(kernel, owned) if not kernel.params[p].dtype.is_float)
    if kernel.block_dim or not arrays or not set(arrays).isdisjoint(_elsewhere(kernel)) or _passes_on(kernel, owned):
        return None
    if any(kernel.params[p].is_heap for p in range(len(kernel.params))):
        return None
    found = [_counter(kernel, array) for array in arrays]
    made = tuple(counter for counter in found if counter is not None)
    return made if len(made) == len(arrays) else None


def _elsewhere(kernel: Kernel) -> set[ArrayName]:
    """The arrays that something else than accesses is about."""
    return {*touched_by_gradients(kernel), *native_arrays(kernel.body)}


def _passes_on(kernel: Kernel, owned: frozenset[int]) -> bool:
    """True if a thread may load what another one has stored: then it may depend on their order, too."""
    accesses = contents_of(kernel.body).accesses
    written = {n.array for n in accesses if n.row.is_write and not (n.row.is_atomic and _is_integer(kernel, n.array))}
    loaded = {n.array for n in accesses if n.row.is_load}
    shared = {p for p in written & loaded if p < len(kernel.params)} - owned
    return bool(shared - conflicting_stores(kernel).slots.keys())


def _is_integer(kernel: Kernel, array: int) -> bool:
    return not kernel.array(array).dtype.is_float


def _counter(kernel: Kernel, array: int) -> Counter | None:
    """The events on an array; None if they are no sequence of steps of one kind."""
    sites = [n for n in contents_of(kernel.body).accesses if n.array == array]
    first = sites[0]
    expected = first.values[0] if len(first.values) == 2 else None
    if not all(n.row.is_atomic and n.name == first.name for n in sites):
        return None
    if expected is not None and not all(isinstance(n.values[0], Const) and n.values[0] == expected for n in sites):
        return None
    if not (first.row.combines or first.row.is_exchange or expected is not None):
        return None
    events: list[Event] = []
    for node, loop in _sites(kernel.body, array):
        if loop is None:
            events.append(Event(array, (node,)))
        elif events and events[-1].loop is loop:
            events[-1] = dataclasses.replace(events[-1], sites=(*events[-1].sites, node))
        else:
            events.append(Event(array, (node,), loop))
    places = _Places(kernel)
    for event in events:
        if event.loop is not None and not places.is_one(event):
            return None
    constant = {n.indices for n in sites if all(isinstance(i, Const) for i in n.indices)}
    is_one = len(constant) == 1 and all(n.indices in constant for n in sites)
    return Counter(array, tuple(events), first.row.combines, expected if isinstance(expected, Const) else None, is_one)


def _sites(block: Block, array: int, loop: For | While | None = None) -> Iterable[tuple[Op, For | While | None]]:
    """The operations on an array in the order of the program, each with the outermost loop around it."""
    for node in block.nodes:
        if isinstance(node, Op):
            if node.row.is_access and node.array == array:
                yield node, loop
            continue
        around = loop if loop is not None or isinstance(node, If) else node
        for inner in blocks(node):
            yield from _sites(inner, array, around)


class _Places:
    """Which elements the operations in loops are on."""

    def __init__(self, kernel: Kernel):
        self.definitions = contents_of(kernel.body).definitions

    def is_one(self, event: Event) -> bool:
        """True if all operations of an event are on one element, whatever the iteration, and none is in a condition."""
        loop = event.loop
        assert loop is not None
        loops = [n for n in walk_node(loop) if isinstance(n, While)]
        if any(changed_arrays(n).intersection((event.counter,)) for l in loops for n in l.cond.nodes):
            return False
        lanes = [n for n in walk_node(loop) if isinstance(n, For) and n.lanes is not None]
        if any(event.counter in changed_arrays(n) for n in lanes):
            return False
        inside = {v for n in walk_node(loop) for v in (*inner_params(n), *results(n))} - set(results(loop))
        changed = changed_arrays(loop)
        keys = {tuple(self._key(i, inside, changed) for i in n.indices) for n in event.sites}
        return len(keys) == 1 and None not in next(iter(keys))

    def _key(self, x: Operand, inside: set[Value], changed: set) -> Hashable | None:
        """A name for a value that is the same in every iteration, as for another one that is computed alike."""
        if isinstance(x, Const) or x not in inside:
            return x
        node = self.definitions.get(x)
        if node is None or not (node.row.is_pure or node.row.only_reads):
            return None
        if not changed.isdisjoint((*arrays_read(node), *arrays_changed(node))):
            return None
        keys = tuple(self._key(y, inside, changed) for y in node.args)
        return None if None in keys else (node.name, repr(node.attr), x.type, keys)


def values_found(counters: Iterable[Counter]) -> frozenset[Value]:
    """The values that the operations on counters find."""
    sites = (n for counter in counters for event in counter.events for n in event.sites)
    return frozenset(n.result for n in sites if n.result is not None)


__all__ = ["Counter", "Event", "events_of", "values_found"]
