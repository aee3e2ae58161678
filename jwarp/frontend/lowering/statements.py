"""Lowers the statements that are neither assignments nor control flow."""

from __future__ import annotations

import ast

from jwarp.errors import CompileError
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.control_flow import lower_statements
from jwarp.frontend.lowering.rules import lower, lower_condition, statement


@statement(ast.Pass)
def pass_(ctx: Context, node: ast.Pass) -> None:
    """Nothing."""


@statement(ast.Expr)
def expression_statement(ctx: Context, node: ast.Expr) -> None:
    """A call, for what it does."""
    value = node.value
    if isinstance(value, ast.IfExp):  # for what its calls do
        choice = ast.If(value.test, [ast.Expr(value.body)], [ast.Expr(value.orelse)])
        lower_statements(ctx, [ast.fix_missing_locations(ast.copy_location(choice, node))])
        return
    if isinstance(value, ast.Constant) and isinstance(value.value, str):  # a docstring
        return
    if not isinstance(value, ast.Constant):
        lower(ctx, value)  # what is wrong inside matters more
    if not isinstance(value, ast.Call):
        raise CompileError("this expression does nothing", ctx.span(node), "assign its value to a name")


@statement(ast.Assert)
def assertion(ctx: Context, node: ast.Assert) -> None:
    """A condition that debug mode checks."""
    message = node.msg
    shown = str(message.value) if isinstance(message, ast.Constant) else ast.unparse(node.test)
    holds = lower_condition(ctx, node.test)
    if ctx.debug:
        ctx.builder.check(holds, f"assertion failed: {shown}")
