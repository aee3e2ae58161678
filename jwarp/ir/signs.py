"""Finds integers that plainly are not negative, and drops tests whether they are, or below the end of their loop.

A tile may stick out in front of an array, so that its indices are tested. Most are multiples of block coordinates and
of loop counters, plus what counts the elements of the tile. That they do not wrap is taken for granted: who runs so
many blocks that they do leaves the array.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from jwarp.ir.builder import zero
from jwarp.ir.clone import Cloner
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import Block, Const, For, Kernel, Node, Op, Operand, Value, walk


def drop_sign_tests(kernel: Kernel, tests: Collection[Operand]) -> Kernel:
    """The kernel with `tests`, each `index >= 0` or `index < end`, settled where they plainly hold.

    Tests that the author of a kernel wrote are not among them: integers wrap, and who asks is told.
    """
    if not tests:
        return kernel
    signs, known = Signs(kernel.body), dict[Value, Operand]()
    for node in walk(kernel.body):
        if isinstance(node, Op) and node.result is not None and node.result in tests and signs.settle(node):
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


class Signs:
    """Which integers of a body plainly are not negative."""

    def __init__(self, body: Block):
        self.definitions = contents_of(body).definitions
        upward = [n for n in walk(body) if isinstance(n, For) and n.step > 0]
        self.starts = {n.index: n.lo for n in upward}
        self.ends = {n.index: n.hi for n in upward}
        self.known: dict[Value, bool] = {}

    def settle(self, test: Op) -> bool:
        """Whether a test, `index >= 0` or `index < end`, plainly holds."""
        index, end = test.args
        index = self.counted(index)
        if test.name == "ge":
            return self.is_count(index)
        return isinstance(index, Value) and index in self.ends and self.ends[index] == end

    def counted(self, index: Operand) -> Operand:
        """The index itself for one that would be counted from the end, `select(index >= 0, index, index + extent)`."""
        node = self.definitions.get(index) if isinstance(index, Value) else None
        test = self.definitions.get(node.args[0]) if node is not None and node.name == "select" else None  # type: ignore[arg-type]
        if node is None or test is None or test.name != "ge" or test.args != (node.args[1], zero(index.type)):
            return index
        return node.args[1] if self.is_count(node.args[1]) else index

    def is_count(self, x: Operand) -> bool:
        """Whether an integer is not negative, as far as is plain."""
        if isinstance(x, Const):
            return x.type.is_int and x.value >= 0
        if x.type.kind == "uint":
            return True
        if x not in self.known:
            self.known[x] = False  # while it is looked at
            self.known[x] = self.find(x)
        return self.known[x]

    def find(self, x: Value) -> bool:
        if x in self.starts:
            return self.is_count(self.starts[x])
        node = self.definitions.get(x)
        if node is None or not x.type.is_int:
            return False
        if node.row.is_count:
            return True
        rule = _RULES.get(node.name)
        if node.name == "cast" and x.type.bits < node.args[0].type.bits:
            return False
        return rule is not None and rule(node.args, [self.is_count(a) for a in node.args])


def _all(args: tuple[Operand, ...], counts: list[bool]) -> bool:
    return all(counts)


def _quotient(args: tuple[Operand, ...], counts: list[bool]) -> bool:
    """A quotient by zero is -1."""
    return all(counts) and isinstance(args[1], Const) and args[1].value > 0


# Whether the result is not negative, from what is known of the arguments.
_RULES: Mapping[str, Callable[[tuple[Operand, ...], list[bool]], bool]] = {
    "add": _all,
    "mul": _all,
    "div": _quotient,
    "floordiv": _quotient,
    "mod": lambda args, counts: counts[0],
    "min": _all,
    "max": lambda args, counts: any(counts),
    "fill": _all,
    "cast": _all,
    "view": _all,
    "select": lambda args, counts: all(counts[1:]),
}
