"""Reads functions of the kernel language where they are called, after choosing among overloads."""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jwarp.errors import CompileError, JwarpError, KernelTypeError, Span
from jwarp.frontend.context import Context, Frame
from jwarp.frontend.func import Func
from jwarp.frontend.jax_function import JaxFunction
from jwarp.frontend.lowering import indexed_composites
from jwarp.frontend.lowering.arguments import Arguments
from jwarp.frontend.lowering.control_flow import lower_statements
from jwarp.frontend.lowering.gradients import with_gradient
from jwarp.frontend.lowering.ids import with_objects
from jwarp.frontend.lowering.local_array_copies import arrays_of
from jwarp.frontend.lowering.memoised_calls import Unread, called, kept, kind_of
from jwarp.frontend.lowering.natives import native_result
from jwarp.frontend.lowering.references import leave_references, read_again, reference_targets
from jwarp.frontend.native import NativeFunc
from jwarp.frontend.native_texts.reader import for_processors, why_not
from jwarp.frontend.values.bindings import (
    Binding,
    Stored,
    bind_python,
    describe,
    flatten,
    is_id,
    layout,
    rebuild,
    type_of,
    way_to,
)
from jwarp.frontend.values.cells import holds_tile
from jwarp.ir.builder import FALSE, TRUE, make_block
from jwarp.ir.nodes import Block, If, Node, Op, Value
from jwarp.ir.visit import map_ops
from jwarp.types import Bound, StructType, filled, fits, uint64
from jwarp.types.queries import no_overload

# The folder of the builtins that are written in the kernel language.
_LIBRARY = str(Path(__file__).parents[2] / "lib") + os.sep


def call_function(ctx: Context, function: Func, given: Arguments) -> Binding:
    """Inline a call of a function: read its body at the call."""
    span = given.span
    if ctx.tables or ctx.memory is not None:
        given = with_objects(ctx, function, given)
    function = overload_of(function, given, may_look_up=ctx.memory is None, stack=ctx.stack)
    if function in ctx.stack:
        raise CompileError(f"`{function.name}` calls itself; recursion is not supported", span, "write a loop")
    bound: Bound = {}
    arguments = indexed_composites.borrowed(ctx, function, _bound(function, given, bound), span)
    call = kind_of(ctx, function, arguments)
    if call is not None and (known := called(ctx, call, span)) is not None:
        return known
    if call is not None and call.kind not in ctx.functions.known and len(ctx.stack) >= ctx.most_calls:
        raise Unread(function, given, ctx.stack)
    targets = reference_targets(ctx, function, given, arguments)
    read_again(ctx, function, targets, arguments)
    borrowed = {name: binding.array for name, binding in arguments.items() if type(binding) is Stored}
    caller, ctx.frame = (
        ctx.frame,
        Frame(
            function.source, env=dict(arguments), variables=bound, memory=borrowed, given=arrays_of(arguments.values())
        ),
    )
    ctx.frame.borrowed, ctx.borrowed = frozenset(array.index for array in borrowed.values()), frozenset()
    ctx.stack.append(function)
    nodes, start = ctx.builder.nodes, len(ctx.builder.nodes)
    only_scalars, trials = ctx.only_scalars, ctx.trials
    has_own_derivative = function.gradient is not None or function.replay is not None
    ctx.only_scalars |= has_own_derivative or isinstance(function, NativeFunc)
    before, ctx.warnings = ctx.warnings, {}
    if call is not None and call.kind not in ctx.functions.known:
        ctx.trials = 0  # what is kept of it is for later calls, too, and those need the whole of it
    try:
        for name, binding in ctx.frame.env.items():
            ctx.frame.env[name] = indexed_composites.in_memory(ctx, name, binding, span)
        if isinstance(function, NativeFunc):
            result = native_result(ctx, function, span)
        else:
            lower_statements(ctx, function.source.tree.body)
            result = result_of(ctx, function, span)
        after = ctx.frame.env
        ctx.free += [array for array in ctx.frame.memory.values() if array.index not in ctx.frame.borrowed]
    except JwarpError as error:
        raise _inside(error, function, span) from None
    finally:
        ctx.stack.pop()
        ctx.frame, ctx.only_scalars, ctx.trials = caller, only_scalars, trials
        said, ctx.warnings = ctx.warnings, {**before, **ctx.warnings}
    leave_references(ctx, function, targets, arguments, after)
    if call is not None:
        return kept(ctx, call, start, result, said, span)
    if ctx.in_gradient:
        return result
    body = nodes[start:]
    if function.gradient is not None:
        if any(map(holds_tile, (*arguments.values(), result))):
            raise CompileError(f"`{function.name}` has a gradient of its own, so it cannot take or give tiles", span)
        result = with_gradient(ctx, function, arguments, result, body, span)
    return result if function.replay is None else _with_replay(ctx, function.replay, arguments, result, span)


def call_jax_function(ctx: Context, function: JaxFunction, given: Arguments) -> Binding:
    """Lower a call of a function of jax.numpy."""
    span = given.span
    bound = _bound(function, given, {})
    own = function.signature.bind(*given.values, **given.named).arguments  # without defaults, which Python fills in
    arguments = {name: indexed_composites.as_value(ctx, bound[name], span) for name in own}
    try:
        return function.lowered(ctx, arguments, span)
    except JwarpError as error:
        raise (error if error.diagnostic.span == span else _inside(error, function, span)) from None


def call_native(ctx: Context, function: NativeFunc, given: Arguments) -> Binding:
    """Lower a call of a native function: on GPUs the function itself, elsewhere its counterpart."""
    span, cpu = given.span, for_processors(function)
    is_copied = bool(function.references) and function.cpu is None
    if ctx.block_dim:
        if cpu is None:
            raise CompileError(
                f"`{function.name}` is native code, which kernels with tiles or barriers cannot call, as its text has "
                f"{why_not(function)}",
                span,
                "give it the same in the kernel language: @wp.func_native(snippet, cpu=f) with a @wp.func f",
            )
        return _with_references(ctx, function, cpu, given) if is_copied else call_function(ctx, cpu, given)
    if cpu is None:
        return call_function(ctx, function, given)
    if function.references and function.cpu is not None:
        raise CompileError(
            f"`{function.name}` has both references and `cpu=`", span, "return the values instead of wp.ref parameters"
        )
    if is_copied:
        return _with_references(ctx, function, cpu, given)
    return _on_each_target(ctx, function, cpu, given)


def _with_references(ctx: Context, function: NativeFunc, cpu: Func, given: Arguments) -> Binding:
    """Call a native function whose references are values in `cpu`, which gives what they are then."""
    span = given.span
    arguments = indexed_composites.borrowed(ctx, function, _bound(function, given, {}), span)
    targets = reference_targets(ctx, function, given, arguments)
    read_again(ctx, function, targets, arguments)
    values = {name: indexed_composites.as_value(ctx, x, span) for name, x in arguments.items()}
    spans = [span] * len(values)
    of_values = Arguments([*values.values()], spans, {}, {}, span, span, [None] * len(values), {})
    if ctx.block_dim:
        found = call_function(ctx, cpu, of_values)
    else:
        found = _on_each_target(ctx, function.of_values, cpu, of_values)
    assert isinstance(found, tuple)
    left = found[len(found) - len(function.references) :]
    after = {**arguments, **dict(zip(function.references, left, strict=True))}
    leave_references(ctx, function, targets, arguments, after)
    return found[0] if len(found) > len(left) else ()


def _on_each_target(ctx: Context, function: NativeFunc, cpu: Func, given: Arguments) -> Binding:
    """The result of a native function: on GPUs of its text, elsewhere of `cpu`."""
    span = given.span
    on_gpu = ctx.emit("on_gpu", span=span)
    with ctx.builder.block() as then:
        own = call_function(ctx, function, given)
    with ctx.builder.block() as orelse:
        other = call_function(ctx, cpu, given)
    if layout(own, span) != layout(other, span):
        raise KernelTypeError(
            f"`{function.name}` gives {describe(own)}, and its `cpu`, `{cpu.name}`, {describe(other)}", span
        )
    sides = [flatten(x, span) or [] for x in (own, other)]
    results = tuple(Value(x.type) for x in sides[0])
    blocks = (make_block(then, sides[0]), make_block(orelse, sides[1]))
    ctx.builder.append(If(on_gpu, *blocks, results, span))
    return rebuild(own, list(results))


def _with_replay(ctx: Context, replay: Func, arguments: dict[str, Binding], result: Binding, span: Span) -> Binding:
    """The result of a call, which derivatives of the kernel get by the replay instead of the function.

    Nothing else of a call is done again by derivatives: a function without a result needs no replay.
    """
    if result == ():
        return result
    env = dict(zip(replay.signature.parameters, arguments.values(), strict=True))
    caller, ctx.frame = ctx.frame, Frame(replay.source, env=env)
    ctx.stack.append(replay)
    first = ctx.first_local + len(ctx.locals)
    try:
        with ctx.builder.block() as nodes, indexed_composites.scalars_only(ctx):
            lower_statements(ctx, replay.source.tree.body)
            again = result_of(ctx, replay, span)
    except JwarpError as error:
        raise _inside(error, replay, span) from None
    finally:
        ctx.stack.pop()
        ctx.frame = caller
    if layout(again, span) != layout(result, span):
        raise KernelTypeError(
            f"the replay `{replay.name}` gives {describe(again)}, the function {describe(result)}", span
        )
    before, after = flatten(result, span), flatten(again, span)
    assert before is not None and after is not None
    if ctx.first_local + len(ctx.locals) > first:
        raise CompileError(f"`{replay.name}` has a local array, which a replay cannot have", span)
    ctx.builder.extend(_recalling(ctx, replay, node) for node in nodes)
    return rebuild(result, [ctx.builder.op("replayed", *pair) for pair in zip(before, after, strict=True)])


def _recalling(ctx: Context, replay: Func, node: Node) -> Node:
    """A node of a replay, which reads arrays as they are when the launch has ended."""

    def change(op: Op) -> Op:
        if op.row.is_write or op.row.is_lasting or (op.row.is_load and op.array >= ctx.first_local):
            what = "prints or checks" if not op.row.is_write else "writes to an array"
            raise CompileError(
                f"the replay `{replay.name}` {'reads a local array' if op.row.is_load else what}",
                op.span,
                "it reads what the launch has left in the kernel's arrays",
            )
        return dataclasses.replace(op, name="recall") if op.row.is_load else op

    return map_ops(Block((node,)), change).nodes[0]


def _bound(function: Func, given: Arguments, variables: Bound) -> dict[str, Binding]:
    """The arguments of a call by parameter name, checked against the annotations; `variables` are filled."""
    span = given.span
    parameters = function.signature.parameters
    try:
        places = function.signature.bind(*given.spans, **given.named_spans).arguments
    except TypeError as error:
        names = ", ".join(function.outputs.names)
        hint = f"write {names} = wp.{function.name}(…)" if names else ""
        raise KernelTypeError(f"call of `{function.name}`: {error}", span, hint) from None
    bound = function.signature.bind(*given.values, **given.named).arguments
    for name, parameter in parameters.items():
        if name not in bound:
            bound[name] = bind_python(parameter.default, name, span)
        expected, binding = function.declared(name), bound[name]
        if expected is not None and not _fits(type_of(binding, span), expected, variables):
            _refuse_unnamed(function, function.name, given)
            expected = filled(expected, variables)
            default = "" if name in places else ", its default,"
            raise KernelTypeError(
                f"`{name}` of `{function.name}` must be {expected}, not {describe(binding)}{default}".rstrip(","),
                places.get(name, span),
                way_to(expected, binding),
            )
    return bound


def result_of(ctx: Context, function: Func, span: Span) -> Binding:
    """The result of the function that was just read, checked against its annotation."""
    env = ctx.frame.env
    result = env.get("$result", ())
    if "$result" in env and env.get("$return") != TRUE:
        ctx.warnings[(span, f"the result of {function.name}")] = None
        if ctx.debug:
            ctx.builder.check(ctx.scalar(env.get("$return", FALSE), span), f"`{function.name}` returns no value")
    result = ctx.tiles.settled(ctx.tiles.loose(result, span), span)
    expected = function.declared("return")
    if expected is not None and not _fits(type_of(result, span), expected, ctx.frame.variables):
        returns = function.source.tree.returns
        assert returns is not None
        fault = (
            f"The function `{function.name}` has its return type annotated as {_annotated(expected, result, returns)}"
        )
        raise KernelTypeError(
            f"{fault} but the code returns {_returned(result, expected)}.", function.source.span(returns)
        )
    return result


def _annotated(expected: Any, result: Binding, returns: ast.expr) -> str:
    """The annotated result of a function: how many values, if that is the fault, or its text."""
    is_count = isinstance(expected, tuple) and isinstance(result, tuple) and len(expected) != len(result)
    return f"a tuple of {len(expected)} elements" if is_count else f"`{ast.unparse(returns).replace('wp.', '')}`"


def _returned(result: Binding, expected: Any) -> str:
    """The result of a function, to stand after `returns`."""
    if not isinstance(result, tuple):
        return f"a value of type `{describe(result)}`"
    types = ", ".join(map(describe, result))
    is_alike = isinstance(expected, tuple) and len(expected) == len(result)
    return f"a tuple with types `({types})`" if is_alike else f"{len(result)} values" if result else "no value"


def overload_of(function: Func, given: Arguments, *, may_look_up: bool = True, stack: Sequence[Func] = ()) -> Func:
    """The one of the functions of this name that takes these arguments: one of just their types before generic ones.

    `stack` has the functions that are being read, the innermost last.
    """
    overloads = function.overloads
    if len(overloads) == 1:
        return overloads[0]
    for is_generic in (False, True):
        for overload in overloads:
            if overload.is_generic == is_generic and takes(overload, given):
                return overload
    asked = _public_name(function, stack)
    for each in overloads if may_look_up else ():
        _refuse_unnamed(each, asked, given)
    types = ", ".join(map(describe, [*given.values, *given.named.values()]))
    known = "; ".join(asked + f.heading.removeprefix(f.name) for f in overloads)
    why = no_overload(asked, [types])
    error = KernelTypeError(f"no overload of `{asked}` takes ({types}): {why}", given.span, f"there are {known}")
    error.refuses_id = any(map(is_id, given.values)) and any(map(_wanted_handle, overloads))
    raise error


def _public_name(function: Func, stack: Sequence[Func]) -> str:
    """The name to show for a function: where a builtin of the library calls it, that of the builtin."""
    builtin = next((f for f in stack if f.described is not None and f.__module__ == function.__module__), function)
    return builtin.name


def _refuse_unnamed(function: Func, name: str, given: Arguments) -> None:
    """Say what to do where a function of a grid, tree, mesh or volume is given a number that names none."""
    first = _wanted_handle(function)
    if first is None or not given.values or type_of(given.values[0], given.span) is not uint64:
        return
    error = KernelTypeError(
        f"`{name}` is given a number, uint64, that is not known to be the id of a wp.{first.named}",
        given.span,
        "at the launch, pass the grid, tree, mesh or volume itself, or its id while it is alive, for a parameter "
        "`wp.uint64` of the kernel or a field of a struct; an array of ids that the kernel only reads is given as it "
        "is, wp.array([mesh.id], dtype=wp.uint64), to launches that run now, and its elements are used where they are "
        "read; a number that was calculated is looked up where the kernel has one such array",
    )
    error.wanted_handle, error.needs_memory = first, True
    raise error


def _wanted_handle(function: Func) -> StructType | None:
    """The struct of the object whose id a function takes; None if it takes none."""
    first = next(iter(function.wanted), None)
    return first if isinstance(first, StructType) and first.is_handle else None


def takes(function: Func, given: Arguments) -> bool:
    """True if a call fits the parameters of `function` and their annotations."""
    try:
        bound = function.signature.bind(*given.values, **given.named).arguments
    except TypeError:
        return False
    wanted, variables = {name: function.declared(name) for name in bound}, Bound()
    return all(
        kind is None or _fits(type_of(bound[name], given.span), kind, variables) for name, kind in wanted.items()
    )


def _fits(given: Any, expected: Any, variables: Bound) -> bool:
    if isinstance(expected, tuple) and isinstance(given, tuple) and len(given) == len(expected):
        return all(_fits(x, wanted, variables) for x, wanted in zip(given, expected, strict=True))
    return expected is None or fits(given, expected, variables)


def _inside(error: JwarpError, function: Func, span: Span) -> JwarpError:
    """The error with a line that says where the function was called from; a builtin's own is at its call."""
    d = error.diagnostic
    place, hint = d.span, d.hint
    if not d.span.file.startswith(_LIBRARY):
        where = f"`{function.name}` was called at {span}"
        hint = f"{hint}; {where}" if hint else where
    elif function.described is not None:
        place = span
    made: Any = type(error)(d.message, place, hint)
    if isinstance(error, KernelTypeError):
        made.wanted_handle, made.needs_memory = error.wanted_handle, error.needs_memory
        made.refuses_id = error.refuses_id
    return made
