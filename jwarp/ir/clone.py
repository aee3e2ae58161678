"""Copies of blocks with fresh values, for putting one piece of IR into another."""

from __future__ import annotations

from jwarp.ir.nodes import Block, For, If, Node, Op, Operand, Value, While


class Cloner:
    """Copies blocks; `known` says what the values of the original stand for in the copy.

    A subclass that says something else in `operand` says it in `operands`, too.
    """

    def __init__(self, known: dict[Value, Operand] | None = None):
        self.known: dict[Value, Operand] = known or {}

    def operand(self, x: Operand) -> Operand:
        return self.known.get(x, x) if isinstance(x, Value) else x

    def operands(self, xs: tuple[Operand, ...]) -> tuple[Operand, ...]:
        known = self.known
        return tuple([known.get(x, x) if isinstance(x, Value) else x for x in xs])

    def fresh(self, value: Value) -> Value:
        made = Value(value.type, value.name)
        self.known[value] = made
        return made

    def fresh_all(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.fresh(v) for v in values)

    def block(self, block: Block) -> Block:
        made: list[Node] = []
        for node in block.nodes:
            made += self.nodes(node)
        return Block(tuple(made), self.operands(block.yields))

    def nodes(self, node: Node) -> list[Node]:
        """The nodes that replace a node in the copy; subclasses may give none, or several."""
        return [self.node(node)]

    def node(self, node: Node) -> Node:
        match node:
            case Op():
                args = self.operands(node.args)
                result = None if node.result is None else self.fresh(node.result)
                return Op(node.name, args, node.attr, result, node.span)
            case If():
                cond = self.operand(node.cond)
                then, orelse = self.block(node.then), self.block(node.orelse)
                return If(cond, then, orelse, self.fresh_all(node.results), node.span)
            case For():
                lo, hi, init = self.operand(node.lo), self.operand(node.hi), self.operands(node.init)
                index, params = self.fresh(node.index), self.fresh_all(node.params)
                body, span = self.block(node.body), node.span
                return For(index, lo, hi, node.step, params, init, body, self.fresh_all(node.results), span, node.lanes)
            case While():
                init, params = self.operands(node.init), self.fresh_all(node.params)
                test, body = self.block(node.cond), self.block(node.body)
                return While(params, init, test, body, self.fresh_all(node.results), node.span)
