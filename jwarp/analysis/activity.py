"""Finds what carries a derivative: the values and arrays on a path from a wanted input to a given output."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from jwarp.ir.attributes import ArrayName, Detached, RecordField, RecordFields
from jwarp.ir.nodes import Block, For, If, Kernel, Op, Operand, Value, While, arrays_changed, arrays_read
from jwarp.ir.visit import Visitor

# Which arguments of a pure operation its result depends on smoothly.
Carries = Callable[[Op], tuple[bool, ...]]


@dataclass(frozen=True)
class Activity:
    """`values` and `arrays` (by number) depend on a wanted input, and a given output on them."""

    values: frozenset[Value]
    arrays: frozenset[int]

    def __contains__(self, x: Operand) -> bool:
        return x in self.values


def activity(kernel: Kernel, wanted: Iterable[int], given: Iterable[int], carries: Carries) -> Activity:
    """The values and arrays on a path from the parameters `wanted` to the array parameters `given`."""
    varied = _settle(_Varied(carries, set(), set(wanted)), kernel)
    useful = _settle(_Useful(carries, set(), set(given)), kernel)
    return Activity(frozenset(varied.values & useful.values), frozenset(varied.arrays & useful.arrays))


def number_of(array: ArrayName) -> int:
    """The number of an array, which is no origin here."""
    assert isinstance(array, int)
    return array


def _sources_in_memory(node: Op) -> tuple[int, ...]:
    """The arrays that the result of a pure operation depends on by what its rule says."""
    return node.attr_as(Detached).arrays if node.row.is_detached and node.attr is not None else ()


@dataclass
class _Flow(Visitor):
    carries: Carries
    values: set[Value]
    arrays: set[int]
    fields: set[RecordField] = dataclasses.field(default_factory=set)

    @property
    def in_memory(self) -> int:
        """How many arrays and fields were found: these, and what loops carry, lead from later code to earlier code."""
        return len(self.arrays) + len(self.fields)

    def link(self, result: Value, source: Operand) -> None:
        """`source` is one of the things that `result` is made of."""
        raise NotImplementedError

    def link_results(self, node: If) -> None:
        for block in (node.then, node.orelse):
            for result, source in zip(node.results, block.yields, strict=True):
                self.link(result, source)

    def loop(self, node: For | While) -> None:
        in_memory = -1
        while True:
            before = len(self.values)
            for k, param in enumerate(node.params):
                for source in (node.init[k], node.body.yields[k]):
                    self.link(param, source)
                self.link(node.results[k], param)
            if len(self.values) == before and self.in_memory == in_memory:
                return
            in_memory = self.in_memory
            self.inside(node)


_F = TypeVar("_F", bound=_Flow)


def _settle(flow: _F, kernel: Kernel) -> _F:
    """Repeat until nothing is added: arrays hand values from later code to earlier code."""
    before = -1
    while flow.in_memory != before:
        before = flow.in_memory
        flow.block(kernel.body)
    return flow


class _Varied(_Flow):
    """Goes forward, from what is wanted."""

    def branch(self, node: If) -> None:
        self.inside(node)  # once: where branches are nested, twice would be often
        self.link_results(node)

    def link(self, result: Value, source: Operand) -> None:
        if source in self.values:
            self.values.add(result)

    def op(self, node: Op) -> None:
        if node.row.adds_to_tape:
            tape = node.attr_as(RecordFields).tape
            self.fields.update(RecordField(tape, k) for k, x in enumerate(node.args) if x in self.values)
            return
        if node.row.is_write and any(x in self.values for x in node.values):
            self.arrays.add(node.array)
        if node.row.is_native and self.varies(node):
            self.arrays.update(number_of(array) for array in arrays_changed(node))
        if node.result is not None and node.result not in self.values and self.varies(node):
            self.values.add(node.result)

    def varies(self, node: Op) -> bool:
        """True if the result of an operation depends on a wanted parameter."""
        if node.row.is_parameter or node.row.is_access:
            return node.attr in self.arrays
        if node.row.is_native:
            return any(array in self.arrays for array in arrays_read(node)) or any(x in self.values for x in node.args)
        if node.row.reads_tape:
            return node.attr_as(RecordField) in self.fields
        if not node.args:
            return False
        if not self.arrays.isdisjoint(_sources_in_memory(node)):
            return True
        values = self.values
        if not any(x in values for x in node.args):
            return False
        return any(carried and x in values for x, carried in zip(node.args, self.carries(node), strict=True))


class _Useful(_Flow):
    """Goes backward, from what is given."""

    def branch(self, node: If) -> None:
        self.link_results(node)
        self.inside(node)

    def link(self, result: Value, source: Operand) -> None:
        if result in self.values and isinstance(source, Value):
            self.values.add(source)

    def block(self, block: Block) -> None:
        for node in reversed(block.nodes):
            self.node(node)

    def op(self, node: Op) -> None:
        self.values.update(x for x in self.sources(node) if isinstance(x, Value))

    def sources(self, node: Op) -> Iterable[Operand]:
        """The operands that what is given depends on through an operation; notes such arrays and fields."""
        if node.row.adds_to_tape:
            tape = node.attr_as(RecordFields).tape
            return [x for k, x in enumerate(node.args) if RecordField(tape, k) in self.fields]
        is_used = node.result in self.values
        if node.row.is_parameter or node.row.is_access:
            if is_used:
                self.arrays.add(node.array)
            return node.values if node.row.is_write and node.attr in self.arrays else ()
        if node.row.is_native:
            if not is_used and self.arrays.isdisjoint(arrays_changed(node)):
                return ()
            self.arrays.update(number_of(array) for array in arrays_read(node))
            return node.args
        if not is_used:
            return ()
        if node.row.reads_tape:
            self.fields.add(node.attr_as(RecordField))
            return ()
        if not node.args:
            return ()
        self.arrays.update(_sources_in_memory(node))
        return [x for x, carried in zip(node.args, self.carries(node), strict=True) if carried]
