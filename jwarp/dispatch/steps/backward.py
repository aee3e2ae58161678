"""The backward pass of a launch on mutable arrays: its adjoint, in place on cotangents."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jwarp.caches import MAX_SHAPES, PerOwner
from jwarp.compiler.derivative_steps import derivative_steps, forward_steps, integers_of, variant_of
from jwarp.compiler.derive import derive, in_known_order, rounding_as
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.write_conflicts import depends_on_integers
from jwarp.dispatch.steps.device_executor import DeviceSteps
from jwarp.dispatch.steps.host_executor import HostSteps, Scratch
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.launching.steps import Slot, Steps
from jwarp.types.arrays import Extents

# By parameter, None for one that is not needed: arrays of NumPy, or what launches on a GPU are given.
Arrays = Sequence[Any]


@dataclass(frozen=True)
class Launched:
    """A launch that was run: the arrays of its parameters have `extents`, None for numbers.

    The cotangents of the parameters `moving` are followed. Its integer arguments are in `integers` where the adjoint
    depends on their values.
    """

    geometry: Geometry
    block_dim: BlockDim | None
    extents: Extents
    moving: tuple[int, ...]
    integers: tuple[tuple[int, int], ...] = ()


_PASSES: PerOwner[GeneratedProgram, tuple[Launched, bool], BackwardPass] = PerOwner(
    "backward passes of a launch", MAX_SHAPES
)


def backward_pass(
    program: GeneratedProgram,
    geometry: Geometry,
    block_dim: BlockDim | None,
    extents: Extents,
    moving: tuple[int, ...],
    contents: Arrays,
    *,
    for_gpu: bool,
) -> BackwardPass:
    """The backward pass of a launch, on the host or on a GPU; made once for a layout.

    Of `contents`, integer arguments are looked at.

    Raises:
        NotDifferentiableError: there is no exact rule on a path from one of `moving` to another one.
    """
    integers = integers_of(program, contents) if depends_on_integers(program) else {}
    launched = Launched(geometry, block_dim, extents, moving, tuple(integers.items()))
    return _PASSES.of(program).made((launched, for_gpu), lambda: BackwardPass(program, launched, for_gpu=for_gpu))


class BackwardPass:
    """Takes the cotangents of what a launch left to those of what it started from.

    Those of the arrays that it wrote to become others, and those of arrays that it only read are added to: then they
    are what they would be without the launch, and before it.

    Attributes:
        program: What the launch has to run, so that both agree on the order of threads that count.
        reads: The parameters whose content before the launch it needs.
        steps: What it does. Their slots are `primal` and `given`.

    Raises:
        NotDifferentiableError: there is no exact rule for an operation, or two threads store to one element.
    """

    def __init__(self, program: GeneratedProgram, launched: Launched, *, for_gpu: bool):
        geometry, extents, block_dim = launched.geometry, launched.extents, launched.block_dim
        self._count, self._for_gpu = len(program.params), for_gpu
        written = tuple(p for p in program.written if p in launched.moving)
        variant = variant_of(
            "adjoint",
            program,
            geometry,
            extents,
            launched.moving,
            written,
            integers=dict(launched.integers),
            for_gpu=for_gpu,
        )
        self.program, self.steps = program, Steps(())
        if written:
            program = in_known_order(program, [variant])
            derived = derive(program, variant)
            self.program = program
            if derived.has_results:
                self.program = program = rounding_as(program, derived.sources)
                again = None
                if any(source.kind == "final" for source in derived.sources):
                    again = forward_steps(program, geometry, extents, program.written, block_dim)
                self.steps = derivative_steps(derived, geometry, extents, block_dim, in_place=True, after=again)
        self.reads = frozenset(slot.param for slot in self.steps.given if slot.kind == "primal")

    def __call__(self, contents: Arrays, cotangents: Arrays) -> None:
        """Run it.

        Args:
            contents: The arrays of `reads` as the launch found them. They do not change.
            cotangents: Those of `moving`, which change in place.
        """
        arrays = [*contents, *cotangents]
        if self._for_gpu:
            self._on_device(arrays)
        elif self.steps.steps:
            self._on_host(arrays)

    def bound(self, contents: Arrays, cotangents: Arrays, scratch: Scratch) -> list[Any] | None:
        """The native steps that do the same each time that they run; None where there are none."""
        if not self.steps.steps:
            return []
        return self._on_host.bound([*contents, *cotangents], scratch)

    @functools.cached_property
    def _on_host(self) -> HostSteps:
        """Compiled when the first cotangent comes by."""
        return HostSteps(self.steps.steps, self._slots, 2 * self._count)

    @functools.cached_property
    def _on_device(self) -> DeviceSteps:
        return DeviceSteps(self.program, self.steps.steps, self._slots)

    @property
    def _slots(self) -> dict[Slot, int]:
        """The numbers of the arrays: contents come first."""
        made = {Slot("primal", p): p for p in range(self._count)}
        return made | {Slot("given", p): self._count + p for p in range(self._count)}
