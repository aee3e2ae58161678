"""Loops over the results of a query, in the form that takes fewest steps."""

from __future__ import annotations

import ast
from typing import Any

from jwarp.frontend.builtins.scalar import coherent
from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.source import Known, arms_of
from jwarp.types import StructType


def in_turn(loop: ast.For, kind: StructType, query: str, target: str) -> list[ast.stmt]:
    """`for target in query`, as a loop while there is a next one."""
    test = _call(kind.following, _name(query), _name(target))
    return _at(loop, [ast.While(test, loop.body, [])])


def in_runs(loop: ast.For | ast.While, kind: StructType, query: str, target: str) -> list[ast.stmt]:
    """A loop over a query whose items come in runs, as a loop over these, and one in it."""
    assert kind.in_runs is not None
    following, item = kind.in_runs
    where = f"{loop.lineno}.{loop.col_offset}"  # no name of the user's has a space
    slot, left = f" slot {where}", f" left {where}"
    leaving = _Leaving(left)
    body = leaving.of(loop.body)
    taken: list[ast.stmt] = [_set(target, _call(item, _name(query), _name(slot)))]
    before: list[ast.stmt] = []
    after: list[ast.stmt] = []
    if leaving.was_met:
        taken.append(_set(_part(query, "slot", ast.Store()), ast.BinOp(_name(slot), ast.Add(), ast.Constant(1))))
        before.append(_set(left, ast.Constant(False)))
        after.append(ast.If(_name(left), [ast.Break()], []))
    after.append(_set(_part(query, "slot", ast.Store()), _part(query, "end")))
    bounds = _call(range, _call(coherent, _part(query, "slot")), _part(query, "end"))
    inner = ast.For(ast.Name(slot, ast.Store()), bounds, [*taken, *body], [])
    return _at(loop, [*before, ast.While(_call(following, _name(query)), [inner, *after], [])])


def uses(loop: ast.For | ast.While, query: str) -> list[ast.Name]:
    """Where the body of a loop over a query names it, too."""
    inner = (n for statement in loop.body for n in nodes_in(statement))
    return [n for n in inner if isinstance(n, ast.Name) and n.id == query]


class _Leaving:
    """Gives statements in which what breaks the loop around them says so."""

    def __init__(self, left: str):
        self.left = left
        self.was_met = False

    def of(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, ast.Break):
                self.was_met = True
                made += _at(statement, [_set(self.left, ast.Constant(True)), ast.Break()])
            elif isinstance(statement, ast.If):
                arms, last = arms_of(statement)
                orelse = self.of(last)
                for arm in reversed(arms):
                    orelse = [ast.copy_location(ast.If(arm.test, self.of(arm.body), orelse), arm)]
                made += orelse
            else:
                made.append(statement)
        return made


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _part(name: str, field: str, use: ast.expr_context | None = None) -> ast.expr:
    return ast.Attribute(_name(name), field, use or ast.Load())


def _set(target: str | ast.expr, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(target, ast.Store()) if isinstance(target, str) else target], value)


def _call(function: Any, *args: ast.expr) -> ast.expr:
    return ast.Call(Known(function), list(args), [])


def _at(place: ast.stmt, made: list[ast.stmt]) -> list[ast.stmt]:
    """Statements that stand where another one does."""
    return [ast.fix_missing_locations(ast.copy_location(statement, place)) for statement in made]
