"""Lowers sequences, `if`, `break`, `continue` and `return` to structured IR.

A jump sets a flag, which is a value like any other: `$break` and `$continue` belong to a loop,
`$return` to a function. What follows a statement that may have jumped runs under the condition that no
flag is set. Where a branch always jumps, what follows moves into the other branch instead, and the
flags fold away.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.lowering import indexed_composites
from jwarp.frontend.lowering.rules import lower, lower_condition, lower_statement, statement
from jwarp.frontend.syntax.source import always_jumps, arms_of, may_jump, returns_value
from jwarp.frontend.values import array_joins
from jwarp.frontend.values.bindings import (
    Binding,
    Stored,
    StructValue,
    Tile,
    Unusable,
    describe,
    flatten,
    holds_array,
    layout,
    rebuild,
)
from jwarp.frontend.values.cells import Cells, holds_tile, with_origins
from jwarp.ir.builder import FALSE, TRUE, make_block, zero
from jwarp.ir.nodes import Const, If, Node, Operand, Value
from jwarp.ir.nodes import results as results_of
from jwarp.types import int32


@dataclass(frozen=True)
class State:
    """The bindings of the current function's names at one point of it."""

    env: dict[str, Binding]
    unset: set[str]
    cells: Cells = field(default_factory=dict)  # what tiles hold
    is_dropped: bool = False  # whether what follows goes on from another state

    @property
    def has_returned(self) -> bool:
        """True if the function has certainly returned, or nothing goes on from here."""
        return self.is_dropped or self.env.get("$return") == TRUE

    @property
    def has_left(self) -> bool:
        """True if the code that follows never runs, so that its values do not matter."""
        return self.has_returned or self.env.get("$continue") == TRUE


def state_of(ctx: Context) -> State:
    """The current bindings of names and contents of tiles."""
    return State(dict(ctx.frame.env), set(ctx.frame.unset), dict(ctx.tiles.cells), ctx.frame.is_dropped)


def restore(ctx: Context, state: State) -> None:
    """Let the names and tiles stand for what they did at another point."""
    ctx.frame.env, ctx.frame.unset, ctx.frame.is_dropped = dict(state.env), set(state.unset), state.is_dropped
    ctx.tiles.cells = dict(state.cells)


# -- sequences


def lower_statements(ctx: Context, statements: list[ast.stmt]) -> None:
    """Append what statements do, one after the other; after one that may jump, under the condition that it has not."""
    first, *further = _portions(statements)
    _sequence(ctx, first)
    for portion in further:
        _unless_jumped(ctx, portion)


def _portions(statements: list[ast.stmt]) -> list[list[ast.stmt]]:
    """The statements in sequences that jump a limited number of times, since what follows a jump nests in the IR."""
    if len(statements) <= MOST_NESTED:
        return [statements]
    jumps = [k for k, node in enumerate(statements) if may_jump(node)]
    starts = [0, *jumps[MOST_NESTED::MOST_NESTED], len(statements)]
    return [statements[start:end] for start, end in itertools.pairwise(starts)]


def _sequence(ctx: Context, statements: list[ast.stmt]) -> None:
    for k, node in enumerate(statements):
        rest = statements[k + 1 :]
        if isinstance(node, ast.If) and not _is_long(node):
            if always_jumps(node.body):
                return _if(ctx, node, node.body, node.orelse + rest)
            if always_jumps(node.orelse):
                return _if(ctx, node, node.body + rest, node.orelse)
        lower_statement(ctx, node)
        if isinstance(node, (ast.Break, ast.Continue, ast.Return)):
            return None
        if may_jump(node):
            return _unless_jumped(ctx, rest)
    return None


_FLAGS = ("$return", "$break", "$continue")
_OPEN = "$open"  # no condition of a chain has held so far
# So many jumps or conditions of a chain nest in the IR, which later stages walk recursively; others follow.
MOST_NESTED = 32


def _unless_jumped(ctx: Context, rest: list[ast.stmt]) -> None:
    """Lower `rest` under the condition that no jump has been taken."""
    if not rest:
        return
    span = ctx.span(rest[0])
    stays = not_jumped(ctx, _FLAGS, span)
    only_returned = all(ctx.frame.env.get(flag, FALSE) == FALSE for flag in ("$break", "$continue"))

    def goes_on() -> None:
        # No flag is set here, whatever it was computed from.
        known = {flag: value for flag in _FLAGS if (value := ctx.frame.env.get(flag)) is not None}
        ctx.frame.env.update(dict.fromkeys(known, FALSE))
        lower_statements(ctx, rest)
        ctx.frame.env.update({flag: value for flag, value in known.items() if ctx.frame.env.get(flag) == FALSE})

    def jumped() -> None:
        if only_returned:
            ctx.frame.env["$return"] = TRUE

    branch(ctx, stays, goes_on, jumped, span)


def not_jumped(ctx: Context, flags: tuple[str, ...], span: Span) -> Operand:
    """The truth value that none of these flags is set."""
    jumped: Operand = FALSE
    for flag in flags:
        value = ctx.frame.env.get(flag, FALSE)
        jumped = ctx.emit("or", jumped, ctx.scalar(value, span), span=span)
    return ctx.emit("not", jumped, span=span)


@statement(ast.Break)
def break_(ctx: Context, node: ast.Break) -> None:
    """Set the flag of the loop."""
    _set_flag(ctx, "$break", node)


@statement(ast.Continue)
def continue_(ctx: Context, node: ast.Continue) -> None:
    """Set the flag of the iteration."""
    _set_flag(ctx, "$continue", node)


def _set_flag(ctx: Context, flag: str, node: ast.stmt) -> None:
    if flag not in ctx.frame.env:
        raise CompileError(f"`{flag[1:]}` outside a loop", ctx.span(node))
    ctx.frame.env[flag] = TRUE


@statement(ast.Return)
def return_(ctx: Context, node: ast.Return) -> None:
    """Set the flag of the function, and keep the result."""
    span = ctx.span(node)
    if returns_value(node):
        assert node.value is not None
        if ctx.frame.is_kernel:
            raise CompileError("a kernel returns nothing", span, "store to an array parameter")
        # The present content of a tile: the place it is in may change afterwards.
        ctx.frame.env["$result"] = ctx.tiles.loose(_returned(ctx, node), span)
    elif ctx.frame.source.returns_values:
        raise CompileError(
            f"`{ctx.frame.source.name}` returns nothing here and a value elsewhere",
            span,
            "return a value of that type here too",
        )
    ctx.frame.env["$return"] = TRUE


def _returned(ctx: Context, node: ast.Return) -> Binding:
    """The value of a `return`; a variable of the caller's that was changed in place stays that variable."""
    value, frame = node.value, ctx.frame
    assert value is not None
    if isinstance(value, ast.Call):
        ctx.borrowed = (
            frozenset()
            if indexed_composites.returns_in_loops(ctx)
            else indexed_composites.borrowed_by_return(ctx, value)
        )
        result = lower(ctx, value)
        ctx.borrowed = frozenset()
        return indexed_composites.left(ctx, result, ctx.span(value))
    same = indexed_composites.returned(ctx, node) if frame.borrowed else []
    items = value.elts if isinstance(value, ast.Tuple) else [value]
    parts = tuple(frame.env[n.id] if isinstance(n, ast.Name) and n.id in same else lower(ctx, n) for n in items)
    return parts if isinstance(value, ast.Tuple) else parts[0]


# -- branches


@statement(ast.If)
def if_(ctx: Context, node: ast.If) -> None:
    """Read both branches, or the one that a constant condition chooses."""
    if _is_long(node):
        _in_portions(ctx, *arms_of(node))
    else:
        _if(ctx, node, node.body, node.orelse)


def _is_long(node: ast.If) -> bool:
    return len(arms_of(node)[0]) > MOST_NESTED


def _in_portions(ctx: Context, arms: list[ast.If], last: list[ast.stmt]) -> None:
    """A long chain of `elif`, in portions one after the other: nested, its end would be as deep as it has conditions.

    Each portion runs where no condition before it held, and starts from the variables that the chain started from.
    """
    env = ctx.frame.env
    around, env[_OPEN] = env.get(_OPEN), FALSE
    start, is_same = state_of(ctx), True
    is_open: Operand = TRUE

    def leave_open() -> None:
        nonlocal is_same
        after = state_of(ctx)
        is_same &= after.cells == start.cells and all(x is start.env.get(name) for name, x in after.env.items())
        ctx.frame.env[_OPEN] = TRUE
        ctx.frame.is_dropped = is_same

    for first in range(0, len(arms), MOST_NESTED):
        portion, is_last = arms[first : first + MOST_NESTED], first + MOST_NESTED >= len(arms)

        def run(portion: list[ast.If] = portion, is_last: bool = is_last) -> None:
            if is_same:
                restore(ctx, start)
            ctx.frame.env[_OPEN] = FALSE
            _arms(ctx, portion, (lambda: lower_statements(ctx, last)) if is_last else leave_open)

        span = ctx.span(portion[0].test)
        branch(ctx, is_open, run, lambda: None, span)
        is_open = ctx.scalar(ctx.frame.env[_OPEN], span)
    if around is None:
        del ctx.frame.env[_OPEN]
    else:
        ctx.frame.env[_OPEN] = around


def _arms(ctx: Context, arms: list[ast.If], last: Callable[[], None]) -> None:
    """The first of some branches whose condition holds, else `last`."""
    arm, *further = arms
    with ctx.at(arm):
        cond, span = lower_condition(ctx, arm.test), ctx.span(arm.test)
        orelse = functools.partial(_arms, ctx, further, last) if further else last
        branch(ctx, cond, lambda: lower_statements(ctx, arm.body), orelse, span)


def _if(ctx: Context, node: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
    """An `if` whose branches are these statements."""
    with ctx.at(node):
        cond = lower_condition(ctx, node.test)
        span = ctx.span(node.test)
        branch(ctx, cond, lambda: lower_statements(ctx, body), lambda: lower_statements(ctx, orelse), span)


def branch(ctx: Context, cond: Operand, then: Callable, orelse: Callable, span: Span) -> None:
    """Run one of two continuations of the reading, or both where `cond` is not known yet."""
    if isinstance(cond, Const):
        return then() if cond.value else orelse()
    before = state_of(ctx)
    with ctx.builder.block() as then_nodes:
        then()
    then_state = state_of(ctx)
    restore(ctx, before)
    with ctx.builder.block() as else_nodes:
        orelse()
    merge(ctx, cond, (then_nodes, else_nodes), (then_state, state_of(ctx)), span)


def merge(ctx: Context, cond: Operand, nodes: tuple, states: tuple[State, State], span: Span) -> None:
    """Join what two branches left: names that differ become results of an `If`."""
    left, right = states
    env: dict[str, Binding] = {}
    unset = left.unset | right.unset
    yields: tuple[list[Operand], list[Operand]] = ([], [])
    results: list[Value] = []
    ctx.tiles.cells = _merged_cells(ctx, states, yields, results)
    for name in {**left.env, **right.env}:
        x, y = left.env.get(name), right.env.get(name)
        if x is not None and (x is y or x == y):
            env[name] = x
            continue
        ctx.frame.statics.pop(name, None)  # its value is no longer known when the kernel is built
        misses = (x is None and not left.has_returned) or (y is None and not right.has_returned)
        if misses and not name.startswith("$"):
            unset.add(name)
        if holds_tile(x) or holds_tile(y):
            x, y = (_loose_in(ctx, state, b, into, span) for state, b, into in zip(states, (x, y), nodes, strict=True))
        if indexed_composites.holds_stored(x) or indexed_composites.holds_stored(y):
            x, y = _stored_in(ctx, name, (x, y), nodes, span)
        if (holds_array(x) or holds_array(y)) and (name == "$result" or not (left.has_returned or right.has_returned)):
            x, y = _arrays_alike(ctx, name, (x, y), nodes, span)
        pair = _matched(name, x, y, left.has_left, right.has_left, span)
        if isinstance(pair, Unusable):
            env[name] = pair
            continue
        xs, ys, shape = pair
        values: list[Operand] = []
        for v, w in zip(xs, ys, strict=True):
            if v == w:
                values.append(v)
                continue
            results.append(Value(v.type, name))
            values.append(results[-1])
            yields[0].append(v)
            yields[1].append(w)
        joined = with_origins(rebuild(shape, values), x, y)
        env[name] = joined if name == "$result" else ctx.tiles.settled(joined, span)
    restore(ctx, State(env, unset, ctx.tiles.cells, left.is_dropped and right.is_dropped))
    if nodes[0] or nodes[1] or results:
        blocks = (make_block(nodes[0], yields[0]), make_block(nodes[1], yields[1]))
        ctx.builder.append(If(cond, *blocks, tuple(results), span))


def _arrays_alike(
    ctx: Context, name: str, pair: tuple[Binding | None, ...], nodes: tuple, span: Span
) -> tuple[Binding | None, ...]:
    """Two bindings with arrays written alike, if they have one type; where a name has none, it is as none was given."""
    x, y = pair
    if x is None or y is None:
        if name == "$result":  # another return decides
            return pair
        x, y = (array_joins.absent(y) if x is None else x), (array_joins.absent(x) if y is None else y)
    inside = {value for block in nodes for node in block for value in results_of(node)}
    form = array_joins.common(x, y, lambda scalar: scalar not in inside)
    if form is None:
        return pair
    found = []
    for binding, block in zip((x, y), nodes, strict=True):
        with ctx.builder.block() as alike:
            found.append(array_joins.fitted(ctx, binding, form, span))
        block.extend(alike)
    return tuple(found)


def _merged_cells(
    ctx: Context, states: tuple[State, State], yields: tuple[list[Operand], list[Operand]], results: list[Value]
) -> Cells:
    """The contents of tiles at the join of two branches, for tiles that exist before these."""
    left, right = (state.cells for state in states)
    cells: Cells = {}
    for cell in sorted(left.keys() & right.keys()):
        x, y = left[cell], right[cell]
        if x == y or isinstance(x, Unusable) or isinstance(y, Unusable):
            cells[cell] = y if isinstance(y, Unusable) else x
            continue
        items = [Value(item.type) for item in x.items]
        yields[0].extend(x.items)
        yields[1].extend(y.items)
        results.extend(items)
        cells[cell] = Tile(x.type, tuple(items))
    return cells


def _stored_in(
    ctx: Context, name: str, pair: tuple[Binding | None, ...], nodes: tuple, span: Span
) -> tuple[Binding | None, ...]:
    """The binding at the join of two branches of a variable whose components may be in memory."""
    x, y = pair
    if x is None or y is None:
        if name != "$result":  # of the caller's variables, which hold something before the branches
            owner = x or y
            assert isinstance(owner, Stored)
            ctx.builder.effect("clear", attr=owner.array.index)
        return pair
    if layout(x, span) == layout(y, span):
        return pair
    return tuple(indexed_composites.value_after(ctx, b, into, span) for b, into in zip(pair, nodes, strict=True))


def _loose_in(ctx: Context, state: State, binding: Binding | None, nodes: list[Node], span: Span) -> Binding | None:
    """The contents of the tiles in `binding` at the end of a branch; the reading operations go to `nodes`."""
    after, ctx.tiles.cells = ctx.tiles.cells, state.cells
    with ctx.builder.block() as reads:
        found = ctx.tiles.loose(binding, span)
    ctx.tiles.cells = after
    nodes.extend(reads)
    return found


def _matched(
    name: str, x: Binding | None, y: Binding | None, x_left: bool, y_left: bool, span: Span
) -> tuple[list[Operand], list[Operand], Binding] | Unusable:
    """The scalars of `name` on two sides, zero where one side has none."""
    for binding in (x, y):
        if isinstance(binding, Unusable):
            return binding
    word = "the returned value" if name == "$result" else f"`{name}`"
    x, y = _of_one_kind(x, y)
    # Where a function has not returned yet, another return decides.
    is_open = name == "$result" and (x is None or y is None)
    if _are_other_things(x, y, span) and not (x_left or y_left or is_open):
        found = " and ".join(describe(b) if b is not None else "nothing" for b in (x, y))
        return Unusable(f"{word} is not of one type in both branches of a condition: {found}", "use two names")
    present = [b for b in (x, y) if b is not None]
    sides = [flat for b in present if (flat := flatten(b, span)) is not None]
    if len(sides) < len(present):
        return Unusable(f"{word} stands for different things depending on a condition that is not constant")
    zeros: list[list[Operand]] = [[zero(v.type) for v in side] for side in sides]
    if x is None:
        return zeros[0], sides[0], present[0]
    if y is None:
        return sides[0], zeros[0], x
    if layout(x, span) == layout(y, span):
        return sides[0], sides[1], x
    # After a jump, the bindings of names do not matter; the returned value does.
    if name == "$result" or not (x_left or y_left):
        raise KernelTypeError(
            f"{word} is {describe(x)} in one branch and {describe(y)} in the other",
            span,
            "use two names" if holds_array(x) or holds_array(y) else "convert one of them, or use two names",
        )
    return (zeros[1], sides[1], y) if x_left else (sides[0], [*zeros[0]], x)


def _of_one_kind(x: Binding | None, y: Binding | None) -> tuple[Binding | None, Binding | None]:
    """Two structs of kinds that a condition may choose between, as the struct for all kinds."""
    if not (isinstance(x, StructValue) and isinstance(y, StructValue)) or x.type is y.type:
        return x, y
    if x.type.general is None or y.type.general is None or x.type.general[0] is not y.type.general[0]:
        return x, y
    return _in_general(x), _in_general(y)


def _in_general(value: StructValue) -> StructValue:
    assert value.type.general is not None
    kind, number = value.type.general
    return value if value.type is kind else StructValue(kind, (*value.items, Const(int32, number)))


def _are_other_things(x: Binding | None, y: Binding | None, span: Span) -> bool:
    """True if one side holds arrays and the other side things of other types."""
    if not (holds_array(x) or holds_array(y)):
        return False
    return x is None or y is None or layout(x, span) != layout(y, span)
