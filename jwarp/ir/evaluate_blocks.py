"""The values that blocks of pure operations on known numbers yield: loops and branches, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jwarp.ir.evaluate import EVAL_RULES, evaluate_quietly
from jwarp.ir.nodes import Block, Const, For, If, Node, Op, Operand, Value, While
from jwarp.types import scalar_of

MAX_STEPS = 10_000  # iterations of all loops; of random numbers of any mean, a few


class Unknown(Exception):
    """The block has an operation that needs more than numbers, or its loops run for too long."""


def yielded(block: Block) -> list[np.generic]:
    """The numbers that a block without functions yields.

    Raises:
        Unknown: there are accesses of arrays, operations with attributes or effects, or loops of too many iterations.
    """
    evaluation = _Evaluation()
    with np.errstate(all="ignore"):
        return evaluation.block(block)


class _Evaluation:
    def __init__(self) -> None:
        self.known: dict[Value, np.generic] = {}
        self.steps = 0

    def block(self, block: Block) -> list[np.generic]:
        for node in block.nodes:
            self.node(node)
        return self.of(block.yields)

    def of(self, operands: Sequence[Operand]) -> list[np.generic]:
        return [scalar_of(x.type).dtype.type(x.value) if isinstance(x, Const) else self.known[x] for x in operands]

    def node(self, node: Node) -> None:
        match node:
            case Op(name=name, args=args, attr=None, result=Value() as result) if name in EVAL_RULES:
                arrays = [np.asarray(x) for x in self.of(args)]
                found: Any = evaluate_quietly(name, arrays, result.type)[()]
                self.known[result] = found
            case If(cond=cond, then=then, orelse=orelse, results=results):
                (chosen,) = self.of([cond])
                self.keep(results, self.block(then if chosen else orelse))
            case For(init=init, params=params, body=body, results=results):
                self.keep(params, self.of(init))
                for index in self.counted(node):
                    self.known[node.index] = scalar_of(node.index.type).dtype.type(index)
                    self.keep(params, self.block(body))
                self.keep(results, self.of(params))
            case While(init=init, params=params, cond=cond, body=body, results=results):
                self.keep(params, self.of(init))
                while self.block(cond)[0]:
                    self.count()
                    self.keep(params, self.block(body))
                self.keep(results, self.of(params))
            case _:
                raise Unknown

    def counted(self, node: For) -> Iterator[int]:
        lo, hi = map(int, self.of([node.lo, node.hi]))
        for index in range(lo, hi, node.step):
            self.count()
            yield index

    def count(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unknown

    def keep(self, values: Sequence[Value], found: Sequence[np.generic]) -> None:
        self.known.update(zip(values, found, strict=True))
