"""Removal of tests `index >= 0` and `index < end` that plainly hold, of the indices of tiles.

A tile may stick out in front of an array, so that its indices are tested. Most are multiples of block coordinates and
of loop counters, plus what counts the elements of the tile. That they do not wrap is taken for granted: who runs so
many blocks that they do leaves the array.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from jwarp.analysis.intervals import Intervals, upward_loops
from jwarp.ir.builder import zero
from jwarp.ir.clone import Cloner
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Block, Const, Kernel, Node, Op, Operand, Value, walk


def drop_sign_tests(kernel: Kernel, tests: Collection[Operand]) -> Kernel:
    """The kernel with `tests`, each `index >= 0` or `index < end`, settled where they plainly hold.

    Tests that the author of a kernel wrote are not among them, as integers wrap.
    """
    if not tests:
        return kernel
    settler, known = _Settler(kernel.body), dict[Value, Operand]()
    for node in walk(kernel.body):
        if isinstance(node, Op) and node.result is not None and node.result in tests and settler.holds(node):
            known[node.result] = Const(node.result.type, True)
    if not known:
        return kernel
    return dataclasses.replace(kernel, body=_Settled(known).block(kernel.body))


class _Settled(Cloner):
    """Copies blocks without the operations whose results are known."""

    def __init__(self, known: Mapping[Value, Operand]):
        super().__init__(dict(known))
        self.settled = frozenset(known)

    def nodes(self, node: Node) -> list[Node]:
        return [] if isinstance(node, Op) and node.result in self.settled else super().nodes(node)


class _Settler:
    """Settles tests of indices by the intervals of a body."""

    def __init__(self, body: Block):
        self.definitions, self.loops = contents_of(body).definitions, upward_loops(body)
        self.intervals = Intervals(self.definitions, self.loops, assumes_exact=True)

    def holds(self, test: Op) -> bool:
        """True if a test, `index >= 0` or `index < end`, plainly holds."""
        index, end = test.args
        index = self.unwrapped(index)
        if _is_sign_test(test):
            return self.intervals.is_count(index)
        return isinstance(index, Value) and index in self.loops and self.loops[index].hi == end

    def unwrapped(self, index: Operand) -> Operand:
        """The index itself for one that would be counted from the end, `select(index >= 0, index, index + extent)`."""
        node = self.definitions.get(index) if isinstance(index, Value) else None
        if node is None or not node.row.transfer.chooses:
            return index
        condition, x, _ = node.args
        test = self.definitions.get(condition) if isinstance(condition, Value) else None
        is_own_test = test is not None and _is_sign_test(test) and test.args[0] == x
        return x if is_own_test and self.intervals.is_count(x) else index


def _is_sign_test(test: Op) -> bool:
    return test.name == "ge" and test.args[1] == zero(test.args[1].type)
