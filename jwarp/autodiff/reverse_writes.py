"""Reverse mode through memory: cotangents of arrays, and what writes do to them."""

from __future__ import annotations

from jwarp.analysis.activity import Activity
from jwarp.analysis.choices import maybe_unchosen
from jwarp.analysis.ownership import ThreadIndices
from jwarp.analysis.write_conflicts import WriteConflicts
from jwarp.autodiff.conditional import Conditional, Derivatives
from jwarp.autodiff.forward import order_refusal
from jwarp.autodiff.forward_sweep import ForwardSweep
from jwarp.autodiff.tile_rules import chooses
from jwarp.autodiff.write_conflicts import Marks, agree_there, alone_there, is_slot, or_nan, same_number, stayed
from jwarp.ir.attributes import TAKEN_BACK, Detached, Origin
from jwarp.ir.builder import make_block, zero
from jwarp.ir.contents import contents_of
from jwarp.ir.nodes import (
    Const,
    If,
    Kernel,
    Op,
    Operand,
    Value,
    is_found,
    walk,
)
from jwarp.types import shape_of, with_shape


class ReverseWrites(ForwardSweep):
    """`gradients` maps the kernel's values to what has been added up for them so far.

    A value that is `optional` may be left unchosen. Then it has cotangent zero, which nothing is made of, neither NaN
    of an infinite derivative nor anything else.
    """

    def __init__(
        self,
        kernel: Kernel,
        active: Activity,
        written: frozenset[int],
        counters: frozenset[int],
        owned: frozenset[int],
        conflicts: WriteConflicts,
        *,
        is_taped: bool,
    ):
        super().__init__(kernel, active, written, counters, is_taped=is_taped)
        self.owned, self.conflicts, self.indices = owned, conflicts, ThreadIndices(kernel)
        self.gradients = Derivatives(self.builder)
        self.optional = maybe_unchosen(kernel, active, chooses, (*conflicts.decided_by_final, *conflicts.same_value))
        self.numbers: Marks = {}  # of threads
        # The gradients of calls that have their own backward rule.
        self.taken_back = {n.result for n in contents_of(kernel.body).ops if _is_taken_back(n)}

    def accumulate(self, x: Operand, g: Operand | Conditional) -> None:
        """Add `g` to the gradient of `x`."""
        if isinstance(x, Value) and x in self.active:
            self.gradients.add(x, g if isinstance(g, Conditional) else self.given(x, g))

    def given(self, x: Value, g: Operand) -> Conditional:
        """The settled cotangent of a value, as a block or an array hands it on."""
        return self.gradients.reached(g) if x in self.optional and not isinstance(g, Const) else Conditional(g)

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
        if is_found(self.kernel, node.array):
            self.reverse_exchange(node, origin, indices)
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

    def reverse_exchange(self, node: Op, origin: Origin, indices: tuple[Operand, ...]) -> None:
        """Take the cotangent of an element away at once: of threads that store there, one alone gets it."""
        before = self.gradients.take(node.result) if node.result is not None else zero(node.args[-1].type)
        taken = Value(before.type)
        self.builder.append(Op("atomic_exch", (*indices, before), origin, taken, self.builder.span))
        self.accumulate(node.args[-1], taken)

    def reverse_add(self, node: Op, origin: Origin, indices: tuple[Operand, ...]) -> None:
        self.accumulate(node.args[-1], self.load(origin, indices))
        if node.result is not None and node.result in self.gradients:
            own = self.is_own(node.array, node.indices)
            self.add_to(node.array, indices, self.gradients.take(node.result), own)

    def reverse_extremum(self, node: Op, origin: Origin, indices: tuple[Operand, ...]) -> None:
        """The cotangent goes to one of the values that equal the final one, whichever comes first."""
        ops = (n for n in walk(self.kernel.body) if isinstance(n, Op))
        touching = {n.name for n in ops if n.row.is_access and n.attr == node.attr}
        if touching != {node.name} or node.result in self.used or is_found(self.kernel, node.array):
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
    "store": ReverseWrites.reverse_store,
    "atomic_add": ReverseWrites.reverse_add,
    "atomic_min": ReverseWrites.reverse_extremum,
    "atomic_max": ReverseWrites.reverse_extremum,
    "atomic_exch": ReverseWrites.reverse_store,
}


def _is_taken_back(node: Op) -> bool:
    return node.row.is_detached and node.attr is not None and node.attr_as(Detached).result == TAKEN_BACK
