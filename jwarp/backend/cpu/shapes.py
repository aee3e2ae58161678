"""Finds which values are the same in all lanes of a vector, and which count up with the lane."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jwarp.analysis.lone_loops import lone_loops, taken_in
from jwarp.ir.attributes import RecordField, RecordFields
from jwarp.ir.nodes import Const, For, If, Kernel, Node, Op, Operand, Value, While, walk
from jwarp.ir.visit import Visitor
from jwarp.types import int32


@dataclass(frozen=True)
class Shape:
    """`stride` 0: uniform. A number: the value of lane 0 plus stride * lane. None: anything."""

    stride: int | None

    @property
    def is_uniform(self) -> bool:
        return self.stride == 0

    @property
    def is_varying(self) -> bool:
        return self.stride is None


UNIFORM, VARYING = Shape(0), Shape(None)
MAX_LANES = 64

# Least and greatest value of an integer in any lane, whether its thread is active or not.
Limits = tuple[int, int]


def join(x: Shape, y: Shape) -> Shape:
    """The shape of a value that is one of two under uniform control."""
    return x if x == y else VARYING


def shapes_of(kernel: Kernel, calls: ShapesOfCalls | None = None) -> Mapping[Value, Shape]:
    """The shape of every value of a kernel, but for those in functions, which are in `calls` afterwards.

    Lanes are along its last launch dimension; in a kernel with tiles, only in the loops that have them.
    """
    analysis = _Analysis(kernel, calls or ShapesOfCalls(kernel))
    analysis.lone = lone_loops(kernel)
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
            analysis = _Analysis(self.kernel, self)
            results = analysis.function(number, uniform)
            found = self.found[number, uniform] = analysis.shapes, results
        return found


class _Analysis(Visitor):
    def __init__(self, kernel: Kernel, of_calls: ShapesOfCalls):
        self.kernel, self.of_calls = kernel, of_calls
        self.shapes: dict[Value, Shape] = {}
        self.limits: dict[Value, Limits] = {}
        self.calls: dict[Operand, tuple[Shape, ...]] = {}  # of the results, by what stands for them
        self.has_lanes = not self.kernel.block_dim
        self.lone: frozenset[For | While] = frozenset()

    @functools.cached_property
    def uniform_fields(self) -> frozenset[RecordField]:
        """The fields of records that hold the same for all lanes."""
        pushes = [n.told(RecordFields) for n in walk(self.kernel.body) if isinstance(n, Op) and n.name == "push"]
        return frozenset(
            RecordField(record.tape, k)
            for record in pushes
            for k, is_uniform in enumerate(record.uniform)
            if is_uniform
        )

    def shape(self, x: Operand) -> Shape:
        return UNIFORM if isinstance(x, Const) else self.shapes[x]

    def limits_of(self, x: Operand) -> Limits | None:
        """The limits of a value that has not wrapped between lanes; None if it may have."""
        if isinstance(x, Const):
            return x.value, x.value
        return self.limits.get(x) or ((x.type.min, x.type.max) if self.shapes[x].is_uniform else None)

    def op(self, node: Op) -> None:
        if node.result is not None:
            self.shapes[node.result] = self.shape_of(node)
            self.limit(node, node.result)

    def function(self, number: int, uniform: tuple[bool, ...]) -> tuple[Shape, ...]:
        """Find the shapes in a function; those of its results."""
        function = self.kernel.functions[number]
        self.shapes.update(zip(function.params, (UNIFORM if same else VARYING for same in uniform), strict=True))
        self.block(function.body)
        return tuple(self.shape(y) for y in function.body.yields)

    def branch(self, node: If) -> None:
        self.inside(node)
        uniform = self.shape(node.cond).is_uniform
        for k, result in enumerate(node.results):
            both = join(self.shape(node.then.yields[k]), self.shape(node.orelse.yields[k]))
            self.shapes[result] = both if uniform else VARYING

    def counted(self, node: For) -> None:
        if node.lanes is not None:
            self.vectors(node)
        else:
            self.loop(node)

    def node(self, node: Node) -> None:
        if node in self.lone and self.has_lanes:
            assert isinstance(node, (For, While))
            self.one_by_one(node)
        else:
            super().node(node)

    def one_by_one(self, node: For | While) -> None:
        """A loop that threads run one after the other: nothing differs in it but what its trips with lanes have."""
        given = {x: self.shapes[x] for x in taken_in(node)}
        self.shapes.update(dict.fromkeys(given, UNIFORM))
        self.has_lanes = False
        super().node(node)
        self.has_lanes = True
        self.shapes.update(given)
        self.shapes.update(dict.fromkeys(node.results, VARYING))

    def vectors(self, node: For) -> None:
        """A loop whose trips run together: what it carries is one value for each lane until it ends."""
        self.shapes[node.index] = Shape(1)
        if isinstance(node.lo, Const) and isinstance(node.hi, Const):
            ends = sorted((node.lo.value, node.hi.value))
            self.limits[node.index] = ends[0], ends[1] + MAX_LANES
        self.shapes.update(dict.fromkeys(node.params, VARYING))
        self.has_lanes = True
        self.block(node.body)
        self.has_lanes = False
        self.shapes.update(dict.fromkeys(node.results, UNIFORM))

    def loop(self, node: For | While) -> None:
        """Start from what enters the loop and widen until nothing changes."""
        for param, init in zip(node.params, node.init, strict=True):
            self.shapes[param] = self.shape(init)
        while True:
            if isinstance(node, For):
                lo, hi = self.shape(node.lo), self.shape(node.hi)
                # All lanes that are in the loop make the same trip.
                self.shapes[node.index] = lo
                uniform = lo.is_uniform and hi.is_uniform
            else:
                self.block(node.cond)
                uniform = self.shape(node.cond.yields[0]).is_uniform
            self.block(node.body)
            changed = False
            for param, following in zip(node.params, node.body.yields, strict=True):
                joined = join(self.shapes[param], self.shape(following))
                changed |= joined != self.shapes[param]
                self.shapes[param] = joined
            if not changed:
                break
        for param, result in zip(node.params, node.results, strict=True):
            # Lanes that leave at different times leave with different values.
            self.shapes[result] = self.shapes[param] if uniform else VARYING

    def limit(self, node: Op, result: Value) -> None:
        """Note the limits of `result`, unless it may wrap."""
        self.limits.pop(result, None)
        rule = _LIMITS.get(node.name)
        if rule is None or not all(x.type.is_int for x in (result, *node.args)):
            return
        limits = [self.limits_of(a) for a in node.args]
        if None not in limits:
            low, high = rule(*limits)
            if result.type.min <= low and high <= result.type.max:
                self.limits[result] = low, high

    def shape_of(self, node: Op) -> Shape:
        args = [self.shape(a) for a in node.args]
        if not self.has_lanes:
            return UNIFORM
        if node.name == "tid":
            is_last = node.number == self.kernel.tid_dims - 1
            return Shape(1) if is_last and not self.kernel.block_dim else UNIFORM
        if node.name == "thread":
            return UNIFORM if self.kernel.block_dim else Shape(1)
        if node.row.is_lasting:
            return VARYING  # an atomic operation finds what the lane before it left
        if node.name == "load" and self.kernel.local(node.array) is not None and not self.kernel.block_dim:
            return VARYING  # every lane has an array of its own
        if node.name == "top":
            return UNIFORM if node.told(RecordField) in self.uniform_fields else VARYING
        if node.name == "call":
            assert node.result is not None
            self.calls[node.result] = self.of_calls.of(node.number, tuple(a.is_uniform for a in args))[1]
            return UNIFORM
        if node.name == "call_part":
            return self.calls[node.args[0]][node.number]
        if node.row.is_common or all(a.is_uniform for a in args):
            return UNIFORM
        rule = _LINEAR.get(node.name)
        assert node.result is not None
        if rule is None or not node.result.type.is_int or any(a.is_varying for a in args):
            return VARYING
        return rule(self, node, [a.stride or 0 for a in args])


def _scaled(analysis: _Analysis, node: Op, strides: list[int]) -> Shape:
    for factor, stride in ((node.args[1], strides[0]), (node.args[0], strides[1])):
        if isinstance(factor, Const):
            return Shape(stride * factor.value)
    return VARYING


def _cast(analysis: _Analysis, node: Op, strides: list[int]) -> Shape:
    source, result = node.args[0].type, node.result
    assert result is not None
    # Where a narrow value may wrap within a vector, the wide one does not count up.
    counts = result.type.bits <= source.bits or analysis.limits_of(node.args[0]) is not None
    return Shape(strides[0]) if counts and source.is_int else VARYING


_LINEAR = {
    "add": lambda analysis, node, strides: Shape(strides[0] + strides[1]),
    "sub": lambda analysis, node, strides: Shape(strides[0] - strides[1]),
    "neg": lambda analysis, node, strides: Shape(-strides[0]),
    "mul": _scaled,
    "cast": _cast,
}


def _product(x: Limits, y: Limits) -> Limits:
    ends = [a * b for a in x for b in y]
    return min(ends), max(ends)


_LIMITS: Mapping[str, Callable[..., Limits]] = {
    "tid": lambda: (0, int32.max - 1),
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "neg": lambda x: (-x[1], -x[0]),
    "mul": _product,
    "cast": lambda x: x,
}
