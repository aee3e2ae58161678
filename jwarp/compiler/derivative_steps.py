"""The variant and the steps of the derivative that a launch needs, from facts of the launch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from jwarp.compiler.derive import derive, in_known_order, rounding_as
from jwarp.compiler.derived import DerivedLaunch, Feed, Variant
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.write_conflicts import exceeded, gatherable, is_alone, may_coincide, refuse_race, single_axes
from jwarp.errors import NotDifferentiableError
from jwarp.ir.nodes import Param
from jwarp.launching.descriptor import descriptor_of
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.launching.steps import Add, Allocate, Copy, Launch, Shape, Slot, Step, Steps
from jwarp.types.arrays import Extents
from jwarp.wire import Role


def variant_of(
    kind: Literal["adjoint", "tangent"],
    program: GeneratedProgram,
    geometry: Geometry,
    extents: Extents,
    wanted: Collection[int],
    given: Collection[int],
    *,
    integers: Mapping[int, int],
    fresh: Sequence[int] = (),
    shared: Collection[int] = (),
    for_gpu: bool = False,
) -> Variant:
    """The derivative for `wanted` parameters, given those of `given`.

    Args:
        kind: Which first derivative.
        program: What the launch runs.
        geometry: Its threads.
        extents: The shape of each parameter, None for numbers.
        wanted: The parameters that results are for.
        given: The parameters that cotangents, or directions, are given for.
        integers: The integer arguments that are known.
        fresh: The outputs that start as zeros.
        shared: The parameters that a whole batch shares.
        for_gpu: A GPU may run it.

    Raises:
        NotDifferentiableError: threads store to one element, and nothing tells which of them was the last.
    """
    refuse_race(program, geometry, extents)
    known = gatherable(program, geometry, extents, integers)
    is_adjoint = kind == "adjoint"
    return Variant(
        kind,
        tuple(wanted),
        tuple(given),
        shared=tuple(shared),
        fresh=tuple(fresh),
        gathered=tuple(p for p in known if is_adjoint and p in wanted and p not in shared),
        gatherable=known,
        exceeded=exceeded(program, geometry, extents, known),
        repeated=may_coincide(program, geometry),
        alone=is_alone(program, geometry),
        single=single_axes(program, geometry),
        for_gpu=for_gpu,
    )


def any_variant(
    kind: str, wanted: Sequence[int], given: Sequence[int], *, fresh: Sequence[int] = (), for_gpu: bool = False
) -> Variant:
    """The variant that launches of every size may use: nothing is known of them."""
    return Variant(kind, tuple(wanted), tuple(given), fresh=tuple(fresh), for_gpu=for_gpu)


def integers_of(program: GeneratedProgram, contents: Sequence[np.ndarray | None]) -> dict[int, int]:
    """The integers among the arguments of a launch, by parameter; `contents` has arrays without axes for numbers."""
    params = program.params
    return {
        p: int(x) for p, x in enumerate(contents) if x is not None and not params[p].is_array and x.dtype.kind in "iu"
    }


def adjoint_steps(
    program: GeneratedProgram,
    geometry: Geometry,
    extents: Extents,
    wanted: Collection[int],
    given: Collection[int],
    outputs: Sequence[int],
    block_dim: BlockDim | None,
    *,
    integers: Mapping[int, int],
    fresh: Sequence[int] = (),
    changed: Collection[int] = (),
    for_gpu: bool = False,
    in_place: bool = False,
) -> tuple[GeneratedProgram, Steps]:
    """The steps of an adjoint launch, which runs the launch once more where its code reads what that leaves.

    Custom gradients write to the arrays `changed` themselves, and to copies of others. The program is what the launch
    has to run to agree with its adjoint. One that works `in_place` comes after that launch: both then have one order of
    threads that count.

    Raises:
        NotDifferentiableError: there is no exact rule for a gradient that is wanted.
    """
    variant = variant_of(
        "adjoint", program, geometry, extents, wanted, given, integers=integers, fresh=fresh, for_gpu=for_gpu
    )
    if in_place:
        program = in_known_order(program, [variant])
    derived = derive(program, variant)
    if in_place and not derived.has_results:
        return program, Steps(())
    program, again = rounding_as(program, derived.sources), None
    if any(source.kind == "final" for source in derived.sources):
        refuse_found(program)
        again = forward_steps(program, geometry, extents, outputs, block_dim, fresh=fresh)
    steps = derivative_steps(derived, geometry, extents, block_dim, in_place=in_place, changed=changed, after=again)
    return program, steps


def refuse_found(program: GeneratedProgram) -> None:
    """Refuse to run a launch once more that writes to arrays that it finds by numbers.

    Raises:
        NotDifferentiableError: it does.
    """
    if any(program.params[p].is_heap for p in program.written if p < len(program.params)):
        raise NotDifferentiableError(
            f"kernel `{program.name}`: its derivative needs what arrays hold after the launch, of which threads may"
            " store to one element, and the kernel writes to arrays that it finds by numbers, too",
            program.span,
            "store at an index of the thread's own, or write to what numbers name in a kernel of its own",
        )


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
    changed: Collection[int] = (),
    after: Steps | None = None,
) -> Steps:
    """The steps that add a derivative to the slots `gradient`, or to `given` where it works `in_place`.

    Custom gradients write to the arrays `changed` themselves, the slots `primal`, and to copies of others. The steps
    come after the steps `after`, which allocate the slots `final`.
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
            if feed.source.kind == "primal" and feed.source.param in changed:
                slot = feed.source
            else:
                slot = _slot(builder, feed, shape, param, geometry, in_place=in_place)
            if feed.result is not None and slot != (target := Slot(into, feed.result)):
                own = extents[feed.result] or ()
                builder.after.append(Add(slot, target, None if own == shape else own))
            slots.append(slot)
        roles = tuple(feed.role for feed in derived.feeds)
        launch = descriptor_of(derived.program, derived.covering(geometry, extents), roles, block_dim)
        sums = tuple(k for k, feed in enumerate(derived.feeds) if feed.is_sum)
        launches.append(Launch(launch, tuple(slots), shapes, sums))
    if not in_place:
        builder.after += [Add(Slot("given", p), Slot("gradient", p)) for p in sorted(derived.same)]
    return Steps((*first, *builder.before, *launches, *builder.after))


def _slot(builder: _Builder, feed: Feed, shape: Shape, param: Param, geometry: Geometry, *, in_place: bool) -> Slot:
    """The slot of a parameter of a derivative's kernel."""
    kind, p = feed.source
    dtype, is_heap = param.dtype.dtype, param.is_heap
    is_read = feed.role is Role.READ
    if kind == "dim":
        return builder.own(shape, dtype, geometry.dims[p])
    if kind == "zeros":
        return builder.own(shape, dtype, 0 if is_read else None)  # a launch fills what it writes itself
    # Of what is found by numbers, `moves` says where copies of the content are.
    if is_read or is_heap or (in_place and kind == "given" and feed.result is not None):
        return feed.source
    return builder.copy(feed.source, shape, dtype)


def shape_of(feed: Feed, param: Param, extents: Extents) -> Shape:
    """The shape of a parameter of a derivative's kernel. The gradient of a number is an array of one element."""
    shape = None if feed.source.kind == "dim" else extents[feed.source.param]
    return shape if shape is not None else (1,) if param.is_array else ()
