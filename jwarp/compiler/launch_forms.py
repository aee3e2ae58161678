"""The form of a program that a launch runs: a batch as threads, vectors along another dimension, elements in registers.

On the processor, the last dimension may be too short for vectors, or its threads may each do something else: then
vectors have their lanes along the batch, along the first dimension, or a block in each lane. On a GPU, threads keep the
elements that each has for itself in registers, and do not add to zeros.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jwarp.analysis.thread_order import runs_in_order
from jwarp.backend.cpu.lane_costs import vector_cost
from jwarp.backend.cpu.target import host_target
from jwarp.caches import PerOwner
from jwarp.compiler import pipeline
from jwarp.compiler.passes import Passes, run
from jwarp.compiler.program import MAX_FORMS, GeneratedProgram
from jwarp.compiler.program_base import Program
from jwarp.ir.nodes import Kernel
from jwarp.launching.batch import Batch, Mask
from jwarp.launching.descriptor import Descriptor, descriptor_of
from jwarp.launching.geometry import Geometry
from jwarp.launching.sizes import is_known
from jwarp.passes.batch_to_threads import becomes_threads
from jwarp.passes.rotate_axes import rotates
from jwarp.tiling.blocks_as_threads import fits_threads, gains_as_threads
from jwarp.types import MAX_DIMS
from jwarp.types.arrays import Extents
from jwarp.wire import Role

# A batch of fewer elements does not fill vectors.
MIN_BATCH = 8

# Threads of the first dimension that stay together: a vector of most processors, or whole ones of others.
VECTOR = 16
# Narrower vectors are always filled.
LEAST_WIDTH = 4
# Vectors of threads that the first dimension has at least.
LEAST_VECTORS = 4
# The last dimension is no longer than this: along more, elements of an array lie too far apart for caches.
MOST_COLUMNS = 64
# Estimates of costs are rough.
LEAST_GAIN = 1.25

Shapes = tuple[tuple[int, ...], ...]

_OTHERS: PerOwner[GeneratedProgram, str, GeneratedProgram] = PerOwner("programs with other dimensions last", 2)
_GAINS: PerOwner[GeneratedProgram, str, bool] = PerOwner("whether blocks run as threads", 2)
_COSTS: PerOwner[GeneratedProgram, str, tuple[float, float] | None] = PerOwner("costs of vectors of a program", 2)
_SPREAD: PerOwner[GeneratedProgram, frozenset[int], GeneratedProgram | None] = PerOwner(
    "programs of batches, by the parameters that have one", MAX_FORMS
)
_IN_REGISTERS: PerOwner[GeneratedProgram, tuple[int, ...], GeneratedProgram] = PerOwner(
    "programs whose threads hold elements, by the parameters", MAX_FORMS
)


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
    made = _spread(program, frozenset(with_axis))
    if made is None:
        return None
    dims = tuple(size if k == last else n for k, n in enumerate(geometry.dims))
    fresh = (p for p, role in enumerate(launch.roles) if role is Role.ZEROS)
    shapes = tuple((size, *shape) if p in with_axis else shape for p, shape in zip(fresh, zeros, strict=True))
    return descriptor_of(made, Geometry(dims), launch.roles, launch.block_dim), shapes


def _spread(program: GeneratedProgram, batched: frozenset[int]) -> GeneratedProgram | None:
    """The program that is spread over these parameters; made once."""

    def made() -> GeneratedProgram | None:
        if program.shadowed:
            return None
        kernel = run(pipeline.INLINED_READING, program.kernel, program.context)
        if not becomes_threads(kernel, batched):
            return None
        context = dataclasses.replace(program.context, batched=batched)
        return program.of_derived(run(pipeline.BATCH_TO_THREADS, kernel, context))

    return _SPREAD.of(program).made(batched, made)


def with_lanes(program: GeneratedProgram, geometry: Geometry) -> tuple[GeneratedProgram, Geometry]:
    """The program and geometry that run a launch, with vectors along another dimension if that is quicker.

    Which threads there are, and what each one does, stays the same.
    """
    if program.kernel.block_dim:
        return _blocks_as_threads(program, geometry)
    # Custom calls have nothing of the processor in them that they were made on.
    count, width = program.kernel.tid_dims, VECTOR
    dims, rest = geometry.dims[:count], geometry.dims[count:]
    if (
        not is_known(*dims)
        or host_target().width < LEAST_WIDTH
        or len(dims) < 2
        or 0 in dims
        or dims[-1] > MOST_COLUMNS
        or dims[0] < LEAST_VECTORS * width
        or program.shadows
    ):
        return program, geometry
    splits = len(dims) < MAX_DIMS and dims[0] % width == 0
    if not splits and dims[-1] * 2 > width:  # all rows are gone through for each column
        return program, geometry
    costs = _COSTS.of(program).made("", lambda: _costs(program))
    vectors = -(-dims[-1] // width)  # of a row, in which not all lanes may be filled
    if costs is None or costs[0] * vectors * width <= LEAST_GAIN * costs[1] * dims[-1]:
        return program, geometry
    if splits:  # all columns for a vector of rows, then those for the next one
        turned = Geometry((dims[0] // width, *dims[1:], width, *rest[1:]), geometry.repeat)
        return _other(program, "split", pipeline.SPLIT, width), turned
    return _other(program, "rotated", pipeline.ROTATED), Geometry((*dims[1:], dims[0], *rest), geometry.repeat)


def _blocks_as_threads(program: GeneratedProgram, geometry: Geometry) -> tuple[GeneratedProgram, Geometry]:
    """The program and geometry with each block in one lane, where that is quicker and there are enough blocks."""
    count, width = program.kernel.tid_dims, VECTOR
    dims, rest = geometry.dims[:count], geometry.dims[count:]
    turns = is_known(*dims) and dims[-1] < width
    if not is_known(*dims) or host_target().width < LEAST_WIDTH or program.shadows or geometry.may_repeat:
        return program, geometry
    if (dims[0] if turns else dims[-1]) < LEAST_VECTORS * width or (turns and count > 2):
        return program, geometry

    def gains() -> bool:
        return gains_as_threads(program.kernel) and fits_threads(program.kernel)

    if not _GAINS.of(program).made("", lambda: program.cache.value("blocks as threads", gains, bool, bool)):
        return program, geometry

    if not turns:
        return _other(program, "blocks as threads", pipeline.BLOCKS_AS_THREADS), geometry
    geometry = Geometry((*dims[1:], dims[0], *rest), geometry.repeat)
    passes = (*pipeline.BLOCKS_AS_THREADS, *pipeline.ROTATED)
    return _other(program, "blocks as threads along the first dimension", passes), geometry


def _costs(program: GeneratedProgram) -> tuple[float, float] | None:
    """The costs of full vectors along the last and along the first dimension, None where that cannot be."""

    def made() -> tuple[float, float] | None:
        kernel = run(pipeline.INLINED_READING, program.kernel, program.context)
        turns = rotates(kernel) and not runs_in_order(kernel)
        return (vector_cost(kernel), vector_cost(run(pipeline.ROTATED, kernel, program.context))) if turns else None

    def read(content: list[float] | None) -> tuple[float, float] | None:
        return None if content is None else (content[0], content[1])

    return program.cache.value(f"costs of vectors of {host_target().width}", made, lambda costs: costs, read)


def _other(program: GeneratedProgram, name: str, passes: Passes, width: int = 0) -> GeneratedProgram:
    cache, context = program.cache.derived(name), dataclasses.replace(program.context, width=width)

    def changed(kernel: Kernel, which: str) -> Kernel:
        return cache.kernel(which, lambda: run(passes, kernel, context))

    def made() -> GeneratedProgram:
        return program.changed(changed, cache)

    return _OTHERS.of(program).made(name, made)


def with_private_elements(launch: Descriptor, extents: Extents, results: Sequence[Mask]) -> Program:
    """The program for a launch: fresh outputs that have an element for each thread are stored once, if that is better.

    `results` say which batch axes each result has.
    """
    program, geometry = launch.program, launch.geometry
    if not isinstance(program, GeneratedProgram) or geometry.repeat != 1:
        return program
    dims = geometry.dims[: program.kernel.tid_dims]
    fresh = tuple(
        p
        for p, mask in zip(launch.results, results, strict=True)
        if launch.roles[p] is Role.ZEROS and all(mask) and _has_elements(extents[p], dims)
    )
    if not fresh:
        return program
    return _IN_REGISTERS.of(program).made(fresh, lambda: _in_registers(program, fresh))


def _has_elements(shape: tuple[int, ...] | None, dims: tuple[int, ...]) -> bool:
    """True if an array has an element for each thread."""
    return shape is not None and is_known(*shape, *dims) and shape[: len(dims)] == dims


def _in_registers(program: GeneratedProgram, fresh: tuple[int, ...]) -> GeneratedProgram:
    kernel = program.gpu_kernel
    kept = run(pipeline.PRIVATE_ELEMENTS, kernel, dataclasses.replace(program.context, fresh=fresh))
    return program if kept is kernel else dataclasses.replace(program, on_gpu=kept)
