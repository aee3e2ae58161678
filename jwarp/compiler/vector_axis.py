"""Launches on the processor that have the lanes of vectors along their first dimension, where that is quicker.

The last dimension may be too short for vectors, or its threads may each do something else. Blocks may have a lane each.
"""

from __future__ import annotations

import dataclasses

from jwarp.analysis.thread_order import runs_in_order
from jwarp.backend.cpu.lane_costs import vector_cost
from jwarp.backend.cpu.target import host_target
from jwarp.caches import PerOwner
from jwarp.compiler import pipeline
from jwarp.compiler.passes import Passes, run
from jwarp.compiler.program import GeneratedProgram
from jwarp.ir.nodes import Kernel
from jwarp.launching.geometry import Geometry
from jwarp.launching.sizes import is_known
from jwarp.passes.rotate_axes import rotates
from jwarp.tiling.blocks_as_threads import fits_threads, gains_as_threads
from jwarp.types import MAX_DIMS

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

_OTHERS: PerOwner[GeneratedProgram, str, GeneratedProgram] = PerOwner("programs with other dimensions last", 2)
_GAINS: PerOwner[GeneratedProgram, str, bool] = PerOwner("whether blocks run as threads", 2)
_COSTS: PerOwner[GeneratedProgram, str, tuple[float, float] | None] = PerOwner("costs of vectors of a program", 2)


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
