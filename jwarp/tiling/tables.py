"""Finds operands of operations on whole tiles that are the same for every block: tables, which no code computes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Container, Iterator

import numpy as np

from jwarp.ir.attributes import Iota
from jwarp.ir.evaluate import as_array, evaluate
from jwarp.ir.evaluate_tiles import TILE_RULES, evaluate_tile
from jwarp.ir.nodes import Const, Kernel, Node, Op, Operand, Value, walk
from jwarp.ir.visit import Rewriter
from jwarp.passes.liveness import drop_unused
from jwarp.tiling.whole import is_whole
from jwarp.types import shape_of

# What is longer is computed, as it would take much room in the code.
MOST_ELEMENTS = 1 << 13


def with_tables(kernel: Kernel) -> tuple[Kernel, dict[Value, np.ndarray]]:
    """The kernel without the operations that compute tables, and what these hold."""
    nodes = [node for node in walk(kernel.body) if isinstance(node, Op)]
    evaluator = _Evaluator({node.result: node for node in nodes if node.result is not None})
    wanted = {x for node in nodes if is_whole(node) for x in node.args if isinstance(x, Value) and shape_of(x.type)}
    found = {x: made for x in wanted if (made := evaluator.of(x)) is not None}
    if not found:
        return kernel, {}
    return dataclasses.replace(kernel, body=drop_unused(_Without(found).block(kernel.body))), found


class _Without(Rewriter):
    """Leaves out what computes some values."""

    def __init__(self, values: Container[Value]):
        self.values = values

    def nodes(self, node: Node) -> Iterator[Node]:
        if not (isinstance(node, Op) and node.result in self.values):
            yield from super().nodes(node)


class _Evaluator:
    """Computes values that depend on nothing but constants."""

    def __init__(self, definitions: dict[Value, Op]):
        self.definitions = definitions
        self.known: dict[Value, np.ndarray | None] = {}

    def of(self, x: Operand) -> np.ndarray | None:
        """What a value is in every block; None where it is not known."""
        if isinstance(x, Const):
            return np.broadcast_to(as_array(x), shape_of(x.type))
        if x not in self.known:
            self.known[x] = None  # as long as it is looked for
            self.known[x] = self._made(x)
        return self.known[x]

    def _made(self, x: Value) -> np.ndarray | None:
        node = self.definitions.get(x)
        if node is None or math.prod(shape_of(x.type)) > MOST_ELEMENTS:
            return None
        row = node.row
        is_same = (node.args or row.attribute is Iota) and not row.tells_threads
        if not (row.is_pure or (row.is_tile and node.name in TILE_RULES)) or not is_same or is_whole(node):
            return None
        args = []
        for arg in node.args:
            if (known := self.of(arg)) is None:
                return None
            args.append(known)
        if row.is_tile:
            return evaluate_tile(node.name, tuple(args), node.attr, x.type)
        return evaluate(node.name, tuple(args), x.type)
