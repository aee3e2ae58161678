"""Reverse mode: from a kernel, the kernel that takes cotangents of its outputs to gradients of its inputs.

The adjoint kernel first runs the kernel again (the forward sweep) and then goes through it backwards.
A loop hands to its reverse what each trip started with, on the thread's tape; the reverse restores that,
runs the trip's body again and goes backwards through it, so a loop inside fills the tape anew for each
trip of the loop around it. An array that the kernel overwrites keeps a log, by which the reverse sweep
restores what was there. Everything is generated as if it were needed; `prune` then drops most of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jwarp.ir.builder import Builder, make_block, zero
from jwarp.ir.nodes import (
    WRITES,
    Block,
    Const,
    For,
    If,
    Kernel,
    Node,
    Op,
    Operand,
    Value,
    While,
    blocks,
    indices_of,
    inner_params,
    operands,
    results,
    walk,
    walk_node,
    written_params,
)
from jwarp.transform.activity import Activity, activity
from jwarp.transform.derivatives import DERIVATIVES, Applied
from jwarp.transform.gather import gather
from jwarp.transform.jvp import bits_refusal, order_refusal
from jwarp.transform.ownership import owned_arrays, stencils
from jwarp.transform.prune import prune
from jwarp.transform.simplify import simplify
from jwarp.transform.checkpoints import Checkpoints, Slots
from jwarp.transform.slots import Derived, Slot, derived
from jwarp.transform.speculate import speculate
from jwarp.types import int64


def vjp(
    kernel: Kernel,
    wanted: Iterable[int],
    given: Iterable[int],
    *,
    shared: Iterable[int] = (),
    repeated: bool = False,
    gathered: Iterable[int] = (),
    policy: str = "tape",
) -> Derived:
    """The adjoint of `kernel`: gradients of the parameters `wanted` from cotangents of the arrays `given`.

    Parameters `shared` are the same for many launches of a batch, and with `repeated` several threads have
    the same coordinates; both make sums of what would else be one thread's own. The gradients of parameters
    `gathered`, which `stencils` knows and whose loads are in range, are stored once for each element.

    With the policy `tape`, loops keep what every trip started with on a tape that grows; with `slots`, in a
    fixed number of slots, from which they run again to the trip that is wanted.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation on the way; it names the line.
    """
    kernel = simplify(speculate(simplify(kernel)))
    wanted, given = frozenset(wanted), frozenset(given)
    owned = frozenset() if repeated else owned_arrays(kernel) - frozenset(shared)
    reverse = _Reverse(kernel, wanted, activity(kernel, wanted, given), owned, policy)
    return reverse.adjoint(kernel, {p: axes for p, axes in stencils(kernel).items() if p in set(gathered) - owned})


class _Reverse:
    """`known` maps the kernel's values to the adjoint's, `gradients` those to what has been added up."""

    def __init__(self, kernel: Kernel, wanted: frozenset[int], active: Activity, owned: frozenset[int], policy: str):
        self.kernel, self.wanted, self.active, self.owned = kernel, wanted, active, owned
        self.builder = Builder()
        self.known: dict[Value, Operand] = {}
        self.gradients: dict[Value, Operand] = {}
        self.scalars: dict[int, Value] = {}
        self.tapes = itertools.count()
        self.slots = Slots(self) if policy == "slots" else None
        self.tape_of: dict[int, int] = {}  # by id of a loop: the tape that it filled last
        self.trips_of: dict[int, Value] = {}  # by id of a while loop: stands for its number of trips
        ops = [n for n in walk(kernel.body) if isinstance(n, Op)]
        self.written = frozenset(written_params(kernel))
        self.loaded = frozenset(n.attr for n in ops if n.name == "load")
        self.used = {x for n in walk(kernel.body) for x in operands(n)}
        self.used |= {y for n in walk(kernel.body) for b in blocks(n) for y in b.yields}
        self.busy = self.busy_nodes()

    def busy_nodes(self) -> frozenset[int]:
        """The ids of the nodes that the reverse sweep has something to do with."""

        def is_busy(node: Node) -> bool:
            if isinstance(node, Op):
                return any(r in self.active for r in results(node)) or (
                    node.name in WRITES and node.attr in self.active.arrays
                )
            return any([is_busy(inner) for block in blocks(node) for inner in block.nodes]) and note(node)

        def note(node: Node) -> bool:
            found.add(id(node))
            return True

        found: set[int] = set()
        for node in self.kernel.body.nodes:
            if is_busy(node):
                note(node)
        return frozenset(found | {id(n) for n in walk(self.kernel.body) if isinstance(n, Op) and is_busy(n)})

    # -- the whole kernel

    def adjoint(self, kernel: Kernel, gathered: dict[int, tuple[int, ...]]) -> Derived:
        for k in range(len(kernel.params), len(kernel.params) + len(kernel.locals)):
            for kind in ("work", "gradient"):
                self.builder.effect("clear", attr=Slot(kind, k))
        cleared = self.builder.nodes
        with self.builder.block() as nodes:
            self.forward_block(kernel.body, taped=True)
            self.reverse_block(kernel.body)
            for p, value in self.scalars.items():
                if value in self.gradients:
                    self.builder.effect(
                        "atomic_add", zero(int64), self.gradients[value], attr=Slot("gradient", p)
                    )
        slots = [Op("clear", (), slot) for slot in (self.slots.locals if self.slots else {})]
        body = make_block([*cleared, *slots, *self.scalar_reads(), *nodes])
        returned = {Slot("gradient", p) for p in self.wanted} | {Slot("cotangent", p) for p in self.wanted}
        body = prune(body, returned)
        body = simplify(Kernel(kernel.name, (), kernel.tid_dims, body)).body
        if gathered:
            body = gather(prune(body, returned), gathered, frozenset(returned))
            body = simplify(Kernel(kernel.name, (), kernel.tid_dims, body)).body
        body = prune(body, returned)
        if self.slots is not None:
            self.slots.refuse_tape(body)
        return derived(kernel, body, self.slots.locals if self.slots else {})

    def scalar_reads(self) -> list[Node]:
        reads: list[Node] = []
        for p, value in self.scalars.items():
            made = self.known[value]
            assert isinstance(made, Value)
            reads.append(Op("param", (), Slot("primal", p), made, self.kernel.span))
        return reads

    # -- the forward sweep

    def operand(self, x: Operand) -> Operand:
        return self.known[x] if isinstance(x, Value) else x

    def all(self, xs: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(self.operand(x) for x in xs)

    def fresh(self, value: Value) -> Value:
        made = Value(value.type, value.name)
        self.known[value] = made
        return made

    def slot(self, array: int) -> Slot:
        """The array of the adjoint kernel that holds what array `array` holds in the kernel."""
        local = array >= len(self.kernel.params)
        return Slot("work" if local or array in self.written else "primal", array)

    def forward_block(self, block: Block, taped: bool) -> None:
        """Run a block again; if `taped`, so that it can be reversed in this place."""
        for node in block.nodes:
            self.builder.span = node.span
            match node:
                case Op():
                    self.forward_op(node)
                case If():
                    self.forward_if(node, taped)
                case For() | While():
                    self.forward_loop(node, taped)

    def forward_op(self, node: Op) -> None:
        args = self.all(node.args)
        if node.name in ("assert", "check", "print"):
            return
        if node.name == "param":
            self.forward_scalar(node)
        elif node.name in WRITES:
            if node.attr in self.loaded:
                self.builder.effect("log", *self.all(indices_of(node)), attr=self.slot(node.attr))
            made = self.fresh(node.result) if node.result is not None else None
            if node.attr in self.loaded or node.result in self.used:
                self.builder.append(Op(node.name, args, self.slot(node.attr), made, node.span))
        elif node.name == "clear":
            self.builder.effect("clear", attr=self.slot(node.attr))
        elif node.name == "load":
            assert node.result is not None
            self.builder.append(Op("load", args, self.slot(node.attr), self.fresh(node.result), node.span))
        elif node.args:
            assert node.result is not None
            self.known[node.result] = self.builder.op(node.name, *args, attr=node.attr, type=node.result.type)
        else:
            assert node.result is not None
            self.builder.append(Op(node.name, (), node.attr, self.fresh(node.result), node.span))

    def forward_scalar(self, node: Op) -> None:
        """A scalar argument is one value, wherever it is read."""
        assert node.result is not None
        first = self.scalars.setdefault(node.attr, node.result)
        self.known[node.result] = self.known.get(first) or self.fresh(first)

    def forward_if(self, node: If, taped: bool) -> None:
        """A branch also results in what it computes inside, for the reverse sweep."""
        outer = self.known
        sides: list[tuple[list[Node], tuple[Operand, ...], dict[Value, Operand]]] = []
        for block in (node.then, node.orelse):
            self.known = dict(outer)
            with self.builder.block() as nodes:
                self.forward_block(block, taped)
            inner = {v: x for v, x in self.known.items() if v not in outer}
            sides.append((nodes, self.all(block.yields), inner if taped else {}))
        self.known = outer
        defined = [{x for n in nodes for x in results(n)} for nodes, _, _ in sides]
        made: list[Value] = [self.fresh(r) for r in node.results]
        yields = [list(y) for _, y, _ in sides]
        for side, (_, _, inner) in enumerate(sides):
            exported: dict[Operand, Value] = {}
            for value, x in inner.items():
                if x in defined[side] and x not in exported:
                    assert isinstance(x, Value)
                    exported[x] = Value(x.type, x.name)
                    made.append(exported[x])
                    yields[side].append(x)
                    yields[1 - side].append(zero(x.type))
                self.known[value] = exported.get(x, x)
        then, orelse = (make_block(nodes, y) for (nodes, _, _), y in zip(sides, yields, strict=True))
        self.builder.append(If(self.operand(node.cond), then, orelse, tuple(made), node.span))

    def forward_loop(self, node: For | While, taped: bool) -> None:
        taped_trips = taped and id(node) in self.busy
        changed = self.changed_arrays(node)
        if taped and changed and not taped_trips:
            self.tape_of[id(node)] = next(self.tapes)
            self.push(self.tape_of[id(node)], (), changed)
        outer = dict(self.known)
        init, bounds = self.all(node.init), self.all((node.lo, node.hi)) if isinstance(node, For) else ()
        params = [self.fresh(p) for p in node.params]
        made_results = [Value(r.type, r.name) for r in node.results]
        known = outer | dict(zip(node.results, made_results, strict=True))
        index = self.fresh(node.index) if isinstance(node, For) else None
        cond = Block()
        if isinstance(node, While):
            with self.builder.block() as nodes:
                self.forward_block(node.cond, taped=False)
            cond = make_block(nodes, self.all(node.cond.yields))
        count = Value(int64)
        with self.builder.block() as nodes:
            if taped_trips and self.slots is None:
                self.tape_of[id(node)] = next(self.tapes)
                self.push(self.tape_of[id(node)], params, changed)
            self.forward_block(node.body, taped=False)
            yields = list(self.all(node.body.yields))
            following = self.builder.op("add", count, Const(int64, 1))
        self.known = known
        if isinstance(node, For):
            assert index is not None
            loop: Node = For(index, *bounds, node.step, tuple(params), init, make_block(nodes, yields),
                             tuple(made_results), node.span)  # fmt: skip
        else:
            trips = Value(int64)
            self.known[self.trips_of.setdefault(id(node), Value(int64))] = trips
            loop = While((*params, count), (*init, zero(int64)), cond, make_block(nodes, [*yields, following]),
                         (*made_results, trips), node.span)  # fmt: skip
        self.builder.append(loop)

    def changed_arrays(self, node: Node) -> list[Slot]:
        """The arrays that `node` stores to and that the kernel reads back."""
        found = {n.attr: None for n in walk_node(node) if isinstance(n, Op) and n.name in WRITES}
        return [self.slot(p) for p in found if p in self.loaded]

    def push(self, tape: int, values: Iterable[Value], logs: Iterable[Slot]) -> None:
        """Add a record of values and of the lengths of logs to a tape."""
        values, logs = tuple(values), tuple(logs)
        marks = []
        for slot in logs:
            marks.append(Value(int64))
            self.builder.append(Op("mark", (), slot, marks[-1], self.builder.span))
        flags = (*(0 for _ in values), *(1 for _ in logs))
        self.builder.append(Op("push", (*values, *marks), (tape, *flags), None, self.builder.span))

    def restore(self, tape: int, values: Iterable[Value], logs: Iterable[Slot]) -> list[Value]:
        """Take a record back: the values, after the logs were undone."""
        wanted = [*values, *(Value(int64) for _ in logs)]
        fields = [Value(v.type, v.name) for v in wanted]
        for k, field in enumerate(fields):
            self.builder.append(Op("top", (), (tape, k), field, self.builder.span))
        self.builder.append(Op("pop", (), tape, None, self.builder.span))
        logs = tuple(logs)
        for slot, mark in zip(logs, fields[len(fields) - len(logs) :], strict=True):
            self.builder.append(Op("rollback", (mark,), slot, None, self.builder.span))
        return fields[: len(fields) - len(logs)]

    # -- the reverse sweep

    def accumulate(self, x: Operand, g: Operand) -> None:
        """Add `g` to the gradient of `x`."""
        if not isinstance(x, Value) or x not in self.active or (isinstance(g, Const) and g.value == 0):
            return
        before = self.gradients.get(x)
        self.gradients[x] = g if before is None else self.builder.op("add", before, g)

    def gradient(self, x: Value) -> Operand:
        return self.gradients.get(x) or zero(x.type)

    def reverse_block(self, block: Block) -> None:
        for node in reversed(block.nodes):
            self.builder.span = node.span
            match node:
                case Op():
                    self.reverse_op(node)
                case If() if id(node) in self.busy or self.changed_arrays(node):
                    self.reverse_if(node)
                case For() | While() if id(node) in self.busy:
                    self.reverse_loop(node)
                case For() | While() if changed := self.changed_arrays(node):
                    self.restore(self.tape_of[id(node)], (), changed)

    def free_values(self, node: For | If | While) -> list[Value]:
        """The values from outside that `node` uses and that carry a derivative."""
        inside, used = set(inner_params(node)), {}
        for inner in walk_node(node):
            inside.update(inner_params(inner), results(inner))
            used.update(dict.fromkeys(operands(inner)))
            for block in blocks(inner):
                used.update(dict.fromkeys(block.yields))
        entering = set(operands(node)) - {y for b in blocks(node) for y in b.yields}
        own = {x for inner in walk_node(node) if inner is not node for x in operands(inner)}
        return [
            x for x in used
            if isinstance(x, Value) and x not in inside and x in self.active and (x not in entering or x in own)
        ]  # fmt: skip

    def reverse_if(self, node: If) -> None:
        free = self.free_values(node)
        outer = self.gradients
        before = [self.gradient(v) for v in free]
        flowing = [outer.pop(r, None) for r in node.results]
        sides = []
        for block in (node.then, node.orelse):
            self.gradients = dict(zip(free, before, strict=True))
            with self.builder.block() as nodes:
                for y, g in zip(block.yields, flowing, strict=True):
                    if g is not None:
                        self.accumulate(y, g)
                self.reverse_block(block)
                sides.append(make_block(nodes, [self.gradients[v] for v in free]))
        self.gradients = outer
        made = tuple(Value(v.type) for v in free)
        self.gradients.update(zip(free, made, strict=True))
        self.builder.span = node.span
        self.builder.append(If(self.operand(node.cond), *sides, made, node.span))

    def reverse_loop(self, node: For | While) -> None:
        """Go through the trips backwards. What threads in step do in one trip, they undo in one trip."""
        span = node.span
        free = self.free_values(node)
        carried = [k for k, p in enumerate(node.params) if p in self.active]
        outer, outer_known = self.gradients, dict(self.known)
        init = [self.gradient(node.results[k]) for k in carried] + [self.gradient(v) for v in free]
        for result in node.results:
            outer.pop(result, None)
        trips, alike = self.trips(node)
        longest = trips
        if not alike:
            longest = Value(int64)
            self.builder.append(Op("lane_max", (trips,), None, longest, span))
        last = self.builder.op("sub", longest, Const(int64, 1))
        checkpoints = self.slots.open(node) if self.slots is not None else None
        trip = Value(int64)
        params = [Value(x.type) for x in init]
        with self.builder.block() as nodes:
            with self.builder.block() as body:
                self.enter_trip(node, trip, checkpoints)
                following = self.reverse_trip(node, dict(zip([*carried, *free], params, strict=True)))
            if alike:
                self.builder.extend(body)
            else:
                runs = self.builder.op("lt", trip, trips)
                made = tuple(Value(x.type) for x in init)
                self.builder.append(If(runs, make_block(body, following), make_block([], params), made, span))
                following = list(made)
        totals = tuple(Value(x.type) for x in init)
        self.builder.span = span
        self.builder.append(
            For(trip, last, Const(int64, -1), -1, tuple(params), tuple(init), make_block(nodes, following), totals, span)
        )
        self.gradients, self.known = outer, outer_known
        outer.update(zip(free, totals[len(carried) :], strict=True))
        for k, total in zip(carried, totals, strict=False):
            self.accumulate(node.init[k], total)

    def enter_trip(self, node: For | While, trip: Value, checkpoints: Checkpoints | None) -> None:
        """Let the loop's index and what it carries stand for what they were when a trip started."""
        if checkpoints is not None:
            fields = checkpoints.reach(trip)
        else:
            fields = self.restore(self.tape_of[id(node)], node.params, self.changed_arrays(node))
        self.set_index(node, trip)
        for k, (param, field) in enumerate(zip(node.params, fields, strict=True)):
            self.known[param] = self.counted(node, k, trip) or field

    def set_index(self, node: For | While, trip: Operand) -> None:
        if isinstance(node, For):
            at = self.builder.op("cast", trip, type=node.index.type)
            offset = self.builder.op("mul", at, _wrapped(node.index.type, node.step))
            self.known[node.index] = self.builder.op("add", self.operand(node.lo), offset)

    def reverse_trip(self, node: For | While, gradients: dict[Any, Value]) -> list[Operand]:
        """Repeat and reverse one trip; the gradients of what it started with and used."""
        self.forward_block(node.body, taped=True)
        self.gradients = {v: g for v, g in gradients.items() if isinstance(v, Value)}
        carried = [k for k in gradients if not isinstance(k, Value)]
        for k in carried:
            self.accumulate(node.body.yields[k], gradients[k])
        self.reverse_block(node.body)
        # What a trip starts with has its gradient from this trip alone.
        starts = [self.gradients.pop(node.params[k], zero(node.params[k].type)) for k in carried]
        return [*starts, *(self.gradients[v] for v in gradients if isinstance(v, Value))]

    def counted(self, node: For | While, k: int, trip: Operand) -> Operand | None:
        """A carried integer that grows by a constant, at the start of a trip; None for any other value."""
        param = node.params[k]
        step = next((n for n in node.body.nodes if node.body.yields[k] in results(n)), None)
        if not isinstance(step, Op) or step.name not in ("add", "sub") or not param.type.is_int:
            return None
        x, y = step.args
        if step.name == "add" and y is param:
            x, y = y, x
        if x is not param or not isinstance(y, Const):
            return None
        total = self.builder.op("mul", self.builder.op("cast", trip, type=param.type), y)
        return self.builder.op(step.name, self.operand(node.init[k]), total)

    def trips(self, node: For | While) -> tuple[Operand, bool]:
        """How many trips the loop made, and whether that is the same for all threads of a launch."""
        if isinstance(node, While):
            return self.known[self.trips_of[id(node)]], False
        do = self.builder.op
        lo, hi = (do("cast", self.operand(x), type=int64) for x in (node.lo, node.hi))
        distance = do("sub", hi, lo) if node.step > 0 else do("sub", lo, hi)
        size = abs(node.step)
        if size > 1:
            distance = do("div", do("add", distance, Const(int64, size - 1)), Const(int64, size))
        trips = do("max", distance, zero(int64))
        return trips, all(self.is_uniform(x) for x in (node.lo, node.hi))

    def is_uniform(self, x: Operand) -> bool:
        return isinstance(x, Const) or x in self.uniform

    @property
    def uniform(self) -> set[Value]:
        """The integer values that are plainly the same for all threads."""
        if not hasattr(self, "_uniform"):
            self._uniform: set[Value] = set()
            for node in walk(self.kernel.body):
                if isinstance(node, Op) and node.result is not None:
                    if node.name in ("param", "shape") or (
                        node.args and node.name not in ("load", *WRITES) and all(map(self.is_uniform, node.args))
                    ):
                        self._uniform.add(node.result)
        return self._uniform

    def reverse_op(self, node: Op) -> None:
        if node.name in WRITES:
            self.reverse_write(node)
        elif node.name == "clear":
            if node.attr in self.active.arrays:
                self.builder.effect("clear", attr=Slot("gradient", node.attr))
        elif node.result is not None and node.result in self.active:
            g = self.gradients.get(node.result)
            if node.name == "param":
                first = self.scalars[node.attr]
                if first is not node.result and g is not None:
                    del self.gradients[node.result]
                    self.gradients[first] = self.builder.op("add", self.gradients[first], g) if first in self.gradients else g
            elif g is not None:
                del self.gradients[node.result]
                self.reverse_value(node, g)

    def reverse_value(self, node: Op, g: Operand) -> None:
        assert node.result is not None
        if node.name == "load":
            self.add_to(node.attr, self.all(node.args), g)
            return
        rules = DERIVATIVES.get(node.name)
        if rules is None or not node.result.type.is_float or any(a.type.is_int and a in self.active for a in node.args):
            raise bits_refusal(self.kernel, node)
        applied = Applied(self.builder, self.all(node.args), self.operand(node.result))
        for x, rule in zip(node.args, rules, strict=True):
            if rule is not None and isinstance(x, Value) and x in self.active:
                self.accumulate(x, rule(applied, g))

    # -- memory in reverse

    def adjoint_slot(self, array: int) -> Slot:
        """The array that holds the gradient of array `array`."""
        if array >= len(self.kernel.params):
            return Slot("gradient", array)
        return Slot("cotangent" if array in self.written else "gradient", array)

    def load(self, slot: Slot, indices: tuple[Operand, ...]) -> Value:
        made = Value(self.kernel.array(slot.param).type.dtype)
        self.builder.append(Op("load", indices, slot, made, self.builder.span))
        return made

    def add_to(self, array: int, indices: tuple[Operand, ...], g: Operand) -> None:
        """Add `g` to the gradient of an element."""
        slot = self.adjoint_slot(array)
        if array >= len(self.kernel.params) or array in self.owned:
            self.builder.effect("store", *indices, self.builder.op("add", self.load(slot, indices), g), attr=slot)
        else:
            self.builder.effect("atomic_add", *indices, g, attr=slot)

    def reverse_write(self, node: Op) -> None:
        if node.attr in self.loaded:
            self.builder.effect("undo", attr=self.slot(node.attr))
        if node.attr not in self.active.arrays:
            return
        rule = _WRITE_RULES.get(node.name)
        if rule is None or (node.result is not None and node.result in self.active and node.attr not in self.owned):
            raise order_refusal(self.kernel, node)
        rule(self, node, self.adjoint_slot(node.attr), self.all(indices_of(node)))

    def reverse_store(self, node: Op, slot: Slot, indices: tuple[Operand, ...]) -> None:
        g = self.load(slot, indices)
        before = self.gradients.pop(node.result, None) if node.result is not None else None
        self.accumulate(node.args[-1], g)
        self.builder.effect("store", *indices, before or zero(g.type), attr=slot)

    def reverse_add(self, node: Op, slot: Slot, indices: tuple[Operand, ...]) -> None:
        self.accumulate(node.args[-1], self.load(slot, indices))
        if node.result is not None and node.result in self.gradients:
            self.add_to(node.attr, indices, self.gradients.pop(node.result))

    def reverse_extremum(self, node: Op, slot: Slot, indices: tuple[Operand, ...]) -> None:
        """The cotangent goes to one of the values that equal the final one, whichever comes first."""
        others = {n.name for n in walk(self.kernel.body) if isinstance(n, Op) and n.attr == node.attr}
        if others & {"load", *WRITES} != {node.name} or node.result in self.used:
            raise order_refusal(self.kernel, node)
        final = self.load(Slot("final", node.attr), indices)
        wins = self.builder.op("eq", self.operand(node.args[-1]), final)
        taken = Value(final.type)
        with self.builder.block() as nodes:
            self.builder.append(Op("atomic_exch", (*indices, zero(final.type)), slot, taken, node.span))
        made = Value(final.type)
        self.builder.append(If(wins, make_block(nodes, [taken]), make_block([], [zero(final.type)]), (made,), node.span))
        self.accumulate(node.args[-1], made)


_WRITE_RULES = {
    "store": _Reverse.reverse_store,
    "atomic_add": _Reverse.reverse_add,
    "atomic_min": _Reverse.reverse_extremum,
    "atomic_max": _Reverse.reverse_extremum,
    "atomic_exch": _Reverse.reverse_store,
}


def _wrapped(type: Any, number: int) -> Const:
    """A number as a constant of an integer type, modulo 2^bits."""
    number &= (1 << type.bits) - 1
    return Const(type, number - (1 << type.bits) if number > type.max else number)
