"""Finds where the threads of a block have to wait for each other, so that each sees in memory what the others left."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from jwarp.backend.cuda.accumulators import NO_ACCUMULATORS, Accumulators
from jwarp.backend.cuda.copies import NO_COPIES, Copies
from jwarp.backend.cuda.records import RECORDS, grows, restored_together
from jwarp.ir.attributes import ArrayName
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Node,
    Op,
    Value,
    While,
    arrays_changed,
    arrays_read,
    used_values,
    walk,
    written_params,
)
from jwarp.ir.ops import OPS

# Who makes an access: the first thread alone, every thread the same one, or each for the lanes that fall to it.
FIRST, ALL, LANES = "first", "all", "lanes"
# The memory by which the first thread tells others what it found.
SLOT = -1


@dataclass(frozen=True)
class Access:
    """One way in which an array is used since the last barrier.

    `change` is empty for reading, else the operation. `element` says, for lanes, which threads have which elements:
    thread t has those with numbers element + t, element + t + the block's threads and so on; None where that is open.
    """

    array: ArrayName
    change: str
    who: str
    element: int | None = None

    def needs_barrier(self, later: Access) -> bool:
        """True if there must be a barrier between this access and a later one."""
        if self.array != later.array or not (self.change or later.change):
            return False
        if self.change == later.change and OPS[self.change].combines:
            return False
        if self.who == later.who == FIRST:
            return False
        return not (self.who == later.who == LANES and self.element is not None and self.element == later.element)


Accesses = frozenset[Access]
NONE: Accesses = frozenset()


def first_lane(node: For) -> int | None:
    """The number of the element that the first thread has of a loop with lanes: the lowest one that it counts to."""
    assert abs(node.step) == 1, "lanes are neighbours"
    if node.step > 0:
        return node.lo.value if isinstance(node.lo, Const) else None
    return node.hi.value + 1 if isinstance(node.hi, Const) else None


def is_broadcast(kernel: Kernel, node: Op, written: Container[int], used: Container[Value]) -> bool:
    """True if the first thread reads for all, in code that all run alike: other blocks may change what is there."""
    if node.row.is_load:
        return node.array in written
    is_asked = node.row.is_atomic and node.result is not None and node.result in used
    return is_asked and is_common(kernel, node.array)


def is_checked(loop: For, remembers: bool) -> bool:
    """True if threads have to ask each other after a loop with lanes whether some check has failed.

    Records need a check where they `remember` on the device's heap.
    """
    ops = [n for n in walk(loop.body) if isinstance(n, Op)]
    return any(n.row.is_check or (remembers and n.row.uses.adds in RECORDS) for n in ops)


def is_common(kernel: Kernel, array: int) -> bool:
    """True if all threads of a block have one array, and not each its own."""
    local = kernel.local(array)
    return local is None or local.shared


def barriers(
    kernel: Kernel, copies: Copies = NO_COPIES, accumulators: Accumulators = NO_ACCUMULATORS
) -> frozenset[Node]:
    """The nodes of a lowered kernel that a barrier has to come before."""
    search = _Search(kernel, copies, accumulators)
    search.block(kernel.body, NONE)
    return frozenset(search.found)


class _Search:
    """Follows what was accessed since the last barrier; `found` only grows."""

    def __init__(self, kernel: Kernel, copies: Copies, accumulators: Accumulators):
        self.kernel, self.copies, self.accumulators = kernel, copies, accumulators
        # Copies that were started ahead have their own wait, and need no barrier before.
        self.ahead = {node for pipeline in copies.pipelines.values() for node in pipeline.prefix}
        self.written = frozenset(written_params(kernel))
        self.used = used_values(kernel.body)
        self.remembers, self.restored = grows(kernel), restored_together(kernel)
        self.found: set[Node] = set()

    def block(self, block: Block, since: Accesses) -> Accesses:
        for node in block.nodes:
            if self.accumulators.is_left_out(node):
                continue
            # Loads to registers and stores from them have barriers before and after.
            if any(not run.is_zero for run in self.accumulators.starting(node)):
                since = NONE
            since = self.node(node, since)
            if self.accumulators.ending(node):
                since = NONE
        return since

    def node(self, node: Node, since: Accesses) -> Accesses:
        match node:
            case Op():
                return self.step(node, since, self.of_op(node), self.ends_with_barrier(node))
            case If():
                return self.block(node.then, since) | self.block(node.orelse, since)
            case For() if node in self.ahead:
                return NONE
            case For(lanes=None):
                since = NONE if node in self.copies.pipelines else since
                return self.repeated(since, lambda start: (start, self.block(node.body, start)))
            case For():
                accesses = frozenset().union(*(self.of_lane(node, n) for n in walk(node.body) if isinstance(n, Op)))
                return self.step(node, since, accesses, self.ends_with_barrier(node))
            case While():

                def iteration(start: Accesses) -> tuple[Accesses, Accesses]:
                    tested = self.block(node.cond, start)
                    return tested, self.block(node.body, tested)

                return self.repeated(since, iteration)

    def repeated(self, since: Accesses, iteration: Callable[[Accesses], tuple[Accesses, Accesses]]) -> Accesses:
        """The accesses after a loop; `iteration` gives those at its end and after one iteration, from earlier ones."""
        start = since
        while True:
            left, again = iteration(start)
            if again <= start:
                return left
            start |= again

    def step(self, node: Node, since: Accesses, accesses: Accesses, ends: bool) -> Accesses:
        if any(a.needs_barrier(b) for a in since for b in accesses):
            self.found.add(node)
        if ends:
            return frozenset((Access(SLOT, "", ALL),)) if self.tells(node) else NONE
        return accesses if node in self.found else since | accesses

    def tells(self, node: Node) -> bool:
        return isinstance(node, Op) and is_broadcast(self.kernel, node, self.written, self.used)

    def ends_with_barrier(self, node: Node) -> bool:
        """True if the code of a node has a barrier after its accesses."""
        if isinstance(node, Op):
            return (node.row.code.is_unit and self.accumulators.of(node) is None) or self.tells(node)
        assert isinstance(node, For)
        return bool(node.params) or is_checked(node, self.remembers) or node in self.copies.of

    def of_op(self, node: Op) -> Accesses:
        """The accesses of an operation that all threads run alike."""
        if node.row.code.is_unit:
            in_registers = {run.array for run in (self.accumulators.of(node),) if run is not None}
            changed = (Access(x, node.name, LANES) for x in arrays_changed(node) if x not in in_registers)
            read = (Access(x, "", LANES) for x in arrays_read(node) if x not in in_registers)
            return frozenset((*changed, *read))
        broadcasts = self.tells(node)
        change = _change(node)
        if change is None or not self.matters(node.array):
            return NONE
        together = bool(change) and node.row.uses_log and node.array in self.restored
        who = LANES if together else FIRST if change or broadcasts else ALL
        own = Access(node.array, change, who)
        return frozenset((own, Access(SLOT, "tell", FIRST))) if broadcasts else frozenset((own,))

    def of_lane(self, loop: For, node: Op) -> Accesses:
        """The accesses of an operation in a loop with lanes."""
        change = _change(node)
        if change is None or not self.matters(node.array):
            return NONE
        indices = node.indices
        own = len(indices) == 1 and indices[0] is loop.index
        own = own and loop not in self.copies.of and loop not in self.copies.additions
        return frozenset((Access(node.array, change, LANES, first_lane(loop) if own else None),))

    def matters(self, array: int) -> bool:
        """True if threads share an array that changes."""
        return is_common(self.kernel, array) and (array >= len(self.kernel.params) or array in self.written)


def _change(node: Op) -> str | None:
    """The effect of an operation on its array: it only reads elements, it changes them, or None if it does neither."""
    if node.row.changes_elements:
        return node.name
    return "" if node.row.reads_elements else None
