"""Launches on the processor whose last dimension is too short for vectors: their lanes are along the first one."""

from __future__ import annotations

import dataclasses

from jwarp.backend.cpu.target import host_target
from jwarp.caches import PerOwner
from jwarp.launching.geometry import Geometry
from jwarp.launching.program import GeneratedProgram
from jwarp.passes.rotate_axes import rotated, rotates, split

import os
MODE=os.environ.get("LANES","")

# Vectors of threads that the first dimension has at least, where the last one has at most half of a vector.
LEAST_VECTORS = 4

_ROTATED: PerOwner[GeneratedProgram, str, GeneratedProgram] = PerOwner("programs with other dimensions last", 2)


def with_lanes(program: GeneratedProgram, geometry: Geometry) -> tuple[GeneratedProgram, Geometry]:
    """What runs a launch with vectors that are filled, in its place.

    Which threads there are, and what each one does, stays the same.
    """
    count, width = program.kernel.tid_dims, host_target().width
    dims, rest = geometry.dims[:count], geometry.dims[count:]
    limit = 64 if MODE in ("all","split") else width // 2
    if len(dims) < 2 or 0 in dims or dims[-1] > limit or dims[0] < LEAST_VECTORS * width or program.shadows:
        return program, geometry
    if not rotates(program.kernel):
        return program, geometry
    if MODE == "split" and len(dims) < 4 and dims[0] % width == 0:
        turned = Geometry((dims[0]//width, *dims[1:], width, *rest[1:]), geometry.repeat)
        return _ROTATED.of(program).made("split", lambda: _rotated(program, lambda k: split(k, width))), turned
    turned = Geometry((*dims[1:], dims[0], *rest), geometry.repeat)
    return _ROTATED.of(program).made("rotated", lambda: _rotated(program, rotated)), turned


def _rotated(program: GeneratedProgram, rotated) -> GeneratedProgram:
    unchecked = None if program.unchecked is None else rotated(program.unchecked)
    return dataclasses.replace(program, kernel=rotated(program.kernel), unchecked=unchecked)
