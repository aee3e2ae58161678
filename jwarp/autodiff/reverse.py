"""Reverse mode: from a kernel, the kernel that takes cotangents of its outputs to gradients of its inputs.

The adjoint kernel first runs the kernel again (the forward sweep) and then goes through it backwards.
A loop hands to its reverse what each iteration started with, on the thread's tape; the reverse restores that,
runs the iteration's body again and goes backwards through it, so a loop inside fills the tape anew for each
iteration of the loop around it. An array that the kernel overwrites keeps a log, by which the reverse sweep
restores what was there. Everything is generated as if it were needed; `prune` then drops most of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jwarp.analysis.activity import Activity, activity
from jwarp.analysis.choices import maybe_unchosen
from jwarp.analysis.ownership import ThreadIndices, added_to, owned_arrays
from jwarp.analysis.stencils import stencils
from jwarp.analysis.write_conflicts import WriteConflicts, conflicting_stores
from jwarp.autodiff.checkpoints import Checkpoints, LoopCheckpoints, LoopOverwrites, Storage
from jwarp.autodiff.conditional import Conditional, Derivatives
from jwarp.autodiff.custom_gradients import (
    Inlined,
    changed_by_gradients,
    counter_refusal,
    given_twice,
    loaded_by_gradients,
    twice_refusal,
)
from jwarp.autodiff.derived_parameters import Derived, derived
from jwarp.autodiff.forward import bits_refusal, order_refusal, refuse_notes, refuse_order, replayed
from jwarp.autodiff.forward_sweep import ForwardSweep
from jwarp.autodiff.gather import gather
from jwarp.autodiff.native_calls import build_adjoint, for_derivatives, no_adjoint, sharing_refusal
from jwarp.autodiff.scalar_rules import Applied, Chosen
from jwarp.autodiff.tile_rules import carries, chooses, rules_of
from jwarp.autodiff.write_conflicts import Marks, agree_there, alone_there, is_slot, marks, or_nan, same_number, stayed
from jwarp.ir.attributes import TAKEN_BACK, Detached, NativeCall, Origin, Rule
from jwarp.ir.builder import make_block, zero
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import (
    Block,
    Const,
    For,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    Param,
    Value,
    While,
    blocks,
    inner_params,
    operands,
    results,
    walk,
    walk_node,
    written_params,
)
from jwarp.passes.dead_stores import drop_dead_stores, drop_unread_stores
from jwarp.passes.hoist import speculate
from jwarp.passes.local_values import local_values
from jwarp.passes.prune import prune
from jwarp.passes.simplify import simplify
from jwarp.types import ArrayType, int64, shape_of, with_shape


def vjp(
    kernel: Kernel,
    wanted: Iterable[int],
    given: Iterable[int],
    *,
    shared: Iterable[int] = (),
    repeated: bool = False,
    alone: bool = False,
    single: Iterable[int] = (),
    gathered: Iterable[int] = (),
    exceeded: Iterable[int] = (),
    storage: Storage = Storage.TAPE,
) -> Derived:
    """The adjoint of `kernel`: gradients of the parameters `wanted` from cotangents of the arrays `given`.

    Parameters `shared` are the same for many launches of a batch, and with `repeated` several threads have
    the same coordinates; both make sums of what would else be one thread's own. A thread that is `alone` is the only
    one of the launch, and along the axes `single` there is one. The gradients of parameters `gathered`, which
    `stencils` knows and whose loads are in range, are stored once for each element; those of `exceeded` have fewer
    elements than the launch that gathers them has threads.

    `storage` says where loops keep what their iterations started with.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation on the way; it names the line.
    """
    wants, gives = frozenset(wanted), frozenset(given)
    # Gathering would run the writes of custom gradients once for each element.
    gathered = frozenset() if changed_by_gradients(kernel) else frozenset(gathered)
    single = () if gathered else tuple(single)  # gradients are gathered by threads beyond those of the launch
    kernel = for_derivatives(kernel, reverse=True)

    def of(kernel: Kernel) -> Derived:
        written = frozenset(written_params(kernel))
        kernel = simplify(speculate(simplify(kernel)))
        owned = frozenset() if repeated else owned_arrays(kernel, single) - frozenset(shared)
        active, counters = activity(kernel, wants, gives, carries), replayed(kernel, owned)
        conflicts = conflicting_stores(kernel, repeated=repeated, alone=alone, single=single)
        reverse = _Reverse(kernel, wants, active, written, owned, conflicts, counters, storage,
                           frozenset(shared), repeated)  # fmt: skip
        places = {p: axes for p, axes in stencils(kernel).items() if p in gathered - owned}
        return reverse.adjoint(kernel, {} if counters else places, frozenset(exceeded))

    try:
        return of(kernel)
    except LoopOverwrites as refused:
        values = local_values(kernel)  # carried by the loops
        if values is kernel:
            raise refused.error from None
    try:
        return of(values)
    except LoopOverwrites as refused:
        raise refused.error from None


class _Reverse(ForwardSweep):
    """`gradients` maps the kernel's values to what has been added up for them so far.

    A value that is `optional` may be left unchosen. Then it has cotangent zero, which nothing is made of, neither NaN
    of an infinite derivative nor anything else.
    """

    def __init__(
        self,
        kernel: Kernel,
        wanted: frozenset[int],
        active: Activity,
        written: frozenset[int],
        owned: frozenset[int],
        conflicts: WriteConflicts,
        counters: frozenset[int],
        storage: Storage,
        shared: frozenset[int],
        repeated: bool,
    ):
        super().__init__(kernel, active, written, counters, is_taped=storage is Storage.TAPE)
        self.checkpoints = Checkpoints(self) if storage is Storage.CHECKPOINTS else None
        self.wanted, self.owned, self.conflicts, self.indices = wanted, owned, conflicts, ThreadIndices(kernel)
        self.gradients = Derivatives(self.builder)
        self.optional = maybe_unchosen(kernel, active, chooses, (*conflicts.decided_by_final, *conflicts.same_value))
        self.numbers: Marks = {}  # of threads
        self.native_parts: dict[Operand, dict[int, Conditional]] = {}  # gradients of what comes out of native code
        self.shared, self.repeated = shared, repeated
        self.cotangents: dict[tuple[int, int], Conditional] = {}  # of results of calls with their own gradients
        # The gradients of calls that have their own backward rule.
        self.taken_back = {n.result for n in contents_of(kernel.body).ops if _is_taken_back(n)}

    # -- the whole kernel

    def adjoint(self, kernel: Kernel, gathered: dict[int, tuple[int, ...]], exceeded: frozenset[int]) -> Derived:
        for k in range(len(kernel.params), len(kernel.params) + len(kernel.locals)):
            for kind in ("work", "gradient"):
                self.builder.effect("clear", attr=Origin(kind, k))
        cleared = self.builder.nodes
        with self.builder.block() as nodes:
            self.numbers = marks(self.builder, kernel, self.conflicts.ambiguous)
            self.run(kernel.body, taped=True)
            self.reverse_block(kernel.body)
            for p, value in self.scalars.items():
                if value in self.gradients:
                    total = self.gradients.total(value)
                    self.builder.effect("atomic_add", zero(int64), total, attr=Origin("gradient", p))
        more = self.checkpoints.locals if self.checkpoints is not None else {}
        body = make_block([*cleared, *(Op("clear", (), array) for array in more), *self.scalar_reads(), *nodes])
        returned = {Origin("gradient", p) for p in self.wanted} | {Origin("cotangent", p) for p in self.wanted}
        gradients, shared = frozenset(returned), {Origin("work", p) for p in self.counters}
        returned |= {Origin("work", p) for p in self.scratch if p < len(kernel.params)}
        body = prune(body, returned, shared)
        if self.checkpoints is not None:
            self.checkpoints.refuse_tape(body)
        body = prune(drop_dead_stores(body), returned, shared)
        body = simplify(Kernel(kernel.name, (), kernel.tid_dims, body)).body
        if gathered:
            body = gather(prune(body, returned), gathered, frozenset(returned), exceeded)
            body = simplify(Kernel(kernel.name, (), kernel.tid_dims, body)).body
        own = {Origin("cotangent", p) for p in self.owned} - returned - shared
        body = prune(drop_unread_stores(body, own), returned, shared)
        # Like launches, custom gradients may write to other arrays in any order.
        refuse_order(kernel, prune(body, gradients, shared) if self.scratch else body, self.owned | self.counters)
        if kernel.block_dim:
            refuse_notes(kernel, body)
        return derived(kernel, body, more, apart=not self.conflicts.same_value.isdisjoint(self.active.arrays))

    def scalar_reads(self) -> list[Node]:
        reads: list[Node] = []
        for p, value in self.scalars.items():
            made = self.known[value]
            assert isinstance(made, Value)
            reads.append(Op("param", (), Origin("primal", p), made, self.kernel.span))
        return reads

    # -- the reverse sweep

    def accumulate(self, x: Operand, g: Operand | Conditional) -> None:
        """Add `g` to the gradient of `x`."""
        if isinstance(x, Value) and x in self.active:
            self.gradients.add(x, g if isinstance(g, Conditional) else self.given(x, g))

    def given(self, x: Value, g: Operand) -> Conditional:
        """The settled cotangent of a value, as a block or an array hands it on."""
        return self.gradients.reached(g) if x in self.optional and not isinstance(g, Const) else Conditional(g)

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

    # -- memory in reverse

    def adjoint_origin(self, array: int) -> Origin:
        """The array that holds the gradient of array `array`."""
        if array >= len(self.kernel.params):
            return Origin("gradient", array)
        return Origin("cotangent" if array in self.written else "gradient", array)

    def cotangent(self, array: int) -> Origin | None:
        """The array that holds the gradient of array `array`; None if it has none."""
        return self.adjoint_origin(array) if array in self.active.arrays else None

    def load(self, origin: Origin, indices: tuple[Operand, ...]) -> Value:
        made = Value(with_shape(self.kernel.array(origin.param).dtype, shape_of(indices[0].type)))
        self.builder.append(Op("load", indices, origin, made, self.builder.span))
        return made

    def is_own(self, array: int, indices: tuple[Operand, ...]) -> bool:
        """True if no other thread adds to an element of an array at the same time."""
        return array >= len(self.kernel.params) or (array in self.owned and self.indices.differ(indices))

    def add_to(self, array: int, indices: tuple[Operand, ...], g: Operand, own: bool) -> None:
        """Add `g` to the gradient of an element."""
        origin = self.adjoint_origin(array)
        if own:
            self.builder.effect("store", *indices, self.builder.op("add", self.load(origin, indices), g), attr=origin)
        else:
            self.builder.effect("atomic_add", *indices, g, attr=origin)

    def reverse_write(self, node: Op) -> None:
        if node.attr in self.loaded:
            elements = [i for i in self.operands(node.indices)[:1] if shape_of(i.type)]
            self.builder.effect("undo", *elements, attr=self.origin(node.attr))
        if node.attr not in self.active.arrays or (node.args and node.args[-1] in self.taken_back):
            return
        rule = _WRITE_RULES.get(node.name)
        if rule is None or (node.result is not None and node.result in self.active and node.attr not in self.owned):
            raise order_refusal(self.kernel, node)
        rule(self, node, self.adjoint_origin(node.attr), self.operands(node.indices))

    def reverse_store(self, node: Op, origin: Origin, indices: tuple[Operand, ...]) -> None:
        if node.array in self.conflicts.decided_by_final:
            value = self.operand(node.args[-1])
            wins = stayed(self.builder, self.kernel, node.array, indices, value)
            self.accumulate(node.args[-1], self.taken(wins, origin, indices))
            return
        g: Operand = self.load(origin, indices)
        if node.array in self.conflicts.ambiguous:
            g = or_nan(self.builder, alone_there(self.builder, self.kernel, node.array, indices, self.numbers), g)
        if node.array in self.conflicts.same_value:
            value = self.operand(node.args[-1])
            g = or_nan(self.builder, agree_there(self.builder, self.kernel, node.array, indices, value), g)
        if (slot := self.conflicts.slots.get(node.array)) is not None:
            g = or_nan(self.builder, is_slot(self.builder, slot, self.origin(slot.counters), indices), g)
        before = self.gradients.take(node.result) if node.result is not None else zero(g.type)
        self.accumulate(node.args[-1], g)
        self.builder.effect("store", *indices, before, attr=origin)

    def reverse_add(self, node: Op, origin: Origin, indices: tuple[Operand, ...]) -> None:
        self.accumulate(node.args[-1], self.load(origin, indices))
        if node.result is not None and node.result in self.gradients:
            own = self.is_own(node.array, node.indices)
            self.add_to(node.array, indices, self.gradients.take(node.result), own)

    def reverse_extremum(self, node: Op, origin: Origin, indices: tuple[Operand, ...]) -> None:
        """The cotangent goes to one of the values that equal the final one, whichever comes first."""
        ops = (n for n in walk(self.kernel.body) if isinstance(n, Op))
        touching = {n.name for n in ops if n.row.is_access and n.attr == node.attr}
        if touching != {node.name} or node.result in self.used:
            raise order_refusal(self.kernel, node)
        final = self.load(Origin("final", node.array), indices)
        wins = same_number(self.builder, self.operand(node.args[-1]), final)
        self.accumulate(node.args[-1], self.taken(wins, origin, indices))

    def taken(self, wins: Operand, origin: Origin, indices: tuple[Operand, ...]) -> Value:
        """The cotangent of an element, which the first thread takes away that `wins`; others get zero."""
        # An exchange waits for memory. A load that comes before it does that for all lanes of a vector at once.
        there = self.load(origin, indices)
        taken, made, nothing, span = Value(there.type), Value(there.type), zero(there.type), self.builder.span
        wins = self.builder.op("and", wins, self.builder.op("ne", there, nothing))
        with self.builder.block() as nodes:
            self.builder.append(Op("atomic_exch", (*indices, nothing), origin, taken, span))
        self.builder.append(If(wins, make_block(nodes, [taken]), make_block([], [nothing]), (made,), span))
        return made


_WRITE_RULES = {
    "store": _Reverse.reverse_store,
    "atomic_add": _Reverse.reverse_add,
    "atomic_min": _Reverse.reverse_extremum,
    "atomic_max": _Reverse.reverse_extremum,
    "atomic_exch": _Reverse.reverse_store,
}


def _is_taken_back(node: Op) -> bool:
    return node.row.is_detached and node.attr is not None and node.attr_as(Detached).result == TAKEN_BACK


def _components(param: Param) -> int:
    """How many scalars a parameter by value has."""
    return math.prod(param.type.components) if isinstance(param.type, ArrayType) else 1
