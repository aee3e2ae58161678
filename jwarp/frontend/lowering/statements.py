"""Lowers the statements that are neither assignments nor control flow, and names those that kernels do not have."""

from __future__ import annotations

import ast

from jwarp.errors import CompileError
from jwarp.frontend.context import Context
from jwarp.frontend.lowering.control_flow import lower_statements
from jwarp.frontend.lowering.rules import lower, lower_condition, refuse, statement
from jwarp.frontend.syntax.constructs import DEFAULT_WAY_OUT


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
    if isinstance(value, ast.Constant) and (
        isinstance(value.value, str) or value.value is ...
    ):  # a docstring, or no body
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


# Those that kernels do not have: what they are called, and what to write instead.
refuse(
    {
        "AsyncFor": ("`async for`", DEFAULT_WAY_OUT),
        "AsyncFunctionDef": ("`async def`", DEFAULT_WAY_OUT),
        "AsyncWith": ("`async with`", DEFAULT_WAY_OUT),
        "ClassDef": ("a class inside a kernel", "do it outside the kernel"),
        "Delete": ("`del`", "leave it out: variables need no deleting"),
        "FunctionDef": ("a function inside a kernel", "define it outside, under @wp.func"),
        "Global": ("`global`", "kernels can read outer numbers, but only change array parameters"),
        "Import": ("`import` inside a kernel", "import at the top of the file"),
        "ImportFrom": ("`import` inside a kernel", "import at the top of the file"),
        "Match": ("`match`", "write if and elif"),
        "Nonlocal": ("`nonlocal`", "kernels can read outer numbers, but only change array parameters"),
        "Raise": ("`raise`", "write an error code to an array, or use assert"),
        "Try": ("`try`", "test the condition with an if"),
        "TryStar": ("`try`", "test the condition with an if"),
        "With": ("`with`", "do it outside the kernel"),
    }
)
