"""`wp.printf` and `print`, among whose arguments are texts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.table import Reading, define
from jwarp.frontend.context import Context
from jwarp.frontend.tiles import subscripts
from jwarp.frontend.values.bindings import Binding, Composite, PythonRef, TileRef, describe
from jwarp.ir.formats import BlockText, Conversion, conversions
from jwarp.ir.nodes import Op, Operand
from jwarp.types import PLAIN, CompositeType, ScalarType

MAX_PRINTED = 256  # elements of a tile

# How print shows a number of each kind.
_PLAIN = {"float": "%g", "int": "%d", "uint": "%u", "bool": "%s"}


def _printf(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    """`wp.printf(format, numbers…)`: a line in the format of C."""
    if not args:
        raise CompileError("wp.printf needs a format text", span, 'wp.printf("%d\\n", i)')
    format, place = _text(args[0]), spans[0]
    if format is None:
        raise CompileError("the format of wp.printf must be a constant text", place, 'wp.printf("%d\\n", i)')
    try:
        wanted = conversions(_checked(format))
    except ValueError as error:
        raise CompileError(f"wp.printf: {error}", place, "there are %d %i %u %x %X %o %c %f %e %g and %%") from None
    if any(conversion.letter == "s" for conversion in wanted):
        raise CompileError("wp.printf prints numbers, `%s` is for text", place, "put the text into the format")
    if len(wanted) != len(args) - 1:
        raise CompileError(
            f"the format of wp.printf asks for {len(wanted)} value(s), {len(args) - 1} given",
            span,
            "give one value for each conversion, and write %% for a percent sign",
        )
    values = [_fitting(ctx, *row) for row in zip(wanted, args[1:], spans[1:], strict=True)]
    ctx.builder.append(Op("print", tuple(values), format, None, span))
    return ()


def _print_values(ctx: Context, args: list[Binding], spans: list[Span], span: Span) -> Binding:
    """`print(values…)`: texts, numbers, vectors and matrices on a line, as Warp shows them."""
    shown: list[str] = []
    values: list[Operand] = []
    for binding, place in zip(args, spans, strict=True):
        text = _text(binding)
        if text is not None:
            try:
                shown.append(_checked(text).replace("%", "%%"))
            except ValueError as error:
                raise CompileError(f"print: {error}", place) from None
        elif isinstance(binding, Composite):
            shown.append(_shown(binding))
            values += binding.items
        elif isinstance(binding, TileRef):
            elements = _elements(ctx, binding, place)
            extents = ",".join(map(str, binding.shape))
            shown.append(f"{_rows(iter(elements), binding.shape)} = tile(shape=({extents}))")
            values += [item for element in elements for item in ctx.scalars(element, place)]
        else:
            value = ctx.scalar(binding, place)
            shown.append(_PLAIN[value.type.kind])
            values.append(value)
    text = " ".join(shown) + "\n"
    is_of_block = any(isinstance(binding, TileRef) for binding in args)
    ctx.builder.append(Op("print", tuple(values), BlockText(text) if is_of_block else text, None, span))
    return ()


def _elements(ctx: Context, tile: TileRef, span: Span) -> list[Binding]:
    """The elements of a tile, row by row.

    Raises:
        KernelTypeError: they are too many, or structs.
    """
    if not isinstance(tile.dtype, (ScalarType, CompositeType)):
        raise KernelTypeError(f"print shows no {describe(tile)}", span, "print fields of its elements")
    if math.prod(tile.shape) > MAX_PRINTED:
        raise KernelTypeError(
            f"{describe(tile)} has more than the {MAX_PRINTED} elements that a print shows", span, "print a part: t[:8]"
        )
    places = itertools.product(*map(range, tile.shape))
    return [ctx.tiles.element(subscripts.indexed(ctx, tile, place, span), span) for place in places]


def _rows(elements: Iterator[Any], shape: tuple[int, ...], depth: int = 1) -> str:
    """The format of a tile: brackets around each axis, a line for each row."""
    if len(shape) < 2:
        texts = (
            _shown(x) if isinstance(x, Composite) else _PLAIN[x.type.kind] for x in itertools.islice(elements, *shape)
        )
        return f"[{' '.join(texts)}]"
    apart = "\n" * (len(shape) - 1) + " " * depth
    return f"[{apart.join(_rows(elements, shape[1:], depth + 1) for _ in range(shape[0]))}]"


def _shown(value: Composite) -> str:
    """The format of a composite: a line for each row, and the parts of a transform in parentheses."""
    formats = [_PLAIN[item.type.kind] for item in value.items]
    if value.type.kind is PLAIN[len(value.type.shape)]:
        return "\n".join("".join(f"{_PLAIN[item.type.kind]} " for item in row) for row in value.rows)
    if not value.type.kind.parts:
        return " ".join(formats)
    parts = (formats[part.first : part.first + part.extent] for _, part in value.type.kind.parts)
    return " ".join(f"({' '.join(part)})" for part in parts)


def _text(binding: Binding) -> str | None:
    """The constant text that an argument is; else None."""
    return binding.object if isinstance(binding, PythonRef) and isinstance(binding.object, str) else None


def _checked(text: str) -> str:
    if "\0" in text:
        raise ValueError("a text ends at its zero character, which cannot be printed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("the text has half of a surrogate pair") from None
    return text


def _fitting(ctx: Context, conversion: Conversion, binding: Binding, span: Span) -> Operand:
    """A value that is of the kind that a conversion of the format prints."""
    if isinstance(binding, Composite):
        raise KernelTypeError(
            f"wp.printf prints scalars, this is {describe(binding)}", span, "give its components, or use print(…)"
        )
    value = ctx.scalar(binding, span)
    if not conversion.takes(value.type):
        is_float = conversion.letter in "eEfFgG"
        raise KernelTypeError(
            f"`%{conversion.options}{conversion.letter}` prints {'a float' if is_float else 'an integer'},"
            f" the value is {value.type}",
            span,
            f"convert it: {'float' if is_float else 'int'}(…), or write {_PLAIN[value.type.kind].replace('s', 'd')}",
        )
    return value


printf = define(
    "printf(fmt: str, *args: Any) -> None",
    """Print to the standard output for each thread, formatted as in C.

    `fmt` is a constant string with %d %i %u %x %X %o %c %f %e %g and %%; there is one number for each.

    Raises:
        CompileError: the format is not constant, or asks for another number of values.
        KernelTypeError: a value is no number, or of the wrong kind.""",
    _printf,
    reading=Reading(names=False, texts=1),
)
print = define(
    "print(*values: Any) -> None",
    """Print a line with strings, numbers, vectors and matrices to the standard output for each thread.

    A tile is written once for its block, as `[1 2 3] = tile(shape=(3))`, of at most 256 elements.""",
    _print_values,
    reading=Reading(names=False, constants=(str,)),
)
