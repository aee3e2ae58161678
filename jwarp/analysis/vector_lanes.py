"""The uniformity of values in the lanes of a vector, which are threads, or iterations of a loop with lanes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from jwarp.analysis.intervals import Interval, Intervals, top
from jwarp.analysis.lane_serialised import lane_serialised_loops, live_ins
from jwarp.analysis.uniformity import UNIFORM, VARYING, Shape, Uniformity
from jwarp.ir.attributes import RecordField, RecordFields
from jwarp.ir.nodes import Const, For, Kernel, Node, Op, Operand, Value, While, walk

# As many lanes a vector has at most.
MAX_LANES = 64


def shapes_of(
    kernel: Kernel, calls: ShapesOfCalls | None = None, serialised: frozenset[For | While] | None = None
) -> Mapping[Value, Shape]:
    """The shape of every value of a kernel, but for those in functions, which are in `calls` afterwards.

    Lanes are along its last launch dimension; in a kernel with tiles, only in the loops that have them.
    """
    analysis = _Lanes(kernel, calls or ShapesOfCalls(kernel))
    analysis.serialised = lane_serialised_loops(kernel) if serialised is None else serialised
    analysis.block(kernel.body)
    return analysis.shapes


class ShapesOfCalls:
    """The shapes of the values of a kernel's functions, called with arguments of which some are uniform: found once."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.found: dict[tuple[int, tuple[bool, ...]], tuple[Mapping[Value, Shape], tuple[Shape, ...]]] = {}

    def of(self, number: int, uniform: tuple[bool, ...]) -> tuple[Mapping[Value, Shape], tuple[Shape, ...]]:
        """The shapes of the values in a function, and those of its results."""
        found = self.found.get((number, uniform))
        if found is None:
            analysis = _Lanes(self.kernel, self)
            results = analysis.function(number, uniform)
            found = self.found[number, uniform] = analysis.shapes, results
        return found


class _Lanes(Uniformity):
    """The scope of the lanes of a vector. Those that are masked off go along, so divergence stays with the node."""

    in_lockstep = True

    def __init__(self, kernel: Kernel, of_calls: ShapesOfCalls):
        super().__init__()
        self.kernel, self.of_calls = kernel, of_calls
        self.definitions: dict[Value, Node] = {}
        self.counters: dict[Value, Interval] = {}  # the indices of loops with lanes
        self.calls: dict[Operand, tuple[Shape, ...]] = {}  # of the results, by what stands for them
        self.has_lanes = not kernel.block_dim
        self.serialised: frozenset[For | While] = frozenset()

    @functools.cached_property
    def uniform_fields(self) -> frozenset[RecordField]:
        """The fields of records that hold the same for all lanes."""
        pushes = [n.attr_as(RecordFields) for n in walk(self.kernel.body) if isinstance(n, Op) and n.row.adds_to_tape]
        return frozenset(
            RecordField(record.tape, k)
            for record in pushes
            for k, is_uniform in enumerate(record.uniform)
            if is_uniform
        )

    def op(self, node: Op) -> None:
        if node.result is not None:
            self.definitions[node.result] = node
            self.shapes[node.result] = self.result(node)

    def function(self, number: int, uniform: tuple[bool, ...]) -> tuple[Shape, ...]:
        """Find the shapes in a function; those of its results."""
        function = self.kernel.functions[number]
        self.shapes.update(zip(function.params, (UNIFORM if same else VARYING for same in uniform), strict=True))
        self.block(function.body)
        return tuple(self.shape(y) for y in function.body.yields)

    def counted(self, node: For) -> None:
        if node.lanes is not None:
            self.vectors(node)
        else:
            self.loop(node)

    def node(self, node: Node) -> None:
        if self.serialised and node in self.serialised and self.has_lanes:
            assert isinstance(node, (For, While))
            self.one_by_one(node)
        else:
            super().node(node)

    def one_by_one(self, node: For | While) -> None:
        """A lane-serialised loop: nothing differs in it but what its iterations with lanes have."""
        given = {x: self.shapes[x] for x in live_ins(node)}
        self.shapes.update(dict.fromkeys(given, UNIFORM))
        self.has_lanes = False
        super().node(node)
        self.has_lanes = True
        self.shapes.update(given)
        self.shapes.update(dict.fromkeys(node.results, VARYING))

    def vectors(self, node: For) -> None:
        """A loop whose iterations run together: what it carries is one value for each lane until it ends."""
        self.shapes[node.index] = Shape(1)
        if isinstance(node.lo, Const) and isinstance(node.hi, Const):
            low, high = sorted((node.lo.value, node.hi.value))
            self.counters[node.index] = Interval(low, high + MAX_LANES)
        self.shapes.update(dict.fromkeys(node.params, VARYING))
        outer, self.has_lanes = self.has_lanes, True
        self.block(node.body)
        self.has_lanes = outer
        self.shapes.update(dict.fromkeys(node.results, UNIFORM))

    def is_exact(self, x: Operand) -> bool:
        """True if `x`, an integer, has not wrapped anywhere between the values of two lanes."""
        return _ExactIntervals(self).find(x) is not None

    def result(self, node: Op) -> Shape:
        if not self.has_lanes:
            return UNIFORM
        row = node.row
        own = _OWN_SHAPES.get(node.name)
        if own is not None:
            return own(self, node)
        if row.is_lasting:
            return VARYING  # an atomic operation finds what the lane before it left
        if row.is_load and self.kernel.local(node.array) is not None and not self.kernel.block_dim:
            return VARYING  # every lane has an array of its own
        if row.threads.is_common or not self.any(node.args):
            return UNIFORM
        rule = _LINEAR.get(node.name)
        assert node.result is not None
        if rule is None or not node.result.type.is_int:
            return VARYING
        strides = [self.shape(a).stride for a in node.args]
        return VARYING if None in strides else rule(self, node, [stride or 0 for stride in strides])


class _ExactIntervals(Intervals):
    """The intervals of integers that have not wrapped between lanes, whether their threads are active or not."""

    def __init__(self, lanes: _Lanes):
        super().__init__(lanes.definitions, known=lanes.counters)
        self.lanes = lanes

    def unknown(self, x: Value) -> Interval | None:
        return top(x) if self.lanes.shape(x).is_uniform else None


def _coordinate(lanes: _Lanes, node: Op) -> Shape:
    is_last = node.number == lanes.kernel.tid_dims - 1
    return Shape(1) if is_last and not lanes.kernel.block_dim else UNIFORM


def _call(lanes: _Lanes, node: Op) -> Shape:
    assert node.result is not None
    uniform = tuple(not lanes.of(a) for a in node.args)
    lanes.calls[node.result] = lanes.of_calls.of(node.number, uniform)[1]
    return UNIFORM


# The shapes of operations that do not follow from those of their operands.
_OWN_SHAPES: Mapping[str, Callable[[_Lanes, Op], Shape]] = {
    "tid": _coordinate,
    "thread": lambda lanes, node: UNIFORM if lanes.kernel.block_dim else Shape(1),
    "top": lambda lanes, node: UNIFORM if node.attr_as(RecordField) in lanes.uniform_fields else VARYING,
    "call": _call,
    "call_part": lambda lanes, node: lanes.calls[node.args[0]][node.number],
}


def _scaled(lanes: _Lanes, node: Op, strides: list[int]) -> Shape:
    for factor, stride in ((node.args[1], strides[0]), (node.args[0], strides[1])):
        if isinstance(factor, Const):
            return Shape(stride * factor.value)
    return VARYING


def _cast(lanes: _Lanes, node: Op, strides: list[int]) -> Shape:
    source, result = node.args[0].type, node.result
    assert result is not None
    # Where a narrow value may wrap within a vector, the wide one does not count up.
    counts = result.type.bits <= source.bits or lanes.is_exact(node.args[0])
    return Shape(strides[0]) if counts and source.is_int else VARYING


# The shapes of integers that are linear in their operands, of which no one varies.
_LINEAR: Mapping[str, Callable[[_Lanes, Op, list[int]], Shape]] = {
    "add": lambda lanes, node, strides: Shape(strides[0] + strides[1]),
    "sub": lambda lanes, node, strides: Shape(strides[0] - strides[1]),
    "neg": lambda lanes, node, strides: Shape(-strides[0]),
    "mul": _scaled,
    "cast": _cast,
}
