"""Finds out whether a kernel is linear in some of its parameters, and if not, by which operation.

A value is then zero, or free of these parameters, or linear in them: a sum of their values, times what is free. Linear
values may be added up, chosen by what is free, multiplied by it, stored, loaded and summed atomically. Anything else
that is done to them is a fault, and matters where an output depends on it. What an operation is linear in follows from
its derivative, which for a linear one reads no value that it is linear in.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jwarp.errors import Span
from jwarp.ir.attributes import ArrayName, ArrayNumber
from jwarp.ir.nodes import (
    Const,
    For,
    If,
    Kernel,
    Op,
    Operand,
    Value,
    While,
    arrays_changed,
    arrays_read,
    written_params,
)
from jwarp.ir.visit import Visitor


class Kind(enum.Enum):
    """The dependence of a value, or of an array's content, on the parameters in question."""

    ZERO = enum.auto()
    FREE = enum.auto()
    LINEAR = enum.auto()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a value is not linear, and where that happens."""

    reason: str
    span: Span


Standing = Kind | Fault

# Which arguments the derivative of an operation by one of them reads, with -1 for the result; None if it has none.
Reads = Callable[[Op, int], frozenset[int] | None]

_ADDED = "is added to, or chosen against, what does not depend on it"
_CHOSEN = "becomes a condition or an integer here"


def nonlinearity(kernel: Kernel, linear: Iterable[int], outputs: Iterable[int], reads: Reads) -> Fault | None:
    """Why the final contents of the arrays `outputs` are not linear in the parameters `linear`; None if they are.

    The initial content of an array that the kernel writes is linear, or else taken to be zero: it is added.
    """
    flow = _Flow(kernel, frozenset(linear), reads)
    before: dict[int, Standing] | None = None
    while before != flow.arrays:  # what later code stores, earlier code of another thread may load
        before = dict(flow.arrays)
        flow.block(kernel.body)
    for p in outputs:
        found = flow.arrays[p]
        if isinstance(found, Fault):
            return found
        if found is Kind.FREE:
            return Fault("is not what is stored here", flow.stores[p])
    return None


def _numbers(arrays: Iterable[ArrayName]) -> tuple[int, ...]:
    return tuple(p for p in arrays if isinstance(p, int))


def _used_by(node: Op) -> Fault:
    return Fault(f"goes into an operation that is not linear in it, `{node.name}`", node.span)


class _Flow(Visitor):
    """`arrays` and `values` say what each is; `stores` where an array was last stored to."""

    def __init__(self, kernel: Kernel, linear: frozenset[int], reads: Reads):
        self.linear, self.reads = linear, reads
        self.values: dict[Value, Standing] = {}
        self.stores: dict[int, Span] = {}
        # The surroundings: a condition, or a number of iterations, that depends on linear values.
        self.around: Fault | None = None
        written = written_params(kernel)
        count = len(kernel.params) + len(kernel.locals)
        self.arrays: dict[int, Standing] = {
            k: Kind.LINEAR if k in linear else Kind.ZERO if k in written or k >= len(kernel.params) else Kind.FREE
            for k in range(count)
        }

    def of(self, x: Operand) -> Standing:
        if isinstance(x, Const):
            return Kind.ZERO if x.type.is_float and x.value == 0 else Kind.FREE
        return self.values[x]

    def joined(self, first: Standing, second: Standing, span: Span) -> Standing:
        """The join of two dependences."""
        for each in (first, second):
            if isinstance(each, Fault):
                return each
        if first is second or second is Kind.ZERO:
            return first
        return second if first is Kind.ZERO else Fault(_ADDED, span)

    def first_fault(self, *found: Standing | None) -> Fault | None:
        return next((x for x in found if isinstance(x, Fault)), None)

    # -- control flow

    def branch(self, node: If) -> None:
        outer, fault = self.around, self.first_fault(self.of(node.cond))
        self.around = outer or fault
        self.inside(node)
        self.around = outer
        for result, x, y in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
            self.values[result] = fault or self.joined(self.of(x), self.of(y), node.span)

    def loop(self, node: For | While) -> None:
        outer = self.around
        before = [self.of(x) for x in node.init]
        while True:
            self.values.update(zip(node.params, before, strict=True))
            if isinstance(node, For):
                fault = self.first_fault(self.of(node.lo), self.of(node.hi))
                self.values[node.index] = fault or Kind.FREE
            else:
                self.block(node.cond)
                fault = self.first_fault(self.of(node.cond.yields[0]))
            self.around = outer or fault
            self.block(node.body)
            self.around = outer
            after = [self.joined(x, self.of(y), node.span) for x, y in zip(before, node.body.yields, strict=True)]
            if after == before:
                break
            before = after
        for result, x in zip(node.results, before, strict=True):
            self.values[result] = fault or x

    # -- operations

    def op(self, node: Op) -> None:
        if node.row.is_access:
            self.access(node)
            return
        if node.result is not None:
            self.values[node.result] = self.standing(node)
        if node.row.attribute is not ArrayNumber:
            for p in _numbers(arrays_changed(node)):  # in ways that are not known
                self.stores[p] = node.span
                self.arrays[p] = (
                    self.around or self.fault_of_read(node) or self.joined(self.arrays[p], Kind.FREE, node.span)
                )

    def fault_of_read(self, node: Op) -> Fault | None:
        """A fault where an operation of which no rule tells what it makes of its operands has linear ones."""
        found = [*map(self.of, node.args), *(self.arrays[p] for p in _numbers(arrays_read(node)))]
        fault = self.first_fault(*found)
        return fault or (_used_by(node) if Kind.LINEAR in found else None)

    def access(self, node: Op) -> None:
        p = node.array
        if node.row.is_write:
            self.stores[p] = node.span
            for x in node.values:
                self.arrays[p] = self.joined(self.arrays[p], self.of(x), node.span)
            if node.row.is_atomic and not node.row.is_addition and self.arrays[p] is Kind.LINEAR:
                self.arrays[p] = _used_by(node)
            fault = self.around or self.first_fault(*map(self.of, node.indices))
            self.arrays[p] = fault or self.arrays[p]
        if node.result is not None:
            self.values[node.result] = self.first_fault(*map(self.of, node.indices)) or self.arrays[p]

    def standing(self, node: Op) -> Standing:
        """The dependence of the result of an operation that is not an access."""
        assert node.result is not None
        if node.row.is_parameter:
            return Kind.LINEAR if node.array in self.linear else Kind.FREE
        found = [self.of(x) for x in node.args]
        fault = self.first_fault(*found) or (self.fault_of_read(node) if arrays_read(node) else None)
        if fault is not None:
            return fault
        varied = {kind: frozenset(k for k, x in enumerate(found) if x is kind) for kind in Kind}
        if varied[Kind.LINEAR]:
            return self.fault_in(node, varied[Kind.LINEAR], varied[Kind.FREE]) or Kind.LINEAR
        if varied[Kind.ZERO] and node.result.type.is_float:
            return Kind.FREE if self.fault_in(node, varied[Kind.ZERO], varied[Kind.FREE]) else Kind.ZERO
        return Kind.FREE

    def fault_in(self, node: Op, varied: frozenset[int], fixed: frozenset[int]) -> Fault | None:
        """Why an operation is not linear in the arguments `varied`, taken together, next to others that are `fixed`."""
        assert node.result is not None
        if not node.result.type.is_float:
            return Fault(_CHOSEN, node.span)
        if node.row.numeric.jumps:
            return _used_by(node)
        for k in sorted(k for k in varied | fixed if node.args[k].type.is_float):
            read = self.reads(node, k)
            free = read is not None and read.isdisjoint(varied | {-1})
            if k in varied and not free:
                return _used_by(node)
            if k in fixed and free:
                return Fault(_ADDED, node.span)
        return None
