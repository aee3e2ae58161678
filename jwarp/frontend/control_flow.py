"""Lowers `if`, `for`, `while`, `break`, `continue` and `return` to structured IR.

A jump sets a flag, which is a value like any other: `$break` and `$continue` belong to a loop,
`$return` to a function. What follows a statement that may have jumped runs under the condition that no
flag is set. Where a branch always jumps, what follows moves into the other branch instead, and the
flags fold away.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from jwarp.errors import CompileError, KernelTypeError, Span
from jwarp.frontend.bindings import Binding, Number, PythonRef, Unusable, describe, flatten, layout, rebuild
from jwarp.frontend.builtins import BUILTINS, PYTHON_BUILTINS, static
from jwarp.frontend.expressions import ExpressionLowering, is_eager
from jwarp.frontend.source import always_jumps, assigned_names, count_loads, may_jump
from jwarp.ir.builder import FALSE, TRUE, finish, zero
from jwarp.ir.nodes import Block, Const, For, If, Operand, Value, While
from jwarp.types import ScalarType, bool_, int32, int64

# Unrolling stops where it would read more than this many syntax nodes.
MAX_UNROLLED_NODES = 20_000


@dataclass(frozen=True)
class State:
    """What the names of the current function stand for at one point of it."""

    env: dict[str, Binding]
    unset: set[str]

    @property
    def has_returned(self) -> bool:
        return self.env.get("$return") == TRUE

    @property
    def has_left(self) -> bool:
        """Whether what follows here never runs: its values do not matter there."""
        return self.has_returned or self.env.get("$continue") == TRUE


class ControlFlowLowering(ExpressionLowering):
    """The part of a lowering that deals with branches, loops and jumps."""

    unrolled = 1  # how many copies of the code at hand are being read

    def lower_simple(self, statement: ast.stmt) -> None:
        raise NotImplementedError  # in the subclass: statements without control flow

    @property
    def state(self) -> State:
        return State(dict(self.frame.env), set(self.frame.unset))

    @state.setter
    def state(self, state: State) -> None:
        self.frame.env, self.frame.unset = dict(state.env), set(state.unset)

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
        if _returns_value(statement):
            assert statement.value is not None
            if self.frame.is_kernel:
                raise CompileError("a kernel returns nothing", self.span(statement), "store to an array parameter")
            with self.at(statement):
                self.frame.env["$result"] = self.expression(statement.value)
        elif any(_returns_value(n) for n in ast.walk(self.frame.source.tree)):
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
        for name in {**left.env, **right.env}:
            x, y = left.env.get(name), right.env.get(name)
            if x is y or x == y:
                env[name] = x  # type: ignore[assignment]
                continue
            misses = (x is None and not left.has_returned) or (y is None and not right.has_returned)
            if misses and not name.startswith("$"):
                unset.add(name)
            pair = self.matched(name, x, y, left.has_left, right.has_left, span)
            if isinstance(pair, Unusable):
                env[name] = pair
                continue
            xs, ys, shape = pair
            values = [Value(v.type, name) for v in xs]
            yields[0].extend(xs)
            yields[1].extend(ys)
            results.extend(values)
            env[name] = rebuild(shape, list(values))
        self.state = State(env, unset)
        if nodes[0] or nodes[1] or results:
            blocks = (finish(nodes[0], yields[0]), finish(nodes[1], yields[1]))
            self.builder.append(If(cond, *blocks, tuple(results), span))

    def matched(
        self, name: str, x: Binding | None, y: Binding | None, x_left: bool, y_left: bool, span: Span
    ) -> tuple[list[Operand], list[Operand], Binding] | Unusable:
        """The scalars of `name` on two sides, zero where one side has none."""
        for binding in (x, y):
            if isinstance(binding, Unusable):
                return binding
        xs = None if x is None else flatten(x, span)
        ys = None if y is None else flatten(y, span)
        word = "the returned value" if name == "$result" else f"`{name}`"
        if (x is not None and xs is None) or (y is not None and ys is None):
            return Unusable(f"{word} stands for different things depending on a condition that is not constant")
        same = x is not None and y is not None and layout(x, span) == layout(y, span)
        # What a name stands for does not matter where a jump has left; what is returned does.
        if xs is not None and ys is not None and not same and (name == "$result" or not (x_left or y_left)):
            raise KernelTypeError(
                f"{word} is {describe(x)} in one branch and {describe(y)} in the other",  # type: ignore[arg-type]
                span,
                "convert one of them, or use two names",
            )
        if xs is None or (ys is not None and not same and x_left):
            assert ys is not None and y is not None
            return [zero(v.type) for v in ys], ys, y
        if ys is None or not same:
            assert x is not None
            return xs, [zero(v.type) for v in xs], x
        return xs, ys, x  # type: ignore[return-value]

    # -- loops

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
        known = [b.value if isinstance(b, (Number, Const)) else None for b in bounds]
        trips = None if None in known else range(*known)  # type: ignore[arg-type]
        typed = None if all(isinstance(b, Number) for b in bounds) else kind
        if trips is not None and self.unroll(statement, trips, typed):
            return
        lo, hi = (b.as_type(kind, span) if isinstance(b, Number) else b for b in bounds[:2])
        # A constant step has a sign, which an unsigned range lacks.
        step = bounds[2] if known[2] is None else Const(int64, known[2])
        self.counted_loop(statement, lo, hi, step, never_empty=bool(trips))

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
        callee = self.expression(node.func) if isinstance(node, ast.Call) else None
        target = callee.object if isinstance(callee, PythonRef) else None
        if target is range:
            target = PYTHON_BUILTINS[range]
        if target is not BUILTINS["range"] or node.keywords or not 1 <= len(node.args) <= 3:  # type: ignore[attr-defined]
            raise CompileError(
                "a for statement needs range(stop), range(start, stop) or range(start, stop, step)",
                self.span(node),
                "to go over an array, write: for i in range(a.shape[0])",
            )
        bounds = [self.expression(a) for a in node.args]  # type: ignore[attr-defined]
        bounds = [b if isinstance(b, Number) else self.scalar(b, self.span(node), "range bound") for b in bounds]
        if any(isinstance(b, Number) and (isinstance(b.value, (bool, float))) for b in bounds):
            raise KernelTypeError("range() needs integers", self.span(node), "convert them: int(x)")
        lo, hi = ([Number(0), *bounds] if len(bounds) == 1 else bounds)[:2]
        return [lo, hi, bounds[2] if len(bounds) == 3 else Number(1)]

    def unroll(self, statement: ast.For, trips: range, kind: ScalarType | None) -> bool:
        """Read the body once for each value of the variable, if it is worth it."""
        nodes = [n for s in statement.body for n in ast.walk(s)]
        must = any(self._is_static(n) for n in nodes)
        count = max(0, -((trips.start - trips.stop) // trips.step))  # len() ends at 2^63
        fits = count <= self.max_unroll and len(nodes) * count * self.unrolled <= MAX_UNROLLED_NODES
        if any(may_jump(s) for s in statement.body) or not (must or fits):
            return False
        if must and len(nodes) * count * self.unrolled > 10 * MAX_UNROLLED_NODES:
            raise CompileError(f"a loop of {count} trips is too long to unroll", self.span(statement))
        name = statement.target.id  # type: ignore[attr-defined]
        outer, self.unrolled = self.unrolled, self.unrolled * max(1, count)
        shadowed = self.frame.statics.get(name)
        for k in trips:
            number = Number(k) if kind is None else Const(kind, k)
            self.assign(name, number, self.span(statement.target))
            self.frame.statics[name] = k
            self.lower_statements(statement.body)
        self.frame.statics.pop(name, None)
        if shadowed is not None:
            self.frame.statics[name] = shadowed
        self.unrolled = outer
        return True

    def _is_static(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
            return False
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        if name != "static":
            return False
        callee = self.expression(node.func)
        return isinstance(callee, PythonRef) and callee.object is static

    def counted_loop(self, statement: ast.For, lo: Operand, hi: Operand, step: Operand, never_empty: bool) -> None:
        span, target = self.span(statement), statement.target.id  # type: ignore[attr-defined]
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
        block = finish(nodes, carried.next_values())
        assert count_step is not None
        self.builder.append(
            For(index, count_lo, count_hi, count_step, carried.params, carried.init, block, carried.results, span)
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
        with self.builder.block() as cond_nodes:
            stays = self.not_jumped(("$return", "$break"), span)
            with self.builder.block() as test_nodes:
                if counter is not None:
                    holds = self.emit("lt", counter[0], counter[2], span=span)
                else:
                    assert test is not None
                    holds = self.truth(test)
            if is_eager(test_nodes) or isinstance(stays, Const):
                self.builder.extend(test_nodes)
                goes_on = self.emit("and", stays, holds, span=span)
            else:
                goes_on = Value(bool_)
                branches = (finish(test_nodes, (holds,)), finish([], (FALSE,)))
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
        block = finish(nodes, following)
        self.builder.append(While(tuple(params), tuple(init), cond, block, tuple(results), span))
        carried.leave()
        never_passed = test is not None and holds == TRUE and not any(_breaks(s) for s in statement.body)
        if never_passed and "$return" in self.frame.env:
            self.frame.env["$return"] = TRUE

    def carry(self, statement: ast.For | ast.While, body: Callable[[], None], never_empty: bool) -> Carried:
        """Enter a loop: decide what it carries, and let the names stand for that inside."""
        names = assigned_names([statement])
        # A continue is over when the next trip begins; whether a loop around is left is its own matter.
        self.frame.env = {**self.frame.env}
        outer = {flag: self.frame.env.pop(flag, None) for flag in ("$break", "$continue")}
        if any(_leaves_loop(s) for s in statement.body):
            self.frame.env["$break"] = FALSE
            self.frame.env.setdefault("$return", FALSE)
            names += ["$break", "$return"]
            if "$result" in self.frame.env:
                names.append("$result")
        inside = count_loads([statement])
        fresh = [n for n in names if n not in self.frame.env and self.frame.loads.get(n, 0) > inside.get(n, 0)]
        returns = any(_returns_value(n) for n in ast.walk(statement))
        if returns and "$result" not in self.frame.env:
            fresh.append("$result")
        added = self.types_after(names, body, fresh, self.span(statement)) if fresh else {}
        carried = Carried(self, names, added, outer, never_empty, self.span(statement))
        carried.enter()
        return carried

    def types_after(self, names: list[str], body: Callable, fresh: list[str], span: Span) -> dict[str, Binding]:
        """What `fresh` names stand for after the body, found by reading it once for nothing."""
        before, arity, warnings = self.state, self.tid_arity, dict(self.warnings)
        Carried(self, names, {}, {}, False, span).enter()
        with self.builder.block():
            body()
        found = {n: self.frame.env[n] for n in fresh if n in self.frame.env}
        self.state, self.tid_arity, self.warnings = before, arity, warnings
        return found

    def assign(self, name: str, binding: Binding, span: Span) -> None:
        raise NotImplementedError


class Carried:
    """The names that a loop carries, and the values that carry them."""

    def __init__(
        self,
        lowering: ControlFlowLowering,
        names: list[str],
        added: dict[str, Binding],
        outer_flags: dict[str, Binding | None],
        never_empty: bool,
        span: Span,
    ):
        self.lowering, self.span, self.outer_flags = lowering, span, outer_flags
        self.never_empty = never_empty
        self.added = {n for n in added if not n.startswith("$")}
        self.before = lowering.state
        self.bindings: dict[str, Binding] = {}
        self.others: list[str] = []
        init: list[Operand] = []
        for name in dict.fromkeys([*names, *added]):
            binding = self.before.env.get(name)
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
        self.init = tuple(init)
        names_of_scalars = [n for n, b in self.bindings.items() for _ in flatten(b, span) or ()]
        self.params = tuple(Value(v.type, n) for v, n in zip(init, names_of_scalars, strict=True))
        self.results = tuple(Value(p.type, p.name) for p in self.params)

    def enter(self) -> None:
        env = self.lowering.frame.env
        scalars: list[Operand] = list(self.params)
        for name, binding in self.bindings.items():
            env[name] = rebuild(binding, scalars)
        env.setdefault("$break", FALSE)
        env["$continue"] = FALSE
        self.lowering.frame.unset |= self.added  # until the body sets them

    def next_values(self) -> list[Operand]:
        """The carried values at the end of the body."""
        state = self.lowering.state
        values: list[Operand] = []
        for name, binding in self.bindings.items():
            after = state.env[name]
            if isinstance(after, Unusable):
                raise CompileError(after.reason, self.span)
            if layout(after, self.span) != layout(binding, self.span):
                raise KernelTypeError(
                    f"`{name}` is {describe(binding)} before the loop and {describe(after)} after one trip", self.span
                )
            values += flatten(after, self.span) or ()
        self.unset_inside = state.unset
        self.after = state.env
        return values

    def leave(self) -> None:
        """Let the names stand for what they are after the loop."""
        env = dict(self.before.env)
        scalars: list[Operand] = list(self.results)
        for name, binding in self.bindings.items():
            env[name] = rebuild(binding, scalars)
        for name in self.others:
            after = self.after.get(name)
            if name in env and after is not env[name]:
                env[name] = Unusable(f"`{name}` stands for different things before and after a loop")
            elif after is not None and flatten(after, self.span) is None:
                env[name] = Unusable(f"`{name}` is set in a loop and is no number, so it has no meaning after the loop")
        env.pop("$break", None)
        env.pop("$continue", None)
        env.update({flag: value for flag, value in self.outer_flags.items() if value is not None})
        carried = set(self.bindings)
        unset = self.before.unset - carried if self.never_empty else self.before.unset | self.added
        self.lowering.state = State(env, unset | (self.unset_inside & carried))


def _returns_value(node: ast.AST) -> bool:
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value is None)


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
