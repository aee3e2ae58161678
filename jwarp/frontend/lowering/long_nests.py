"""Which short loops over constants stay loops: nests of much code that index nothing but arrays and a few components.

Reading them once for each iteration costs as many times the time to compile, and the code is no faster for it.
"""

from __future__ import annotations

import ast
import contextlib

from jwarp.errors import CompileError, KernelTypeError
from jwarp.frontend.context import Context
from jwarp.frontend.func import Func
from jwarp.frontend.lowering.rules import lower
from jwarp.frontend.syntax.flow import read_before_set
from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.source import branches_of, count_loads, partly_assigned_names, tests_of
from jwarp.frontend.values.bindings import ArrayRef, Composite, Number, PythonRef, Value

# A nest whose copies would have more syntax nodes is long. In a long one, a loop with fewer is unrolled still.
LONG_NEST, SHORT_LOOP = 2_000, 100
# Of up to so many components, a choice by an index takes less time than what is done with it.
MAX_CHOICES = 16


def stays_loop(ctx: Context, loop: ast.For, name: str, count: int) -> bool:
    """True if a loop of `count` iterations that could be unrolled is better left a loop."""
    if count < 2 or _nodes(loop.body) * count <= (SHORT_LOOP if ctx.frame.in_nest else LONG_NEST):
        return False
    if ctx.block_dim or ctx.debug or ctx.only_scalars or ctx.in_gradient or ctx.in_lanes:
        return False
    return _carries_sums_alone(ctx, loop) and _indexes_little(ctx, loop, name)


def _nodes(statements: list[ast.stmt]) -> int:
    """How many syntax nodes are read where all loops over numbers are unrolled."""
    found = 0
    for statement in statements:
        if isinstance(statement, ast.For):
            found += _nodes(statement.body) * _iterations(statement)
        elif isinstance(statement, ast.While):
            found += len(nodes_in(statement.test)) + _nodes([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.If):
            found += sum(len(nodes_in(test)) for test in tests_of(statement)) + sum(map(_nodes, branches_of(statement)))
        else:
            found += len(nodes_in(statement))
    return found


def _iterations(loop: ast.For) -> int:
    """The iterations of a loop over a range between numbers; one of others."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[*bounds], keywords=[]) if 1 <= len(bounds) <= 3:
            numbers = [b.value for b in bounds if isinstance(b, ast.Constant) and type(b.value) is int]
            if len(numbers) == len(bounds) and (len(bounds) < 3 or numbers[2]):
                return len(range(*numbers))
    return 1


def _carries_sums_alone(ctx: Context, loop: ast.For) -> bool:
    """True if the loop carries nothing but numbers, vectors and matrices that it adds to."""
    frame, nodes = ctx.frame, nodes_in(loop)
    sums = {
        n.target
        for n in nodes
        if isinstance(n, ast.AugAssign) and isinstance(n.op, (ast.Add, ast.Sub)) and isinstance(n.target, ast.Name)
    }
    targets = {n.target for n in nodes if isinstance(n, ast.For)}
    sets = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n not in targets]
    if any(n not in sums and n.id in frame.env for n in sets):
        return False
    if not all(isinstance(frame.env[n.id], (Value, Composite)) for n in sets if n.id in frame.env):
        return False
    inside, new = count_loads([loop]), {n.id for n in sets if n.id not in frame.env}
    if new & read_before_set(loop) or any(frame.loads.get(n, 0) > inside.get(n, 0) for n in new):
        return False
    return all(n in new or isinstance(frame.env.get(n), ArrayRef) for n in partly_assigned_names([loop]))


def _known_in_copies(ctx: Context, loop: ast.For, name: str) -> set[str]:
    """The variables of the loops, and those computed of them alone: numbers in each copy of an unrolled loop."""
    nodes = nodes_in(loop)
    found = {name} | {n.target.id for n in nodes if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    sets = [
        (_names_in(target), _names_in(n.value))
        for n in nodes
        if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and n.value is not None
        for target in (n.targets if isinstance(n, ast.Assign) else [n.target])
    ]

    def is_known(read: str) -> bool:
        if read in stored:
            return read in found
        return isinstance(ctx.frame.env.get(read, Number(0)), (Number, PythonRef))

    before = 0
    while len(found) > before:
        before = len(found)
        for targets, read in sets:
            if read & found and all(map(is_known, read)):
                found |= targets
    return found


def _names_in(tree: ast.AST) -> set[str]:
    """The names in a tree."""
    return {n.id for n in nodes_in(tree) if isinstance(n, ast.Name)}


def indexes_components(ctx: Context, loop: ast.For, name: str) -> bool:
    """True if the loop variables index vectors or matrices of many components."""
    variables = _known_in_copies(ctx, loop, name)
    for node in nodes_in(loop):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and not variables.isdisjoint(_names_in(node.slice))
        ):
            owner = ctx.frame.env.get(node.value.id)
            with contextlib.suppress(CompileError, KernelTypeError):  # what it says comes where the name is read
                owner = lower(ctx, node.value) if owner is None else owner
            if isinstance(owner, Composite) and owner.type.size > MAX_CHOICES:
                return True
    return False


def _indexes_little(ctx: Context, loop: ast.For, name: str) -> bool:
    """True if the loop variables index only arrays, and vectors or matrices of few components.

    Passing one to a function of the user's counts as other use, since that might index anything."""
    variables = _known_in_copies(ctx, loop, name)

    def depends(tree: ast.AST) -> bool:
        return not variables.isdisjoint(_names_in(tree))

    for node in nodes_in(loop):
        if isinstance(node, (ast.While, ast.Match, ast.Starred)):
            return False
        if isinstance(node, ast.Subscript) and depends(node.slice):
            owner = ctx.frame.env.get(node.value.id) if isinstance(node.value, ast.Name) else None
            few = isinstance(owner, Composite) and owner.type.size <= MAX_CHOICES and isinstance(node.ctx, ast.Load)
            if not (few or isinstance(owner, ArrayRef)):
                return False
        if isinstance(node, ast.Call) and any(map(depends, (*node.args, *node.keywords))):
            if node.keywords or not isinstance(node.func, (ast.Name, ast.Attribute)):
                return False
            callee = lower(ctx, node.func)
            if not isinstance(callee, PythonRef) or isinstance(callee.object, Func):
                return False
    return True
