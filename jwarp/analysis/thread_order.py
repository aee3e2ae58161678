"""Finds what depends on the order of threads: what atomic operations find, and loops that wait for another thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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
    """Whether threads that run in step, operation by operation, give what they give one after the other.

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
    """Whether atomic operations of a kernel may find or leave something else where threads come in another order."""
    used = used_values(kernel.body)
    atomics = [n for n in _accesses(walk(kernel.body)) if n.row.is_atomic]
    # What every thread adds, or takes the smallest of, is the same in any order; sums of floats are, but for rounding,
    # and are made in one order unless an array is read meanwhile.
    return any(n.result in used or not n.row.combines for n in atomics) or bool(counters(kernel))


def rounds_by_order(kernel: Kernel) -> bool:
    """Whether a kernel adds up floats by atomic operations."""
    atomics = (n for n in _accesses(walk(kernel.body)) if n.row.is_atomic)
    return any(kernel.array(n.array).dtype.is_float and not n.row.is_extremum for n in atomics)


def runs_in_order(kernel: Kernel) -> bool:
    """Whether the threads of a kernel run in order on a processor, whose vectors cannot wait for their own lanes."""
    return kernel.ordered or awaited(kernel) is not None


def awaited(kernel: Kernel) -> Op | None:
    """What a thread waits with for another one to go on behind the same loop, as for one that holds a lock.

    The loop looks with it again and again at one element, which is changed outside of the loop, too. Where it only
    loads that, it has nothing else that could end it.
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


def _accesses(nodes: Iterable[object]) -> Iterable[Op]:
    return (n for n in nodes if isinstance(n, Op) and n.row.is_access)


def _awaited(loop: While, arrays: set[int]) -> Op | None:
    """The operation by which the condition of a loop depends on one element of `arrays` in every trip."""
    changing = {*inner_params(loop)}
    changed = changed_arrays(loop)

    def is_fixed(x: Operand) -> bool:
        return isinstance(x, Const) or x not in changing

    for node in walk_node(loop):
        if node is loop or (isinstance(node, Op) and _repeats(node, changed) and all(map(is_fixed, node.args))):
            continue
        changing.update(inner_params(node), results(node))
    reads = [n for n in _accesses(walk_node(loop)) if n.array in arrays and n.result is not None]
    fixed = [n for n in reads if all(map(is_fixed, n.indices))]
    needed = _condition(loop)
    settling = next((n for n in fixed if _may_settle(n) and n.result in needed), None)
    if settling is not None:
        return settling
    loads = [n for n in fixed if not n.row.is_atomic and n.result in needed]
    if not loads:
        return None
    # With anything else in it that changes from trip to trip, the condition may end the loop by itself.
    others = (n for n in _accesses(walk_node(loop)) if n not in loads)
    varies = any(x in needed for x in loop.params) or any(n.result in needed for n in others)
    return None if varies else loads[0]


def _repeats(node: Op, changed: set[ArrayName]) -> bool:
    """Whether an operation gives in every trip of a loop what it gives for the same arguments in the first."""
    return node.row.is_pure or (node.row.effect == "read" and node.attr not in changed)


def _may_settle(node: Op) -> bool:
    """Whether an atomic operation, done again, may find what it found before; one that adds comes to an end."""
    return node.row.settles or (node.row.is_atomic and isinstance(node.args[-1], Const) and node.args[-1].value == 0)


def _condition(loop: While) -> set[Value]:
    """The values of a loop that its condition depends on."""
    needed = {x for x in loop.cond.yields if isinstance(x, Value)}
    before = -1
    while len(needed) != before:
        before = len(needed)
        for param, following in zip(loop.params, loop.body.yields, strict=True):
            if param in needed and isinstance(following, Value):
                needed.add(following)
        for node in walk_node(loop):
            if node is loop or needed.isdisjoint(results(node)):
                continue
            needed.update(x for x in operands(node) if isinstance(x, Value))
            if isinstance(node, Op):
                continue
            for block in blocks(node):
                needed.update(x for x in block.yields if isinstance(x, Value))
            if not isinstance(node, If):
                needed.update(node.params)
    return needed


__all__ = ["awaited", "counters", "depends_on_order", "keeps_order", "rounds_by_order", "runs_in_order"]
