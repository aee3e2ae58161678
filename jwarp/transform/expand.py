"""Replaces operations that a backend has no instruction for by IR that computes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jwarp.ir.builder import Builder, make_block
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, For, If, Kernel, Node, Op, Operand, Value, While
from jwarp.ir.ops import OPS
from jwarp.types import bfloat16, float16, float32

# Gives the inlined form of an operation on arguments, or None to keep the operation.
Expansion = Callable[[Op], tuple[tuple[Value, ...], Block] | None]

_KEPT_FOR_HALVES = frozenset({"select", "cast", "bitcast"})


def expand(kernel: Kernel, expansion: Expansion) -> Kernel:
    """`kernel` with every operation replaced that `expansion` has a form for.

    Arithmetic on float16 and bfloat16 becomes arithmetic on float32, rounded after each operation.
    """
    return dataclasses.replace(kernel, body=_Expander(expansion).block(kernel.body))


class _Expander:
    def __init__(self, expansion: Expansion):
        self.expansion = expansion
        self.builder = Builder()
        self.known: dict[Value, Operand] = {}

    def operand(self, x: Operand) -> Operand:
        return self.known.get(x, x) if isinstance(x, Value) else x

    def operands(self, xs: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(self.operand(x) for x in xs)

    def block(self, block: Block) -> Block:
        with self.builder.block() as nodes:
            for node in block.nodes:
                self.node(node)
            return make_block(nodes, self.operands(block.yields))

    def node(self, node: Node) -> None:
        self.builder.span = node.span
        match node:
            case Op():
                self.op(dataclasses.replace(node, args=self.operands(node.args)))
            case If():
                then, orelse = self.block(node.then), self.block(node.orelse)
                self.builder.append(dataclasses.replace(node, cond=self.operand(node.cond), then=then, orelse=orelse))
            case For():
                lo, hi, init = self.operand(node.lo), self.operand(node.hi), self.operands(node.init)
                body = self.block(node.body)
                self.builder.append(dataclasses.replace(node, lo=lo, hi=hi, init=init, body=body))
            case While():
                init = self.operands(node.init)
                cond, body = self.block(node.cond), self.block(node.body)
                self.builder.append(dataclasses.replace(node, init=init, cond=cond, body=body))

    def op(self, node: Op) -> None:
        if node.result is None or OPS[node.name].effect != "pure" or not node.args:
            self.builder.append(node)
            return
        if _is_half(node):
            self.known[node.result] = self.through_float32(node)
            return
        form = self.expansion(node)
        if form is None:
            self.builder.append(node)
            return
        self.known[node.result] = self.inline(form, node.args)

    def inline(self, form: tuple[tuple[Value, ...], Block], args: tuple[Operand, ...]) -> Operand:
        params, body = form
        copy = Cloner(dict(zip(params, args, strict=True))).block(body)
        self.builder.extend(copy.nodes)
        return copy.yields[0]

    def through_float32(self, node: Op) -> Operand:
        assert node.result is not None
        wide = tuple(self.builder.op("cast", a, type=float32) for a in node.args)
        rule = OPS[node.name].result
        type = rule(tuple(a.type for a in wide)) if rule else None
        assert type is not None
        made = Value(type)
        self.op(dataclasses.replace(node, args=wide, result=made))
        return self.builder.op("cast", self.operand(made), type=node.result.type)


def _is_half(node: Op) -> bool:
    return node.name not in _KEPT_FOR_HALVES and any(a.type in (float16, bfloat16) for a in node.args)
