"""Arrays that a kernel finds by a number: where they lie in memory, how far they reach, and which element is where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jwarp.errors import Span
from jwarp.frontend.values.axes import Located
from jwarp.frontend.values.cells import TileMemory
from jwarp.ir.nodes import Const, Operand
from jwarp.types import ScalarType, int32, int64, uint32, uint64
from jwarp.types.all_memory import NOWHERE


class Emitter(Protocol):
    """The operations of the lowering that the rules below use."""

    tiles: TileMemory

    def emit(self, name: str, *args: Operand, span: Span, type: ScalarType | None = None) -> Operand: ...


def wide(e: Emitter, x: Operand, span: Span) -> Operand:
    """An integer as int64."""
    if isinstance(x, Const):
        return Const(int64, int(x.value))
    return x if x.type is int64 else e.emit("cast", x, span=span, type=int64)


def scalar_at(e: Emitter, array: Located, indices: Sequence[Operand], span: Span) -> Operand:
    """The first scalar of an element, `NOWHERE` where there is none."""
    at, tests = array.start, []
    for index, size, step in zip(indices, array.sizes, array.steps, strict=False):
        counted, own = _counted(e, index, size, span)
        tests += own
        at = e.emit("add", at, e.emit("mul", counted, step, span=span), span=span)
    if array.limits is not None:
        first, room = array.limits
        far = e.emit("cast", e.emit("sub", at, first, span=span), span=span, type=uint64)
        tests.append(e.emit("lt", far, e.emit("cast", room, span=span, type=uint64), span=span))
    for test in tests:
        at = e.emit("select", test, at, Const(int64, NOWHERE), span=span)
    return at


def _counted(e: Emitter, index: Operand, size: Operand, span: Span) -> tuple[Operand, list[Operand]]:
    """An index, counted from the end where it is negative, as int64, and the tests that it is inside."""
    if index.type is int32:
        if not isinstance(index, Const) or index.value < 0:
            plain = e.emit("ge", index, Const(int32, 0), span=span)
            e.tiles.sign_tests.add(plain)
            index = e.emit("select", plain, index, e.emit("add", index, size, span=span), span=span)
        # One test of both ends: what is negative is large without a sign.
        test = e.emit("lt", *(e.emit("bitcast", x, span=span, type=uint32) for x in (index, size)), span=span)
        return wide(e, index, span), [test]
    limit = wide(e, size, span)
    index = wide(e, index, span)
    if isinstance(index, Const) and index.value >= 0:
        return index, [e.emit("lt", index, limit, span=span)]
    zero = Const(int64, 0)
    counted = e.emit("select", e.emit("ge", index, zero, span=span), index, e.emit("add", index, limit, span=span),
                     span=span)  # fmt: skip
    return counted, [e.emit("ge", counted, zero, span=span), e.emit("lt", counted, limit, span=span)]


def component_at(e: Emitter, first: Operand, component: Sequence[Operand], shape: Sequence[int], span: Span) -> Operand:
    """The scalar of a component of the element that begins at `first`."""
    at = first
    step = 1
    tests: list[Operand] = []
    for index, extent in zip(reversed(component), reversed(shape), strict=True):
        if isinstance(index, Const) and index.value >= 0:
            counted: Operand = Const(int64, int(index.value))
        else:
            counted, own = _counted(e, index, Const(int32, extent), span)
            tests += own
        if counted != Const(int64, 0):
            at = e.emit("add", at, e.emit("mul", counted, Const(int64, step), span=span), span=span)
        step *= extent
    for test in tests:
        at = e.emit("select", test, at, Const(int64, NOWHERE), span=span)
    return at


def row(e: Emitter, array: Located, axis: int, index: Operand, span: Span) -> Located:
    """The rest of an array where an index is taken of an axis; nothing where the index is outside."""
    counted, tests = _counted(e, index, array.sizes[axis], span)
    start = e.emit("add", array.start, e.emit("mul", counted, array.steps[axis], span=span), span=span)
    sizes = [*array.sizes[:axis], *array.sizes[axis + 1 :]]
    for test in tests:
        sizes = [e.emit("select", test, size, Const(int32, 0), span=span) for size in sizes]
        start = e.emit("select", test, start, Const(int64, NOWHERE), span=span)
    return Located(start, tuple(sizes), (*array.steps[:axis], *array.steps[axis + 1 :]), array.limits)


def part(e: Emitter, array: Located, axis: int, start: Operand, count: Operand, step: Operand, span: Span) -> Located:
    """The part of an array that a slice shows of an axis."""
    own = array.steps[axis]
    first = e.emit("add", array.start, e.emit("mul", wide(e, start, span), own, span=span), span=span)
    steps = [*array.steps]
    steps[axis] = e.emit("mul", own, wide(e, step, span), span=span)
    sizes = [*array.sizes]
    sizes[axis] = count
    return Located(first, tuple(sizes), tuple(steps), array.limits)
