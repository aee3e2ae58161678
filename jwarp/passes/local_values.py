"""Takes small local arrays apart: each element becomes a value, which branches give and loops carry.

An index that varies becomes a choice among all elements. That is more code, but nothing is overwritten any more, which
a derivative would have to keep a record of.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Container, Sequence

from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Local,
    Op,
    Operand,
    Value,
    While,
    arrays_changed,
    arrays_read,
    changed_arrays,
    touched_by_gradients,
    walk,
)
from jwarp.ir.visit import Rebuilder
from jwarp.types import bool_

# How many elements the arrays that are taken apart may have together.
MAX_VALUES = 1024


def local_values(kernel: Kernel, only: Container[int] | None = None) -> Kernel:
    """The kernel without the local arrays that can be taken apart, of those in `only`; itself if there are none."""
    arrays = {
        k: a for k, a in enumerate(kernel.locals, len(kernel.params)) if not a.shared and (only is None or k in only)
    }
    for number in touched_by_gradients(kernel) & arrays.keys():
        del arrays[number]
    for node in walk(kernel.body):
        found: set = set()
        if isinstance(node, Op):
            found = set() if node.name in _RULES else {*arrays_read(node), *arrays_changed(node)}
        elif isinstance(node, While):
            found = set().union(*map(changed_arrays, node.cond.nodes))
        elif isinstance(node, For) and node.lanes is not None:
            found = changed_arrays(node)
        for array in found & arrays.keys():
            del arrays[array]
    if not arrays or sum(array.size for array in arrays.values()) > MAX_VALUES:
        return kernel
    return dataclasses.replace(kernel, body=_LocalValues(arrays).block(kernel.body))


class _LocalValues(Rebuilder):
    """`items_of` is what the elements of each array are."""

    def __init__(self, arrays: dict[int, Local]):
        super().__init__()
        self.arrays = arrays
        self.items_of: dict[int, list[Operand]] = {k: [zero(a.dtype)] * a.size for k, a in arrays.items()}

    def op(self, node: Op) -> None:
        if node.name not in _RULES or node.array not in self.arrays:
            return self.keep(node)
        return _RULES[node.name](self, node)

    def clear(self, node: Op) -> None:
        items = self.items_of[node.array]
        self.items_of[node.array] = [zero(items[0].type)] * len(items)

    def load(self, node: Op) -> None:
        self.result(node, self.chosen(node, self.hits(node)))

    def store(self, node: Op) -> None:
        (new,) = self.operands(node.values)
        self.put(node, self.hits(node), new)

    def add(self, node: Op) -> None:
        hits = self.hits(node)
        old = self.chosen(node, hits)
        self.result(node, old)
        (addend,) = self.operands(node.values)
        self.put(node, hits, self.builder.op("add", old, addend))

    def result(self, node: Op, value: Operand) -> None:
        if node.result is not None:
            self.known[node.result] = value

    def chosen(self, node: Op, hits: Sequence[Operand]) -> Operand:
        """The element that the indices name; zero if there is none."""
        items = self.items_of[node.array]
        value: Operand = zero(items[0].type)
        for hit, item in zip(hits, items, strict=True):
            value = self.builder.op("select", hit, item, value)
        return value

    def put(self, node: Op, hits: Sequence[Operand], new: Operand) -> None:
        pairs = zip(hits, self.items_of[node.array], strict=True)
        self.items_of[node.array] = [self.builder.op("select", hit, new, item) for hit, item in pairs]

    def hits(self, node: Op) -> list[Operand]:
        """For each element, whether the indices name it; each counts from either end."""
        emit = self.builder.op
        indices, shape = self.operands(node.indices), self.arrays[node.array].shape

        def at(index: Operand, position: int, extent: int) -> Operand:
            if isinstance(index, Const):  # of loops that were unrolled; to fold each test would take most of the time
                return Const(bool_, index.value in (position, position - extent))
            ends = (Const(index.type, k) for k in (position, position - extent))
            return emit("or", *(emit("eq", index, end) for end in ends))

        axes = [[at(i, k, n) for k in range(n)] for i, n in zip(indices, shape, strict=True)]
        found = []
        for first, *others in itertools.product(*axes):
            for other in others:
                first = emit("and", first, other)
            found.append(first)
        return found

    def values(self, changed: Sequence[int]) -> tuple[Operand, ...]:
        return tuple(x for array in changed for x in self.items_of[array])

    def fresh(self, changed: Sequence[int]) -> tuple[Value, ...]:
        """New values for the elements of arrays."""
        made = tuple(Value(x.type) for x in self.values(changed))
        left = iter(made)
        for array in changed:
            self.items_of[array] = [next(left) for _ in self.items_of[array]]
        return made

    def inner(self, block: Block, changed: Sequence[int]) -> Block:
        """A block that also yields the elements of arrays."""
        with self.builder.block() as nodes:
            self.nodes(block)
            return make_block(nodes, (*self.operands(block.yields), *self.values(changed)))

    def branch(self, node: If) -> None:
        changed = self.changed(node)
        before, cond = dict(self.items_of), self.operand(node.cond)
        then = self.inner(node.then, changed)
        self.items_of = dict(before)
        orelse = self.inner(node.orelse, changed)
        results = (*node.results, *self.fresh(changed))
        self.builder.append(If(cond, then, orelse, results, node.span))

    def loop(self, node: For | While) -> None:
        changed = self.changed(node)
        init = (*self.operands(node.init), *self.values(changed))
        params = (*node.params, *self.fresh(changed))
        if isinstance(node, For):
            lo, hi = self.operand(node.lo), self.operand(node.hi)
            made: For | While = dataclasses.replace(node, lo=lo, hi=hi, body=self.inner(node.body, changed))
        else:
            cond = self.inner(node.cond, ())
            made = dataclasses.replace(node, cond=cond, body=self.inner(node.body, changed))
        results = (*node.results, *self.fresh(changed))
        self.builder.append(dataclasses.replace(made, params=params, init=init, results=results))

    def changed(self, node: If | For | While) -> list[int]:
        return sorted(k for k in changed_arrays(node) if k in self.arrays)


# The replacement of an access; an array that any other operation touches stays.
_RULES: dict[str, Callable[[_LocalValues, Op], None]] = {
    "clear": _LocalValues.clear,
    "load": _LocalValues.load,
    "store": _LocalValues.store,
    "atomic_add": _LocalValues.add,
}
