"""`wp.printf` and `print`, whose texts are no values of the kernel language: they read their calls themselves."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.table import Builtin, added
from jwarp.frontend.lowering.expressions import ExpressionLowering
from jwarp.frontend.values.bindings import Binding, Composite, PythonRef, describe
from jwarp.ir.formats import Conversion, conversions
from jwarp.ir.nodes import Op, Operand

# How print shows a number of each kind.
_PLAIN = {"float": "%g", "int": "%d", "uint": "%u", "bool": "%s"}


def _printf(lowering: ExpressionLowering, node: ast.Call) -> Binding:
    """`wp.printf(format, numbers…)`: a line in the format of C."""
    if not node.args:
        raise CompileError("wp.printf needs a format text", lowering.span(node), 'wp.printf("%d\\n", i)')
    place = lowering.span(node.args[0])
    format = text_of(lowering, node.args[0])
    if format is None:
        raise CompileError("the format of wp.printf must be a constant text", place, 'wp.printf("%d\\n", i)')
    try:
        wanted = conversions(_checked(format))
    except ValueError as error:
        raise CompileError(f"wp.printf: {error}", place, "there are %d %i %u %x %X %o %c %f %e %g and %%") from None
    if any(conversion.letter == "s" for conversion in wanted):
        raise CompileError("wp.printf prints numbers, `%s` is for text", place, "put the text into the format")
    if len(wanted) != len(node.args) - 1:
        raise CompileError(
            f"the format of wp.printf asks for {len(wanted)} value(s), {len(node.args) - 1} given",
            lowering.span(node),
            "give one value for each conversion, and write %% for a percent sign",
        )
    values = [_fitting(lowering, c, n) for c, n in zip(wanted, node.args[1:], strict=True)]
    lowering.builder.append(Op("print", tuple(values), format, None, lowering.span(node)))
    return ()


def _print_values(lowering: ExpressionLowering, node: ast.Call) -> Binding:
    """`print(values…)`: texts, numbers, vectors and matrices on a line, as Warp shows them."""
    shown: list[str] = []
    values: list[Operand] = []
    for arg in node.args:
        text = text_of(lowering, arg)
        if text is not None:
            try:
                shown.append(_checked(text).replace("%", "%%"))
            except ValueError as error:
                raise CompileError(f"print: {error}", lowering.span(arg)) from None
            continue
        binding = lowering.expression(arg)
        if isinstance(binding, Composite):
            rows = binding.rows
            shown.append("\n".join("".join(f"{_PLAIN[item.type.kind]} " for item in row) for row in rows))
            values += binding.items
        else:
            value = lowering.scalar(binding, lowering.span(arg))
            shown.append(_PLAIN[value.type.kind])
            values.append(value)
    lowering.builder.append(Op("print", tuple(values), " ".join(shown) + "\n", None, lowering.span(node)))
    return ()


def text_of(lowering: ExpressionLowering, node: ast.expr) -> str | None:
    """The constant text that `node` is, written out or by name; else None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    binding = lowering.expression(node)
    return binding.object if isinstance(binding, PythonRef) and isinstance(binding.object, str) else None


def _checked(text: str) -> str:
    if "\0" in text:
        raise ValueError("a text ends at its zero character, which cannot be printed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text has half of a surrogate pair") from None
    return text


def _fitting(lowering: ExpressionLowering, conversion: Conversion, node: ast.expr) -> Operand:
    binding, span = lowering.expression(node), lowering.span(node)
    if isinstance(binding, Composite):
        raise KernelTypeError(
            f"wp.printf prints scalars, this is {describe(binding)}", span, "give its components, or use print(…)"
        )
    value = lowering.scalar(binding, span)
    if not conversion.takes(value.type):
        is_float = conversion.letter in "eEfFgG"
        raise KernelTypeError(
            f"`%{conversion.options}{conversion.letter}` prints {'a float' if is_float else 'an integer'},"
            f" the value is {value.type}",
            span,
            f"convert it: {'float' if is_float else 'int'}(…), or write {_PLAIN[value.type.kind].replace('s', 'd')}",
        )
    return value


def _not_called(caller: Any, args: list[Any], spans: list[Span], span: Span) -> Binding:
    raise AssertionError("texts are read from the call itself")


@dataclass(frozen=True, eq=False, repr=False)
class PrintBuiltin(Builtin):
    """A function that takes texts, which are no values: `lines` lowers the call."""

    lines: Callable[[ExpressionLowering, ast.Call], Binding] = _printf


printf = added(
    PrintBuiltin(
        "printf(fmt: str, *args: Any) -> None",
        """Write text to the standard output for each thread, formatted as in C.

        `fmt` is a constant text with %d %i %u %x %X %o %c %f %e %g and %%; there is one number for each.

        Raises:
            CompileError: the format is not constant, or asks for another number of values.
            KernelTypeError: a value is no number, or of the wrong kind.""",
        _not_called,
        lines=_printf,
    )
)
print = added(
    PrintBuiltin(
        "print(*values: Any) -> None",
        "Write a line with texts, numbers, vectors and matrices to the standard output for each thread.",
        _not_called,
        lines=_print_values,
    )
)
