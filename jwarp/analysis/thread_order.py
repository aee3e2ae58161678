"""Finds what depends on the order of threads: what atomic operations find, and loops that wait for another thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from jwarp.analysis.ownership import owned_arrays
from jwarp.ir.attributes import ArrayName
from jwarp.ir.nodes import (
    Const,
    For,
    If,
    Kernel,
    Op,
    Operand,
    Value,
    While,
    blocks,
    changed_arrays,
    inner_params,
    operands,
    results,
    used_values,
    walk,
    walk_node,
)


def counters(kernel: Kernel, owned: frozenset[int] | None = None) -> frozenset[int]:
    """The parameters that atomic operations change, and of which a thread reads what others may have left.

    Those with elements of a thread's own are not among them; `owned` says which, where that is known.
    """
    used = used_values(kernel.body)
    found: set[int] = set()
    read: set[int] = set()
    for node in _accesses(walk(kernel.body)):
        if node.array >= len(kernel.params):
            continue
        if node.row.is_atomic:
            found.add(node.array)
        if not node.row.is_write or node.result in used:
            read.add(node.array)
    found &= read
    if not found:
        return frozenset()
    return frozenset(found) - (owned_arrays(kernel) if owned is None else owned)


def keeps_order(kernel: Kernel) -> bool:
    """True if threads in lockstep give the same results as threads one after the other.

    They do where each counter has one operation, in no loop: that one takes them in order.
    """
    shared = counters(kernel)
    if not shared:
        return True
    if any(isinstance(n, Op) and n.row.uses_notes for n in walk(kernel.body)):
        return False
    count = Counter(n.array for n in _accesses(walk(kernel.body)))
    loops = (n for n in walk(kernel.body) if isinstance(n, For | While))
    repeated = {n.array for loop in loops for n in _accesses(walk_node(loop))}
    return all(count[array] == 1 and array not in repeated for array in shared)


def depends_on_order(kernel: Kernel) -> bool:
    """True if results of atomic operations, or what they leave, may depend on the order of threads."""
    used = used_values(kernel.body)
    atomics = [n for n in _accesses(walk(kernel.body)) if n.row.is_atomic]
    # A sum or minimum over all threads is the same in any order; sums of floats are, but for rounding,
    # and are made in one order unless an array is read meanwhile.
    return any(n.result in used or not n.row.combines for n in atomics) or bool(counters(kernel))


def rounds_by_order(kernel: Kernel) -> bool:
    """True if a kernel adds up floats by atomic operations."""
    atomics = (n for n in _accesses(walk(kernel.body)) if n.row.is_atomic)
    return any(kernel.array(n.array).dtype.is_float and not n.row.is_extremum for n in atomics)


def runs_in_order(kernel: Kernel) -> bool:
    """True if the threads of a kernel run in order on a processor, whose vectors cannot wait for their own lanes."""
    return bool(kernel.order) or awaited(kernel) is not None


def awaited(kernel: Kernel) -> Op | None:
    """The load of a spin-wait loop, by which a thread waits for another one, as for one that holds a lock.

    The loop looks with it again and again at one element, which is changed outside of the loop, too, and has nothing
    else that could end it.
    """
    loops = [n for n in walk(kernel.body) if isinstance(n, While)]
    if not loops:
        return None
    changed = Counter(n.array for n in _accesses(walk(kernel.body)) if n.row.is_write and n.array < len(kernel.params))
    owned: frozenset[int] | None = None
    for loop in loops:
        inside = Counter(n.array for n in _accesses(walk_node(loop)) if n.row.is_write)
        elsewhere = {array for array, count in changed.items() if count > inside[array]}
        if not elsewhere:
            continue
        owned = owned_arrays(kernel) if owned is None else owned
        found = _awaited(loop, elsewhere - owned)
        if found is not None:
            return found
    return None


def locked(kernel: Kernel) -> Op | None:
    """The operation that takes a lock which the same iteration releases: threads that are refused try again.

    None waits there for one of its own warp, but what a thread writes in between the next one has to find.
    """
    owned: frozenset[int] | None = None
    for loop in walk(kernel.body):
        if not isinstance(loop, While):
            continue
        writes = Counter(n.array for n in _accesses(walk_node(loop)) if n.row.is_write and n.array < len(kernel.params))
        taken = {n.array for n in _accesses(walk_node(loop)) if n.row.is_atomic and n.row.settles}
        several = {array for array, count in writes.items() if count > 1 and array in taken}
        if not several:
            continue
        owned = owned_arrays(kernel) if owned is None else owned
        found = _awaited(loop, several - owned)
        if found is not None and found.row.is_atomic:
            return found
    return None


def _accesses(nodes: Iterable[object]) -> Iterable[Op]:
    return (n for n in nodes if isinstance(n, Op) and n.row.is_access)


def _awaited(loop: While, arrays: set[int]) -> Op | None:
    """The operation by which the condition of a loop depends on one element of `arrays` in every iteration."""
    changing = {*inner_params(loop)}
    changed = changed_arrays(loop)

    def is_fixed(x: Operand) -> bool:
        return isinstance(x, Const) or x not in changing

    looks = [n for n in _accesses(walk_node(loop)) if n.array in arrays and _may_settle(n)]
    if not looks:
        return None
    for node in walk_node(loop):
        if node is loop or (isinstance(node, Op) and _repeats(node, changed) and all(map(is_fixed, node.args))):
            continue
        changing.update(inner_params(node), results(node))
    if not any(all(map(is_fixed, n.indices)) for n in looks):
        return None
    needed = _condition(loop)
    read = [n for n in _accesses(walk_node(loop)) if n.result in needed]
    accesses = [n for n in read if n.array in arrays or n.result in changing]
    reads = [n for n in accesses if n.array in arrays and all(map(is_fixed, n.indices)) and _may_settle(n)]
    reads = [n for n in reads if not _changes_itself(loop, n)]
    if not reads or len(reads) < len(accesses):
        return None
    waits = _Steadiness(loop, {n.result for n in reads if n.result is not None}, is_fixed)
    following = zip(loop.params, loop.body.yields, strict=True)
    return reads[0] if all(waits.is_steady(y) for param, y in following if param in needed) else None


class _Steadiness:
    """Which values of a loop stay what they are as long as what is `found` in memory does."""

    def __init__(self, loop: While, found: set[Value], is_fixed: Callable[[Operand], bool]):
        self.params, self.found, self.is_fixed = loop.params, found, is_fixed
        self.made: dict[Value, Op] = {}
        self.chosen: dict[Value, tuple[Operand, Operand]] = {}
        for node in walk_node(loop):
            if isinstance(node, Op) and node.result is not None:
                self.made[node.result] = node
            elif isinstance(node, If):
                self.chosen.update(
                    zip(node.results, zip(node.then.yields, node.orelse.yields, strict=True), strict=True)
                )

    def is_steady(self, x: Operand) -> bool:
        """True if a value is the same in the next iteration; carried ones may only be selected, or combined as bits."""
        if not isinstance(x, Value) or self.is_fixed(x) or x in self.params or x in self.found:
            return True
        if x in self.chosen:
            return all(map(self.is_steady, self.chosen[x]))
        node = self.made.get(x)
        if node is None or not node.row.is_pure:
            return False
        passes = node.row.is_logical or node.row.transfer.chooses
        return all(self.is_steady(y) and (passes or y not in self.params) for y in node.args)


def _repeats(node: Op, changed: set[ArrayName]) -> bool:
    """True if an operation with the same arguments gives the same in every iteration of a loop."""
    return node.row.is_pure or (node.row.only_reads and node.attr not in changed)


def _changes_itself(loop: While, read: Op) -> bool:
    """True if one write of every iteration, and no other one of the loop, is to the element that is read."""
    writes = [n for n in _accesses(walk_node(loop)) if n.row.is_write and n.array == read.array]
    if len(writes) != 1 or writes[0] is read or not any(n is writes[0] for n in loop.body.nodes):
        return False
    (write,) = writes
    return write.indices == read.indices and not (write.row.is_atomic and _may_settle(write))


def _may_settle(node: Op) -> bool:
    """True if a repeated read may find the same value; an atomic operation that adds comes to an end."""
    is_nothing = node.row.is_atomic and isinstance(node.args[-1], Const) and node.args[-1].value == 0
    return not node.row.is_atomic or node.row.settles or is_nothing


def _condition(loop: While) -> set[Value]:
    """The values of a loop that its condition depends on."""
    feeds: dict[Value, list[Operand]] = {}  # what each value is made of, directly
    for node in walk_node(loop):
        inside = list(operands(node))
        if not isinstance(node, Op):
            inside += (x for block in blocks(node) for x in block.yields)
            if not isinstance(node, If):
                inside += node.params
        if node is not loop:
            for result in results(node):
                feeds[result] = inside
    for param, following in zip(loop.params, loop.body.yields, strict=True):
        feeds[param] = [following]
    needed: set[Value] = set()
    pending: list[Operand] = list(loop.cond.yields)
    while pending:
        x = pending.pop()
        if isinstance(x, Value) and x not in needed:
            needed.add(x)
            pending += feeds.get(x, ())
    return needed


__all__ = ["awaited", "counters", "depends_on_order", "keeps_order", "locked", "rounds_by_order", "runs_in_order"]
