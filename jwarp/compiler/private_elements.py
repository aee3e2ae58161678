"""Launches on GPUs whose threads keep the elements that each has for itself in registers, and do not add to zeros."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jwarp.caches import PerOwner
from jwarp.compiler import pipeline
from jwarp.compiler.passes import run
from jwarp.compiler.program import MAX_FORMS, GeneratedProgram, Program
from jwarp.launching.batch import Mask
from jwarp.launching.descriptor import Descriptor
from jwarp.launching.sizes import is_known
from jwarp.types.arrays import Extents
from jwarp.wire import Role

_HOLDING: PerOwner[GeneratedProgram, tuple[int, ...], GeneratedProgram] = PerOwner(
    "programs whose threads hold elements, by the parameters", MAX_FORMS
)


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
    return _HOLDING.of(program).made(fresh, lambda: _holding(program, fresh))


def _has_elements(shape: tuple[int, ...] | None, dims: tuple[int, ...]) -> bool:
    """True if an array has an element for each thread."""
    return shape is not None and is_known(*shape, *dims) and shape[: len(dims)] == dims


def _holding(program: GeneratedProgram, fresh: tuple[int, ...]) -> GeneratedProgram:
    kernel = program.gpu_kernel
    kept = run(pipeline.PRIVATE_ELEMENTS, kernel, dataclasses.replace(program.context, fresh=fresh))
    return program if kept is kernel else dataclasses.replace(program, on_gpu=kept)
