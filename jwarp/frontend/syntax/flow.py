"""Finds the names that a loop's body may read before it has set them in the same iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.source import assigned_names, branches_of, count_loads, tests_of


def read_before_set(loop: ast.For | ast.While) -> set[str]:
    """The names that `loop` sets and that an iteration may read as an earlier one left them."""
    flow = _Flow(set(assigned_names([loop])))
    if isinstance(loop, ast.While):
        flow.read([loop.test], set())
    flow.block(loop.body, _variables(loop))
    return flow.found


def _variables(loop: ast.For | ast.While) -> set[str]:
    """The names that each iteration assigns before its body runs."""
    return {n.id for n in nodes_in(loop.target) if isinstance(n, ast.Name)} if isinstance(loop, ast.For) else set()


class _Flow:
    """Goes through statements with the names that are certainly set."""

    def __init__(self, names: set[str]):
        self.names, self.found = names, set[str]()

    def read(self, trees: Iterable[ast.expr | ast.stmt], known: set[str]) -> None:
        loads = count_loads(trees)
        self.found |= loads.keys() & self.names - known

    def block(self, statements: Sequence[ast.stmt], known: set[str]) -> set[str]:
        """The names that are certainly assigned after `statements`, if their end is reached."""
        known = set(known)
        for statement in statements:
            branches = branches_of(statement)
            match statement:
                case ast.Break() | ast.Continue() | ast.Return():
                    self.read([statement], known)
                    return known | self.names  # nothing after it runs
                case ast.For() | ast.While():
                    self.read([statement.iter if isinstance(statement, ast.For) else statement.test], known)
                    self.block(statement.body, known | _variables(statement))
                case _ if branches:
                    self.read(tests_of(statement), known)
                    known = set.intersection(*(self.block(branch, known) for branch in branches))
                case _:
                    self.read([statement], known)
                    known |= set(assigned_names([statement]))
        return known
