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

# Longer tables are computed, because they would take much room in the code.
MOST_ELEMENTS = 1 << 13


def with_tables(kernel: Kernel) -> tuple[Kernel, dict[Value, np.ndarray]]:
    """The kernel without the operations that compute tables, and what these hold."""
    ops = [node for node in walk(kernel.body) if isinstance(node, Op)]
    alike: dict[Operand, Op] = {}  # in program order: one operation may take what hundreds before it made
    for op in ops:
        if op.result is not None and _is_alike(op) and all(isinstance(x, Const) or x in alike for x in op.args):
            alike[op.result] = op
    wanted = {x for op in ops if is_whole(op) for x in op.args if x in alike and shape_of(x.type)}
    if not wanted:
        return kernel, {}
    needed: set[Operand] = set(wanted)
    for result, op in reversed(alike.items()):
        if result in needed:
            needed.update(op.args)
    known: dict[Operand, np.ndarray] = {}
    for result, op in alike.items():
        if result in needed:
            known[result] = _made(op, tuple(_content(x) if isinstance(x, Const) else known[x] for x in op.args))
    found = {x: known[x] for x in alike if isinstance(x, Value) and x in wanted}
    return dataclasses.replace(kernel, body=drop_unused(_Without(found).block(kernel.body))), found


def _is_alike(node: Op) -> bool:
    """True if an operation gives the same in every block for equal operands."""
    row = node.row
    assert node.result is not None
    if math.prod(shape_of(node.result.type)) > MOST_ELEMENTS or is_whole(node) or row.threads.differ:
        return False
    is_known = row.is_pure or (row.is_tile and node.name in TILE_RULES)
    return is_known and (bool(node.args) or row.attribute is Iota)


def _content(x: Const) -> np.ndarray:
    return np.broadcast_to(as_array(x), shape_of(x.type))


def _made(node: Op, args: tuple[np.ndarray, ...]) -> np.ndarray:
    assert node.result is not None
    if node.row.is_tile:
        return evaluate_tile(node.name, args, node.attr, node.result.type)
    return evaluate(node.name, args, node.result.type)


class _Without(Rewriter):
    """Leaves out what computes some values."""

    def __init__(self, values: Container[Value]):
        self.values = values

    def nodes(self, node: Node) -> Iterator[Node]:
        if not (isinstance(node, Op) and node.result in self.values):
            yield from super().nodes(node)
