"""The backward passes of launches on mutable arrays, in place on cotangents, and the adjoint launches that run one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.allocation import will_change
from jwarp.arrays.array import array
from jwarp.arrays.commands import Command, submit
from jwarp.arrays.memory import Kept
from jwarp.arrays.overlap import overlap
from jwarp.arrays.rematerialised import there
from jwarp.autodiff.custom_gradients import changed_by_gradients
from jwarp.caches import MAX_SHAPES, Cache
from jwarp.compiler.derivative_steps import adjoint_steps, integers_of
from jwarp.compiler.derive import switched_off
from jwarp.compiler.order import in_one_order
from jwarp.compiler.program import GeneratedProgram, on_host
from jwarp.compiler.write_conflicts import depends_on_integers
from jwarp.dispatch.call.array_arguments import (
    IN_ADJOINTS,
    copy_on_device,
    host_of,
    merged,
    shown_on_device,
)
from jwarp.dispatch.call.call import LaunchRequest
from jwarp.dispatch.executables.array_launch import ArrayLaunch, array_launch
from jwarp.dispatch.steps.adjoint import generated
from jwarp.dispatch.steps.executors import DeviceSteps, HostSteps
from jwarp.errors import KernelTypeError, LaunchError, NotDifferentiableError
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir import nodes
from jwarp.launching import grouping
from jwarp.launching.arguments import shape_of_nothing
from jwarp.launching.steps import Slot, Steps
from jwarp.types import ArrayType


class BackwardPass:
    """Takes the cotangents of what a launch left to those of what it started from.

    Those of the arrays that it wrote to become others, and those of arrays that it only read are added to: then they
    are what they would be without the launch, and before it.

    Attributes:
        program: What the launch has to run, so that both agree on the order of threads that count.
        steps: What it does, with arrays for the `slots`, which are `primal` and `given`.
        reads: The parameters whose content before the launch it needs.
        changes: The parameters whose arrays custom gradients write to, as they are now.
        writes_found: True if it writes to copies of arrays that the launch found by numbers.
    """

    def __init__(self, program: GeneratedProgram, steps: Steps, *, for_gpu: bool):
        self.program, self.steps, self._for_gpu = program, steps, for_gpu
        heaps = frozenset(p for p, param in enumerate(program.params) if param.is_heap)
        changes = frozenset(slot.param for slot in steps.written if slot.kind == "primal")
        self.changes, self.writes_found = changes - heaps, not changes.isdisjoint(heaps)
        self.slots = steps.given
        self.reads = frozenset(slot.param for slot in self.slots if slot.kind == "primal") - self.changes

    @functools.cached_property
    def run(self) -> HostSteps | DeviceSteps:
        """The function of its arrays, which is compiled when the first cotangent comes by."""
        return DeviceSteps(self.program, self.steps) if self._for_gpu else HostSteps(self.steps)


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
        self._plain = generated(launch.program) if self.on_gpu else on_host(launch.program)
        plain = self._plain if self.on_gpu else on_host(launch.program, adjoint=True)
        program, self.geometry = plain.arranged(launch.dims, launch.block_dim)
        self.program, self.same = merged(program, of, IN_ADJOINTS, changed_by_gradients(program.differentiated))
        self.written = self.program.written
        self.floats = tuple(p for p in of if program.params[p].dtype.is_float and p not in self.same)
        self._extents = tuple(
            None if not param.is_array else of[p].layout.full_shape if p in of else _nothing(param).shape
            for p, param in enumerate(program.params)
        )
        self._depends_on_integers = depends_on_integers(self.program)
        self._passes: Cache[Any, BackwardPass | None] = Cache("backward passes by gradients", MAX_SHAPES)

    def pass_of(self, moving: tuple[int, ...], values: Sequence[Any]) -> BackwardPass | None:
        """The backward pass for the gradients of these parameters; None where nothing of them is written.

        It may depend on the integers among the values.

        Raises:
            NotDifferentiableError: there is no exact rule, and the gradients that are followed ask for one.
        """
        key: Any = moving
        integers: dict[int, int] = {}
        if self._depends_on_integers:
            numbers = [None if p in self.arrays else self.number(p, value) for p, value in enumerate(values)]
            integers = integers_of(self.program, numbers)
            key = moving, tuple(integers.items())
        if (known := self._passes.get(key)) is not None:
            return known
        return self._passes.made(key, lambda: self._made(moving, integers))

    def _made(self, moving: tuple[int, ...], integers: Mapping[int, int]) -> BackwardPass | None:
        written = tuple(p for p in self.written if p in moving)
        if not written:
            return None
        program, steps = adjoint_steps(
            self.program,
            self.geometry,
            self._extents,
            moving,
            written,
            self.written,
            self.block_dim,
            integers=integers,
            changed=changed_by_gradients(self.program.differentiated),
            for_gpu=self.on_gpu,
            in_place=True,
        )
        if program.kernel.order and not self.program.kernel.order and program.kernel.block_dim:
            raise NotDifferentiableError(
                f"kernel `{self.kernel.name}`: threads count in a kernel with tiles, and nobody knows in which order"
                " they did in this launch",
                self.kernel.span,
                "wp.jax_kernel has the gradient",
            )
        return BackwardPass(program, steps, for_gpu=self.on_gpu)

    def arrays_of(
        self,
        backward_pass: BackwardPass,
        values: Sequence[Any],
        content: Callable[[int], Any],
        gradient: Callable[[int], Any],
    ) -> dict[Slot, Any]:
        """The arrays of a backward pass: `content` is that of a parameter before the launch."""
        arrays: dict[Slot, Any] = {}
        for slot in backward_pass.slots:
            kind, p = slot
            if kind == "given":
                arrays[slot] = gradient(p)
            else:
                arrays[slot] = self.now(p, values[p]) if p in backward_pass.changes else content(p)
        return arrays

    def run(
        self, backward_pass: BackwardPass, values: Sequence[Any], gradients: Sequence[array], arrays: dict[Slot, Any]
    ) -> None:
        """Run a backward pass in place on `gradients`.

        Raises:
            LaunchError: one of them overlaps an array that a gradient function writes to.
        """
        memories = [a.memory for a in gradients]
        for p in backward_pass.changes:
            if not isinstance(a := values[p], array):
                continue
            memories.append(a.memory)
            if any(overlap(a, gradient) for gradient in gradients):
                raise LaunchError(
                    f"kernel '{self.kernel.name}': '{self.kernel.params[p].name}', which a gradient function"
                    f" writes to, overlaps a gradient that the adjoint adds to: {a.memory.made_at}",
                    hint="pass another array",
                )
        will_change(memories)
        backward_pass.run(arrays)

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
    cached: Any = launch.executable or launch.own_executable() or launch
    if cached.backward is None:
        cached.backward = ArrayBackward(launch)
    found: ArrayBackward = cached.backward
    return found


def _nothing(param: nodes.Param) -> np.ndarray:
    """The array without elements that None stands for."""
    return np.zeros(shape_of_nothing(param.type) if isinstance(param.type, ArrayType) else (), param.dtype.dtype)


# Adjoint launches


class ArrayAdjoint(Command):
    """The adjoint of a launch. `given` has a gradient for some parameters of the IR; for others it is that of `grad`.

    Gradients of what the launch only reads are added to. Those of what it writes are those of what it left: in `grad`
    they become those of what it found there; an array that is given is kept, unless the kernel reads what it writes.

    Raises:
        NotDifferentiableError: there is no exact rule, or the kernel was made with enable_backward=False.
        KernelTypeError, LaunchError: a gradient does not fit its array.
    """

    def __init__(self, launch: ArrayLaunch, given: Sequence[Any]):
        self.launch, self.given = launch, given
        self.title, self.span = f"kernel '{launch.kernel.name}': an adjoint launch", launch.kernel.span
        self._look()

    def _look(self) -> None:
        """See what is to be done for what the launch is given now."""
        launch, given = self.launch, self.given
        self.kernel, self.backward, self.values = launch.kernel, backward_of(launch), launch.values
        self.into: dict[int, array] = {}
        for p, own in enumerate(given):
            if own is not None and p in self.backward.arrays and self._fits(p, own):
                self.into[self.backward.same.get(p, p)] = own
        self.is_given = frozenset(self.into)
        for p in self.backward.floats:
            grad = self.values[p].grad
            if p not in self.into and grad is not None:
                self.into[p] = grad
        self.moving = tuple(p for p in self.backward.floats if p in self.into)
        if self.moving and not self.kernel.enable_backward:
            raise switched_off(self.backward.program, self.moving[0])
        self.backward_pass = made = self.backward.pass_of(self.moving, self.values)
        if made is not None and made.writes_found:
            raise NotDifferentiableError(
                f"kernel '{self.kernel.name}' writes to arrays that it finds by numbers, and reads them, which an"
                " adjoint that is launched would do, too",
                self.kernel.span,
                "record the launch on a wp.Tape, or pass the arrays themselves",
            )

    def _fits(self, p: int, own: Any) -> bool:
        param, a = self.kernel.params[p], self.values[p]
        where = f"kernel '{self.kernel.name}', adjoint of '{param.name}'"
        if not isinstance(own, array):
            raise KernelTypeError(f"{where}: expected an array as the launch has one, got {type(own).__name__}")
        if not param.dtype.is_float:
            raise KernelTypeError(f"{where}: {param.type!r} has no gradient", hint="its entry is None")
        if own.device is not a.device:
            raise LaunchError(f"{where}: the gradient is on {own.device}, and the parameter's array on {a.device}")
        if (own.dtype, own.shape) != (a.dtype, a.shape):
            raise LaunchError(
                f"{where}: expected {a.dtype!r} and the shape {a.shape} of the parameter's array, got {own.dtype!r} and"
                f" {own.shape}"
            )
        return True

    @property
    def written(self) -> tuple[array, ...]:
        return tuple(self.into.values())

    def run(self) -> None:
        if self.launch.geometry and (changed := self.launch.changed_geometry()):
            self.launch.take(changed)
            self._look()
        if self.backward_pass is None:
            return
        backward, values = self.backward, self.values
        stays = {p for p in self.is_given if p in backward.written and p not in backward.read}

        def gradient(p: int) -> Any:
            own = self.into[p]
            return backward.copied(own) if p in stays and not self._is_grad(p) else backward.shown(own)

        arrays = backward.arrays_of(self.backward_pass, values, lambda p: backward.now(p, values[p]), gradient)
        backward.run(self.backward_pass, values, self.written, arrays)

    def _is_grad(self, p: int) -> bool:
        grad = self.values[p].grad
        return grad is not None and grad.memory is self.into[p].memory and grad.layout == self.into[p].layout


def launch_adjoint(request: LaunchRequest, asked: Sequence[Any]) -> None:
    """Run the adjoint of a launch on mutable arrays, as `adjoint_of`. Raises what `ArrayAdjoint` raises."""
    launch = array_launch(request)
    submit(adjoint_of(launch, asked), is_recorded=request.record_tape)


def adjoint_of(launch: ArrayLaunch, asked: Sequence[Any]) -> ArrayAdjoint:
    """The adjoint of a launch, given a gradient, or None, for each parameter as it is written."""
    kernel = launch.kernel
    parts = [
        leaf for argument, own in zip(kernel.signature, asked, strict=True) for leaf in _leaves(kernel, argument, own)
    ]
    return ArrayAdjoint(launch, parts)


def _leaves(kernel: Kernel, argument: Any, own: Any) -> list[Any]:
    group = kernel.groups[kernel.signature.index(argument)]
    if argument.is_value and isinstance(own, array):
        raise KernelTypeError(
            f"kernel '{kernel.name}', adjoint of '{argument.name}': a number has no gradient in an array",
            hint="pass the number in an array of one element; wp.jax_kernel has gradients of numbers",
        )
    if own is None or (argument.is_value and len(group) == 1):
        return [None] * len(group)
    return grouping.flatten(kernel.name, argument.name, argument.type, own)
