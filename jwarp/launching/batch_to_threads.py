"""Launches of a batch whose elements become threads: which ones, and as what."""

from __future__ import annotations

from collections.abc import Sequence

from jwarp.ir.nodes import Kernel
from jwarp.ir.serialize import fingerprint
from jwarp.launching.descriptor import Descriptor, Program, descriptor_of
from jwarp.launching.geometry import Geometry
from jwarp.launching.sizes import is_known
from jwarp.passes.batch_to_threads import batch_to_threads
from jwarp.passes.simplify import simplify
from jwarp.wire import Role

# A batch of fewer elements does not fill vectors.
MIN_BATCH = 8

Shapes = tuple[tuple[int, ...], ...]


def spread_launch(
    launch: Descriptor,
    zeros: Shapes,
    batch: Sequence[int],
    masks: Sequence[Sequence[bool]],
    result_masks: Sequence[Sequence[bool]],
) -> tuple[Descriptor, Shapes] | None:
    """The launch without a batch that does the same, and its `zeros`; None where it is better as it is.

    Its threads along the last axis, of which there is one, are the elements of the batch.
    """
    program, geometry = launch.program, launch.geometry
    last = program.kernel.tid_dims - 1
    if not is_known(*batch, *geometry.dims, geometry.repeat):
        return None
    if len(batch) != 1 or batch[0] < MIN_BATCH or geometry.repeat != 1 or geometry.dims[last] != 1:
        return None
    with_axis = {p for p, mask in zip(launch.operands, masks, strict=True) if mask[0]}
    for p, mask in zip(launch.results, result_masks, strict=True):
        if launch.roles[p] is Role.IN_OUT and mask[0] is not (p in with_axis):
            return None
        with_axis |= {p} if mask[0] else set()
    made = _program(program, frozenset(with_axis))
    if made is None:
        return None
    dims = tuple(batch[0] if k == last else n for k, n in enumerate(geometry.dims))
    fresh = (p for p, role in enumerate(launch.roles) if role is Role.ZEROS)
    shapes = tuple((batch[0], *shape) if p in with_axis else shape for p, shape in zip(fresh, zeros, strict=True))
    return descriptor_of(made, Geometry(dims), launch.roles, launch.block_dim), shapes


def _program(program: Program, batched: frozenset[int]) -> Program | None:
    """The program that is spread over these parameters; made once."""
    key = ("spread", batched)
    if key not in program.derived:
        kernel: Kernel | None = None if program.shadowed else batch_to_threads(program.kernel, batched)
        made = None
        if kernel is not None:
            kernel = simplify(kernel)
            settings, owner = program.settings, program.owner
            made = Program(program.name, fingerprint(kernel), program.span, settings, kernel, program.written, owner)
        program.derived.setdefault(key, made)
    return program.derived[key]
