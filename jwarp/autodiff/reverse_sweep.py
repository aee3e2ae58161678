"""The reverse sweep: through branches, loops and calls, the last one first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jwarp.analysis.activity import Activity
from jwarp.analysis.ownership import added_to
from jwarp.analysis.write_conflicts import WriteConflicts
from jwarp.autodiff.checkpoints import Checkpoints, LoopCheckpoints, Storage
from jwarp.autodiff.conditional import Conditional, Derivatives
from jwarp.autodiff.custom_gradients import (
    Inlined,
    counter_refusal,
    given_twice,
    loaded_by_gradients,
    twice_refusal,
)
from jwarp.autodiff.forward import bits_refusal
from jwarp.autodiff.native_calls import build_adjoint, no_adjoint, sharing_refusal
from jwarp.autodiff.reverse_writes import ReverseWrites
from jwarp.autodiff.scalar_rules import Applied, Chosen
from jwarp.autodiff.tile_rules import rules_of
from jwarp.autodiff.write_conflicts import is_slot, or_nan
from jwarp.ir.attributes import Detached, NativeCall, Origin, Rule
from jwarp.ir.builder import make_block, zero
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Op,
    Operand,
    Param,
    Value,
    While,
    blocks,
    inner_params,
    operands,
    results,
    walk_node,
)
from jwarp.types import ArrayType, int64, shape_of, with_shape


class ReverseSweep(ReverseWrites):
    """Goes through a kernel backwards, and adds up the cotangents of its values.

    Parameters `shared` are the same for many launches of a batch, and with `repeated` several threads have the same
    coordinates.
    """

    def __init__(
        self,
        kernel: Kernel,
        active: Activity,
        written: frozenset[int],
        counters: frozenset[int],
        owned: frozenset[int],
        conflicts: WriteConflicts,
        storage: Storage,
        shared: frozenset[int],
        *,
        repeated: bool,
    ):
        super().__init__(kernel, active, written, counters, owned, conflicts, is_taped=storage is Storage.TAPE)
        self.checkpoints = Checkpoints(self) if storage is Storage.CHECKPOINTS else None
        self.shared, self.repeated = shared, repeated
        self.native_parts: dict[Operand, dict[int, Conditional]] = {}  # gradients of what comes out of native code
        self.cotangents: dict[tuple[int, int], Conditional] = {}  # of results of calls with their own gradients

    def under(self, values: Iterable[Value], given: Iterable[Operand]) -> Derivatives:
        """The cotangents that a block starts with."""
        made = Derivatives(self.builder)
        made.update((x, self.given(x, g)) for x, g in zip(values, given, strict=True))
        return made

    def reverse_block(self, block: Block) -> None:
        for node in reversed(block.nodes):
            self.builder.span = node.span
            match node:
                case Op():
                    self.reverse_op(node)
                case If() if node in self.busy or self.changed_arrays(node):
                    self.reverse_if(node)
                case For() | While() if node in self.busy:
                    self.reverse_loop(node)
                case For() | While() if changed := self.changed_arrays(node):
                    self.restore(node, (), changed)

    def free_values(self, node: For | If | While) -> list[Value]:
        """The values from outside that `node` uses and that carry a derivative."""
        inside, used = set(inner_params(node)), {}
        for inner in walk_node(node):
            for block in blocks(inner):
                used.update(dict.fromkeys(block.yields))
            if inner is not node:  # what a loop starts with gets its gradient from the carried values
                inside.update(inner_params(inner), results(inner))
                used.update(dict.fromkeys(operands(inner)))
        return [x for x in used if isinstance(x, Value) and x not in inside and x in self.active]

    def reverse_if(self, node: If) -> None:
        free = self.free_values(node)
        outer = self.gradients
        before = [outer.total(v) for v in free]
        flowing = [outer.pop(r, None) for r in node.results]
        sides = []
        for block in (node.then, node.orelse):
            self.gradients = self.under((), ())
            self.gradients.update((v, Conditional(g)) for v, g in zip(free, before, strict=True))
            with self.builder.block() as nodes:
                for y, g in zip(block.yields, flowing, strict=True):
                    if g is not None:
                        self.accumulate(y, g)
                self.reverse_block(block)
                sides.append(make_block(nodes, [self.gradients.total(v) for v in free]))
        self.gradients = outer
        made = tuple(Value(v.type) for v in free)
        self.builder.span = node.span
        # Threads in step that take both branches take `then` first: what came last is undone first.
        other = self.builder.op("not", self.operand(node.cond))
        self.builder.append(If(other, sides[1], sides[0], made, node.span))
        outer.update(self.under(free, made))

    def reverse_loop(self, node: For | While) -> None:
        """Go through the iterations backwards. What threads in step do in one iteration, they undo in one iteration."""
        span = node.span
        free = self.free_values(node)
        carried = [k for k, p in enumerate(node.params) if p in self.active]
        outer, outer_known = self.gradients, dict(self.known)
        init = [outer.total(node.results[k]) for k in carried] + [outer.total(v) for v in free]
        for result in node.results:
            outer.pop(result, None)
        iterations, alike = self.iterations(node)
        longest = iterations
        long = with_shape(int64, shape_of(iterations.type))
        if not alike:
            longest = Value(long)
            self.builder.append(Op("lane_max", (iterations,), None, longest, span))
        last = self.builder.op("sub", longest, Const(long, 1))
        checkpoints = self.checkpoints.open(node) if self.checkpoints is not None else None
        iteration = Value(long)
        params = [Value(x.type) for x in init]
        outer_replays, self.replays = self.replays, True
        with self.builder.block() as nodes:
            with self.builder.block() as body:
                self.enter_iteration(node, iteration, checkpoints)
                following = self.reverse_iteration(node, dict(zip([*carried, *free], params, strict=True)))
            if alike:
                self.builder.extend(body)
            else:
                runs = self.builder.op("lt", iteration, iterations)
                made = tuple(Value(x.type) for x in init)
                self.builder.append(If(runs, make_block(body, following), make_block([], params), made, span))
                following = list(made)
        totals = tuple(Value(x.type) for x in init)
        self.builder.span = span
        self.builder.append(
            For(
                iteration,
                last,
                Const(long, -1),
                -1,
                tuple(params),
                tuple(init),
                make_block(nodes, following),
                totals,
                span,
            )
        )
        self.gradients, self.known, self.replays = outer, outer_known, outer_replays
        outer.update(self.under(free, totals[len(carried) :]))
        for k, total in zip(carried, totals, strict=False):
            self.accumulate(node.init[k], total)

    def enter_iteration(self, node: For | While, iteration: Value, checkpoints: LoopCheckpoints | None) -> None:
        """Let the loop's index and what it carries stand for what they were when an iteration started."""
        if checkpoints is not None:
            fields = checkpoints.reach(iteration)
        else:
            fields = self.restore(node, node.params, self.changed_arrays(node), self.counter_arrays(node))
        self.set_index(node, iteration)
        for k, (param, field) in enumerate(zip(node.params, fields, strict=True)):
            self.known[param] = self.counted(node, k, iteration) or field

    def reverse_iteration(self, node: For | While, gradients: dict[Any, Value]) -> list[Operand]:
        """Repeat and reverse one iteration; the gradients of what it started with and used."""
        self.run(node.body, taped=True)
        self.gradients = self.under((), ())
        self.gradients.update((v, Conditional(g)) for v, g in gradients.items() if isinstance(v, Value))
        carried = [k for k in gradients if not isinstance(k, Value)]
        for k in carried:
            self.accumulate(node.body.yields[k], gradients[k])
        self.reverse_block(node.body)
        # The initial value of an iteration has its gradient from this iteration alone.
        starts = [self.gradients.take(node.params[k]) for k in carried]
        return [*starts, *(self.gradients.total(v) for v in gradients if isinstance(v, Value))]

    def counted(self, node: For | While, k: int, iteration: Operand) -> Operand | None:
        """A carried integer that grows by a constant, at the start of an iteration; None for any other value."""
        param = node.params[k]
        step = next((n for n in node.body.nodes if node.body.yields[k] in results(n)), None)
        added = added_to(step) if isinstance(step, Op) else None
        if not isinstance(step, Op) or added is None or added[0] is not param or not param.type.is_int:
            return None
        amount = next(x for x in step.args if x is not param)
        total = self.builder.op("mul", self.builder.op("cast", iteration, type=param.type), amount)
        return self.builder.op(step.name, self.operand(node.init[k]), total)

    def iterations(self, node: For | While) -> tuple[Operand, bool]:
        """How many iterations the loop made, and whether that is the same for all threads of a launch."""
        if isinstance(node, While):
            iterations = self.known[self.iterations_of[node]]
            return iterations, self.is_block_wide(iterations)
        do, long = self.builder.op, with_shape(int64, shape_of(node.index.type))
        lo, hi = (do("cast", self.operand(x), type=long) for x in (node.lo, node.hi))
        distance = do("sub", hi, lo) if node.step > 0 else do("sub", lo, hi)
        size = abs(node.step)
        if size > 1:
            distance = do("div", do("add", distance, Const(long, size - 1)), Const(long, size))
        iterations = do("max", distance, zero(long))
        return iterations, self.is_block_wide(iterations) or all(self.is_uniform(x) for x in (node.lo, node.hi))

    def is_block_wide(self, iterations: Operand) -> bool:
        """True if the lanes of a block execute a loop in lockstep."""
        return self.kernel.block_dim > 0 and not shape_of(iterations.type)

    def reverse_op(self, node: Op) -> None:
        if node.row.is_write:
            self.reverse_write(node)
        elif node.row.is_native:
            self.reverse_native(node)
        elif node.row.is_rule:
            self.reverse_call(node)
        elif node.row.clears:
            if node.attr in self.active.arrays:
                self.builder.effect("clear", attr=Origin("gradient", node.attr))
        elif node.result is not None and node.result in self.active:
            g = self.gradients.get(node.result)
            if node.row.is_parameter:
                first = self.scalars[node.array]
                if first is not node.result and g is not None:
                    del self.gradients[node.result]
                    self.gradients.add(first, g)
            elif g is not None:
                del self.gradients[node.result]
                self.reverse_value(node, g)

    def reverse_value(self, node: Op, given: Conditional) -> None:
        assert node.result is not None
        if node.row.is_load:
            indices, g = self.operands(node.args), self.gradients.settled(given)
            if (slot := self.conflicts.slots.get(node.array)) is not None:
                g = or_nan(self.builder, is_slot(self.builder, slot, self.origin(slot.counters), indices), g)
            self.add_to(node.array, indices, g, self.is_own(node.array, node.args))
            return
        if node.row.is_native_part:
            self.native_parts.setdefault(node.args[0], {})[node.number] = given
            return
        if node.row.is_detached:
            detached = node.attr_as(Detached)
            if detached.result >= 0:
                self.cotangents[detached.rule, detached.result] = given
            return
        rules = rules_of(node)
        if rules is None or not node.result.type.is_float or any(a.type.is_int and a in self.active for a in node.args):
            raise bits_refusal(self.kernel, node)
        applied = Applied(self.builder, self.operands(node.args), self.operand(node.result), node.name, node.attr)
        for x, rule in zip(node.args, rules, strict=True):
            if rule is None or not isinstance(x, Value) or x not in self.active:
                continue
            if isinstance(rule.reverse, Chosen):
                part = self.gradients.where(rule.reverse.where(applied), given)
            else:
                part = self.gradients.through(rule.reverse, applied, given)
            self.accumulate(x, part)

    def reverse_call(self, node: Op) -> None:
        """Run the gradient that the author of a function wrote, if results or what it wrote have a cotangent."""
        number, written = node.attr_as(Rule).gradient, node.attr_as(Rule).arrays
        gradient = self.kernel.gradients[number]
        found = {j: g for (k, j), g in self.cotangents.items() if k == number}
        self.cotangents = {key: g for key, g in self.cotangents.items() if key[0] != number}
        if not found and self.active.arrays.isdisjoint(written):
            return
        if counted := loaded_by_gradients(self.kernel) & self.counters:
            raise counter_refusal(self.kernel, node, min(counted))
        types = [
            param.dtype for param, (kind, _, _) in zip(gradient.kernel.params, gradient.feeds, strict=True)
            for _ in range(_components(param)) if kind == "cotangent"
        ]  # fmt: skip
        lanes = shape_of(node.args[0].type) if node.args else ()
        cotangents = tuple(
            self.gradients.settled(found[j]) if j in found else zero(with_shape(type, lanes))
            for j, type in enumerate(types)
        )
        if twice := given_twice(gradient) & set(written):
            raise twice_refusal(self.kernel, node, min(twice))
        args = self.operands(node.args)

        def build(add: Callable[[int, Operand], None]) -> None:
            Inlined(self.builder, self.kernel, gradient, args, cotangents, self, add).run()

        # Arrays may have a cotangent where the results have none.
        results_alone = self.active.arrays.isdisjoint(written)
        self.accumulate_where(self.gradients.anywhere(found.values()) if results_alone else None, node.args, build)

    def reverse_native(self, node: Op) -> None:
        """Run the adjoint that the author of native code wrote."""
        call = node.attr_as(NativeCall)
        found = self.native_parts.pop(node.result, {}) if node.result is not None else {}
        if not found and self.active.arrays.isdisjoint(call.changes):
            return
        if not call.adjoint:
            raise no_adjoint(self.kernel, node)
        arrays = {*call.reads, *call.changes}
        if arrays and (self.repeated or not arrays.isdisjoint(self.shared)):
            raise sharing_refusal(self.kernel, node)
        args = self.operands(node.args)
        cotangents = {k: self.gradients.settled(g) for k, g in found.items()}

        def build(add: Callable[[int, Operand], None]) -> None:
            given = build_adjoint(self.builder, call, args, cotangents, self.origin, self.adjoint_origin)
            for k, g in enumerate(given):
                if g is not None:
                    add(k, g)

        results_alone = self.active.arrays.isdisjoint(call.changes)
        self.accumulate_where(self.gradients.anywhere(found.values()) if results_alone else None, node.args, build)

    def accumulate_where(
        self, where: Operand | None, args: Sequence[Operand], build: Callable[[Callable[[int, Operand], None]], None]
    ) -> None:
        """Add what an author's code gives for operands of a call, which runs only where a cotangent counts."""
        found: list[tuple[int, Operand]] = []
        if where is None or shape_of(where.type):
            build(lambda k, g: found.append((k, g)))
        else:
            with self.builder.block() as nodes:
                build(lambda k, g: found.append((k, g)))
            made = tuple(Value(g.type) for _, g in found)
            nothing = make_block([], [zero(g.type) for g in made])
            span = self.builder.span
            self.builder.append(If(where, make_block(nodes, [g for _, g in found]), nothing, made, span))
            found = [(k, g) for (k, _), g in zip(found, made, strict=True)]
        for k, g in found:
            self.accumulate(args[k], Conditional(g, where, where is None))


def _components(param: Param) -> int:
    """How many scalars a parameter by value has."""
    return math.prod(param.type.components) if isinstance(param.type, ArrayType) else 1
