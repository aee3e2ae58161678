"""The steps of a launch and its derivatives as data: allocate, copy, launch, add.

A list of steps computes a derivative, or runs a launch once more. It names its arrays by slots and holds none, and it
knows all their shapes, so that it is made once for a layout and run on any arrays. Executors interpret it: on JAX
values (`bind/derivatives.py`), on host arrays and on arrays of a GPU (`dispatch/steps`).

A slot is a source of a derivative (`primal p`, `final p`, `given p`, `along p`), or one of
    gradient p   what the result for parameter p is added to
    own k        memory of the list itself
The steps:
    Allocate     memory for a slot. Its content is undefined where `value` is None
    Copy         all elements of one slot to another one of the same shape
    Launch       a kernel; each parameter has a slot. A slot of role ZEROS is filled with zeros before the first thread
    Add          all elements of one slot to another one of as many elements

`final p` is allocated by the steps that run the launch once more, and given by executors that have run it anyway.
In a list that works in place there is no `gradient p`: `given p` is the cotangent before, and the gradient after.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from jwarp.analysis.affine import Extents
from jwarp.ir.nodes import Param
from jwarp.launching.derived import DerivedLaunch, Feed, Source
from jwarp.launching.descriptor import Descriptor, descriptor_of
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.launching.program import GeneratedProgram
from jwarp.wire import Role

Slot = Source
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Allocate:
    """Memory for `slot`, all of whose elements are `value`; undefined where that is None."""

    slot: Slot
    shape: Shape
    dtype: np.dtype
    value: int | None = None


@dataclass(frozen=True)
class Copy:
    """The elements of `source` become those of `target`."""

    source: Slot
    target: Slot


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel. Its parameters have the `slots`, whose shapes are `shapes`.

    It only adds to the parameters `sums`, so that the whole of a batch may share the arrays of these.
    """

    launch: Descriptor[GeneratedProgram]
    slots: tuple[Slot, ...]
    shapes: tuple[Shape, ...]
    sums: tuple[int, ...] = ()

    @property
    def written(self) -> tuple[Slot, ...]:
        """The slots whose content it changes."""
        return tuple(self.slots[k] for k in self.launch.results)


@dataclass(frozen=True)
class Add:
    """The elements of `source` are added to those of `target`."""

    source: Slot
    target: Slot


Step = Allocate | Copy | Launch | Add


@dataclass(frozen=True)
class Steps:
    """A list of steps, and the slots that its executor is given arrays for."""

    steps: tuple[Step, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches among the steps, in order."""
        return tuple(step for step in self.steps if isinstance(step, Launch))

    @property
    def written(self) -> frozenset[Slot]:
        """The slots that launches or additions change."""
        added = {step.target for step in self.steps if isinstance(step, Add)}
        return frozenset(added.union(*(launch.written for launch in self.launches)))

    @property
    def given(self) -> tuple[Slot, ...]:
        """The slots that no step allocates, in the order of their first use."""
        used: dict[Slot, None] = {}
        own: set[Slot] = set()
        for step in self.steps:
            if isinstance(step, Allocate):
                own.add(step.slot)
            else:
                slots = step.slots if isinstance(step, Launch) else (step.source, step.target)
                used.update(dict.fromkeys(slots))
        return tuple(slot for slot in used if slot not in own)


class _Builder:
    """The steps of a list as it grows: those before its launch, and the additions after it."""

    def __init__(self, first_own: int = 0) -> None:
        self.before: list[Step] = []
        self.after: list[Add] = []
        self._first, self._count = first_own, 0

    def own(self, shape: Shape, dtype: np.dtype, value: int | None = None) -> Slot:
        """New memory of the list."""
        slot = Slot("own", self._first + self._count)
        self._count += 1
        self.before.append(Allocate(slot, shape, dtype, value))
        return slot

    def copy(self, source: Slot, shape: Shape, dtype: np.dtype) -> Slot:
        """A copy of a slot, for a kernel to work on."""
        slot = self.own(shape, dtype)
        self.before.append(Copy(source, slot))
        return slot


def forward_steps(
    program: GeneratedProgram,
    geometry: Geometry,
    extents: Extents,
    outputs: Collection[int],
    block_dim: BlockDim | None = None,
    *,
    fresh: Collection[int] = (),
) -> Steps:
    """The launch once more, on copies of what it writes: the slots `final`, of all `outputs`.

    Those of `fresh` start as zeros, and no content is given for them.
    """
    builder = _Builder()
    slots: list[Slot] = []
    roles: list[Role] = []
    for p, dtype in enumerate(program.dtypes[: len(program.params)]):
        slot = Slot("primal", p)
        if p in outputs:
            final = Slot("final", p)
            builder.before.append(Allocate(final, extents[p] or (), dtype, 0 if p in fresh else None))
            if p not in fresh:
                builder.before.append(Copy(slot, final))
            slot = final
        slots.append(slot)
        roles.append(Role.IN_OUT if p in outputs else Role.READ)
    shapes = [extents[p] or () for p in range(len(program.params))]
    for p, dtype in zip(program.shadowed, program.dtypes[len(program.params) :], strict=True):
        shapes.append(extents[p] or ())
        slots.append(builder.own(shapes[-1], dtype))
        roles.append(Role.ZEROS)
    launch = descriptor_of(program, geometry, tuple(roles), block_dim)
    return Steps((*builder.before, Launch(launch, tuple(slots), tuple(shapes))))


def derivative_steps(
    derived: DerivedLaunch,
    geometry: Geometry,
    extents: Extents,
    block_dim: BlockDim | None = None,
    *,
    in_place: bool = False,
    after: Steps | None = None,
) -> Steps:
    """The steps that add a derivative to the slots `gradient`, or to `given` where it works `in_place`.

    They come after the steps `after`, which allocate the slots `final`.
    """
    first = () if after is None else after.steps
    builder = _Builder(sum(isinstance(step, Allocate) for step in first))
    into = "given" if in_place else "gradient"
    launches: list[Launch] = []
    if derived.has_results:
        params = derived.program.kernel.params
        shapes = tuple(shape_of(feed, param, extents) for feed, param in zip(derived.feeds, params, strict=True))
        slots = []
        for feed, param, shape in zip(derived.feeds, params, shapes, strict=True):
            slot = _slot(builder, feed, shape, param.dtype.dtype, geometry, in_place=in_place)
            if feed.result is not None and slot != (target := Slot(into, feed.result)):
                builder.after.append(Add(slot, target))
            slots.append(slot)
        roles = tuple(feed.role for feed in derived.feeds)
        launch = descriptor_of(derived.program, derived.covering(geometry, extents), roles, block_dim)
        sums = tuple(k for k, feed in enumerate(derived.feeds) if feed.is_sum)
        launches.append(Launch(launch, tuple(slots), shapes, sums))
    if not in_place:
        builder.after += [Add(Slot("given", p), Slot("gradient", p)) for p in sorted(derived.same)]
    return Steps((*first, *builder.before, *launches, *builder.after))


def _slot(builder: _Builder, feed: Feed, shape: Shape, dtype: np.dtype, geometry: Geometry, *, in_place: bool) -> Slot:
    """The slot of a parameter of a derivative's kernel."""
    kind, p = feed.source
    is_read = feed.role is Role.READ
    if kind == "dim":
        return builder.own(shape, dtype, geometry.dims[p])
    if kind == "zeros":
        return builder.own(shape, dtype, 0 if is_read else None)  # a launch fills what it writes itself
    if is_read or (in_place and kind == "given" and feed.result is not None):
        return feed.source
    return builder.copy(feed.source, shape, dtype)


def shape_of(feed: Feed, param: Param, extents: Extents) -> Shape:
    """The shape of a parameter of a derivative's kernel. The gradient of a number is an array of one element."""
    shape = None if feed.source.kind == "dim" else extents[feed.source.param]
    return shape if shape is not None else (1,) if param.is_array else ()
