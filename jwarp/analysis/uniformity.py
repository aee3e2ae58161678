"""The uniformity analysis: which values are uniform, affine in the lane, or divergent, for a scope of lanes.

A lane is a thread of a vector, of a block or of a launch. A subclass of `Uniformity` is the scope: it says in `result`
what operations give that tell lanes apart, and how lanes go through control flow that they do not agree on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from jwarp.ir.nodes import Const, For, If, Node, Op, Operand, Value, While
from jwarp.ir.visit import Visitor


@dataclass(frozen=True)
class Shape:
    """A point of the lattice. `stride` 0: uniform. A number: that of lane 0 plus stride * lane. None: anything."""

    stride: int | None

    @property
    def is_uniform(self) -> bool:
        return self.stride == 0

    @property
    def is_varying(self) -> bool:
        return self.stride is None


UNIFORM, VARYING = Shape(0), Shape(None)


def join(x: Shape, y: Shape) -> Shape:
    """The shape of a value that is one of two under uniform control."""
    return x if x == y else VARYING


class Uniformity(Visitor):
    """Finds the shape of every value of a block, of which those from outside are uniform unless `shapes` has them.

    Lanes that are `in_lockstep` and do not agree on a loop make the same iteration at a time, and those that have left
    wait: what is carried round may be uniform. Other lanes may be at any iteration. What a scope `carries_divergence`
    for is what is inside of divergent control flow: there nothing is certain that control flow gives.
    """

    in_lockstep: ClassVar[bool] = False
    carries_divergence: ClassVar[bool] = False

    def __init__(self, shapes: dict[Value, Shape] | None = None) -> None:
        self.shapes: dict[Value, Shape] = dict(shapes or {})
        self.is_divergent = False  # whether the control flow at hand diverges, of scopes that ask

    def shape(self, x: Operand) -> Shape:
        """The shape of an operand, as far as it is known."""
        return UNIFORM if isinstance(x, Const) else self.shapes.get(x, UNIFORM)

    def of(self, x: Operand) -> bool:
        """True if an operand is not uniform."""
        return not isinstance(x, Const) and self.shapes.get(x, UNIFORM).stride != 0

    def any(self, xs: Iterable[Operand]) -> bool:
        """True if one of the operands is not uniform."""
        return any(map(self.of, xs))

    @property
    def divergent(self) -> frozenset[Value]:
        """The values that are not uniform."""
        return frozenset(x for x, shape in self.shapes.items() if shape.stride != 0)

    def result(self, node: Op) -> Shape:
        """The shape of what an operation gives."""
        return VARYING if self.any(node.args) else UNIFORM

    def is_scalar(self, value: Value) -> bool:
        """True for a value that may differ between lanes: not for a tile, of scopes with tiles."""
        return True

    def splits(self, node: Node) -> bool:
        """True if lanes may not agree on the way through control flow."""
        match node:
            case If():
                return self.of(node.cond)
            case For():
                return self.of(node.lo) or self.of(node.hi)
            case While():
                return self.any(node.cond.yields)
        return False

    def op(self, node: Op) -> None:
        if node.result is not None:
            self.shapes[node.result] = self.result(node)

    def branch(self, node: If) -> None:
        outer, splits = self.is_divergent, self.is_divergent or self.splits(node)
        self.is_divergent = splits and self.carries_divergence
        self.inside(node)
        self.is_divergent = outer
        for value, then, orelse in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
            given = join(self.shape(then), self.shape(orelse))
            self.shapes[value] = VARYING if splits and self.is_scalar(value) else given

    def loop(self, node: For | While) -> None:
        """Start from what enters the loop and widen until nothing changes."""
        shapes, outer = self.shapes, self.is_divergent
        for param, init in zip(node.params, node.init, strict=True):
            shapes[param] = self.shape(init)
        splits = outer or (isinstance(node, For) and self.splits(node))
        changed = True
        while changed:
            changed = False
            self.is_divergent = splits and self.carries_divergence
            if splits and not self.in_lockstep:
                shapes.update(dict.fromkeys(filter(self.is_scalar, node.params), VARYING))
            if isinstance(node, For):
                shapes[node.index] = VARYING if splits and not self.in_lockstep else self.shape(node.lo)
            else:
                self.block(node.cond)
                if not splits and self.splits(node):
                    splits, changed = True, not self.in_lockstep or self.carries_divergence
            self.block(node.body)
            for param, following in zip(node.params, node.body.yields, strict=True):
                joined = join(shapes[param], self.shape(following))
                changed |= joined != shapes[param]
                shapes[param] = joined
        self.is_divergent = outer
        for param, result in zip(node.params, node.results, strict=True):
            # Lanes that leave at different times leave with different values.
            shapes[result] = VARYING if splits and self.is_scalar(result) else shapes[param]
