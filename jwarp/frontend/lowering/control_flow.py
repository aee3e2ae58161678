"""Lowers sequences, `if`, `break`, `continue` and `return` to structured IR.

A jump sets a flag, which is a value like any other: `$break` and `$continue` belong to a loop,
`$return` to a function. What follows a statement that may have jumped runs under the condition that no
flag is set. Where a branch always jumps, what follows moves into the other branch instead, and the
flags fold away.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.lowering.calls import CallLowering
from jwarp.frontend.syntax.source import always_jumps, may_jump, returns_value
from jwarp.frontend.values.bindings import Binding, Tile, Unusable, describe, flatten, holds_array, layout, rebuild
from jwarp.frontend.values.cells import Cells, holds_tile, with_origins
from jwarp.ir.builder import FALSE, TRUE, make_block, zero
from jwarp.ir.nodes import Const, If, Node, Operand, Value


@dataclass(frozen=True)
class State:
    """What the names of the current function stand for at one point of it."""

    env: dict[str, Binding]
    unset: set[str]
    cells: Cells = field(default_factory=dict)  # what tiles hold

    @property
    def has_returned(self) -> bool:
        return self.env.get("$return") == TRUE

    @property
    def has_left(self) -> bool:
        """Whether what follows here never runs: its values do not matter there."""
        return self.has_returned or self.env.get("$continue") == TRUE


class ControlFlowLowering(CallLowering):
    """The part of a lowering that deals with branches, loops and jumps."""

    def lower_simple(self, statement: ast.stmt) -> None:
        raise NotImplementedError  # in a subclass: statements without control flow

    def lower_for(self, statement: ast.For) -> None:
        raise NotImplementedError  # in a subclass, as `lower_while`

    def lower_while(self, statement: ast.While) -> None:
        raise NotImplementedError

    @property
    def state(self) -> State:
        return State(dict(self.frame.env), set(self.frame.unset), dict(self.tiles.cells))

    @state.setter
    def state(self, state: State) -> None:
        self.frame.env, self.frame.unset = dict(state.env), set(state.unset)
        self.tiles.cells = dict(state.cells)

    # -- sequences

    def lower_statements(self, statements: list[ast.stmt]) -> None:
        for k, statement in enumerate(statements):
            rest = statements[k + 1 :]
            with self.at(statement):
                if isinstance(statement, ast.If):
                    if always_jumps(statement.body):
                        return self.lower_if(statement, statement.body, statement.orelse + rest)
                    if always_jumps(statement.orelse):
                        return self.lower_if(statement, statement.body + rest, statement.orelse)
                    self.lower_if(statement, statement.body, statement.orelse)
                elif isinstance(statement, ast.For):
                    self.lower_for(statement)
                elif isinstance(statement, ast.While):
                    self.lower_while(statement)
                elif isinstance(statement, (ast.Break, ast.Continue)):
                    return self.lower_jump(statement)
                elif isinstance(statement, ast.Return):
                    return self.lower_return(statement)
                else:
                    self.lower_simple(statement)
            if may_jump(statement):
                return self.lower_unless_jumped(rest)
        return None

    def lower_unless_jumped(self, rest: list[ast.stmt]) -> None:
        """Lower `rest` under the condition that no jump has been taken."""
        if not rest:
            return
        span = self.span(rest[0])
        stays = self.not_jumped(("$return", "$break", "$continue"), span)
        only_returned = all(self.frame.env.get(flag, FALSE) == FALSE for flag in ("$break", "$continue"))

        def jumped() -> None:
            if only_returned:
                self.frame.env["$return"] = TRUE

        self.branch(stays, lambda: self.lower_statements(rest), jumped, span)

    def not_jumped(self, flags: tuple[str, ...], span: Span) -> Operand:
        jumped: Operand = FALSE
        for flag in flags:
            value = self.frame.env.get(flag, FALSE)
            jumped = self.emit("or", jumped, self.scalar(value, span), span=span)
        return self.emit("not", jumped, span=span)

    def lower_jump(self, statement: ast.Break | ast.Continue) -> None:
        flag = "$break" if isinstance(statement, ast.Break) else "$continue"
        if flag not in self.frame.env:
            raise CompileError(f"`{flag[1:]}` outside a loop", self.span(statement))
        self.frame.env[flag] = TRUE

    def lower_return(self, statement: ast.Return) -> None:
        if returns_value(statement):
            assert statement.value is not None
            if self.frame.is_kernel:
                raise CompileError("a kernel returns nothing", self.span(statement), "store to an array parameter")
            with self.at(statement):
                # What a tile holds now: the place it is in may change afterwards.
                self.frame.env["$result"] = self.tiles.loose(self.expression(statement.value), self.span(statement))
        elif any(returns_value(n) for n in ast.walk(self.frame.source.tree)):
            raise CompileError(
                f"`{self.frame.source.name}` returns nothing here and a value elsewhere",
                self.span(statement),
                "return a value of that type here too",
            )
        self.frame.env["$return"] = TRUE

    # -- branches

    def lower_if(self, statement: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        cond = self.truth(statement.test)
        span = self.span(statement.test)
        self.branch(cond, lambda: self.lower_statements(body), lambda: self.lower_statements(orelse), span)

    def branch(self, cond: Operand, then: Callable, orelse: Callable, span: Span) -> None:
        """Run one of two continuations of the reading, or both where `cond` is not known yet."""
        if isinstance(cond, Const):
            return then() if cond.value else orelse()
        before = self.state
        with self.builder.block() as then_nodes:
            then()
        then_state = self.state
        self.state = before
        with self.builder.block() as else_nodes:
            orelse()
        self.merge(cond, (then_nodes, else_nodes), (then_state, self.state), span)

    def merge(self, cond: Operand, nodes: tuple, states: tuple[State, State], span: Span) -> None:
        """Join what two branches left: names that differ become results of an `If`."""
        left, right = states
        env: dict[str, Binding] = {}
        unset = left.unset | right.unset
        yields: tuple[list[Operand], list[Operand]] = ([], [])
        results: list[Value] = []
        self.tiles.cells = self.merged_cells(states, yields, results)
        for name in {**left.env, **right.env}:
            x, y = left.env.get(name), right.env.get(name)
            if x is not None and (x is y or x == y):
                env[name] = x
                continue
            self.frame.statics.pop(name, None)  # its value is no longer known when the kernel is built
            misses = (x is None and not left.has_returned) or (y is None and not right.has_returned)
            if misses and not name.startswith("$"):
                unset.add(name)
            if holds_tile(x) or holds_tile(y):
                x, y = (
                    self.loose_in(state, b, into, span) for state, b, into in zip(states, (x, y), nodes, strict=True)
                )
            pair = self.matched(name, x, y, left.has_left, right.has_left, span)
            if isinstance(pair, Unusable):
                env[name] = pair
                continue
            xs, ys, shape = pair
            values = [Value(v.type, name) for v in xs]
            yields[0].extend(xs)
            yields[1].extend(ys)
            results.extend(values)
            joined = with_origins(rebuild(shape, list(values)), x, y)
            env[name] = joined if name == "$result" else self.tiles.settled(joined, span)
        self.state = State(env, unset, self.tiles.cells)
        if nodes[0] or nodes[1] or results:
            blocks = (make_block(nodes[0], yields[0]), make_block(nodes[1], yields[1]))
            self.builder.append(If(cond, *blocks, tuple(results), span))

    def merged_cells(
        self, states: tuple[State, State], yields: tuple[list[Operand], list[Operand]], results: list[Value]
    ) -> Cells:
        """What tiles hold that are there before two branches, after either."""
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

    def loose_in(self, state: State, binding: Binding | None, nodes: list[Node], span: Span) -> Binding | None:
        """What the tiles in `binding` hold at the end of a branch, whose `nodes` get what reads them."""
        after, self.tiles.cells = self.tiles.cells, state.cells
        with self.builder.block() as reads:
            found = self.tiles.loose(binding, span)
        self.tiles.cells = after
        nodes.extend(reads)
        return found

    def matched(
        self, name: str, x: Binding | None, y: Binding | None, x_left: bool, y_left: bool, span: Span
    ) -> tuple[list[Operand], list[Operand], Binding] | Unusable:
        """The scalars of `name` on two sides, zero where one side has none."""
        for binding in (x, y):
            if isinstance(binding, Unusable):
                return binding
        word = "the returned value" if name == "$result" else f"`{name}`"
        if _are_other_arrays(x, y, span) and not (x_left or y_left):
            return Unusable(
                f"{word} is not the same array in both branches of a condition that is not constant",
                "set it before the `if`, or use it inside the branches",
            )
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
        # What a name stands for does not matter where a jump has left; what is returned does.
        if name == "$result" or not (x_left or y_left):
            raise KernelTypeError(
                f"{word} is {describe(x)} in one branch and {describe(y)} in the other",
                span,
                "make one array before the branches" if holds_array(x) else "convert one of them, or use two names",
            )
        return (zeros[1], sides[1], y) if x_left else (sides[0], [*zeros[0]], x)


def _are_other_arrays(x: Binding | None, y: Binding | None, span: Span) -> bool:
    """Whether arrays are in `x` or `y`, and not the same ones in both, up to the row."""
    if not (holds_array(x) or holds_array(y)):
        return False
    return x is None or y is None or layout(x, span) != layout(y, span)
