"""The backward passes of launches on mutable arrays: adjoints, in place on cotangents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import Kept
from jwarp.arrays.overlap import overlap
from jwarp.arrays.rematerialised import there
from jwarp.autodiff.custom_gradients import changed_by_gradients
from jwarp.caches import MAX_SHAPES, Cache, PerOwner
from jwarp.compiler.derivative_steps import derivative_steps, forward_steps, integers_of, variant_of
from jwarp.compiler.derive import derive, in_known_order, rounding_as
from jwarp.compiler.order import in_one_order
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.write_conflicts import depends_on_integers
from jwarp.dispatch.call.aliases import identical, refuse_overlaps
from jwarp.dispatch.call.array_arguments import copy_on_device, host_of, shown_on_device
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.adjoint import generated
from jwarp.dispatch.steps.device_executor import DeviceSteps
from jwarp.dispatch.steps.host_executor import HostSteps, Recorded
from jwarp.errors import LaunchError, NotDifferentiableError
from jwarp.ir import nodes
from jwarp.launching.arguments import shape_of_nothing
from jwarp.launching.geometry import BlockDim, Geometry
from jwarp.launching.steps import Slot, Steps
from jwarp.types import ArrayType
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
        changes: The parameters whose arrays custom gradients write to, as they are now.
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
                changed = changed_by_gradients(program.differentiated)
                self.steps = derivative_steps(
                    derived, geometry, extents, block_dim, in_place=True, changed=changed, after=again
                )
        self.changes = frozenset(slot.param for slot in self.steps.written if slot.kind == "primal")
        self.reads = frozenset(slot.param for slot in self.steps.given if slot.kind == "primal") - self.changes

    def __call__(self, contents: Arrays, cotangents: Arrays) -> None:
        """Run it.

        Args:
            contents: The arrays of `reads` as the launch found them, which do not change, and those of `changes`.
            cotangents: Those of `moving`, which change in place.
        """
        arrays = [*contents, *cotangents]
        if self._for_gpu:
            self._on_device(arrays)
        elif self.steps.steps:
            self._on_host(arrays)

    def recorded(self, contents: Arrays, cotangents: Arrays) -> Recorded:
        """The steps on these host arrays."""
        arrays = {Slot("primal", p): x for p, x in enumerate(contents) if x is not None}
        arrays |= {Slot("given", p): x for p, x in enumerate(cotangents) if x is not None}
        return Recorded(self.steps.steps, arrays)

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


class ArrayBackward:
    """The backward passes of launches on any arrays of the same shapes, which share memory alike.

    Attributes:
        arrays: The parameters that are given an array.
        shown: What the adjoint is given for an array: its elements, or where they lie on the GPU.
        same: Parameters that are given the array of another one, and that one.
        floats: The parameters that may have gradients.
        program: What the launch runs, in which parameters that are one array are one.
        written: The parameters that this writes to.

    Raises:
        LaunchError: arrays overlap, or the kernel has no adjoint on the CPU.
    """

    def __init__(self, launch: ArrayLaunch):
        self.kernel, self.block_dim = launch.kernel, launch.block_dim
        of = {p: a for p, a in enumerate(launch.values) if isinstance(a, array)}
        self.arrays = tuple(of)
        self.on_gpu = launch.device.is_cuda
        self.shown: Callable[[array], Any] = shown_on_device if self.on_gpu else host_of
        self._plain = generated(launch.program) if self.on_gpu else launch.program.on_host()
        plain = self._plain if self.on_gpu else launch.program.on_host(adjoint=True)
        program, self.geometry = plain.arranged(launch.dims, launch.block_dim)
        self.same: dict[int, int] = {}
        if len({id(a.memory) for a in of.values()}) < len(of):
            self.same = identical(of, program.written)
            refuse_overlaps(program, of, self.same, changed_by_gradients(program.differentiated))
        self.program = program.merged(tuple(self.same.items()))
        self.written = self.program.written
        self.floats = tuple(p for p in of if program.params[p].dtype.is_float and p not in self.same)
        self._extents = tuple(
            None if not param.is_array else of[p].layout.full_shape if p in of else _nothing(param).shape
            for p, param in enumerate(program.params)
        )
        self._depends_on_integers = depends_on_integers(self.program)
        self._passes: Cache[tuple[int, ...], BackwardPass | None] = Cache("backward passes by gradients", 32)

    def pass_of(self, moving: tuple[int, ...], values: Sequence[Any]) -> BackwardPass | None:
        """The backward pass for the gradients of these parameters; None where nothing of them is written.

        Raises:
            NotDifferentiableError: there is no exact rule, and the gradients that are followed ask for one.
        """
        if self._depends_on_integers:
            return self._pass_of(moving, values)
        if (known := self._passes.get(moving)) is not None:
            return known
        return self._passes.made(moving, lambda: self._pass_of(moving, values))

    def _pass_of(self, moving: tuple[int, ...], values: Sequence[Any]) -> BackwardPass | None:
        if not any(p in moving for p in self.written):
            return None
        numbers = [None if p in self.arrays else self.number(p, values[p]) for p in range(len(values))]
        found = backward_pass(
            self.program, self.geometry, self.block_dim, self._extents, moving, numbers, for_gpu=self.on_gpu
        )
        if found.program.kernel.order and not self.program.kernel.order and self.program.kernel.block_dim:
            raise NotDifferentiableError(
                f"kernel `{self.kernel.name}`: threads count in a kernel with tiles, and nobody knows in which order"
                " they did in this launch",
                self.kernel.span,
                "wp.jax_kernel has the gradient",
            )
        return found

    def changed(
        self, backward_pass: BackwardPass, values: Sequence[Any], gradients: Iterable[array]
    ) -> tuple[array, ...]:
        """The arrays that a backward pass writes to besides gradients.

        Raises:
            LaunchError: one of them overlaps a gradient.
        """
        found = {p: a for p in backward_pass.changes if isinstance(a := values[p], array)}
        for p, a in found.items():
            for gradient in gradients:
                if overlap(a, gradient):
                    raise LaunchError(
                        f"kernel '{self.kernel.name}': '{self.kernel.params[p].name}', which a gradient function"
                        f" writes to, overlaps a gradient that the adjoint adds to: {a.memory.made_at}",
                        hint="pass another array",
                    )
        return tuple(found.values())

    def now(self, p: int, value: Any) -> Any:
        """The argument of the adjoint for what a parameter is given, as it is now."""
        return self.shown(value) if isinstance(value, array) else self.number(p, value)

    def kept(self, kept: Kept) -> Any:
        """The argument of the adjoint for content that was kept, as `shown` is for arrays."""
        return shown_on_device(array.of(kept.memory, kept.view)) if self.on_gpu else np.asarray(kept.array())

    def copied(self, a: array) -> Any:
        """The same for a copy of an array."""
        return copy_on_device(a) if self.on_gpu else a.host().copy()

    @functools.cached_property
    def ordered(self) -> GeneratedProgram:
        """The program of launches whose threads run in the order that those of the adjoint will run in."""
        return self._plain.running(in_one_order)

    def number(self, p: int, value: Any) -> np.ndarray:
        """The argument of the adjoint for a parameter that has no array."""
        param = self.program.params[p]
        if value is None:
            return _nothing(param)
        return np.asarray(there(value)).astype(param.dtype.dtype, copy=False)

    @functools.cached_property
    def read_and_stored(self) -> frozenset[Any]:
        """The parameters that it both reads and stores to; adding to one is neither."""
        ops = [n for n in nodes.walk(self.program.differentiated.body) if isinstance(n, nodes.Op)]
        stored = {p for n in ops if not n.row.reads_elements for p in nodes.arrays_changed(n)}
        return self.read & stored

    @functools.cached_property
    def read(self) -> frozenset[Any]:
        """The parameters that it reads; adding to one does not."""
        ops = (n for n in nodes.walk(self.program.differentiated.body) if isinstance(n, nodes.Op))
        return frozenset(p for n in ops if not n.row.changes_elements for p in nodes.arrays_read(n))


def backward_of(launch: ArrayLaunch) -> ArrayBackward:
    """The backward passes of a launch, made once for a layout. Raises what `ArrayBackward` raises."""
    cached: Any = launch if launch.executable is None else launch.executable
    if cached.backward is None:
        cached.backward = ArrayBackward(launch)
    found: ArrayBackward = cached.backward
    return found


def _nothing(param: nodes.Param) -> np.ndarray:
    """The array without elements that None stands for."""
    return np.zeros(shape_of_nothing(param.type) if isinstance(param.type, ArrayType) else (), param.dtype.dtype)
