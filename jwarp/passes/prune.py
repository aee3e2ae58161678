"""Drops what a generated kernel computes, keeps in memory or writes to its tape and nothing needs.

Other than `simplify`, it knows which arrays are scratch: a store to one matters only if a load comes after
it, and a field of a record only if it is read back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable
from typing import Any

from jwarp.ir.attributes import RecordField, RecordFields
from jwarp.ir.nodes import CHANGES, Block, For, If, Node, Op, Operand, Value, While, blocks, results

TAPE = ("push", "pop")


def prune(body: Block, returned: Container[Any]) -> Block:
    """`body` reduced to what its yields and the final contents of the arrays `returned` need.

    All other arrays are scratch.
    """
    liveness = _Liveness(body, returned)
    liveness.need(body.yields)
    before = -1
    while liveness.size != before:
        before = liveness.size
        liveness.mark(body)
    return _Sweep(liveness).block(body)


class _Liveness:
    """What is needed so far: values, fields of records, and which arrays are read where."""

    def __init__(self, body: Block, returned: Container[Any]):
        self.returned = returned
        self.values: set[Value] = set()
        self.fields: set[RecordField] = set()
        self.tapes: set[int] = set()
        self.undone: set[Any] = set()
        self.last_read: dict[Any, int] = {}
        self.reading_loops: set[tuple[Any, int]] = set()
        self.pushes: dict[int, list[Op]] = {}
        self.place: dict[int, tuple[int, tuple[int, ...]]] = {}  # of an operation: position, loops around it
        self.number(body, ())

    @property
    def size(self) -> int:
        readers = len(self.reading_loops) + sum(self.last_read.values())
        return len(self.values) + len(self.fields) + len(self.undone) + readers

    def number(self, block: Block, loops: tuple[int, ...]) -> None:
        for node in block.nodes:
            if isinstance(node, Op):
                self.place[id(node)] = (len(self.place), loops)
                if node.name == "push":
                    self.pushes.setdefault(node.told(RecordFields).tape, []).append(node)
            inner = loops if isinstance(node, (Op, If)) else (*loops, id(node))
            for owned in blocks(node):
                self.number(owned, inner)

    def need(self, xs: Iterable[Operand]) -> None:
        self.values.update(x for x in xs if isinstance(x, Value))

    def keeps(self, node: Node) -> bool:
        """Whether `node` is needed, as far as is known."""
        if any(r in self.values for r in results(node)):
            return True
        if not isinstance(node, Op):
            return any(self.keeps(inner) for block in blocks(node) for inner in block.nodes)
        if node.name in CHANGES or node.name == "clear":
            return node.attr in self.returned or self.is_read_after(node)
        if node.name == "save":
            return node.attr in self.undone
        if node.name in TAPE:
            return (node.told(RecordFields).tape if node.name == "push" else node.attr) in self.tapes
        return node.name in ("assert", "check", "print")

    def is_read_after(self, node: Op) -> bool:
        position, loops = self.place[id(node)]
        return self.last_read.get(node.attr, -1) > position or any((node.attr, l) in self.reading_loops for l in loops)

    def mark(self, block: Block) -> None:
        """Note what the needed nodes of `block` need."""
        for node in reversed(block.nodes):
            if not self.keeps(node):
                continue
            match node:
                case Op():
                    self.mark_op(node)
                case If():
                    self.need([node.cond])
                    for k, result in enumerate(node.results):
                        if result in self.values:
                            self.need([node.then.yields[k], node.orelse.yields[k]])
                case For() | While():
                    self.need(node.cond.yields if isinstance(node, While) else (node.lo, node.hi))
                    for k in self.carried(node):
                        self.need([node.init[k], node.body.yields[k]])
            for inner in reversed(blocks(node)):
                self.mark(inner)

    def mark_op(self, node: Op) -> None:
        if node.name == "push":
            tape = node.told(RecordFields).tape
            self.need(x for k, x in enumerate(node.args) if RecordField(tape, k) in self.fields)
            return
        self.need(node.args)
        if node.name == "top":
            field = node.told(RecordField)
            self.fields.add(field)
            self.tapes.add(field.tape)
        elif node.name in ("undo", "rollback"):
            self.undone.add(node.attr)
        elif node.name == "load" or (node.result in self.values and node.name in CHANGES):
            position, loops = self.place[id(node)]
            self.last_read[node.attr] = max(position, self.last_read.get(node.attr, 0))
            self.reading_loops.update((node.attr, loop) for loop in loops)

    def carried(self, node: For | While) -> list[int]:
        """Positions of the carried values that something needs."""
        pairs = zip(node.params, node.results, strict=True)
        return [k for k, (param, result) in enumerate(pairs) if param in self.values or result in self.values]

    def kept_fields(self, tape: int) -> list[int]:
        """The fields of a tape's records that something reads."""
        count = max(len(push.args) for push in self.pushes[tape])
        return [k for k in range(count) if RecordField(tape, k) in self.fields]


class _Sweep:
    def __init__(self, liveness: _Liveness):
        self.liveness = liveness

    def block(self, block: Block, kept: Iterable[int] | None = None) -> Block:
        nodes = tuple(self.node(n) for n in block.nodes if self.liveness.keeps(n))
        yields = block.yields if kept is None else tuple(block.yields[k] for k in kept)
        return Block(nodes, yields)

    def node(self, node: Node) -> Node:
        match node:
            case Op(name="push"):
                record = node.told(RecordFields)
                kept = self.liveness.kept_fields(record.tape)
                uniform = tuple(record.uniform[k] for k in kept)
                return dataclasses.replace(
                    node, args=tuple(node.args[k] for k in kept), attr=RecordFields(record.tape, uniform)
                )
            case Op(name="top"):
                field = node.told(RecordField)
                left = self.liveness.kept_fields(field.tape).index(field.field)
                return dataclasses.replace(node, attr=RecordField(field.tape, left))
            case Op():
                return node
            case If():
                kept = [k for k, r in enumerate(node.results) if r in self.liveness.values]
                then, orelse = self.block(node.then, kept), self.block(node.orelse, kept)
                return If(node.cond, then, orelse, tuple(node.results[k] for k in kept), node.span)
            case For() | While():
                kept = self.liveness.carried(node)
                params, made = (tuple(v[k] for k in kept) for v in (node.params, node.results))
                init, body = tuple(node.init[k] for k in kept), self.block(node.body, kept)
                loop = dataclasses.replace(node, params=params, init=init, results=made, body=body)
                return dataclasses.replace(loop, cond=self.block(loop.cond)) if isinstance(loop, While) else loop
