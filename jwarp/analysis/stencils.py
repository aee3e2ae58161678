"""Stencils: the arrays that threads read around their own place, at indices that may be clamped to the array."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from jwarp.analysis.affine import UNKNOWN, Affine, Condition, Symbols, at_least_zero, both
from jwarp.analysis.ownership import added_to, shifted_of
from jwarp.ir.attributes import Extent
from jwarp.ir.contents import Definitions, contents_of, definitions_of, native_arrays
from jwarp.ir.nodes import Const, Kernel, Op, Operand, Value, touched_by_gradients
from jwarp.types import int32

# Clamped indices are at most so far from the thread's coordinate: near an end, each distance is a case of its own.
MAX_DISTANCE = 3


class Place(NamedTuple):
    """An index of the form `min(max(coordinate + offset, 0), high)`; `low` says that the maximum is there.

    No coordinate is below 0. Of launches none is above `high`, by the condition of `within_high`: so an offset that is
    negative can only be clamped to 0, and one that is positive to `high`.
    """

    axis: int
    offset: int
    low: bool = False
    high: Operand | None = None

    @property
    def has_ends(self) -> bool:
        """True if the index is written as one that is clamped."""
        return self.low or self.high is not None

    @property
    def is_clamped(self) -> bool:
        """True if the index is another one than `coordinate + offset` for threads near an end."""
        return self.low if self.offset < 0 else self.high is not None and self.offset > 0


def place_of(index: Operand, definitions: Definitions) -> Place | None:
    """The place that an index is, relative to the thread's; None for anything else."""
    shifted = shifted_of(index, definitions)
    if shifted is not None:
        return Place(shifted[0], shifted[1])
    node = None if isinstance(index, Const) else definitions.get(index)
    clamp = None if node is None else _CLAMPS.get(node.name)
    if node is None or clamp is None:
        return None
    for x, end in (node.args, node.args[::-1]):
        inner = place_of(x, definitions)
        if inner is not None and abs(inner.offset) <= MAX_DISTANCE:
            return clamp(inner, end, definitions)
    return None


def _raised(place: Place, low: Operand, definitions: Definitions) -> Place | None:
    return place._replace(low=True) if isinstance(low, Const) and low.value == 0 else None


def _lowered(place: Place, high: Operand, definitions: Definitions) -> Place | None:
    is_known = high.type is int32 and _of_launch(high, definitions) is not None
    return place._replace(high=high) if is_known and place.high is None else None


_CLAMPS: Mapping[str, Callable[[Place, Operand, Definitions], Place | None]] = {"max": _raised, "min": _lowered}


def _of_launch(x: Operand, definitions: Definitions) -> tuple[Op | None, int] | None:
    """An extent or a scalar parameter, and what is added to it, if `x` is that; None also if it may wrap."""
    if isinstance(x, Const):
        return None, x.value
    node = definitions.get(x)
    if node is None or x.type is not int32:
        return None
    if node.row.is_extent or node.row.is_parameter:
        return node, 0
    added = added_to(node)
    inner = None if added is None else _of_launch(added[0], definitions)
    return None if added is None or inner is None else (inner[0], inner[1] + added[1])


def within_high(node: Op, kernel: Kernel, symbols: Symbols) -> Condition:
    """The condition on launches that no coordinate is above the number that an index of an access is clamped to."""
    definitions, conditions = definitions_of(kernel.body), []
    for index in node.indices:
        place = place_of(index, definitions)
        if place is None or place.high is None:
            continue
        found = _of_launch(place.high, definitions)
        assert found is not None
        source, added = found
        high = Affine.number(added)
        if source is not None:
            of = symbols.extents.get(_extent(source)) if source.row.is_extent else symbols.scalars.get(source.array)
            if of is None:
                return UNKNOWN
            high = high + Affine.of(of)
        conditions += [
            at_least_zero(high - Affine.of(symbols.dims[place.axis]) + 1),
            at_least_zero(Affine.number(int32.max) - high),  # it has not wrapped
        ]
    return both(*conditions)


def _extent(node: Op) -> tuple[int, int]:
    extent = node.attr_as(Extent)
    return extent.array, extent.axis


def coordinate_of(index: Operand, definitions: Definitions) -> Value:
    """The coordinate that the place of an index is relative to."""
    assert isinstance(index, Value)
    node = definitions[index]
    if node.row.is_coordinate:
        return index
    inner = next(x for x in node.args if place_of(x, definitions) is not None)
    return coordinate_of(inner, definitions)


def stencils(kernel: Kernel) -> dict[int, tuple[int, ...]]:
    """The array parameters that are only read, at the thread's coordinates plus constants, clamped or not.

    For each the launch axis of every index; those of vector and matrix components are constants. Blocks have no
    neighbours in this sense.
    """
    if kernel.block_dim:
        return {}
    definitions = definitions_of(kernel.body)
    found: dict[int, tuple[int, ...] | None] = {}
    for node in contents_of(kernel.body).accesses:
        array = kernel.array(node.array).type
        dims = getattr(array, "dims", 0)
        places = [place_of(i, definitions) for i in node.indices[:dims]]
        constant = all(isinstance(i, Const) for i in node.indices[dims:])
        axes = tuple(place.axis for place in places if place)
        complete = constant and node.row.is_load and sorted(axes) == list(range(kernel.tid_dims)) == list(range(dims))
        if found.setdefault(node.array, axes) != axes or not complete:
            found[node.array] = None
    elsewhere = touched_by_gradients(kernel) | native_arrays(kernel.body)
    return {p: axes for p, axes in found.items() if axes is not None and p < len(kernel.params) and p not in elsewhere}
