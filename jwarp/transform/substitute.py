"""Copies blocks of IR with other operands in the place of some values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jwarp.ir.builder import Builder, make_block
from jwarp.ir.nodes import Block, For, If, Node, Op, Operand, Value, While


class Copy:
    """`known` maps values of the block that is copied to operands of the copy. Subclasses change operations."""

    def __init__(self, builder: Builder | None = None):
        self.builder = builder or Builder()
        self.known: dict[Value, Operand] = {}

    def operand(self, x: Operand) -> Operand:
        return self.known.get(x, x) if isinstance(x, Value) else x

    def all(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(self.operand(x) for x in xs)

    def fresh(self, values: Iterable[Value]) -> tuple[Value, ...]:
        """New values in the place of those that the copied code defines."""
        made = tuple(Value(v.type, v.name) for v in values)
        self.known.update(zip(values, made, strict=True))
        return made

    def block(self, block: Block) -> Block:
        with self.builder.block() as nodes:
            for node in block.nodes:
                self.builder.span = node.span
                self.node(node)
        return make_block(nodes, self.all(block.yields))

    def node(self, node: Node) -> None:
        match node:
            case Op():
                self.op(node)
            case If():
                cond, sides = self.operand(node.cond), [self.block(b) for b in (node.then, node.orelse)]
                self.builder.append(If(cond, sides[0], sides[1], self.fresh(node.results), node.span))
            case For():
                lo, hi, init = self.operand(node.lo), self.operand(node.hi), self.all(node.init)
                (index,), params = self.fresh([node.index]), self.fresh(node.params)
                body = self.block(node.body)
                made = For(index, lo, hi, node.step, params, init, body, self.fresh(node.results), node.span)
                self.builder.append(made)
            case While():
                init, params = self.all(node.init), self.fresh(node.params)
                test, body = self.block(node.cond), self.block(node.body)
                self.builder.append(While(params, init, test, body, self.fresh(node.results), node.span))

    def op(self, node: Op) -> None:
        args = self.all(node.args)
        result = None if node.result is None else self.fresh([node.result])[0]
        self.builder.append(dataclasses.replace(node, args=args, result=result))
