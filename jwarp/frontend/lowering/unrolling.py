"""Reads the body of a loop over constants once for each iteration, where that is short or `wp.static` asks for it."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator

from jwarp.config import Settings
from jwarp.errors import CompileError
from jwarp.frontend.builtins.control import static
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.control_flow import branch, lower_statements, not_jumped
from jwarp.frontend.lowering.long_nests import indexes_components, stays_loop
from jwarp.frontend.lowering.names import assign
from jwarp.frontend.lowering.rules import lower
from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.source import may_jump, place_of
from jwarp.frontend.values.bindings import Number, PythonRef
from jwarp.ir.builder import FALSE, TRUE
from jwarp.ir.nodes import Const
from jwarp.types import ScalarType

# Unrolling stops where it would read more than this many syntax nodes.
MAX_UNROLLED_NODES = 4_000
# Loops over the components of long vectors and matrices are unrolled up to this many iterations and syntax nodes, since
# an index that is not constant is a choice among all components.
MOST_COMPONENTS, MAX_COMPONENT_NODES = 64, 24_000


def unroll(ctx: Context, loop: ast.For, name: str, iterations: range, kind: ScalarType | None) -> bool:
    """Read the body once for each value of the variable, if it is worth it."""
    nodes = [n for s in loop.body for n in nodes_in(s)]
    # Jumps make a loop of its own of what need not be unrolled.
    jumps = any(may_jump(s) for s in loop.body)
    must = bool(_statics_of(ctx, loop, name)) or (not jumps and _has_static_of_iteration(ctx, loop))
    count = max(0, -((iterations.start - iterations.stop) // iterations.step))  # len() ends at 2^63
    copies = len(nodes) * count * ctx.unrolled
    fits = count <= ctx.max_unroll and copies <= MAX_UNROLLED_NODES
    if not fits and not jumps and ctx.max_unroll >= Settings.max_unroll and copies <= MAX_COMPONENT_NODES:
        fits = count <= MOST_COMPONENTS and indexes_components(ctx, loop, name)
    if not must and fits and not jumps and stays_loop(ctx, loop, name, count):
        return False
    if not (must or (fits and not jumps)):
        return False
    if must and copies > 10 * MAX_UNROLLED_NODES:
        raise CompileError(f"a loop of {count} iterations is too long to unroll", ctx.span(loop))
    outer, ctx.unrolled = ctx.unrolled, ctx.unrolled * max(1, count)
    flags = {flag: ctx.frame.env.pop(flag, None) for flag in ("$break", "$continue")}
    around, ctx.frame.loops = ctx.frame.loops, ctx.frame.loops | {name}
    _read_iterations(ctx, loop, name, iterations, kind)
    ctx.frame.loops = around
    for flag, value in flags.items():
        ctx.frame.env.pop(flag, None)
        if value is not None:
            ctx.frame.env[flag] = value
    ctx.unrolled = outer
    return True


def _read_iterations(ctx: Context, loop: ast.For, name: str, iterations: range, kind: ScalarType | None) -> None:
    """Read the body for each of the iterations, as long as no jump has left the loop."""
    for position, k in enumerate(iterations):
        number = Number(k) if kind is None else Const(kind, k)
        ctx.frame.env["$break"] = ctx.frame.env["$continue"] = FALSE
        assign(ctx, name, number, ctx.span(loop.target))
        ctx.frame.statics[name] = k
        lower_statements(ctx, loop.body)
        stays = not_jumped(ctx, ("$return", "$break"), ctx.span(loop))
        if stays != TRUE:  # decided when the kernel runs, or known to have left
            rest = functools.partial(_read_iterations, ctx, loop, name, iterations[position + 1 :], kind)
            return branch(ctx, stays, rest, lambda: None, ctx.span(loop))
    return None


def _has_static_of_iteration(ctx: Context, loop: ast.For) -> bool:
    """True if some `wp.static` reads a variable that an iteration assigns, loops inside excepted."""
    if not ctx.frame.source.names_static:
        return False
    own = {n.target for s in loop.body for n in nodes_in(s) if isinstance(n, ast.For)}
    stores = (n for s in loop.body for n in nodes_in(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    changed = {n.id for n in stores if n not in own}
    statics = (n for s in loop.body for n in nodes_in(s) if _is_static(ctx, n))
    return any(isinstance(n, ast.Name) and n.id in changed for static in statics for n in nodes_in(static))


def check_not_static(ctx: Context, loop: ast.For, name: str) -> None:
    """Refuse `wp.static` of the variable of a loop whose bounds are not constants."""
    for node in _statics_of(ctx, loop, name):
        raise CompileError(
            f"wp.static needs the value of `{name}`, whose loop cannot be unrolled: its bounds are not constants",
            ctx.span(node),
            f"compute with `{name}` without wp.static, or loop over constants",
        )


def _statics_of(ctx: Context, loop: ast.For, name: str) -> list[ast.AST]:
    """The `wp.static` expressions of a loop's body that read its variable `name`."""
    if not ctx.frame.source.names_static:  # most do not
        return []
    inside = itertools.chain.from_iterable(_walk_unshadowed(s, name) for s in loop.body)
    statics = [node for node in inside if _is_static(ctx, node)]
    return [s for s in statics if any(isinstance(n, ast.Name) and n.id == name for n in nodes_in(s))]


def _is_static(ctx: Context, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return False
    if place_of(node) in ctx.frame.source.statics:  # a constant, which the decorator evaluated
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
    if name != "static":
        return False
    callee = lower(ctx, node.func)
    return isinstance(callee, PythonRef) and callee.object is static


def _walk_unshadowed(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """The nodes inside `node`, except for those in loops that redefine the variable `name`."""
    yield node
    inside = ast.iter_child_nodes(node)
    if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == name:
        inside = iter([node.iter])
    for child in inside:
        yield from _walk_unshadowed(child, name)
