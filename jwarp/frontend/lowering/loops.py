"""Lowers `for` and `while` to structured IR, or reads a short loop's body once for each trip."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable, Iterator

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.builtins.control import static
from jwarp.frontend.builtins.table import BUILTINS
from jwarp.frontend.lowering.carried import Carried
from jwarp.frontend.lowering.control_flow import ControlFlowLowering
from jwarp.frontend.lowering.expressions import SET
from jwarp.frontend.syntax.operators import BINARY_OPERATORS
from jwarp.frontend.syntax.source import assigned_names, count_loads, may_jump, partly_assigned_names, returns_value
from jwarp.frontend.tiles.operators import IN_PLACE
from jwarp.frontend.values.bindings import (
    Binding,
    Number,
    PythonRef,
    StructValue,
    TileRef,
    holds_array,
)
from jwarp.ir.builder import FALSE, TRUE, make_block, zero
from jwarp.ir.nodes import Block, Const, For, If, Operand, Value, While
from jwarp.types import ScalarType, bool_, int32, int64

# Unrolling stops where it would read more than this many syntax nodes.
MAX_UNROLLED_NODES = 4_000


class LoopLowering(ControlFlowLowering):
    """The part of a lowering that deals with loops."""

    def loop_else(self, statement: ast.For | ast.While) -> CompileError:
        return CompileError(
            "`else` after a loop is not part of the kernel language",
            self.span(statement),
            "set a variable before `break` and test it after the loop",
        )

    def lower_for(self, statement: ast.For) -> None:
        span = self.span(statement)
        if statement.orelse:
            raise self.loop_else(statement)
        if not isinstance(statement.target, ast.Name):
            raise CompileError(
                "the variable of a for statement must be one name",
                self.span(statement.target),
                "loop over range(…) and index: for i in range(n)",
            )
        bounds = self.range_bounds(statement.iter)
        kind = self.range_type(bounds, statement.iter)
        known = [int(b.value) for b in bounds if isinstance(b, (Number, Const))]
        trips = range(*known) if len(known) == len(bounds) else None
        typed = None if all(isinstance(b, Number) for b in bounds) else kind
        name = statement.target.id
        if trips is not None and self.unroll(statement, name, trips, typed):
            return
        self.check_not_static(statement, name)
        lo, hi = (b.as_type(kind, span) if isinstance(b, Number) else b for b in bounds[:2])
        # A constant step has a sign, which an unsigned range lacks.
        step = Const(int64, bounds[2].value) if isinstance(bounds[2], (Number, Const)) else bounds[2]
        self.counted_loop(statement, name, lo, hi, step, never_empty=bool(trips))

    def range_type(self, bounds: list, node: ast.expr) -> ScalarType:
        """The integer type that a range counts in."""
        span = self.span(node)
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

    def range_bounds(self, node: ast.expr) -> list:
        if (
            not isinstance(node, ast.Call)
            or not self._is_range(node.func)
            or node.keywords
            or len(node.args) not in (1, 2, 3)
        ):
            raise CompileError(
                "a for statement needs range(stop), range(start, stop) or range(start, stop, step)",
                self.span(node),
                "to go over an array, write: for i in range(a.shape[0])",
            )
        bounds = [self.expression(a) for a in node.args]
        bounds = [b if isinstance(b, Number) else self.scalar(b, self.span(node), "range bound") for b in bounds]
        if any(isinstance(b, Number) and (isinstance(b.value, (bool, float))) for b in bounds):
            raise KernelTypeError("range() needs integers", self.span(node), "convert them: int(x)")
        lo, hi = ([Number(0), *bounds] if len(bounds) == 1 else bounds)[:2]
        return [lo, hi, bounds[2] if len(bounds) == 3 else Number(1)]

    def _is_range(self, node: ast.expr) -> bool:
        callee = self.expression(node)
        if not isinstance(callee, PythonRef):
            return False
        return callee.object is range or callee.object is BUILTINS["range"]

    def unroll(self, statement: ast.For, name: str, trips: range, kind: ScalarType | None) -> bool:
        """Read the body once for each value of the variable, if it is worth it."""
        nodes = [n for s in statement.body for n in ast.walk(s)]
        # Jumps make a loop of its own of what need not be unrolled.
        jumps = any(may_jump(s) for s in statement.body)
        must = bool(self.statics_of(statement, name)) if jumps else any(self._is_static(n) for n in nodes)
        count = max(0, -((trips.start - trips.stop) // trips.step))  # len() ends at 2^63
        fits = count <= self.max_unroll and len(nodes) * count * self.unrolled <= MAX_UNROLLED_NODES
        if not (must or (fits and not jumps)):
            return False
        if must and len(nodes) * count * self.unrolled > 10 * MAX_UNROLLED_NODES:
            raise CompileError(f"a loop of {count} trips is too long to unroll", self.span(statement))
        outer, self.unrolled = self.unrolled, self.unrolled * max(1, count)
        flags = {flag: self.frame.env.pop(flag, None) for flag in ("$break", "$continue")}
        self.read_trips(statement, name, trips, kind)
        for flag, value in flags.items():
            self.frame.env.pop(flag, None)
            if value is not None:
                self.frame.env[flag] = value
        self.unrolled = outer
        return True

    def read_trips(self, statement: ast.For, name: str, trips: range, kind: ScalarType | None) -> None:
        """Read the body for each of the trips, as long as no jump has left the loop."""
        for position, k in enumerate(trips):
            number = Number(k) if kind is None else Const(kind, k)
            self.frame.env["$break"] = self.frame.env["$continue"] = FALSE
            self.assign(name, number, self.span(statement.target))
            self.frame.statics[name] = k
            self.lower_statements(statement.body)
            stays = self.not_jumped(("$return", "$break"), self.span(statement))
            if stays != TRUE:  # decided when the kernel runs, or known to have left
                rest = functools.partial(self.read_trips, statement, name, trips[position + 1 :], kind)
                return self.branch(stays, rest, lambda: None, self.span(statement))
        return None

    def check_not_static(self, statement: ast.For, name: str) -> None:
        """Refuse `wp.static` of the variable of a loop whose bounds are not constants."""
        for node in self.statics_of(statement, name):
            raise CompileError(
                f"wp.static needs the value of `{name}`, whose loop cannot be unrolled: its bounds are not constants",
                self.span(node),
                f"compute with `{name}` without wp.static, or loop over constants",
            )

    def statics_of(self, statement: ast.For, name: str) -> list[ast.AST]:
        """The `wp.static` expressions of a loop's body that read its variable `name`."""
        inside = itertools.chain.from_iterable(_walk_unshadowed(s, name) for s in statement.body)
        statics = [node for node in inside if self._is_static(node)]
        return [s for s in statics if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(s))]

    def _is_static(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
            return False
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        if name != "static":
            return False
        callee = self.expression(node.func)
        return isinstance(callee, PythonRef) and callee.object is static

    def counted_loop(
        self, statement: ast.For, target: str, lo: Operand, hi: Operand, step: Operand, never_empty: bool
    ) -> None:
        span = self.span(statement)
        constant_step = step.value if isinstance(step, Const) else None
        leaves = any(_leaves_loop(s) for s in statement.body)
        # The index itself counts where that cannot overflow; otherwise the trips are counted.
        direct = constant_step is not None and (not leaves or constant_step == 1)
        if direct:
            count_lo, count_hi, count_step = lo, hi, constant_step
        else:
            count_lo, count_hi, count_step = zero(int64), self.trip_count(lo, hi, step, span), 1
        index = Value(count_lo.type, target)

        def body() -> None:
            value: Operand = index
            if not direct:
                k = self.emit("cast", index, span=span, type=lo.type)
                stride = self.emit("cast", step, span=span, type=lo.type)
                value = self.emit("add", lo, self.emit("mul", k, stride, span=span), span=span)
            self.assign(target, value, self.span(statement.target))
            self.lower_statements(statement.body)

        if leaves:
            self.loop(statement, body, None, (index, count_lo, count_hi), never_empty)
            return
        carried = self.carry(statement, body, never_empty)
        with self.builder.block() as nodes:
            body()
            following = carried.next_values()
        block = make_block(nodes, following)
        assert count_step is not None
        self.builder.append(
            carried.finished(
                For(index, count_lo, count_hi, count_step, carried.params, carried.init, block, carried.results, span)
            )
        )
        carried.leave()

    def trip_count(self, lo: Operand, hi: Operand, step: Operand, span: Span) -> Operand:
        """How many trips range(lo, hi, step) has, as int64; none for a step of zero."""

        def wide(x: Operand) -> Operand:
            return self.emit("cast", x, span=span, type=int64)

        def op(name: str, *args: Operand) -> Operand:
            return self.emit(name, *args, span=span)

        distance, stride = op("sub", wide(hi), wide(lo)), wide(step)
        nothing, one = zero(int64), Const(int64, 1)
        upward = op("gt", stride, nothing)
        rounding = op("select", upward, op("sub", stride, one), op("add", stride, one))
        trips = op("max", op("div", op("add", distance, rounding), stride), nothing)
        return op("select", op("eq", stride, nothing), nothing, trips)

    def lower_while(self, statement: ast.While) -> None:
        if statement.orelse:
            raise self.loop_else(statement)

        def body() -> None:
            self.lower_statements(statement.body)

        endless = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
        self.loop(statement, body, statement.test, None, never_empty=endless)

    def loop(
        self,
        statement: ast.For | ast.While,
        body: Callable[[], None],
        test: ast.expr | None,
        counter: tuple[Value, Operand, Operand] | None,
        never_empty: bool,
    ) -> None:
        """A `While`: of a condition, or of a counter below a bound, while no jump leaves it."""
        span = self.span(statement)
        carried = self.carry(statement, body, never_empty)
        with self.unchanged_tiles(span), self.builder.block() as cond_nodes:
            stays = self.not_jumped(("$return", "$break"), span)
            with self.builder.block() as test_nodes:
                if counter is not None:
                    holds = self.emit("lt", counter[0], counter[2], span=span)
                else:
                    assert test is not None
                    holds = self.truth(test)
            if self.is_eager(test_nodes) or isinstance(stays, Const):
                self.builder.extend(test_nodes)
                goes_on = self.emit("and", stays, holds, span=span)
            else:
                goes_on = Value(bool_)
                branches = (make_block(test_nodes, (holds,)), make_block([], (FALSE,)))
                self.builder.append(If(stays, *branches, (goes_on,), span))
        params, init = list(carried.params), list(carried.init)
        with self.builder.block() as nodes:
            for flag in ("$return", "$break"):  # the condition says that none is set
                if flag in self.frame.env:
                    self.frame.env[flag] = FALSE
            body()
            following = carried.next_values()
            if counter is not None:
                index, start, _ = counter
                following.append(self.emit("add", index, Const(index.type, 1), span=span))
                params.append(index)
                init.append(start)
        results = [*carried.results, *(Value(p.type, p.name) for p in params[len(carried.results) :])]
        cond = Block(tuple(cond_nodes), (goes_on,))
        block = make_block(nodes, following)
        self.builder.append(carried.finished(While(tuple(params), tuple(init), cond, block, tuple(results), span)))
        carried.leave()
        never_passed = test is not None and holds == TRUE and not any(_breaks(s) for s in statement.body)
        if never_passed and "$return" in self.frame.env:
            self.frame.env["$return"] = TRUE

    def carry(self, statement: ast.For | ast.While, body: Callable[[], None], never_empty: bool) -> Carried:
        """Enter a loop: decide what it carries, and let the names stand for that inside."""
        names = [n for n in assigned_names([statement]) if not self.is_only_changed(n, statement)]
        parts = (n for n in partly_assigned_names([statement]) if n not in names)
        names += [n for n in parts if n in self.frame.env and _is_changed_by_part(self.frame.env[n])]
        # A continue is over when the next trip begins; whether a loop around is left is its own matter.
        self.frame.env = {**self.frame.env}
        outer = {flag: self.frame.env.pop(flag, None) for flag in ("$break", "$continue")}
        if any(_leaves_loop(s) for s in statement.body):
            self.frame.env["$break"] = FALSE
            self.frame.env.setdefault("$return", FALSE)
            names += ["$break", "$return"]
            if "$result" in self.frame.env:
                names.append("$result")
        if self.debug:
            companions = [SET + n for n in names if not n.startswith("$")]
            for companion in companions:
                self.frame.env.setdefault(companion, FALSE)
            names += companions
        inside = count_loads([statement])
        fresh = [n for n in names if n not in self.frame.env and self.frame.loads.get(n, 0) > inside.get(n, 0)]
        returns = any(returns_value(n) for n in ast.walk(statement))
        if returns and "$result" not in self.frame.env:
            fresh.append("$result")
        added = self.types_after(names, body, fresh, self.span(statement)) if fresh else {}
        carried = Carried(self, names, added, outer, never_empty, self.span(statement))
        carried.enter()
        return carried

    def is_only_changed(self, name: str, statement: ast.stmt) -> bool:
        """Whether `name` is a tile that `statement` changes in place at most, as `a += b` does."""
        if not isinstance(self.frame.env.get(name), TileRef):
            return False
        in_place = tuple(kind for kind, (_, operation) in BINARY_OPERATORS.items() if operation in IN_PLACE)
        changes = [n for n in ast.walk(statement) if isinstance(n, ast.AugAssign) and isinstance(n.op, in_place)]
        changed = {id(n.target) for n in changes}
        stores = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        return all(id(n) in changed for n in stores if n.id == name)

    def types_after(self, names: list[str], body: Callable, fresh: list[str], span: Span) -> dict[str, Binding]:
        """What `fresh` names stand for after the body, found by reading it once for nothing."""
        before, arity, warnings, locals = self.state, self.tid_arity, dict(self.warnings), list(self.locals)
        Carried(self, names, {}, {}, False, span).enter()
        with self.builder.block():
            body()
            found = {n: self.tiles.loose(self.frame.env[n], span) for n in fresh if n in self.frame.env}
        self.state, self.tid_arity, self.warnings, self.locals = before, arity, warnings, locals
        return found

    def assign(self, name: str, binding: Binding, span: Span) -> None:
        raise NotImplementedError


def _walk_unshadowed(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """What is inside `node`, except for loops that have a variable `name` of their own."""
    yield node
    inside = ast.iter_child_nodes(node)
    if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == name:
        inside = iter([node.iter])
    for child in inside:
        yield from _walk_unshadowed(child, name)


def _is_changed_by_part(binding: Binding) -> bool:
    """Whether to assign to a part of `binding` is to change a variable: not if it is to store to an array or tile."""
    if isinstance(binding, TileRef):
        return False
    return isinstance(binding, StructValue) or not holds_array(binding)


def _breaks(statement: ast.stmt) -> bool:
    """Whether `statement` in a loop's body may break out of that loop."""
    if isinstance(statement, ast.If):
        return any(_breaks(s) for s in statement.body + statement.orelse)
    return isinstance(statement, ast.Break)


def _leaves_loop(statement: ast.stmt) -> bool:
    """Whether `statement` in a loop's body may end the loop."""
    if isinstance(statement, (ast.Break, ast.Return)):
        return True
    if isinstance(statement, (ast.For, ast.While)):
        return any(isinstance(n, ast.Return) for n in ast.walk(statement))
    if isinstance(statement, ast.If):
        return any(_leaves_loop(s) for s in statement.body + statement.orelse)
    return False
