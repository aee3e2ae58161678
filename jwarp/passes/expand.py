"""Replaces operations that a backend has no instruction for by IR that computes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jwarp.ir.builder import Builder, make_block
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, For, If, Kernel, Node, Op, Operand, Value, While, indices_of
from jwarp.ir.ops import OPS
from jwarp.types import SCALARS, ScalarType, bfloat16, float16, float32

# Gives the inlined form of an operation on arguments, or None to keep the operation. The `attr` of a sine or
# cosine says that the other one of the same value is near: their forms may share what they compute.
Expansion = Callable[[Op], tuple[tuple[Value, ...], Block] | None]

_KEPT_FOR_HALVES = frozenset({"select", "cast", "bitcast"})


def expand(kernel: Kernel, expansion: Expansion) -> Kernel:
    """`kernel` with every operation replaced that `expansion` has a form for.

    Arithmetic on float16 and bfloat16 becomes arithmetic on float32, rounded after each operation; an
    atomic operation on a local array, which no other thread sees, a load and a store.
    """
    return dataclasses.replace(kernel, body=_Expander(kernel, expansion).block(kernel.body))


class _Expander:
    def __init__(self, kernel: Kernel, expansion: Expansion):
        self.kernel = kernel
        self.expansion = expansion
        self.builder = Builder()
        self.known: dict[Value, Operand] = {}
        self.paired: frozenset[Operand] = frozenset()

    def operand(self, x: Operand) -> Operand:
        return self.known.get(x, x) if isinstance(x, Value) else x

    def operands(self, xs: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(self.operand(x) for x in xs)

    def block(self, block: Block) -> Block:
        outer, self.paired = self.paired, self.pairs(block)
        with self.builder.block() as nodes:
            for node in block.nodes:
                self.node(node)
            self.paired = outer
            return make_block(nodes, self.operands(block.yields))

    def pairs(self, block: Block) -> frozenset[Operand]:
        """The values of which sine and cosine are both taken in the block."""
        sines, cosines = (
            {n.args[0] for n in block.nodes if isinstance(n, Op) and n.name == name} for name in ("sin", "cos")
        )
        return frozenset(sines & cosines)

    def node(self, node: Node) -> None:
        self.builder.span = node.span
        match node:
            case Op(name="sin" | "cos") if node.args[0] in self.paired:
                other = "beside cos" if node.name == "sin" else "beside sin"
                self.op(dataclasses.replace(node, args=self.operands(node.args), attr=other))
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
        local = self.kernel.local(node.attr) if node.name.startswith("atomic_") else None
        if local is not None and not local.shared:
            self.unshared(node)
            return
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

    def unshared(self, node: Op) -> None:
        """An atomic operation on an array that only one thread sees."""
        indices = indices_of(node)
        type = self.kernel.array(node.attr).dtype
        old = node.result or Value(type)
        self.builder.append(Op("load", indices, node.attr, old, node.span))
        name, values = node.name.removeprefix("atomic_"), node.args[len(indices) :]
        new: Operand = values[-1]
        if name == "cas":
            same = self.builder.op("eq", *(self.bits(x, type) for x in (old, values[0])))
            new = self.builder.op("select", same, new, old)
        elif name != "exch":
            made = Value(type)
            self.op(Op(name, (old, new), None, made, node.span))
            new = self.operand(made)
        self.builder.append(Op("store", (*indices, new), node.attr, None, node.span))

    def bits(self, x: Operand, type: ScalarType) -> Operand:
        return self.builder.op("bitcast", x, type=SCALARS[f"uint{type.bits}"]) if type.is_float else x

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
