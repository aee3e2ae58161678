"""Forward mode: from a kernel, the kernel that takes tangents of its inputs to tangents of its outputs.

Every operation is followed by that on the tangents, and every array that carries a derivative has an array
of tangents. Adjoint kernels go through the same rules: their tapes and logs hold tangents too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable

from jwarp.analysis.activity import Activity, activity
from jwarp.analysis.choices import maybe_constant
from jwarp.analysis.ownership import owned_arrays
from jwarp.analysis.thread_order import counters
from jwarp.analysis.write_conflicts import WriteConflicts, conflicting_stores, is_plain_store
from jwarp.autodiff.conditional import Conditional, Derivatives
from jwarp.autodiff.custom_gradients import authored_refusal
from jwarp.autodiff.derived_parameters import Derived, derived
from jwarp.autodiff.forward_sweep import recalled
from jwarp.autodiff.native_calls import for_derivatives, forward_refusal
from jwarp.autodiff.scalar_rules import DERIVATIVES, Applied, Chosen
from jwarp.autodiff.tile_rules import carries, chooses, rules_of
from jwarp.autodiff.write_conflicts import Marks, agree_there, alone_there, is_slot, marks, or_nan, same_number, stayed
from jwarp.errors import NotDifferentiableError
from jwarp.ir.attributes import ArrayNumber, Origin, ParamNumber, RecordField, RecordFields
from jwarp.ir.attributes import Rule as RuleOfCall
from jwarp.ir.builder import make_block, zero
from jwarp.ir.contents import contents_of, definitions_of, native_arrays
from jwarp.ir.nodes import (
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
    arrays_changed,
    blocks,
    operands,
    renumbered,
    walk,
    written_params,
)
from jwarp.ir.visit import Rebuilder, map_ops
from jwarp.passes.prune import prune
from jwarp.passes.simplify import simplify
from jwarp.types import shape_of, with_shape


def jvp(
    kernel: Kernel,
    given: Iterable[int],
    wanted: Container[int] | None = None,
    *,
    repeated: bool = False,
    alone: bool = False,
    single: Iterable[int] = (),
    taken: Iterable[int] = (),
    of_derivative: bool = False,
) -> Derived:
    """The kernel of tangents of the arrays that `kernel` writes, from tangents of the parameters `given`.

    The tangent of an array that is written is also that of its initial content. With `wanted`, arrays that are
    not among them are scratch. With `repeated`, several threads have the same coordinates; one that is `alone` is the
    only one, and along the axes `single` there is one. From arrays `taken`, what an exchange finds is what it found
    before, as one thread takes what is there. A kernel that is itself the one `of_derivative` has checks that no other
    launch makes, and has settled write conflicts.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation on the way; it names the line.
    """
    kernel = simplify(for_derivatives(kernel, reverse=False))
    floats = [p for p in written_params(kernel) if kernel.params[p].dtype.is_float]
    owned = frozenset() if repeated else owned_arrays(kernel, single)
    conflicts = (
        WriteConflicts() if of_derivative else conflicting_stores(kernel, repeated=repeated, alone=alone, single=single)
    )
    forward = _Forward(kernel, activity(kernel, given, floats, carries), owned, conflicts, keeps_checks=of_derivative)
    with forward.builder.block() as first:
        forward.numbers = marks(forward.builder, kernel, conflicts.ambiguous)
    body = make_block([*forward.cleared_locals(), *first, *forward.block(kernel.body).nodes])
    returned = {Origin("tangent", p) for p in floats if wanted is None or p in wanted}
    counted = replayed(kernel, owned)
    shared = {Origin("work", p) for p in counted}
    body = prune(body, returned, shared)
    body = simplify(Kernel(kernel.name, (), kernel.tid_dims, body)).body
    body = prune(body, returned, shared)
    refuse_order(kernel, body, owned | frozenset(taken) | counted)
    return derived(kernel, body, apart=not conflicts.same_value.isdisjoint(forward.active.arrays))


class _Forward(Rebuilder):
    """`tangents` maps values to their tangents; one that has none there has tangent zero.

    Of a value that is `optional`, a choice may have made a constant: where its tangent is zero, so are those of what is
    computed from it, whatever the derivative.
    """

    def __init__(
        self, kernel: Kernel, active: Activity, owned: frozenset[int], conflicts: WriteConflicts, *, keeps_checks: bool
    ):
        super().__init__()
        self.kernel, self.active, self.owned, self.conflicts = kernel, active, owned, conflicts
        self.keeps_checks = keeps_checks
        self.tangents = Derivatives(self.builder)
        self.optional = maybe_constant(kernel, active, chooses)
        self.numbers: Marks = {}  # of threads
        self.written = frozenset(written_params(kernel))
        contents = contents_of(kernel.body)
        self.used = contents.used
        pushes = (n for n in contents.ops if n.row.adds_to_tape)
        self.pushes = {n.attr_as(RecordFields).tape: n for n in pushes}
        self.marks = {n.result for n in contents.ops if n.row.reads_log}

    def tangent(self, x: Operand) -> Operand:
        return self.tangents.total(x) if isinstance(x, Value) else zero(x.type)

    def origin(self, array: int) -> Origin:
        local = array >= len(self.kernel.params)
        return Origin("work" if local or array in self.written else "primal", array)

    def cleared_locals(self) -> list[Node]:
        first = len(self.kernel.params)
        arrays = [Origin(kind, first + k) for k in range(len(self.kernel.locals)) for kind in ("work", "tangent")]
        return [Op("clear", (), origin) for origin in arrays]

    def block(self, block: Block, yielding: Iterable[int] = ()) -> Block:
        """The block with tangents; those of its yields at positions `yielding` come after the others."""
        with self.builder.block() as nodes:
            self.nodes(block)
            return make_block(nodes, [*block.yields, *(self.tangent(block.yields[k]) for k in yielding)])

    def branch(self, node: If) -> None:
        dual = [k for k, r in enumerate(node.results) if r in self.active]
        made = self.fresh(node.results[k] for k in dual)
        sides = [self.block(b, dual) for b in (node.then, node.orelse)]
        self.builder.append(If(node.cond, sides[0], sides[1], (*node.results, *made), node.span))
        self.bind((node.results[k] for k in dual), made)

    def fresh(self, values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(Value(v.type, v.name) for v in values)

    def bind(self, values: Iterable[Value], tangents: Iterable[Operand]) -> None:
        for value, tangent in zip(values, tangents, strict=True):
            self.settle(value, tangent)

    def settle(self, value: Value, tangent: Operand) -> None:
        """Note the tangent of a value as a block, a loop or an array hands it on."""
        reached = value in self.optional and not isinstance(tangent, Const)
        self.tangents[value] = self.tangents.reached(tangent) if reached else Conditional(tangent)

    def loop(self, node: For | While) -> None:
        dual = [k for k, p in enumerate(node.params) if p in self.active]
        params, made = (self.fresh(vs[k] for k in dual) for vs in (node.params, node.results))
        init = (*node.init, *(self.tangent(node.init[k]) for k in dual))
        with self.builder.block() as first:
            self.bind((node.params[k] for k in dual), params)
        body = self.block(node.body, dual)
        body = Block((*first, *body.nodes), body.yields)
        changed = dataclasses.replace(
            node, params=(*node.params, *params), init=init, results=(*node.results, *made), body=body
        )
        if isinstance(changed, While):
            changed = dataclasses.replace(changed, cond=map_ops(changed.cond, self.placed))
        self.builder.append(changed)
        self.bind((node.results[k] for k in dual), made)

    def placed(self, node: Op) -> Op:
        """The operation itself, on the arrays of the tangent kernel."""
        if node.row.is_detached:
            return dataclasses.replace(node, args=node.args[:1], attr=None)
        if node.row.uses.reads_final:
            return dataclasses.replace(node, name="load", attr=recalled(node, self.written))
        if node.row.derivative.has_replay:
            return dataclasses.replace(node, name="cast", args=node.args[1:])
        if node.row.derivative.is_given:
            return dataclasses.replace(node, name="cast", args=node.values, attr=None)
        if node.row.is_native:
            return renumbered(node, self.origin)  # type: ignore[arg-type]
        in_memory = node.row.attribute in (ArrayNumber, ParamNumber)
        return dataclasses.replace(node, attr=self.origin(node.number)) if in_memory else node

    def op(self, node: Op) -> None:
        if node.row.is_rule and not self.active.arrays.isdisjoint(node.attr_as(RuleOfCall).arrays):
            raise authored_refusal(self.kernel, node, "a derivative in forward mode")
        if node.row.is_native and (
            (node.result is not None and node.result in self.active)
            or not self.active.arrays.isdisjoint(arrays_changed(node))
        ):
            raise forward_refusal(self.kernel, node)
        if node.row.is_lasting and not node.row.changes_memory and not self.keeps_checks:
            return  # the launch itself has checked and printed
        rule = _RULES.get(node.name)
        if rule is not None:
            rule(self, node)
            return
        self.builder.append(self.placed(node))
        if node.name in _MEMORY_RULES:
            if node.attr in self.active.arrays:
                _MEMORY_RULES[node.name](self, node, Origin("tangent", node.attr))
        elif node.result is not None and node.result in self.active:
            self.pure(node)

    def pure(self, node: Op) -> None:
        assert node.result is not None
        if node.row.is_detached:
            raise authored_refusal(self.kernel, node, "a derivative in forward mode")
        rules = rules_of(node)
        through_bits = any(a.type.is_int and a in self.active for a in node.args)
        if rules is None or not node.result.type.is_float or through_bits:
            if node.result.type.is_float:
                raise bits_refusal(self.kernel, node)
            return
        applied = Applied(self.builder, node.args, node.result, node.name, node.attr)
        if chosen := chooses(node):
            first, second = (self.tangents.get(x) if isinstance(x := node.args[k], Value) else None for k in chosen)
            choice = DERIVATIVES[node.name][chosen[0]]
            assert isinstance(choice, Chosen) and choice.holds
            condition, nothing = choice.condition(applied), zero(node.result.type)
            self.tangents[node.result] = self.tangents.chosen(condition, first, second, nothing)
            return
        for x, rule in zip(node.args, rules, strict=True):
            if rule is not None and isinstance(x, Value) and x in self.tangents:
                part = self.tangents.through(rule.forward, applied, self.tangents[x])
                self.tangents.add(node.result, part)

    def nonzero(self, node: Op) -> None:
        """True also where a derivative is zero, and changes."""
        assert node.result is not None
        (x,) = node.args
        if x not in self.active:
            self.builder.append(node)
            return
        here = Value(node.result.type)
        self.builder.append(dataclasses.replace(node, result=here))
        changes = self.builder.op("nonzero", self.tangent(x))
        self.builder.append(Op("or", (here, changes), None, node.result, node.span))

    # -- memory

    def param(self, node: Op, origin: Origin) -> None:
        self.result("param", (), origin, node)

    def load(self, node: Op, origin: Origin) -> None:
        self.result("load", node.args, origin, node)
        assert node.result is not None
        if (slot := self.conflicts.slots.get(node.array)) is not None:
            holds = is_slot(self.builder, slot, self.origin(slot.counters), node.indices)
            self.tangents[node.result] = Conditional(or_nan(self.builder, holds, self.tangent(node.result)))

    def result(self, name: str, args: tuple[Operand, ...], origin: Origin | RecordField, node: Op) -> None:
        """Append an operation on tangents that gives the tangent of what `node` gives."""
        assert node.result is not None
        (made,) = self.fresh([node.result])
        self.builder.append(Op(name, args, origin, made, node.span))
        self.settle(node.result, made)

    def write(self, node: Op, origin: Origin) -> None:
        """A store, addition or exchange: the same with tangents."""
        tangent = self.tangent(node.args[-1])
        if node.array in self.conflicts.decided_by_final:
            wins = stayed(self.builder, self.kernel, node.array, node.indices, node.args[-1])
            self.store_where(wins, node, origin, tangent)
            return
        if node.array in self.conflicts.ambiguous and is_plain_store(node, self.used):
            alone = alone_there(self.builder, self.kernel, node.array, node.indices, self.numbers)
            tangent = or_nan(self.builder, alone, tangent)
        if node.array in self.conflicts.same_value:
            agree = agree_there(self.builder, self.kernel, node.array, node.indices, node.args[-1])
            tangent = or_nan(self.builder, agree, tangent)
        if (slot := self.conflicts.slots.get(node.array)) is not None:
            tangent = or_nan(
                self.builder, is_slot(self.builder, slot, self.origin(slot.counters), node.indices), tangent
            )
        args = (*node.indices, tangent)
        if node.result is None or not self.is_used(node.result):
            if node.row.is_addition and node.args[-1] not in self.tangents:
                return  # the adjoint has nothing to do here either, and what it does not read is not kept
            self.builder.append(Op(node.name, args, origin, None, node.span))
            return
        if node.attr not in self.owned:
            raise order_refusal(self.kernel, node)
        self.result(node.name, args, origin, node)

    def is_used(self, value: Value) -> bool:
        return value in self.active and value in self.used

    def extremum(self, node: Op, origin: Origin) -> None:
        """The tangent of an element is that of a value which equals the final one."""
        ops = (n for n in walk(self.kernel.body) if isinstance(n, Op))
        touching = {n.name for n in ops if n.row.is_access and n.attr == node.attr}
        if touching != {node.name} or (node.result is not None and self.is_used(node.result)):
            raise order_refusal(self.kernel, node)
        indices = node.indices
        final = Value(with_shape(self.kernel.array(node.array).dtype, shape_of(indices[0].type)))
        self.builder.append(Op("load", indices, Origin("final", node.array), final, node.span))
        wins = same_number(self.builder, node.args[-1], final)
        self.store_where(wins, node, origin, self.tangent(node.args[-1]))

    def store_where(self, wins: Operand, node: Op, origin: Origin, tangent: Operand) -> None:
        """Store a tangent where the value is the one that stayed."""
        with self.builder.block() as nodes:
            self.builder.append(Op("store", (*node.indices, tangent), origin, None, node.span))
        self.builder.append(If(wins, make_block(nodes), Block(), (), node.span))

    def refuse(self, node: Op, origin: Origin) -> None:
        raise order_refusal(self.kernel, node)

    def same(self, node: Op, origin: Origin) -> None:
        """Logs of tangents grow and shrink with those of the values."""
        self.builder.append(Op(node.name, node.args, origin, None, node.span))

    def mark(self, node: Op, origin: Origin) -> None:
        self.result("mark", (), origin, node)

    def rollback(self, node: Op, origin: Origin) -> None:
        self.builder.append(Op("rollback", (self.tangent(node.args[0]),), origin, None, node.span))

    # -- the tape

    def dual_fields(self, tape: int) -> list[int]:
        """The fields of a tape's records that have another one for the tangent."""
        return [k for k, x in enumerate(self.pushes[tape].args) if x in self.active or x in self.marks]

    def push(self, node: Op) -> None:
        record = node.attr_as(RecordFields)
        dual = self.dual_fields(record.tape)
        args = (*node.args, *(self.tangent(node.args[k]) for k in dual))
        attr = RecordFields(record.tape, (*record.uniform, *(record.uniform[k] for k in dual)))
        self.builder.append(Op("push", args, attr, None, node.span))

    def top(self, node: Op) -> None:
        field = node.attr_as(RecordField)
        self.builder.append(node)
        dual = self.dual_fields(field.tape)
        if field.field in dual:
            made = len(self.pushes[field.tape].args) + dual.index(field.field)
            self.result("top", (), RecordField(field.tape, made), node)


_RULES = {"push": _Forward.push, "top": _Forward.top, "nonzero": _Forward.nonzero}
_MEMORY_RULES = {
    "param": _Forward.param,
    "load": _Forward.load,
    "store": _Forward.write,
    "atomic_add": _Forward.write,
    "atomic_exch": _Forward.write,
    "atomic_min": _Forward.extremum,
    "atomic_max": _Forward.extremum,
    "atomic_cas": _Forward.refuse,
    "clear": _Forward.same,
    "save": _Forward.same,
    "undo": _Forward.same,
    "mark": _Forward.mark,
    "rollback": _Forward.rollback,
}


def bits_refusal(kernel: Kernel, node: Op) -> NotDifferentiableError:
    """A derivative through the bits of a float; its place is where these are taken."""
    made = definitions_of(kernel.body)
    sources, seen = [node], set[Value]()
    span = node.span
    while sources:
        source = sources.pop()
        if source.row.transfer.reinterprets and source.args[0].type.is_float:
            span = source.span
            break
        inner = [x for x in source.args if isinstance(x, Value) and x in made and x not in seen]
        seen.update(inner)
        sources += [made[x] for x in inner]
    return NotDifferentiableError(
        f"kernel `{kernel.name}`: a derivative was asked for through the bits of a float",
        span,
        "compute with the float itself, or take the derivative by another argument",
    )


def replayed(kernel: Kernel, owned: frozenset[int]) -> frozenset[int]:
    """The parameters in which the threads of a derivative count again, and find what they found in the launch.

    They do where both run in order. Sums of floats are not among them.
    """
    if not kernel.order:
        return frozenset()
    given_away = native_arrays(kernel.body)
    return frozenset(p for p in counters(kernel, owned) - given_away if not kernel.params[p].dtype.is_float)


def refuse_notes(kernel: Kernel, body: Block) -> None:
    """Refuse to keep what atomics find: lanes of a block go through a loop together."""
    node = next((n for n in walk(body) if isinstance(n, Op) and n.row.reads_notes), None)
    if node is not None:
        raise NotDifferentiableError(
            f"kernel `{kernel.name}`: a loop of a kernel with tiles uses what atomic operations find",
            node.span,
            "count in a launch of its own, and use what it found there",
        )


def refuse_order(kernel: Kernel, body: Block, owned: Container[int]) -> None:
    """Refuse a derivative that needs what an atomic operation found: it would find something else again."""
    used = {x for n in walk(body) for x in (*operands(n), *(y for b in blocks(n) for y in b.yields))}
    for node in walk(body):
        if not isinstance(node, Op) or not node.row.is_atomic or node.result not in used:
            continue
        origin = node.origin
        if origin.kind == "work" and origin.param < len(kernel.params) and origin.param not in owned:
            raise order_refusal(kernel, dataclasses.replace(node, attr=origin.param))


def order_refusal(kernel: Kernel, node: Op) -> NotDifferentiableError:
    """A derivative of what depends on which thread comes first."""
    array = kernel.array(node.array)
    way_out = "use a plain store to an element of the thread's own, or atomic_add without its result"
    if not array.dtype.is_float:
        way_out = (
            "set wp.config.deterministic = True (or the option deterministic of the kernel or its module), or let JAX "
            "differentiate the launch: both then take the threads in one order"
        )
    return NotDifferentiableError(
        f"kernel `{kernel.name}`: the derivative of {node.name} on `{array.name}` is not known: what it finds there "
        "depends on the order of the threads",
        node.span,
        way_out,
    )


__all__ = ["bits_refusal", "jvp", "order_refusal", "refuse_order", "replayed"]
