"""Which values a body needs, found backwards from its effects and yields, and the body without all others."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable
from typing import TypeVar

from jwarp.ir.nodes import Block, For, If, Node, Op, Operand, Value, While, blocks
from jwarp.ir.visit import Rewriter

_T = TypeVar("_T")
Control = If | For | While


class Liveness:
    """The values that are needed so far. A subclass says what else keeps an operation, and what that one needs."""

    def __init__(self) -> None:
        self.values: set[Value] = set()
        self.kept: set[Control] = set()  # control flow that is needed

    @property
    def size(self) -> int:
        """A number that grows with whatever is found to be needed."""
        return len(self.values)

    def settle(self, body: Block) -> None:
        """Find all that `body` needs. Loops hand values back to their start, so that this takes some rounds."""
        self.need(body.yields)
        before = -1
        while self.size != before:
            before = self.size
            self.mark(body)

    def need(self, xs: Iterable[Operand]) -> None:
        """Note that values are needed."""
        self.values.update([x for x in xs if isinstance(x, Value)])

    def keeps(self, node: Node) -> bool:
        """True if `node` is live, as far as is known."""
        if isinstance(node, Op):
            return node.result in self.values or self.lasts(node)
        if node in self.kept:
            return True
        keeps = not self.values.isdisjoint(node.results) or any(
            self.keeps(inner) for block in blocks(node) for inner in block.nodes
        )
        if keeps:
            self.kept.add(node)
        return keeps

    def lasts(self, node: Op) -> bool:
        """True if an operation is live although nothing reads its result."""
        return node.row.is_lasting

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
        """Note what a needed operation needs."""
        self.need(node.args)

    def carried(self, node: For | While) -> list[int]:
        """Positions of the carried values that something needs."""
        pairs = zip(node.params, node.results, strict=True)
        return [k for k, (param, result) in enumerate(pairs) if param in self.values or result in self.values]


class Sweep(Rewriter):
    """Leaves out what is not needed: operations, branches, loops, and results of these."""

    def __init__(self, liveness: Liveness):
        self.liveness = liveness

    def block(self, block: Block) -> Block:
        liveness, values, made = self.liveness, self.liveness.values, list[Node]()
        for node in block.nodes:
            if isinstance(node, Op):  # most are
                if node.result in values or liveness.lasts(node):
                    made.append(self.op(node))
            elif liveness.keeps(node):
                made.append(self.node(node))
        same = len(made) == len(block.nodes) and all(map(operator.is_, made, block.nodes))
        return block if same else Block(tuple(made), block.yields)

    def branch(self, node: If) -> Node:
        kept = [k for k, r in enumerate(node.results) if r in self.liveness.values]
        then, orelse = (self.block(with_yields(b, kept)) for b in (node.then, node.orelse))
        return dataclasses.replace(node, then=then, orelse=orelse, results=at(node.results, kept))

    def loop(self, node: For | While) -> Node:
        kept = self.liveness.carried(node)
        body = self.block(with_yields(node.body, kept))
        params, init, made = at(node.params, kept), at(node.init, kept), at(node.results, kept)
        if isinstance(node, While):
            cond = self.block(node.cond)
            return dataclasses.replace(node, params=params, init=init, results=made, body=body, cond=cond)
        lanes = None if node.lanes is None else at(node.lanes, kept)
        return dataclasses.replace(node, params=params, init=init, results=made, body=body, lanes=lanes)


def at(values: tuple[_T, ...], positions: Iterable[int]) -> tuple[_T, ...]:
    """The values at these positions."""
    return tuple(values[k] for k in positions)


def with_yields(block: Block, positions: Iterable[int]) -> Block:
    """The block with those of its yields that have these positions."""
    return Block(block.nodes, at(block.yields, positions))


def drop_unused(body: Block) -> Block:
    """`body` without operations, branches, loops and carried values that nothing needs."""
    liveness = _ByDefinition()
    liveness.settle(body)
    return Sweep(liveness).block(body)


class _ByDefinition(Liveness):
    """Goes from each value that is needed to what defines it, so that every node is looked at once."""

    def __init__(self) -> None:
        super().__init__()
        self.definitions: dict[Value, tuple[Node, int]] = {}  # and the position among results or carried values
        self.owners: dict[Node, Control] = {}  # of nodes: the control flow that they are inside of
        self.pending: list[Value] = []

    def settle(self, body: Block) -> None:
        lasting: list[Op] = []
        self.define(body, None, lasting)
        self.need(body.yields)
        for op in lasting:
            self.reach(op)
            self.need(op.args)
        definitions, owners, values, kept, pending = (
            self.definitions,
            self.owners,
            self.values,
            self.kept,
            self.pending,
        )
        while pending:
            definition = definitions.get(pending.pop())
            if definition is None:
                continue  # a parameter of the body
            node, k = definition
            if isinstance(node, Op):  # most are
                owner = owners.get(node)
                if owner is not None and owner not in kept:
                    self.reach(owner)
                for x in node.args:
                    if isinstance(x, Value) and x not in values:
                        values.add(x)
                        pending.append(x)
                continue
            self.reach(node)
            if isinstance(node, If):
                self.need((node.then.yields[k], node.orelse.yields[k]))
            elif k >= 0:
                self.need((node.init[k], node.body.yields[k]))

    def define(self, block: Block, owner: Control | None, lasting: list[Op]) -> None:
        """Note where each value of a block is defined; `lasting` gets the operations that are needed anyway."""
        definitions, owners = self.definitions, self.owners
        for node in block.nodes:
            if owner is not None:
                owners[node] = owner
            if isinstance(node, Op):
                if node.result is not None:
                    definitions[node.result] = node, 0
                if node.row.is_lasting:
                    lasting.append(node)
                continue
            for k, result in enumerate(node.results):
                definitions[result] = node, k
            if not isinstance(node, If):
                for k, param in enumerate(node.params):
                    definitions[param] = node, k
                if isinstance(node, For):
                    definitions[node.index] = node, -1
            for inner in blocks(node):
                self.define(inner, node, lasting)

    def need(self, xs: Iterable[Operand]) -> None:
        values = self.values
        for x in xs:
            if isinstance(x, Value) and x not in values:
                values.add(x)
                self.pending.append(x)

    def reach(self, node: Node) -> None:
        """Note that a node is needed, and with it the control flow that it is in."""
        around: Node | None = node
        while around is not None:
            if not isinstance(around, Op):
                if around in self.kept:
                    return
                self.kept.add(around)
                match around:
                    case If():
                        self.need((around.cond,))
                    case For():
                        self.need((around.lo, around.hi))
                    case While():
                        self.need(around.cond.yields)
            around = self.owners.get(around)
