"""Replaces operations that a backend has no instruction for by IR that computes them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from jwarp.ir.builder import Builder
from jwarp.ir.clone import Cloner
from jwarp.ir.nodes import Block, Kernel, Op, Operand, Value, rounds_as_written, with_bodies
from jwarp.ir.visit import Rebuilder
from jwarp.types import SCALARS, ScalarType, bfloat16, float16, float32

# Gives the inlined form of an operation on arguments, or None to keep the operation. The second argument says
# if the cosine of the same sine, or vice versa, is near: their forms may share code.
Expansion = Callable[[Op, bool], tuple[tuple[Value, ...], Block] | None]


def expand(kernel: Kernel, expansion: Expansion) -> Kernel:
    """`kernel` with every operation replaced that `expansion` has a form for.

    Arithmetic on float16 and bfloat16 becomes arithmetic on float32, rounded after each operation; an
    atomic operation on a local array, which no other thread sees, a load and a store.
    """
    # A derivative takes a cosine where the kernel has a sine alone, and may have to find the same bits.
    alone = rounds_as_written(kernel)
    return with_bodies(kernel, lambda body: _Expander(kernel, expansion, alone).block(body))


class _Expander(Rebuilder):
    def __init__(self, kernel: Kernel, expansion: Expansion, alone: bool):
        """`alone`: a sine and a cosine of one value are computed as if there were but one of them."""
        super().__init__()
        self.kernel = kernel
        self.expansion = expansion
        self.paired: frozenset[Operand] = frozenset()
        self.alone = alone

    def block(self, block: Block) -> Block:
        outer, self.paired = self.paired, self.pairs(block)
        made = super().block(block)
        self.paired = outer
        return made

    def pairs(self, block: Block) -> frozenset[Operand]:
        """The operands of operations in the block whose partners are there, too, as sine and cosine."""
        if self.alone:
            return frozenset()
        ops = [n for n in block.nodes if isinstance(n, Op)]
        halves = {(n.name, n.args[0]) for n in ops if n.row.numeric.partner}
        return frozenset(
            n.args[0] for n in ops if n.row.numeric.partner and (n.row.numeric.partner, n.args[0]) in halves
        )

    def op(self, node: Op) -> None:
        args = self.operands(node.args)
        is_paired = bool(self.paired and args) and node.args[0] in self.paired
        self.expand(node if args == node.args else Op(node.name, args, node.attr, node.result, node.span), is_paired)

    def expand(self, node: Op, is_paired: bool = False) -> None:
        """Append what computes `node`, whose operands are those of the result."""
        row = node.row
        local = self.kernel.local(node.array) if row.is_atomic else None
        if local is not None and not local.shared:
            self.unshared(node)
            return
        if node.result is None or not row.is_pure or not node.args:
            self.builder.append(node)
            return
        if _is_half(node):
            self.known[node.result] = self.through_float32(node, is_paired)
            return
        if row.code.is_composed:
            self.known[node.result] = COMPOSED[node.name](self.builder, node.args)
            return
        form = self.expansion(node, is_paired)
        if form is None:
            self.builder.append(node)
            return
        self.known[node.result] = self.inline(form, node.args)

    def unshared(self, node: Op) -> None:
        """An atomic operation on an array that only one thread sees."""
        indices, values = node.indices, node.values
        type = self.kernel.array(node.array).dtype
        old = node.result or Value(type)
        self.builder.append(Op("load", indices, node.attr, old, node.span))
        name = node.name.removeprefix("atomic_")
        new: Operand = values[-1]
        if name == "cas":
            same = self.builder.op("eq", *(self.bits(x, type) for x in (old, values[0])))
            new = self.builder.op("select", same, new, old)
        elif name != "exch":
            made = Value(type)
            self.expand(Op(name, (old, new), None, made, node.span))
            new = self.operand(made)
        self.builder.append(Op("store", (*indices, new), node.attr, None, node.span))

    def bits(self, x: Operand, type: ScalarType) -> Operand:
        return self.builder.op("bitcast", x, type=SCALARS[f"uint{type.bits}"]) if type.is_float else x

    def inline(self, form: tuple[tuple[Value, ...], Block], args: tuple[Operand, ...]) -> Operand:
        params, body = form
        copy = Cloner(dict(zip(params, args, strict=True))).block(body)
        self.builder.extend(copy.nodes)
        return copy.yields[0]

    def through_float32(self, node: Op, is_paired: bool) -> Operand:
        assert node.result is not None
        wide = tuple(self.builder.op("cast", a, type=float32) for a in node.args)
        rule = node.row.result
        type = rule(tuple(a.type for a in wide)) if rule else None
        assert type is not None
        made = Value(type)
        self.expand(dataclasses.replace(node, args=wide, result=made), is_paired)
        return self.builder.op("cast", self.operand(made), type=node.result.type)


def _norm(builder: Builder, args: tuple[Operand, ...]) -> Operand:
    squares = [builder.op("mul", x, x) for x in args]
    return builder.op("sqrt", functools.reduce(lambda x, y: builder.op("add", x, y), squares))


# The compositions of operations, on operands of 32 bits or more.
COMPOSED: dict[str, Callable[[Builder, tuple[Operand, ...]], Operand]] = {
    "norm": _norm,
    "over": lambda builder, args: builder.op("div", args[0], args[1]),
}


def _is_half(node: Op) -> bool:
    return not node.row.transfer.moves_bits and any(a.type in (float16, bfloat16) for a in node.args)
