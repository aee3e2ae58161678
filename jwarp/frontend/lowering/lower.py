"""Lowers a whole kernel, or a scalar function of the library, from its syntax tree to IR."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from jwarp.errors import CompileError, KernelWarning
from jwarp.frontend.context import Context, Frame, Functions
from jwarp.frontend.func import Func
from jwarp.frontend.lowering import (
    assignments,
    attributes,
    calls,
    conditions,
    control_flow,
    host_calls,  # noqa: F401 lets functions be called outside kernels
    loops,
    names,
    operators,
    statements,
    subscripts,
)
from jwarp.frontend.lowering.control_flow import lower_statements
from jwarp.frontend.lowering.ids import as_array, refuse_writes
from jwarp.frontend.lowering.indexed_composites import in_memory
from jwarp.frontend.lowering.inlining import result_of
from jwarp.frontend.lowering.memoised_calls import Unread
from jwarp.frontend.syntax.source import Source
from jwarp.frontend.tiles.index_tests import drop_sign_tests
from jwarp.frontend.values import structs
from jwarp.frontend.values.bindings import StructValue
from jwarp.ir.functions import settled_functions
from jwarp.ir.nodes import Block, Kernel, Op, Param, Value, blocks
from jwarp.types import Bound, ScalarType
from jwarp.types.all_memory import MEMORY

# The files whose rules make up the language.
RULES = (assignments, attributes, calls, conditions, control_flow, loops, names, operators, statements, subscripts)

# Loops over the coefficients of a polynomial.
MAX_LIBRARY_UNROLL = 40

# Later stages walk the IR recursively, and Python's stack is shared with whatever calls a launch.
MAX_NESTING = 120
# Functions that call each other in a row.
MAX_CALLS = 10_000

_NEST_LESS = "use continue, return or break, or elif, which do not nest, or look values up in an array"


def lower_func(function: Func, types: tuple[ScalarType, ...]) -> tuple[tuple[Value, ...], Block]:
    """The IR of a scalar function, as its parameters and the block that yields its result."""
    params = tuple(Value(t, name) for t, name in zip(types, function.signature.parameters, strict=True))
    frame = Frame(function.source, env={param.name: param for param in params})
    ctx = Context(frame, calls.apply, MAX_LIBRARY_UNROLL)
    ctx.only_scalars = True
    ctx.stack.append(function)
    lower_statements(ctx, function.source.tree.body)
    span = ctx.span(function.source.tree)
    result = ctx.scalar(result_of(ctx, function, span), span)
    assert not ctx.locals  # they would be the kernel's, which is another one for each use
    return params, Block(tuple(ctx.builder.nodes), (result,))


def _check_nesting(kernel: Kernel) -> None:
    """Refuse a kernel that nests deeper than later stages can go, where its functions are where they are called."""
    depths: list[int] = []
    for function in kernel.functions:
        depths.append(_depth(function.body, kernel.name, depths, 0))
    _depth(kernel.body, kernel.name, depths, 0)


def _depth(block: Block, name: str, functions: Sequence[int], around: int) -> int:
    """How deep a block nests, of which there are so many `around`; calls nest as deep as the `functions`."""
    deepest = 0
    for node in block.nodes:
        inside = functions[node.number] if isinstance(node, Op) and node.row.is_call else 0
        for inner in blocks(node):
            if around < MAX_NESTING:
                inside = max(inside, 1 + _depth(inner, name, functions, around + 1))
            else:
                inside = 1
        if around + inside > MAX_NESTING:
            raise CompileError(
                f"`{name}` has branches and loops nested more than {MAX_NESTING} deep",
                node.span,
                _NEST_LESS,
            )
        deepest = max(deepest, inside)
    return deepest


def _read(started: Callable[[], Context], source: Source) -> Context:
    """The context in which the body of `source` has been read, from one of those that `started` gives.

    Functions whose calls would nest too deep are read before it, so that it only copies them.
    """
    functions, waiting = Functions(), list[Unread]()
    left_out, is_counted = False, True
    while True:
        ctx = started()
        ctx.functions = functions
        try:
            if waiting:
                ctx.stack += waiting[-1].stack
                ctx.most_calls += len(ctx.stack)
                calls.call_function(ctx, waiting[-1].function, waiting[-1].given)
            else:
                lower_statements(ctx, source.tree.body)
        except Unread as call:
            waiting.append(call)
            if len(call.stack) > MAX_CALLS:
                raise CompileError(
                    f"`{source.name}` has calls of functions nested more than {MAX_CALLS} deep", call.given.span
                ) from None
            continue
        left_out |= ctx.left_out
        is_counted &= ctx.is_counted
        if not waiting:
            ctx.left_out, ctx.is_counted = left_out, is_counted
            return ctx
        waiting.pop()


Warned = tuple[str, str, int]  # what is said, of which file and line


class Read(NamedTuple):
    """A kernel that was read, and its warnings; these are None where they depend on more than `content` counts.

    `left_out` is true if parts for derivatives are missing; `digest` is then that of the source that was read."""

    kernel: Kernel
    said: list[Warned] | None
    left_out: bool = False
    digest: str = ""


def warn(said: Iterable[Warned]) -> None:
    """Say what the author of a kernel is warned of."""
    for message, file, line in said:
        warnings.warn_explicit(message, KernelWarning, file, line)


def lower_kernel_source(
    source: Source,
    signature: Sequence[Any],
    params: tuple[Param, ...],
    max_unroll: int,
    debug: bool,
    block_dim: int = 0,
    only_values: bool = False,
    *,
    variables: Bound | None = None,
    modules: dict[ModuleType, Any] | None = None,
) -> Read:
    """The IR of the kernel that `source` is, with the parameters `signature`, in the IR `params`.

    Type variables in it stand for the types in `variables`. `modules` gets those that the code names something of, each
    with its `__spec__`, which is another one after it is reloaded. With a `block_dim`, it is what one thread of a block
    does; `blocks.by_blocks` makes IR of that. With `only_values`, what is for derivatives may be left out.

    Raises:
        UsesTiles: the kernel uses tiles, and there is no `block_dim`.
    """
    span = source.span(source.tree)

    def started() -> Context:
        frame = Frame(source, is_kernel=True, variables=variables or {})
        ctx = Context(frame, calls.apply, max_unroll, len(params), debug, block_dim)
        ctx.modules, ctx.only_values = {} if modules is None else modules, only_values
        parts = iter(enumerate(params))
        for argument in signature:
            binding = structs.bind_parameter(ctx.parameter, argument.type, parts, span)
            if argument.name == MEMORY:
                assert isinstance(binding, StructValue)
                ctx.memory = binding
                continue
            if isinstance(binding, StructValue) and binding.type.table_of is not None:
                binding = as_array(ctx, argument.name, binding)
            ctx.frame.env[argument.name] = in_memory(ctx, argument.name, binding, span)
        return ctx

    try:
        ctx = _read(started, source)
    except RecursionError:
        raise CompileError(f"`{source.name}` is nested too deeply", span, _NEST_LESS) from None
    said: list[Warned] = []
    for where, name in ctx.warnings:
        shown = name if name.startswith("the ") else f"`{name}`"
        said.append((f"{where}: {shown} may have no value here; it then reads as zero", where.file, where.line))
    warn(said)
    body = Block(tuple(ctx.builder.nodes))
    refuse_writes(ctx, body)
    arity, gradients = max(1, ctx.tid_arity), tuple(ctx.gradients)
    made = Kernel(source.name, params, arity, body, span, tuple(ctx.locals), gradients=gradients,
                  functions=tuple(ctx.functions.made))  # fmt: skip
    _check_nesting(made)
    made = settled_functions(made)
    kernel = drop_sign_tests(made, ctx.tiles.sign_tests)
    return Read(kernel, said if ctx.is_counted else None, ctx.left_out)
