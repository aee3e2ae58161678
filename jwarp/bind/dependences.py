"""The part of a launch that makes one result: a kernel may write one array by what it reads of few others."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from jwarp.caches import Cache
from jwarp.compiler.program import GeneratedProgram
from jwarp.ir.attributes import numbers_in
from jwarp.ir.nodes import Op, walk
from jwarp.ir.row_groups import Memory
from jwarp.launching.descriptor import Descriptor
from jwarp.passes.prune import prune


class Part(NamedTuple):
    """A launch that leaves in one result what the whole launch does; the others hold anything."""

    launch: Descriptor
    operands: frozenset[int]  # the numbers of those that it reads


_parts: Cache[tuple[Any, int], Part | None] = Cache("parts of launches", 256)


def part_for(launch: Descriptor, result: int) -> Part | None:
    """The part of a launch that makes a result; None where functions are called, or code is by hand."""
    return _parts.made((launch, result), lambda: _part_for(launch, launch.results[result]))


def _part_for(launch: Descriptor, written: int) -> Part | None:
    program = launch.program
    if not isinstance(program, GeneratedProgram) or program.kernel.functions:
        return None
    kernel = program.kernel
    # Another thread may find what one leaves in any array.
    body = prune(kernel.body, {written}, range(len(kernel.params)))
    read = {
        number
        for node in walk(body)
        if isinstance(node, Op) and node.row.uses.reads is not Memory.EXTENTS
        for _, number in numbers_in(node.attr, node.row.attribute)
    }
    operands = frozenset(k for k, p in enumerate(launch.operands) if p in read | {written})
    changed = dataclasses.replace(kernel, body=body, gradients=())
    smaller = dataclasses.replace(program, kernel=changed, unchecked=None, whole=None, on_gpu=None)
    return Part(dataclasses.replace(launch, program=smaller), operands)
