"""The variant of a derivative that a launch needs, and its steps, from facts of the launch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from jwarp.analysis.affine import Extents
from jwarp.launching.derive import derive, rounding_as
from jwarp.launching.derived import Variant
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.launching.meetings import gatherable, is_alone, may_coincide, refuse_race, single_axes
from jwarp.launching.program import GeneratedProgram
from jwarp.launching.steps import Steps, derivative_steps, forward_steps


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
        repeated=may_coincide(program, geometry),
        alone=is_alone(program, geometry),
        single=single_axes(program, geometry),
        for_gpu=for_gpu,
    )


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
    fresh: Sequence[int],
    for_gpu: bool = False,
) -> Steps:
    """The steps of an adjoint launch, which runs the launch once more where its code reads what that leaves.

    Raises:
        NotDifferentiableError: there is no exact rule for a gradient that is wanted.
    """
    variant = variant_of(
        "adjoint", program, geometry, extents, wanted, given, integers=integers, fresh=fresh, for_gpu=for_gpu
    )
    derived = derive(program, variant)
    again = None
    if any(source.kind == "final" for source in derived.sources):
        exact = rounding_as(program, derived.sources)
        again = forward_steps(exact, geometry, extents, outputs, block_dim, fresh=fresh)
    return derivative_steps(derived, geometry, extents, block_dim, after=again)
