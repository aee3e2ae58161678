"""Launches of a batch whose elements become threads: which ones, and as what."""

from __future__ import annotations

import dataclasses

from jwarp.caches import PerOwner
from jwarp.compiler import pipeline
from jwarp.compiler.passes import run
from jwarp.compiler.program import MAX_FORMS, GeneratedProgram
from jwarp.launching.batch import Batch
from jwarp.launching.descriptor import Descriptor, descriptor_of
from jwarp.launching.geometry import Geometry
from jwarp.launching.sizes import is_known
from jwarp.passes.batch_to_threads import becomes_threads
from jwarp.wire import Role

# A batch of fewer elements does not fill vectors.
MIN_BATCH = 8

Shapes = tuple[tuple[int, ...], ...]


def spread_launch(
    launch: Descriptor[GeneratedProgram], zeros: Shapes, batch: Batch
) -> tuple[Descriptor[GeneratedProgram], Shapes] | None:
    """The launch without a batch that does the same, and its `zeros`; None where it is better as it is.

    Its threads along the last axis, of which there is one, are the elements of the batch.
    """
    program, geometry = launch.program, launch.geometry
    last = program.kernel.tid_dims - 1
    if not is_known(*batch.extents, *geometry.dims, geometry.repeat):
        return None
    if len(batch.extents) != 1 or batch.extents[0] < MIN_BATCH or geometry.repeat != 1 or geometry.dims[last] != 1:
        return None
    (size,) = batch.extents
    with_axis = {p for p, mask in zip(launch.operands, batch.operands, strict=True) if mask[0]}
    for p, mask in zip(launch.results, batch.results, strict=True):
        if launch.roles[p] is Role.IN_OUT and mask[0] is not (p in with_axis):
            return None
        with_axis |= {p} if mask[0] else set()
    made = _program(program, frozenset(with_axis))
    if made is None:
        return None
    dims = tuple(size if k == last else n for k, n in enumerate(geometry.dims))
    fresh = (p for p, role in enumerate(launch.roles) if role is Role.ZEROS)
    shapes = tuple((size, *shape) if p in with_axis else shape for p, shape in zip(fresh, zeros, strict=True))
    return descriptor_of(made, Geometry(dims), launch.roles, launch.block_dim), shapes


_SPREAD: PerOwner[GeneratedProgram, frozenset[int], GeneratedProgram | None] = PerOwner(
    "programs of batches, by the parameters that have one", MAX_FORMS
)


def _program(program: GeneratedProgram, batched: frozenset[int]) -> GeneratedProgram | None:
    """The program that is spread over these parameters; made once."""

    def made() -> GeneratedProgram | None:
        if program.shadowed:
            return None
        kernel = run(pipeline.INLINED_READING, program.kernel, program.context)
        if not becomes_threads(kernel, batched):
            return None
        context = dataclasses.replace(program.context, batched=batched)
        return GeneratedProgram(run(pipeline.BATCH_TO_THREADS, kernel, context), program.settings, program.owner)

    return _SPREAD.of(program).made(batched, made)
