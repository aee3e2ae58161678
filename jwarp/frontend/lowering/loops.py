"""Lowers `for` and `while` to structured IR, or reads a short loop's body once for each iteration."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.scalar import together
from jwarp.frontend.builtins.table import BUILTINS
from jwarp.frontend.context import Context
from jwarp.frontend.lowering import queries
from jwarp.frontend.lowering.conditions import is_eager, unchanged_tiles
from jwarp.frontend.lowering.control_flow import lower_statements, not_jumped
from jwarp.frontend.lowering.infinite_loops import refuse_endless
from jwarp.frontend.lowering.loop_carried import enter_loop, leaves_loop
from jwarp.frontend.lowering.names import assign
from jwarp.frontend.lowering.references import changed_by_calls
from jwarp.frontend.lowering.rules import lower, lower_condition, statement
from jwarp.frontend.lowering.unrolling import check_not_static, unroll
from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.source import Known, branches_of
from jwarp.frontend.values.bindings import Binding, Number, PythonRef, StructValue
from jwarp.ir.builder import FALSE, TRUE, make_block, zero
from jwarp.ir.nodes import Block, Const, For, If, Op, Operand, Value, While
from jwarp.ir.ops import COMBINERS
from jwarp.types import ScalarType, bool_, int32, int64


def _loop_else(ctx: Context, loop: ast.For | ast.While) -> CompileError:
    return CompileError(
        "`else` after a loop is not part of the kernel language",
        ctx.span(loop),
        "set a variable before `break` and test it after the loop",
    )


@statement(ast.For)
def for_(ctx: Context, loop: ast.For) -> None:
    """A loop over a range: unrolled, counted, or conditional if a jump may leave it."""
    span = ctx.span(loop)
    if loop.orelse:
        raise _loop_else(ctx, loop)
    if not isinstance(loop.target, ast.Name):
        raise CompileError(
            "the variable of a for statement must be one name",
            ctx.span(loop.target),
            "loop over range(…) and index: for i in range(n)",
        )
    query = _query(ctx, loop.iter)
    if query is not None:
        _over_query(ctx, loop, loop.target, query)
        return
    bounds = _range_bounds(ctx, loop.iter)
    kind = _range_type(ctx, bounds, loop.iter)
    known = [int(b.value) for b in bounds if isinstance(b, (Number, Const))]
    iterations = range(*known) if len(known) == len(bounds) else None
    typed = None if all(isinstance(b, Number) for b in bounds) else kind
    name = loop.target.id
    current = ctx.frame.env.get(name)
    if current is not None and not (isinstance(current, (Value, Const, Number)) and current.type is kind):
        del ctx.frame.env[name]  # the variable is a new one, as in Warp
    with_lanes = not ctx.block_dim and not ctx.debug and _is_together(ctx, loop.iter)
    if iterations is not None and not with_lanes and unroll(ctx, loop, name, iterations, typed):
        return
    check_not_static(ctx, loop, name)
    lo, hi = (b.as_type(kind, span) if isinstance(b, Number) else b for b in bounds[:2])
    # A constant step has a sign, which an unsigned range lacks.
    step = Const(int64, bounds[2].value) if isinstance(bounds[2], (Number, Const)) else bounds[2]
    outer, ctx.in_lanes = ctx.in_lanes, ctx.in_lanes or with_lanes
    frame, in_nest = ctx.frame, ctx.frame.in_nest
    frame.in_nest = in_nest or iterations is not None
    _counted_loop(ctx, loop, name, lo, hi, step, never_empty=bool(iterations), with_lanes=with_lanes)
    ctx.in_lanes, frame.in_nest = outer, in_nest


def _is_together(ctx: Context, node: ast.expr) -> bool:
    """True for `range(together(n))`."""
    bound = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else None
    return isinstance(bound, ast.Call) and _is(ctx, bound.func, together)


def _combined(loop: For | While) -> For | While:
    """A loop whose iterations may run together, with the operation that each value is combined by."""
    assert isinstance(loop, For)
    makers = {node.result: node for node in loop.body.nodes if isinstance(node, Op)}
    found = [makers[y] for y in loop.body.yields if isinstance(y, Value)]
    assert all(x.name in COMBINERS and p in x.args for x, p in zip(found, loop.params, strict=True)), loop.span
    return dataclasses.replace(loop, lanes=tuple(x.name for x in found))


def _query(ctx: Context, node: ast.expr) -> StructValue | None:
    """The value of an expression that is a sequence of items, such as a query of a grid; None for others."""
    if isinstance(node, ast.Call) and not any(_is(ctx, node.func, x) for x in (range, reversed, BUILTINS["range"])):
        found: Binding | None = lower(ctx, node)
    else:
        found = ctx.frame.env.get(node.id) if isinstance(node, ast.Name) else None
    return found if isinstance(found, StructValue) and found.type.following is not None else None


def _over_query(ctx: Context, loop: ast.For, target: ast.Name, query: StructValue) -> None:
    """A loop over the results of a query, as a loop while there is a next one.

    A query that has a name goes on, as in Warp: after a loop that is left early, another loop gets the rest.
    """
    name, is_own, uses = f" query {loop.lineno}.{loop.col_offset}", True, list[ast.Name]()  # no user's name has a space
    if isinstance(loop.iter, ast.Name):
        uses = queries.uses(loop, loop.iter.id)
        is_own = any(isinstance(use.ctx, ast.Store) for use in uses)  # the name is of another one after that
        name = name if is_own else loop.iter.id
    current = ctx.frame.env.get(target.id)
    if current is not None and not (isinstance(current, (Value, Const, Number)) and current.type is int32):
        del ctx.frame.env[target.id]  # the variable is a new one, as in Warp
    if is_own:
        assign(ctx, name, query, ctx.span(loop.iter))
    assign(ctx, target.id, zero(int32), ctx.span(target))
    in_runs = query.type.in_runs is not None and not uses
    form = queries.in_runs if in_runs else queries.in_turn
    lower_statements(ctx, form(loop, query.type, name, target.id))
    if is_own:
        del ctx.frame.env[name]


def _range_type(ctx: Context, bounds: list, node: ast.expr) -> ScalarType:
    """The integer type that a range counts in."""
    span = ctx.span(node)
    kinds = list(dict.fromkeys(b.type for b in bounds if not isinstance(b, Number))) or [int32]
    if len(kinds) > 1 or not kinds[0].is_int:
        raise KernelTypeError(
            f"range() needs integers of one type, got {', '.join(t.name for t in kinds)}",
            span,
            "convert them: int(x)",
        )
    kind = kinds[0]
    for position, bound in enumerate(bounds):
        low = -kind.max if position == 2 else kind.min
        if isinstance(bound, Number) and not low <= bound.value <= kind.max:
            raise KernelTypeError(
                f"the integer {bound.value} does not fit {kind}", span, "write wp.int64(…) around the bounds"
            )
    if isinstance(bounds[2], (Number, Const)) and bounds[2].value == 0:
        raise CompileError("the step of range() must not be zero", span)
    return kind


def _range_bounds(ctx: Context, node: ast.expr) -> list:
    """Start, stop and step of `range(…)`, or of the same numbers from the last to the first in `reversed(range(…))`."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords and _is(ctx, node.func, reversed):
        return _reversed(ctx, _range_bounds(ctx, node.args[0]), node)
    if (
        not isinstance(node, ast.Call)
        or not (_is(ctx, node.func, range) or _is(ctx, node.func, BUILTINS["range"]))
        or node.keywords
        or len(node.args) not in (1, 2, 3)
    ):
        raise CompileError(
            "a for statement needs range(stop), range(start, stop) or range(start, stop, step), or reversed(range(…))",
            ctx.span(node),
            "to go over an array, write: for i in range(a.shape[0])",
        )
    bounds = [lower(ctx, a) for a in node.args]
    bounds = [b if isinstance(b, Number) else ctx.scalar(b, ctx.span(node), "range bound") for b in bounds]
    bounds = [Number(int(b.value)) if isinstance(b, Number) and isinstance(b.value, bool) else b for b in bounds]
    if any(isinstance(b, Number) and isinstance(b.value, float) for b in bounds):
        raise KernelTypeError("range() needs integers", ctx.span(node), "convert them: int(x)")
    lo, hi = ([Number(0), *bounds] if len(bounds) == 1 else bounds)[:2]
    step = bounds[2] if len(bounds) == 3 else Number(1)
    if isinstance(step, (Number, Const)) and step.value == 0 and _has_variables(ctx, node.args[2]):
        # Zero, perhaps in one iteration of an unrolled outer loop: the loop has no iteration, as for a computed step.
        typed = next((b for b in (lo, hi) if not isinstance(b, Number)), lo)
        return [typed, typed, Number(1)]
    return [lo, hi, step]


def _has_variables(ctx: Context, node: ast.expr) -> bool:
    """True if an expression reads a variable of the kernel."""
    return any(isinstance(n, ast.Name) and n.id in ctx.frame.env for n in nodes_in(node))


def _is(ctx: Context, node: ast.expr, wanted: object) -> bool:
    """True if an expression names this Python object."""
    callee = lower(ctx, node) if isinstance(node, (ast.Name, ast.Attribute, Known)) else None
    return isinstance(callee, PythonRef) and callee.object is wanted


def _reversed(ctx: Context, bounds: list, node: ast.expr) -> list:
    """The bounds of a range from its last number to its first; an empty one stays empty."""
    span, kind = ctx.span(node), _range_type(ctx, bounds, node)
    if all(isinstance(b, (Number, Const)) for b in bounds):
        numbers = range(*(int(b.value) for b in bounds))[::-1]
        untyped = all(isinstance(b, Number) for b in bounds)
        return [Number(x) if untyped else Const(kind, x) for x in (numbers.start, numbers.stop, numbers.step)]
    if not kind.is_int or kind.kind == "uint":
        raise KernelTypeError(f"reversed() needs a range of signed integers, not {kind}", span, "convert: int(x)")
    lo, hi, step = (b.as_type(kind, span) if isinstance(b, Number) else b for b in bounds)
    first, back = ctx.emit("sub", lo, step, span=span), ctx.emit("neg", step, span=span)
    if isinstance(step, Const) and abs(step.value) == 1:
        return [ctx.emit("sub", hi, step, span=span), first, back]
    iterations = ctx.emit("cast", _trip_count(ctx, lo, hi, step, span), span=span, type=kind)
    return [ctx.emit("add", first, ctx.emit("mul", iterations, step, span=span), span=span), first, back]


def _counted_loop(
    ctx: Context,
    loop: ast.For,
    target: str,
    lo: Operand,
    hi: Operand,
    step: Operand,
    never_empty: bool,
    with_lanes: bool = False,
) -> None:
    span = ctx.span(loop)
    constant_step = step.value if isinstance(step, Const) else None
    leaves = any(leaves_loop(s) for s in loop.body)
    # The index itself counts where that cannot overflow; otherwise the iterations are counted.
    direct = constant_step is not None and (not leaves or constant_step == 1)
    if direct:
        count_lo, count_hi, count_step = lo, hi, constant_step
    else:
        count_lo, count_hi, count_step = zero(int64), _trip_count(ctx, lo, hi, step, span), 1
    index = Value(count_lo.type, target)

    def body() -> None:
        value: Operand = index
        if not direct:
            k = ctx.emit("cast", index, span=span, type=lo.type)
            stride = ctx.emit("cast", step, span=span, type=lo.type)
            value = ctx.emit("add", lo, ctx.emit("mul", k, stride, span=span), span=span)
        assign(ctx, target, value, ctx.span(loop.target))
        lower_statements(ctx, loop.body)

    if leaves:
        _conditional_loop(ctx, loop, body, None, (index, count_lo, count_hi), never_empty)
        return
    carried = enter_loop(ctx, loop, body, never_empty)
    with ctx.builder.block() as nodes:
        following = carried.next_values(body)
    block = make_block(nodes, following)
    assert count_step is not None
    made = carried.finished(
        For(index, count_lo, count_hi, count_step, carried.params, carried.init, block, carried.results, span)
    )
    ctx.builder.append(_combined(made) if with_lanes else made)
    carried.leave()


def _trip_count(ctx: Context, lo: Operand, hi: Operand, step: Operand, span: Span) -> Operand:
    """How many iterations range(lo, hi, step) has, as int64; none for a step of zero."""

    def wide(x: Operand) -> Operand:
        return ctx.emit("cast", x, span=span, type=int64)

    def op(name: str, *args: Operand) -> Operand:
        return ctx.emit(name, *args, span=span)

    distance, stride = op("sub", wide(hi), wide(lo)), wide(step)
    nothing, one = zero(int64), Const(int64, 1)
    upward = op("gt", stride, nothing)
    rounding = op("select", upward, op("sub", stride, one), op("add", stride, one))
    iterations = op("max", op("div", op("add", distance, rounding), stride), nothing)
    return op("select", op("eq", stride, nothing), nothing, iterations)


@statement(ast.While)
def while_(ctx: Context, loop: ast.While) -> None:
    """A loop while a condition holds."""
    if loop.orelse:
        raise _loop_else(ctx, loop)
    over = _in_runs(ctx, loop)
    if over is not None:
        lower_statements(ctx, over)
        return
    if changed_by_calls(ctx, loop.test):
        loop = _tested_inside(loop)

    def body() -> None:
        lower_statements(ctx, loop.body)

    endless = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
    _conditional_loop(ctx, loop, body, loop.test, None, never_empty=endless)


def _in_runs(ctx: Context, loop: ast.While) -> list[ast.stmt] | None:
    """The replacement of `while following(query, item):`, if the query's items come in contiguous runs."""
    match loop.test:
        case ast.Call(func=function, args=[ast.Name(id=query), ast.Name(id=item)], keywords=[]):
            found = ctx.frame.env.get(query)
            if not isinstance(found, StructValue) or found.type.in_runs is None or queries.uses(loop, query):
                return None
            if item in ctx.frame.env and _is(ctx, function, found.type.following):
                return queries.in_runs(loop, found.type, query, item)
    return None


def _tested_inside(loop: ast.While) -> ast.While:
    """The same loop with its test in the body, where what the test changes is a change like any other."""
    leave = ast.copy_location(ast.Break(), loop.test)
    test = ast.copy_location(ast.If(loop.test, [ast.copy_location(ast.Pass(), loop.test)], [leave]), loop.test)
    endless = ast.copy_location(ast.Constant(True), loop.test)
    return ast.copy_location(ast.While(endless, [test, *loop.body], []), loop)


def _conditional_loop(
    ctx: Context,
    loop: ast.For | ast.While,
    body: Callable[[], None],
    test: ast.expr | None,
    counter: tuple[Value, Operand, Operand] | None,
    never_empty: bool,
) -> None:
    """A `While`: of a condition, or of a counter below a bound, while no jump leaves it."""
    span = ctx.span(loop)
    carried = enter_loop(ctx, loop, body, never_empty)
    with unchanged_tiles(ctx, span), ctx.builder.block() as cond_nodes:
        stays = not_jumped(ctx, ("$return", "$break"), span)
        with ctx.builder.block() as test_nodes:
            if counter is not None:
                holds = ctx.emit("lt", counter[0], counter[2], span=span)
            else:
                assert test is not None
                holds = lower_condition(ctx, test)
        if is_eager(ctx, test_nodes) or isinstance(stays, Const):
            ctx.builder.extend(test_nodes)
            goes_on = ctx.emit("and", stays, holds, span=span)
        else:
            goes_on = Value(bool_)
            branches = (make_block(test_nodes, (holds,)), make_block([], (FALSE,)))
            ctx.builder.append(If(stays, *branches, (goes_on,), span))
    params, init = list(carried.params), list(carried.init)
    with ctx.builder.block() as nodes:
        for flag in ("$return", "$break"):  # the condition says that none is set
            if flag in ctx.frame.env:
                ctx.frame.env[flag] = FALSE
        following = carried.next_values(body)
        if counter is not None:
            index, start, _ = counter
            following.append(ctx.emit("add", index, Const(index.type, 1), span=span))
            params.append(index)
            init.append(start)
    results = [*carried.results, *(Value(p.type, p.name) for p in params[len(carried.results) :])]
    cond = Block(tuple(cond_nodes), (goes_on,))
    block = make_block(nodes, following)
    made = carried.finished(While(tuple(params), tuple(init), cond, block, tuple(results), span))
    if test is not None and isinstance(made, While) and not ctx.trials:  # of which some leave out the body
        refuse_endless(made, ctx.span(test))
    ctx.builder.append(made)
    carried.leave()
    never_passed = test is not None and holds == TRUE and not any(_breaks(s) for s in loop.body)
    if never_passed and "$return" in ctx.frame.env:
        ctx.frame.env["$return"] = TRUE


def _breaks(node: ast.stmt) -> bool:
    """True if the statement `node` of a loop's body may break out of that loop."""
    return isinstance(node, ast.Break) or any(_breaks(s) for branch in branches_of(node) for s in branch)
