"""Finds what carries a derivative: the values and arrays on a path from a wanted input to a given output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from jwarp.autodiff.tile_rules import rules_of
from jwarp.ir.attributes import Detached, RecordField, RecordFields
from jwarp.ir.nodes import WRITES, Block, For, If, Kernel, Node, Op, Operand, Value, While, indices_of


@dataclass(frozen=True)
class Activity:
    """`values` and `arrays` (by number) depend on a wanted input, and a given output on them."""

    values: frozenset[Value]
    arrays: frozenset[int]

    def __contains__(self, x: Operand) -> bool:
        return x in self.values


def activity(kernel: Kernel, wanted: Iterable[int], given: Iterable[int]) -> Activity:
    """What lies between the parameters `wanted` and the array parameters `given`."""
    varied = _settle(_Varied(set(), set(wanted)), kernel)
    useful = _settle(_Useful(set(), set(given)), kernel)
    return Activity(frozenset(varied.values & useful.values), frozenset(varied.arrays & useful.arrays))


def carries(node: Op) -> tuple[bool, ...]:
    """Which arguments of a pure operation its result depends on smoothly.

    The bits of a float are a number that changes with it, and so is what is computed from them.
    """
    assert node.result is not None
    if node.name == "detach":
        return (False, *(True for _ in node.args[1:]))
    rules = rules_of(node) if node.result.type.is_float else None
    if rules is not None:
        return (True,) if node.name == "cast" else tuple(rule is not None for rule in rules)
    through_bits = node.name == "bitcast" or not any(a.type.is_float for a in node.args)
    return tuple(through_bits and node.result.type.kind != "bool" for _ in node.args)


def sources_in_memory(node: Op) -> tuple[int, ...]:
    """The arrays that the result of a pure operation depends on by what its rule says."""
    return node.told(Detached).arrays if node.name == "detach" and node.attr is not None else ()


@dataclass
class _Flow:
    values: set[Value]
    arrays: set[int]
    fields: set[RecordField] = dataclasses.field(default_factory=set)

    @property
    def size(self) -> int:
        return len(self.values) + len(self.arrays) + len(self.fields)

    def link(self, result: Value, source: Operand) -> None:
        """`source` is one of the things that `result` is made of."""
        raise NotImplementedError

    def op(self, node: Op) -> None:
        raise NotImplementedError

    def block(self, block: Block) -> None:
        raise NotImplementedError

    def node(self, node: Node) -> None:
        match node:
            case Op():
                self.op(node)
            case If():
                self.block(node.then)
                self.block(node.orelse)
                for block in (node.then, node.orelse):
                    for result, source in zip(node.results, block.yields, strict=True):
                        self.link(result, source)
                self.block(node.then)
                self.block(node.orelse)
            case For() | While():
                before = -1
                while self.size != before:
                    before = self.size
                    for k, param in enumerate(node.params):
                        for source in (node.init[k], node.body.yields[k]):
                            self.link(param, source)
                        self.link(node.results[k], param)
                    self.block(node.body)
                    if isinstance(node, While):
                        self.block(node.cond)


_F = TypeVar("_F", bound=_Flow)


def _settle(flow: _F, kernel: Kernel) -> _F:
    """Repeat until nothing is added: arrays hand values from later code to earlier code."""
    before = -1
    while flow.size != before:
        before = flow.size
        flow.block(kernel.body)
    return flow


class _Varied(_Flow):
    def link(self, result: Value, source: Operand) -> None:
        if source in self.values:
            self.values.add(result)

    def block(self, block: Block) -> None:
        for node in block.nodes:
            self.node(node)

    def op(self, node: Op) -> None:
        if node.name in ("load", "param"):
            if node.attr in self.arrays and node.result is not None:
                self.values.add(node.result)
        elif node.name == "push":
            tape = node.told(RecordFields).tape
            self.fields.update(RecordField(tape, k) for k, x in enumerate(node.args) if x in self.values)
        elif node.name == "top":
            if node.told(RecordField) in self.fields and node.result is not None:
                self.values.add(node.result)
        elif node.name in WRITES:
            if any(x in self.values for x in node.args[len(indices_of(node)) :]):
                self.arrays.add(node.attr)
            if node.result is not None and node.attr in self.arrays:
                self.values.add(node.result)
        elif node.result is not None and node.args:
            if not self.arrays.isdisjoint(sources_in_memory(node)):
                self.values.add(node.result)
            pairs = zip(node.args, carries(node), strict=True)
            if any(carried and x in self.values for x, carried in pairs):
                self.values.add(node.result)


class _Useful(_Flow):
    def link(self, result: Value, source: Operand) -> None:
        if result in self.values and isinstance(source, Value):
            self.values.add(source)

    def block(self, block: Block) -> None:
        for node in reversed(block.nodes):
            self.node(node)

    def op(self, node: Op) -> None:
        sources: list[Operand] = []
        if node.name in ("load", "param"):
            if node.result in self.values:
                self.arrays.add(node.attr)
        elif node.name == "push":
            tape = node.told(RecordFields).tape
            sources = [x for k, x in enumerate(node.args) if RecordField(tape, k) in self.fields]
        elif node.name == "top":
            if node.result in self.values:
                self.fields.add(node.told(RecordField))
        elif node.name in WRITES:
            if node.result in self.values:
                self.arrays.add(node.attr)
            if node.attr in self.arrays:
                sources = list(node.args[len(indices_of(node)) :])
        elif node.result in self.values and node.args:
            self.arrays.update(sources_in_memory(node))
            sources = [x for x, carried in zip(node.args, carries(node), strict=True) if carried]
        self.values.update(x for x in sources if isinstance(x, Value))
