"""Cotangents and tangents of the values of a kernel, each with the condition under which it counts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jwarp.autodiff.scalar_rules import Applied
from jwarp.ir.builder import Builder, zero
from jwarp.ir.nodes import Const, Operand, Value
from jwarp.ir.ops import OPS
from jwarp.types import bool_, shape_of, with_shape


@dataclass(frozen=True)
class Conditional:
    """A derivative: `value` where the condition `where` holds, or everywhere if that is None, and zero elsewhere.

    Elsewhere `value` may be anything, NaN too, unless it `is_settled`.
    """

    value: Operand
    where: Operand | None = None
    is_settled: bool = True


class Derivatives(dict[Value, Conditional]):
    """The derivatives that have been added up so far, by value."""

    def __init__(self, builder: Builder):
        super().__init__()
        self.builder = builder

    def add(self, x: Value, given: Conditional) -> None:
        """Add to the derivative of `x`."""
        if isinstance(given.value, Const) and given.value.value == 0:
            return
        before = self.get(x)
        if before is None or (isinstance(before.value, Const) and before.value.value == 0 and before.where is None):
            self[x] = given
        elif before.where == given.where:
            total = self.builder.op("add", before.value, given.value)
            self[x] = Conditional(total, given.where, before.is_settled and given.is_settled)
        else:
            total = self.builder.op("add", self.settled(before), self.settled(given))
            self[x] = Conditional(total, self.either(before.where, given.where))

    def total(self, x: Value) -> Operand:
        """The derivative of `x`, settled; zero if there is none."""
        return self.settled(self[x]) if x in self else zero(x.type)

    def take(self, x: Value) -> Operand:
        """As `total`; `x` then has none any more."""
        return self.settled(self.pop(x)) if x in self else zero(x.type)

    def settled(self, given: Conditional) -> Operand:
        """The derivative as one value."""
        if given.where is None or given.is_settled:
            return given.value
        return self.builder.op("select", given.where, given.value, zero(given.value.type))

    def reached(self, value: Operand) -> Conditional:
        """A settled derivative of what may be left unchosen: it counts where it is not zero."""
        shape = shape_of(value.type)
        where = self.builder.op("nonzero", value, type=with_shape(bool_, shape) if shape else bool_)
        return Conditional(value, where)

    def through(self, rule: Callable[[Applied, Operand], Operand], applied: Applied, given: Conditional) -> Conditional:
        """The derivative that a rule of an operation, which is linear, makes of another one."""
        if OPS[applied.name].is_tile and given.where is not None and shape_of(given.where.type):
            return self.reached(rule(applied, self.settled(given)))  # it mixes elements
        made = rule(applied, given.value)
        return Conditional(
            made, given.where, given.is_settled and (given.where is None or self.keeps_zero(rule, applied, given.value))
        )

    def keeps_zero(self, rule: Callable[[Applied, Operand], Operand], applied: Applied, given: Operand) -> bool:
        """True if a rule is known to give zero for zero: it multiplies by constants at the most."""
        with self.builder.block():
            found = rule(applied, zero(given.type))
        return isinstance(found, Const) and found.value == 0

    def chosen(self, condition: Operand, x: Conditional | None, y: Conditional | None, nothing: Operand) -> Conditional:
        """The derivative of what is one value if a condition holds, and else another; None is a constant."""
        do = self.builder.op
        value = do("select", condition, nothing if x is None else x.value, nothing if y is None else y.value)
        if x is None or y is None:
            given = x or y
            where = None if given is None else self.both(given.where, condition if x else do("not", condition))
        elif x.where is None and y.where is None:
            where = None
        elif x.where is None:
            where = self.either(condition, y.where)
        elif y.where is None:
            where = self.either(do("not", condition), x.where)
        else:
            where = self.either(self.both(x.where, condition), self.both(y.where, do("not", condition)))
        return Conditional(value, where, (x is None or x.is_settled) and (y is None or y.is_settled))

    def where(self, condition: Operand, given: Conditional) -> Conditional:
        """The part of a derivative that belongs to a value which was chosen where a condition holds."""
        return Conditional(given.value, self.both(given.where, condition), is_settled=False)

    def anywhere(self, given: Iterable[Conditional]) -> Operand | None:
        """Where at least one of some derivatives counts; None for everywhere."""
        first, *others = (each.where for each in given)
        return functools.reduce(self.either, others, first)

    def either(self, x: Operand | None, y: Operand | None) -> Operand | None:
        """Where one of two conditions holds."""
        return None if x is None or y is None else self.builder.op("or", *self.alike(x, y))

    def both(self, x: Operand | None, y: Operand) -> Operand:
        """Where two conditions hold."""
        return y if x is None else self.builder.op("and", *self.alike(x, y))

    def alike(self, x: Operand, y: Operand) -> tuple[Operand, Operand]:
        """Two conditions in the same shape."""
        shape = shape_of(x.type) or shape_of(y.type)
        return self.filled(x, shape), self.filled(y, shape)

    def filled(self, x: Operand, shape: tuple[int, ...]) -> Operand:
        return x if shape_of(x.type) == shape else self.builder.op("fill", x, attr=shape)
