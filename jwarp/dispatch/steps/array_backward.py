"""The backward passes of launches on mutable arrays that have one layout: shapes and aliases alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import Kept
from jwarp.arrays.rematerialised import there
from jwarp.caches import Cache
from jwarp.compiler.order import in_one_order
from jwarp.compiler.program import GeneratedProgram
from jwarp.compiler.write_conflicts import depends_on_integers
from jwarp.dispatch.call.aliases import identical, refuse_overlaps
from jwarp.dispatch.call.array_arguments import host_of
from jwarp.dispatch.call.array_devices import copy_on_device, shown_on_device
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.backward import BackwardPass, backward_pass
from jwarp.dispatch.steps.device_adjoint import generated
from jwarp.errors import NotDifferentiableError
from jwarp.ir import nodes
from jwarp.launching.arguments import shape_of_nothing
from jwarp.types import ArrayType


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
            refuse_overlaps(program, of, self.same)
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

    def kept(self, kept: Kept) -> Any:
        """What the adjoint is given for content that was kept, as `shown` is for arrays."""
        return shown_on_device(array.of(kept.memory, kept.view)) if self.on_gpu else np.asarray(kept.array())

    def copied(self, a: array) -> Any:
        """The same for a copy of an array."""
        return copy_on_device(a) if self.on_gpu else a.host().copy()

    @functools.cached_property
    def ordered(self) -> GeneratedProgram:
        """The program of launches whose threads run in the order that those of the adjoint will run in."""
        return self._plain.running(in_one_order)

    def number(self, p: int, value: Any) -> np.ndarray:
        """What is given for a parameter that has no array."""
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
