"""Loop-carried values: the names that a loop's body assigns, and the contents of the tiles that it may change."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import Any

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.context import Context
from jwarp.frontend.lowering import indexed_composites
from jwarp.frontend.lowering.control_flow import State, restore, state_of
from jwarp.frontend.lowering.local_array_copies import changed_to
from jwarp.frontend.lowering.names import SET
from jwarp.frontend.lowering.references import changed_by_calls
from jwarp.frontend.syntax.flow import read_before_set
from jwarp.frontend.syntax.nodes import nodes_in
from jwarp.frontend.syntax.python_operators import BINARY_OPERATORS
from jwarp.frontend.syntax.source import assigned_names, branches_of, count_loads, partly_assigned_names, returns_value
from jwarp.frontend.tiles.operators import IN_PLACE
from jwarp.frontend.values import array_joins
from jwarp.frontend.values.bindings import (
    Binding,
    Composite,
    Stored,
    StructValue,
    Tile,
    TileRef,
    Unusable,
    describe,
    flatten,
    holds_array,
    layout,
    rebuild,
)
from jwarp.frontend.values.cells import cells_of, with_origins
from jwarp.ir.builder import FALSE, zero
from jwarp.ir.nodes import Block, Const, For, Operand, Value, While, blocks, used_values
from jwarp.ir.unchanged import unchanged
from jwarp.ir.visit import Rebuilder


class Carried:
    """The names that a loop carries, and the values that carry them.

    `known` is what is so at the end of the body, where that has been read and need not be again; `loop` its statement.
    """

    known: State | None = None
    loop: ast.stmt | None = None

    def __init__(
        self,
        ctx: Context,
        names: list[str],
        added: dict[str, Binding],
        outer_flags: dict[str, Binding | None],
        never_empty: bool,
        span: Span,
    ):
        self.ctx, self.span, self.outer_flags = ctx, span, outer_flags
        for name in names:
            ctx.frame.statics.pop(name, None)
        self.never_empty = never_empty
        self.added = {n for n in added if not n.startswith("$")}
        self.before = state_of(ctx)
        self.not_carried = ctx.frame.not_carried  # of the loop around
        self.bindings: dict[str, Binding] = {}
        self.others: list[str] = []
        init: list[Operand] = []
        tiles = ctx.tiles
        for name in dict.fromkeys([*names, *added]):
            binding = tiles.loose(self.before.env.get(name), span)
            if binding is None and name in added:
                scalars = flatten(added[name], span)
                if scalars is None:
                    self.others.append(name)
                else:
                    self.bindings[name] = added[name]
                    init += [zero(s.type) for s in scalars]
                continue
            scalars = None if binding is None else flatten(binding, span)
            if binding is None or scalars is None:
                self.others.append(name)
            else:
                self.bindings[name] = binding
                init += scalars
        names_of_scalars = [n for n, b in self.bindings.items() for _ in flatten(b, span) or ()]
        # Any tile that has a name here may be changed in the body.
        shown = sorted(set().union(*map(cells_of, self.before.env.values())))
        content = {cell: tiles.cells[cell] for cell in shown}
        self.cells = {cell: tile for cell, tile in content.items() if isinstance(tile, Tile)}
        for tile in self.cells.values():
            init += tile.items
            names_of_scalars += [""] * len(tile.items)
        self.init = tuple(init)
        self.params = tuple(Value(v.type, n) for v, n in zip(init, names_of_scalars, strict=True))
        self.results = tuple(Value(p.type, p.name) for p in self.params)
        self.left: tuple[Operand, ...] = self.results  # what they are after the loop
        self.lost: dict[int, tuple[Unusable, list[Value]]] = {}  # cells that the body makes unusable
        self.lost_names: list[str] = []  # new ones, whose values an iteration cannot leave for the next one
        self.first_made = ctx.first_local + len(ctx.locals)  # the number of the first array that the body makes

    def enter(self) -> None:
        """Let the names and tiles stand for what is carried, inside the loop."""
        env = self.ctx.frame.env
        scalars: list[Operand] = list(self.params)
        tiles = self.ctx.tiles
        for name, binding in self.bindings.items():
            env[name] = tiles.settled(rebuild(binding, scalars), self.span)
        for cell, tile in self.cells.items():
            tiles.cells[cell] = rebuild(tile, scalars)  # type: ignore[assignment]
        for name in self.others:
            if name in env:
                env[name] = Unusable(f"`{name}` is set in this loop, so that it does not stand for one thing here")
        for name in self.lost_names:
            reason = (
                f"`{name}` is no number or array from before the loop: an iteration cannot see what an earlier one set"
            )
            env[name] = Unusable(reason, "set it before the loop")
        env.setdefault("$break", FALSE)
        env["$continue"] = FALSE
        self.ctx.frame.unset |= self.added  # until the body sets them
        self.ctx.frame.not_carried = frozenset(self.before.env.keys() - self.bindings.keys())

    def next_values(self, body: Callable[[], None]) -> list[Operand]:
        """Read the body; the carried values at its end."""
        if self.known is not None:
            self.unset_inside, self.after = self.known.unset, self.known.env
            return list(self.params)
        body()
        state = state_of(self.ctx)
        values: list[Operand] = []
        for name, binding in self.bindings.items():
            after = self.ctx.tiles.loose(state.env[name], self.span)
            if isinstance(after, Unusable):
                raise after.error(self.span)
            after = self._fitted(name, binding, after)
            if layout(after, self.span) != layout(binding, self.span):
                raise KernelTypeError(
                    f"`{name}` is {describe(binding)} before the loop and {describe(after)} after one iteration",
                    self.span,
                    "let it be of one type from before the loop on; or use two names",
                )
            values += flatten(after, self.span) or ()
            self.bindings[name] = with_origins(binding, binding, after)
        given = iter(self.params[len(values) :])
        for cell, tile in self.cells.items():
            params, content = [next(given) for _ in tile.items], state.cells[cell]
            if isinstance(content, Unusable):
                self.lost[cell] = (content, params)
            values += params if isinstance(content, Unusable) else content.items
        self.unset_inside = state.unset
        self.after = state.env
        return values

    def _fitted(self, name: str, binding: Binding, after: Binding) -> Binding:
        """The binding of a name at the end of the body, in the form that it has at the start of an iteration.

        Its components are where they are before the loop, its arrays are among those that it may stand for.
        """
        if layout(after, self.span) == layout(binding, self.span):
            return after
        if holds_array(after):
            if name != "$result" and array_joins.is_made_since(after, self.first_made):
                if self.loop is not None and changed_to(self.ctx, binding, after, self.loop):
                    return binding  # as in Warp, where the variable from before the loop is assigned to
                raise CompileError(
                    f"`{name}` does not stand for the same array before the loop and after one iteration, "
                    "which makes one of another kind",
                    self.span,
                    "make one of the same shape and type before the loop; or use two names",
                )
            form = array_joins.common(binding, after, lambda _: False)
            same = form is not None and layout(form, self.span) == layout(binding, self.span)
            return array_joins.fitted(self.ctx, after, binding, self.span) if same else after
        after = indexed_composites.as_value(self.ctx, after, self.span)
        if isinstance(binding, Stored) and isinstance(after, Composite) and name != "$result":
            indexed_composites.write(self.ctx, binding, after)
            return binding
        return after

    def finished(self, node: For | While) -> For | While:
        """The loop without the tiles, and what says which arrays names are, that its body does not change."""
        first = len(self.params) - sum(len(tile.items) for tile in self.cells.values())
        same = {k for k in range(first, len(self.params)) if node.body.yields[k] is node.params[k]}
        position, of_arrays = 0, list[int]()
        for binding in self.bindings.values():
            count = len(flatten(binding, self.span) or ())
            of_arrays += range(position, position + count) if holds_array(binding) else ()
            position += count
        same |= unchanged(node, lambda x: x, positions=of_arrays).keys()
        inside = [Block(block.nodes) for block in blocks(node)]
        for unusable, params in self.lost.values():
            if any(used_values(block) & set(params) for block in inside):  # which sees the change in the next iteration
                raise unusable.error(self.span)
        self.left = tuple(node.init[k] if k in same else r for k, r in enumerate(self.results))
        return without_carried(node, same)

    def leave(self) -> None:
        """Let the names stand for what they are after the loop."""
        env = dict(self.before.env)
        scalars: list[Operand] = list(self.left)
        tiles = self.ctx.tiles
        tiles.cells = dict(self.before.cells)
        for name, binding in self.bindings.items():
            env[name] = tiles.settled(rebuild(binding, scalars), self.span)
        for cell, tile in self.cells.items():
            left = rebuild(tile, scalars)
            tiles.cells[cell] = self.lost[cell][0] if cell in self.lost else left  # type: ignore[assignment]
        for name in self.others:
            after = self.after.get(name)
            if name in env and after != env[name]:
                env[name] = Unusable(f"`{name}` stands for different things before and after a loop")
            elif after is not None and (holds_array(after) or flatten(after, self.span) is None):
                env[name] = Unusable(f"`{name}` is set in a loop and is no number, so it has no meaning after the loop")
        env.pop("$break", None)
        env.pop("$continue", None)
        env.update({flag: value for flag, value in self.outer_flags.items() if value is not None})
        carried = set(self.bindings)
        unset = self.before.unset - carried if self.never_empty else self.before.unset | self.added
        self.ctx.frame.not_carried = self.not_carried
        restore(self.ctx, State(env, unset | (self.unset_inside & carried), tiles.cells))


def enter_loop(ctx: Context, loop: ast.For | ast.While, body: Callable[[], None], never_empty: bool) -> Carried:
    """Enter a loop: decide what it carries, and let the names stand for that inside."""
    names = [n for n in assigned_names([loop]) if not _is_only_changed(ctx, n, loop)]
    names += [n for n in changed_by_calls(ctx, loop) if n not in names]
    parts = (n for n in partly_assigned_names([loop]) if n not in names)
    names += [n for n in parts if n in ctx.frame.env and _is_changed_by_part(ctx.frame.env[n])]
    # A continue is over when the next iteration begins; whether a loop around is left is its own matter.
    ctx.frame.env = {**ctx.frame.env}
    outer = {flag: ctx.frame.env.pop(flag, None) for flag in ("$break", "$continue")}
    if any(leaves_loop(s) for s in loop.body):
        ctx.frame.env["$break"] = FALSE
        ctx.frame.env.setdefault("$return", FALSE)
        names += ["$break", "$return"]
        if "$result" in ctx.frame.env:
            names.append("$result")
    if ctx.debug:
        companions = [SET + n for n in names if not n.startswith("$")]
        for companion in companions:
            ctx.frame.env.setdefault(companion, FALSE)
        names += companions
    inside = count_loads([loop])
    kept = read_before_set(loop)  # in the next iteration
    new = [n for n in names if n not in ctx.frame.env]
    fresh = [n for n in new if n in kept or ctx.frame.loads.get(n, 0) > inside.get(n, 0)]
    returns = any(returns_value(n) for n in nodes_in(loop))
    if returns and "$result" not in ctx.frame.env:
        fresh.append("$result")
    added, known = _join_arrays(ctx, names, body, fresh, ctx.span(loop))
    carried = Carried(ctx, names, added, outer, never_empty, ctx.span(loop))
    # A loop in one that is read for nothing is read once: else it would be twice as often for each loop around it.
    carried.known, carried.loop = known if ctx.trials else None, loop
    carried.lost_names = [n for n in fresh if n not in added]
    carried.enter()
    return carried


def _join_arrays(
    ctx: Context, names: list[str], body: Callable, fresh: list[str], span: Span
) -> tuple[dict[str, Binding], State | None]:
    """Join the arrays that names are bound to before the loop and after any iteration.

    Returns the bindings after an iteration of `fresh` names, which are unbound before the loop; arrays among them get
    an empty array before it. And the state after an iteration, if the body was read and had no other effect.
    """
    state: State | None = None
    made, added = ctx.first_local + len(ctx.locals), dict[str, Binding]()
    known = {scalar for binding in ctx.frame.env.values() for scalar in flatten(binding, span) or ()}
    asked = [*fresh, *(n for n in names if holds_array(ctx.frame.env.get(n)))]
    while asked:
        (after, state), asked = _types_after(ctx, names, body, asked, span), []
        env = ctx.frame.env
        for name, binding in after.items():
            if not holds_array(binding):
                added |= {name: binding} if name in fresh else {}
                continue
            before = env[name] if name in env else array_joins.absent(binding)
            if before is None or (name != "$result" and array_joins.is_made_since(binding, made)):
                continue  # it is gone in the next iteration
            form = array_joins.common(before, binding, lambda x: isinstance(x, Const) or x in known)
            if form is not None and (name not in env or layout(form, span) != layout(env[name], span)):
                env[name] = array_joins.fitted(ctx, before, form, span)
                added |= {name: env[name]} if name in fresh else {}
                asked = [n for n in after if holds_array(after[n])]
        names += [n for n in added if n not in names]
    return added, state


def _is_only_changed(ctx: Context, name: str, loop: ast.stmt) -> bool:
    """True if `name` is a tile that `loop` only changes in place, as `a += b` does."""
    if not isinstance(ctx.frame.env.get(name), TileRef):
        return False
    in_place = tuple(kind for kind, (_, operation) in BINARY_OPERATORS.items() if operation in IN_PLACE)
    changes = [n for n in nodes_in(loop) if isinstance(n, ast.AugAssign) and isinstance(n.op, in_place)]
    changed = {n.target for n in changes}
    stores = (n for n in nodes_in(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return all(n in changed for n in stores if n.id == name)


def _types_after(
    ctx: Context, names: list[str], body: Callable, fresh: list[str], span: Span
) -> tuple[dict[str, Binding], State | None]:
    """The bindings of `fresh` names after the body, found by a trial reading of it.

    And what all names do, unless there are tiles, or local arrays that the body made or used.
    """
    before, arity, warnings = state_of(ctx), ctx.tid_arity, dict(ctx.warnings)
    memory = dict(ctx.frame.memory)
    locals, gradients, components = list(ctx.locals), list(ctx.gradients), (list(ctx.stored), list(ctx.free))
    not_carried = ctx.frame.not_carried
    carried = Carried(ctx, names, {}, {}, False, span)
    carried.enter()
    ctx.trials += 1
    with ctx.builder.block():
        body()
        state = state_of(ctx)
        found = {n: ctx.tiles.loose(ctx.frame.env[n], span) for n in fresh if n in ctx.frame.env}
        found = {n: b if n == "$result" else indexed_composites.as_value(ctx, b, span) for n, b in found.items()}
    # Of arrays, which row or part of one is shown at first.
    first: dict[Operand, Operand] = dict(zip(carried.params, carried.init, strict=True))
    for name, binding in found.items():
        if holds_array(binding):
            found[name] = rebuild(binding, [first.get(x, x) for x in flatten(binding, span) or ()])
    ctx.trials -= 1
    same = (locals, *components, memory) == (ctx.locals, ctx.stored, ctx.free, ctx.frame.memory)
    restore(ctx, before)
    ctx.tid_arity, ctx.warnings, ctx.gradients = arity, warnings, gradients
    ctx.locals, (ctx.stored, ctx.free) = locals, components
    ctx.frame.not_carried, ctx.frame.memory = not_carried, memory
    return found, state if same and not ctx.block_dim else None


def _is_changed_by_part(binding: Binding) -> bool:
    """True if assigning to a part of `binding` changes the variable, and not elements of an array or tile."""
    if isinstance(binding, TileRef):
        return False
    return isinstance(binding, StructValue) or not holds_array(binding)


def leaves_loop(node: ast.stmt) -> bool:
    """True if the statement `node` of a loop's body may end the loop."""
    if isinstance(node, (ast.Break, ast.Return)):
        return True
    if isinstance(node, (ast.For, ast.While)):
        return any(isinstance(n, ast.Return) for n in nodes_in(node))
    return any(leaves_loop(s) for branch in branches_of(node) for s in branch)


def without_carried(node: For | While, positions: set[int]) -> For | While:
    """The loop without some of what it carries, which its body leaves as it is."""
    if not positions:
        return node
    kept = [k for k in range(len(node.params)) if k not in positions]
    inside = Rebuilder()
    inside.known = {node.params[k]: node.init[k] for k in positions}
    parts: dict[str, Any] = {
        name: tuple(getattr(node, name)[k] for k in kept) for name in ("params", "init", "results")
    }
    body = inside.block(node.body)
    parts["body"] = Block(body.nodes, tuple(body.yields[k] for k in kept))
    if isinstance(node, While):
        parts["cond"] = inside.block(node.cond)
    return dataclasses.replace(node, **parts)
