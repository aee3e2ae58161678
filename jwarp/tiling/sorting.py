"""Writes the sorting of a tile: a network of comparisons that threads share, for any number of elements."""

from __future__ import annotations

from jwarp.ir.builder import make_block
from jwarp.ir.nodes import Const, If, Operand, Value
from jwarp.tiling.elements import Elements
from jwarp.tiling.parts import Whole
from jwarp.tiling.writer import Writer
from jwarp.types import int32, shape_of


def sort_numbers(elements: Elements, part: Whole) -> None:
    """Let the target hold the numbers of the elements in ascending order.

    The network is Batcher's bitonic one in the form in which all comparisons go one way, so that places beyond the
    last element may be left out. No two elements compare as equal, as their numbers differ: the order is stable.
    """
    _Network(elements, part).write()


class _Network:
    def __init__(self, elements: Elements, part: Whole):
        self.w, self.elements = Writer(elements), elements
        self.do = self.w.do
        (self.keys,), self.order = part.reads, part.target
        (self.size,) = shape_of(self.order.type)
        self.stages = (self.size - 1).bit_length()
        self.places = 1 << self.stages  # as many as the network has, of which the first `size` hold elements

    def write(self) -> None:
        self.w.together(self.size, lambda i: self.elements.store(self.order, i, i))
        if self.size > 1:
            self.w.one_by_one(0, self.stages, self.merge)

    def merge(self, stage: Value) -> None:
        """Merge each two neighbouring sorted runs of 2 ** stage elements."""
        run = self.do("shl", _number(1), stage)
        last = self.do("sub", run, _number(1))
        turned = self.do("sub", self.do("shl", run, _number(1)), _number(1))

        def mirrored(pair: Value) -> None:
            offset = self.do("and", pair, last)
            base = self.do("shl", self.do("sub", pair, offset), _number(1))
            self.exchange(self.do("add", base, offset), self.do("add", base, self.do("sub", turned, offset)))

        self.w.together(self.places // 2, mirrored)
        self.w.loop(self.do("sub", stage, _number(1)), -1, lambda step, _: self.clean(step), step=-1)

    def clean(self, step: Value) -> list[Operand]:
        """Compare elements that are 2 ** step apart."""
        distance = self.do("shl", _number(1), step)
        last = self.do("sub", distance, _number(1))

        def neighbours(pair: Value) -> None:
            offset = self.do("and", pair, last)
            low = self.do("sub", self.do("shl", pair, _number(1)), offset)
            self.exchange(low, self.do("add", low, distance))

        self.w.together(self.places // 2, neighbours)
        return []

    def exchange(self, low: Operand, high: Operand) -> None:
        """Let the lower of two places have the smaller element."""
        builder = self.w.builder
        low, high = (self.do("and", x, _number(self.places - 1)) for x in (low, high))  # as they are: a bound to see
        if self.size == self.places:
            return self.ordered(low, high)
        there = self.do("lt", high, _number(self.size))
        with builder.block() as nodes:
            self.ordered(low, high)
        builder.append(If(there, make_block(nodes), make_block(()), (), builder.span))
        return None

    def ordered(self, low: Operand, high: Operand) -> None:
        load, store = self.elements.load, self.elements.store
        first, second = load(self.order, low), load(self.order, high)
        is_wrong = self.is_less(load(self.keys, second), second, load(self.keys, first), first)
        store(self.order, low, self.do("select", is_wrong, second, first))
        store(self.order, high, self.do("select", is_wrong, first, second))

    def is_less(self, x: Operand, number: Operand, y: Operand, other: Operand) -> Operand:
        """The truth value that element `number`, x, comes before element `other`, y: ties by numbers, NaN last."""
        do = self.do
        less, same = do("lt", x, y), do("eq", x, y)
        if x.type.is_float:
            x_is_nan, y_is_nan = do("ne", x, x), do("ne", y, y)
            less = do("or", less, do("and", y_is_nan, do("not", x_is_nan)))
            same = do("or", same, do("and", x_is_nan, y_is_nan))
        return do("or", less, do("and", same, do("lt", number, other)))


def _number(x: int) -> Const:
    return Const(int32, x)
