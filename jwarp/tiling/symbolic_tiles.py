"""Says of tiles what their elements are, as far as that takes no memory: constants, counts, views of other tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from jwarp.ir.attributes import Iota, Strided
from jwarp.ir.evaluate_tiles import places
from jwarp.ir.nodes import Block, Const, For, If, Kernel, Node, Op, Operand, Value, While, blocks
from jwarp.ir.tile_types import dense_strides
from jwarp.types import TileType, ValueType, scalar_of, shape_of

# An element is computed again wherever it is used if that takes at most so many operations on integers.
MAX_REPEATED_OPS = 8


@dataclass(frozen=True)
class Filled:
    """Every element is one scalar."""

    value: Operand


@dataclass(frozen=True)
class Counted:
    """Element (i, j…) is the int32 offset + i * strides[0] + j * strides[1]…"""

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Viewed:
    """Element (i, j…) is element number offset + i * strides[0] + j * strides[1]… of the flattened tile `base`."""

    base: Value
    offset: int
    strides: tuple[int, ...]

    def is_whole(self, shape: tuple[int, ...]) -> bool:
        """True if a tile of `shape` has the elements of `base` in their order."""
        return self.offset == 0 and self.strides == row_major(shape)


@dataclass(frozen=True)
class Computed:
    """An operation on the elements of other forms, which takes less than memory does."""

    node: Op


Form = Filled | Counted | Viewed | Computed


def size_of(type: ValueType) -> int:
    """How many elements a tile of this type has."""
    return math.prod(shape_of(type))


def result_of(node: Op) -> Value:
    """The value that an operation gives."""
    assert node.result is not None
    return node.result


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The distances between the elements of a tile along its axes; 0 along an axis of one element."""
    return tuple(stride if extent > 1 else 0 for extent, stride in zip(shape, dense_strides(shape), strict=True))


def fit(numbers: np.ndarray) -> tuple[int, tuple[int, ...]] | None:
    """The offset and strides by which the indices of an array give its elements; None if there are none."""
    offset = int(numbers.flat[0])
    strides = []
    for axis, extent in enumerate(numbers.shape):
        second = [0] * numbers.ndim
        second[axis] = 1
        strides.append(int(numbers[tuple(second)]) - offset if extent > 1 else 0)
    found = offset, tuple(strides)
    return found if np.array_equal(places(numbers.shape, *found), numbers) else None


def mapped_shape_of(node: Node) -> tuple[int, ...]:
    """The shape that control flow is mapped over; () if it is the block's as a whole."""
    match node:
        case If():
            return shape_of(node.cond.type)
        case For():
            return shape_of(node.index.type)
        case While():
            return shape_of(node.cond.yields[0].type)
        case _:
            return ()


class Forms:
    """The forms of a kernel's tiles.

    A tile without a form of its own is itself in memory. Some that have one are needed in memory all the same:
    `sources` says what they are made from.
    """

    def __init__(self, kernel: Kernel):
        self.known: dict[Value, Form] = {}
        self.sources: dict[Value, Form] = {}
        self.costs: dict[Value, int] = {}
        self._block(kernel.body)

    def of(self, x: Operand) -> Form:
        """The form of a tile."""
        if isinstance(x, Const):
            return Filled(Const(scalar_of(x.type), x.value))
        return self.known.get(x) or Viewed(x, 0, row_major(shape_of(x.type)))

    def leaves(self, x: Operand) -> Iterator[Form]:
        """The tiles that the elements of a tile are finally computed from."""
        yield from self.leaves_of(self.of(x))

    def leaves_of(self, form: Form) -> Iterator[Form]:
        if isinstance(form, Computed):
            for arg in form.node.args:
                if shape_of(arg.type):
                    yield from self.leaves(arg)
                else:  # the one condition of a select
                    yield Filled(arg)
        else:
            yield form

    # -- the walk

    def _block(self, block: Block) -> None:
        for node in block.nodes:
            if isinstance(node, Op):
                if node.result is not None and isinstance(node.result.type, TileType):
                    form = self._form(node)
                    if form is not None:
                        self.known[node.result] = form
            elif not mapped_shape_of(node):
                for inner in blocks(node):
                    self._block(inner)

    def _form(self, node: Op) -> Form | None:
        return _FORMS.get(node.name, Forms._computed)(self, node)

    def _filled(self, node: Op) -> Form:
        return Filled(node.args[0])

    def _counted(self, node: Op) -> Form:
        iota = node.attr_as(Iota)
        return Counted(0, tuple(int(k == iota.axis and n > 1) for k, n in enumerate(iota.shape)))

    def _viewed(self, node: Op) -> Form:
        view = node.attr_as(Strided)
        return self._seen(node.args[0], places(view.shape, view.offset, view.strides))

    def _one_for_a_vector(self, node: Op) -> Form:
        """The largest of the lanes is one for each vector of the loop that asks for it."""
        self.costs[result_of(node)] = 1
        return Computed(node)

    def _seen(self, x: Operand, numbers: np.ndarray) -> Form:
        """The form of a tile whose elements are those of the flattened `x` with these numbers."""
        form = self.of(x)
        if isinstance(form, Filled):
            return form
        if isinstance(form, (Counted, Viewed)):
            inner = places(shape_of(x.type), form.offset, form.strides).reshape(-1)
            found = fit(inner[numbers])
            if found is not None:
                return Counted(*found) if isinstance(form, Counted) else Viewed(form.base, *found)
        assert isinstance(x, Value)
        if x in self.known:  # no view of its own source: it has to be in memory
            self.sources[x] = self.known.pop(x)
        found = fit(numbers)
        assert found is not None
        return Viewed(x, *found)

    def _placed(self, node: Op) -> Form | None:
        """A spread that gives every element a new place is a view."""
        view = node.attr_as(Strided)
        numbers = places(shape_of(node.args[0].type), view.offset, view.strides).reshape(-1)
        if numbers.size != size_of(result_of(node).type) or np.unique(numbers).size != numbers.size:
            return None
        back = np.empty_like(numbers)
        back[numbers] = np.arange(numbers.size)
        back = back.reshape(view.shape)
        return self._seen(node.args[0], back) if fit(back) is not None else None

    def _computed(self, node: Op) -> Form | None:
        types = [x.type for x in (result_of(node), *node.args)]
        if not node.row.is_pure or node.row.code.is_elementary or any(t.is_float for t in types):
            return None
        cost = 1
        for arg in node.args:
            form = self.of(arg) if shape_of(arg.type) else Filled(arg)
            if isinstance(form, Viewed):
                return None
            if isinstance(form, Computed):
                assert isinstance(arg, Value)
                cost += self.costs[arg]
        self.costs[result_of(node)] = cost
        return Computed(node) if cost <= MAX_REPEATED_OPS else None


# The form of a tile by the operation that makes it; any other is computed.
_FORMS: dict[str, Callable[[Forms, Op], Form | None]] = {
    "fill": Forms._filled,
    "iota": Forms._counted,
    "view": Forms._viewed,
    "spread": Forms._placed,
    "lane_max": Forms._one_for_a_vector,
}
