"""The tables of rules: what each Python expression and statement becomes in a kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from jwarp.errors import CompileError
from jwarp.frontend.context import Context
from jwarp.frontend.syntax.constructs import CONSTRUCTS, DEFAULT_WAY_OUT
from jwarp.frontend.values.bindings import Binding
from jwarp.ir.nodes import Operand

Node = TypeVar("Node", bound=ast.AST)
Result = TypeVar("Result")
Rule = Callable[[Context, Node], Result]

EXPRESSIONS: dict[type[ast.expr], Rule[Any, Binding]] = {}
STATEMENTS: dict[type[ast.stmt], Rule[Any, None]] = {}

# Constructs that Python has and kernels lack, by the name of the syntax node: a name, and what to write instead.
REFUSED: dict[str, tuple[str, str]] = {**CONSTRUCTS}


def expression(kind: type[Node]) -> Callable[[Rule[Node, Binding]], Rule[Node, Binding]]:
    """Make the function below the rule for expressions of `kind`: it gives what such a one stands for."""

    def entered(rule: Rule[Node, Binding]) -> Rule[Node, Binding]:
        EXPRESSIONS[kind] = rule  # type: ignore[index]
        return rule

    return entered


def statement(kind: type[Node]) -> Callable[[Rule[Node, None]], Rule[Node, None]]:
    """Make the function below the rule for statements of `kind`."""

    def entered(rule: Rule[Node, None]) -> Rule[Node, None]:
        STATEMENTS[kind] = rule  # type: ignore[index]
        return rule

    return entered


def refuse(constructs: Mapping[str, tuple[str, str]]) -> None:
    """Name constructs that kernels do not have, by their syntax nodes, and what to write instead."""
    REFUSED.update(constructs)


def lower(ctx: Context, node: ast.expr) -> Binding:
    """Lower an expression: emit its operations and return its binding.

    Raises:
        CompileError: the language has no such expression.
    """
    rule = EXPRESSIONS.get(type(node))
    if rule is None:
        raise unsupported(ctx, node)
    # As `Context.at` does, which takes longer than lowering most expressions and some statements.
    builder = ctx.builder
    before, builder.span = builder.span, ctx.span(node)
    try:
        return rule(ctx, node)
    finally:
        builder.span = before


def lower_condition(ctx: Context, node: ast.expr) -> Operand:
    """The truth of an expression."""
    return ctx.condition(lower(ctx, node), ctx.span(node))


def lower_statement(ctx: Context, node: ast.stmt) -> None:
    """Append what a statement does.

    Raises:
        CompileError: the language has no such statement.
    """
    rule = STATEMENTS.get(type(node))
    if rule is None:
        raise unsupported(ctx, node)
    builder = ctx.builder
    before, builder.span = builder.span, ctx.span(node)
    try:
        rule(ctx, node)
    finally:
        builder.span = before


def unsupported(ctx: Context, node: ast.AST, construct: type[ast.AST] | None = None) -> CompileError:
    """The error for a Python construct, met at `node`, that kernels do not have."""
    word = (construct or type(node)).__name__
    name, way_out = REFUSED.get(word, (word, DEFAULT_WAY_OUT))
    fault = f"{name} is not part of the kernel language: Construct `ast.{word}` not supported in kernels."
    return CompileError(fault, ctx.span(node), way_out)
