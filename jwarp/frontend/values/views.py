"""Views of tiles: which elements of a tile in memory another tile shows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jwarp.ir.nodes import Operand
from jwarp.ir.tile_types import dense_strides


@dataclass(frozen=True)
class Moving:
    """A part of a view's place that is known only when the kernel runs.

    The index start + shift + step * (index along axis `dim` of the view, if it has one) counts along an axis of
    extent `extent`, whose elements are `stride` apart in the flattened tile.
    """

    start: Operand
    extent: int
    stride: int
    shift: int = 0
    dim: int | None = None
    step: int = 0


@dataclass(frozen=True)
class View:
    """Element (i, j…) is element offset + i * strides[0] + j * strides[1]… of the flattened tile, moved by `moving`.

    A view of shape () is one element.
    """

    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    moving: tuple[Moving, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def repeats(self) -> bool:
        """True if an element is shown more than once."""
        moved = {m.dim for m in self.moving}
        return any(
            n > 1 and s == 0 and k not in moved for k, (n, s) in enumerate(zip(self.shape, self.strides, strict=True))
        )

    @property
    def is_dense(self) -> bool:
        """True if the elements are contiguous."""
        expected = dense_strides(self.shape)
        steps = zip(self.shape, self.strides, expected, strict=True)
        return all(n == 1 or s == e for n, s, e in steps) and all(m.dim is None for m in self.moving)

    def is_whole(self, size: int) -> bool:
        """True if it shows all of a tile of `size` elements, in their order."""
        return bool(self.shape) and not self.moving and self.offset == 0 and self.size == size and self.is_dense


def whole(shape: tuple[int, ...]) -> View:
    """The view of all of a tile."""
    return View(shape, 0, dense_strides(shape))


def sliced(view: View, axis: int, start: int, step: int, count: int) -> View:
    """`count` elements along an axis from `start` on."""
    shape, strides = list(view.shape), list(view.strides)
    shape[axis], strides[axis] = count, view.strides[axis] * step
    moving = tuple(
        dataclasses.replace(m, shift=m.shift + m.step * start, step=m.step * step) if m.dim == axis else m
        for m in view.moving
    )
    return View(tuple(shape), view.offset + view.strides[axis] * start, tuple(strides), moving)


def without_axis(view: View, axis: int) -> View:
    """The view without an axis, of which index 0 is taken."""
    kept = [k for k in range(len(view.shape)) if k != axis]
    return permuted(view, kept)


def permuted(view: View, axes: Sequence[int]) -> View:
    """The view with its axes in another order; those left out have index 0."""
    places = {axis: k for k, axis in enumerate(axes)}
    moving = tuple(
        dataclasses.replace(m, dim=places.get(m.dim), step=m.step if m.dim in places else 0) if m.dim is not None else m
        for m in view.moving
    )
    return View(tuple(view.shape[k] for k in axes), view.offset, tuple(view.strides[k] for k in axes), moving)


def broadcast(view: View, shape: tuple[int, ...]) -> View:
    """The view with axes of extent 1 repeated, and new ones in front."""
    added = len(shape) - len(view.shape)
    strides = [0] * added
    strides += [s if n == m else 0 for s, n, m in zip(view.strides, view.shape, shape[added:], strict=True)]
    moving = []
    for m in view.moving:
        if m.dim is not None:
            repeated = view.shape[m.dim] != shape[m.dim + added]
            m = dataclasses.replace(m, dim=None, step=0) if repeated else dataclasses.replace(m, dim=m.dim + added)
        moving.append(m)
    return View(shape, view.offset, tuple(strides), tuple(moving))


def reshaped(view: View, shape: tuple[int, ...]) -> View:
    """A dense view in another shape of as many elements."""
    return View(shape, view.offset, dense_strides(shape), view.moving)


class Arithmetic(Protocol):
    """The arithmetic on indices in the kernel."""

    def from_start(self, index: Operand, extent: int) -> Operand: ...  # one that may count from the end
    def along(self, start: Operand, step: int, index: Operand) -> Operand: ...  # start + step * index


def moved(view: View, axis: int, start: Operand, count: int | None, arithmetic: Arithmetic) -> View:
    """The view from a computed index of an axis on: `count` elements, or the one there without the axis."""
    extent, stride, single = view.shape[axis], view.strides[axis], count is None
    onward = [m for m in view.moving if m.dim == axis]
    if onward:
        start = arithmetic.from_start(start, extent)
    view = sliced(view, axis, 0, 1, 1 if count is None else count)
    moving = [
        dataclasses.replace(m, start=arithmetic.along(m.start, m.step, start)) if m.dim == axis else m
        for m in view.moving
    ]
    # Where there is nothing to add, it still says which indices there are.
    moving.append(Moving(start, extent, stride, 0, None if single else axis, 0 if single else 1))
    strides = tuple(0 if k == axis else s for k, s in enumerate(view.strides))
    view = View(view.shape, view.offset, strides, tuple(moving))
    return without_axis(view, axis) if single else view


@dataclass(frozen=True)
class Along:
    """The indices along one axis of the tile in memory: first + step * (index along axis `dim` of the view)."""

    first: int
    dim: int | None
    step: int
    start: Operand | None = None  # added to `first`


def by_axes(view: View, shape: tuple[int, ...]) -> list[Along] | None:
    """The view as indices along the axes of the tile of shape `shape`, or None if it is no such thing."""
    strides = dense_strides(shape)
    firsts, rest = [], view.offset
    for stride in strides:
        firsts.append(rest // stride)
        rest %= stride
    found: list[Along | None] = [None] * len(shape)
    for m in view.moving:
        axis = next((d for d, s in enumerate(strides) if (s, shape[d]) == (m.stride, m.extent) and not found[d]), None)
        if axis is None or firsts[axis]:
            return None
        found[axis] = Along(m.shift, m.dim, m.step, m.start)
    for dim, (count, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        if stride == 0 or count == 1:
            continue
        axis = next((d for d, s in enumerate(strides) if stride % s == 0 and not found[d]), None)
        if axis is None:
            return None
        step = stride // strides[axis]
        last = firsts[axis] + step * (count - 1)
        if not 0 <= last < shape[axis]:
            return None
        found[axis] = Along(firsts[axis], dim, step)
    return [found[d] or Along(firsts[d], None, 0) for d in range(len(shape))]
