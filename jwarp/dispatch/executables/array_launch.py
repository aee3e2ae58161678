"""Launches on mutable arrays, by Warp's rules: any array may be written wherever it stands, and None comes back."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jwarp._native import BoundHostLaunch
from jwarp.arrays.allocation import announce_writes, check_writable
from jwarp.arrays.array import array
from jwarp.arrays.changes import CHANGES
from jwarp.arrays.commands import Command, OnStream, listeners, submit
from jwarp.arrays.memory import Memory
from jwarp.bind import compat
from jwarp.bind.compat import is_not_tracing, outermost
from jwarp.bind.custom_vjp import is_stopped
from jwarp.bind.traced_memory import TracedMemory, value_of
from jwarp.compiler.program import GeneratedProgram, program_of
from jwarp.compiler.program_base import Program
from jwarp.config import config
from jwarp.devices import CPU, Device, get_device
from jwarp.dispatch.call.array_arguments import (
    UNORDERED,
    check_array,
    device_of_arrays,
    host_of,
    matched_values,
    merged,
    overlap_error,
    reads_first,
    shown_on_device,
)
from jwarp.dispatch.call.cached_geometry import reader
from jwarp.dispatch.call.call import Call, Kind, LaunchRequest
from jwarp.dispatch.call.looking_up import Addresses, looking_up
from jwarp.dispatch.executables.device import DeviceExecutable
from jwarp.dispatch.executables.device import Forward as DeviceForward
from jwarp.dispatch.executables.functional import Forward as JaxForward
from jwarp.dispatch.executables.host import Forward as HostForward
from jwarp.dispatch.executables.host import HostExecutable, OverlapError
from jwarp.dispatch.executables.table import NO_SLOT, Ready, Slot, outdated, slot_of
from jwarp.dispatch.steps.executors import Recorded, native_step
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import geometry, grouping
from jwarp.launching.arguments import Matched
from jwarp.launching.geometry import BlockDim
from jwarp.types import renewed
from jwarp.types.handles import owner_of
from jwarp.wire import Role

# The kinds of values for vectors and matrices whose content somebody may change.
MUTABLE = (np.ndarray, list, tuple)


def _own(value: Any) -> Any:
    """A copy of a value for a parameter of numbers that nobody else changes."""
    if isinstance(value, np.ndarray):
        return np.array(value)
    return [_own(x) for x in value] if isinstance(value, (list, tuple)) else value


class ArrayExecutable(HostExecutable):
    """The executable of launches on arrays of one layout, in host memory.

    Attributes:
        program: What it runs.
        template: What all commands have in common that repeat it.
        backward: The backward passes of such launches, once somebody has asked for them.
    """

    __slots__ = ("backward", "program", "template")

    def __init__(self, command: ArrayLaunch):
        super().__init__()
        self.program: Program = command.program
        self.template = {
            name: command.__dict__[name] for name in ("kernel", "dims", "block_dim", "program", "plain", "has_mutable")
        }
        self.backward: Any = None

    def learn_launch(self, made: Ready, values: Sequence[Any]) -> None:
        """Do from now on what a launch does that has run on these values."""
        if type(made) is HostForward:
            self.learn_from(made.run, values)

    def tell(self, leaves: Sequence[Any], inputs: Any, outputs: Any) -> Any:
        """Tell recorders of a launch that is about to be repeated: its command, or None where it has run already."""
        command = object.__new__(ArrayLaunch)
        command.__dict__.update(self.template, executable=self, values=leaves, inputs=inputs, outputs=outputs)
        recorders = tuple(listeners.here.recorders)
        for recorder in recorders:
            recorder.before(command)
        if command.program is self.program:
            return command
        command.run()  # as one of them wants it
        for recorder in recorders:
            recorder.after(command)
        return None


class ArrayLaunch(Command):
    """One launch on mutable arrays, as a command. Nothing of it changes the arrays but `run`.

    Attributes:
        kernel: The kernel.
        program: What runs; `before` of a recorder may set another one.
        dims: The extents as they were given.
        block_dim: Threads of a block.
        values: What is given for each parameter of the IR, where structs are taken apart: arrays, numbers, None.
        has_mutable: Some are arrays of NumPy, vectors, matrices or lists, which is so for all launches of a layout.
        inputs, outputs: As they were given, None for no outputs.
        executable: What runs it and all launches of its layout, where there is such.
        backward: Its backward passes, once somebody has asked for them, where it repeats no other launch.
    """

    adjoint = False
    prepared: Ready | None = None
    memories: tuple[Memory, ...] = ()
    executable: ArrayExecutable | DeviceExecutable | None = None
    backward: Any = None
    device = CPU  # where its arrays are
    addresses: Addresses | None = None  # of its arrays, where the kernel takes some
    _made_of: Program | None = None

    def __init__(
        self,
        kernel: Kernel,
        dims: tuple[int, ...],
        inputs: Any,
        outputs: Any,
        block_dim: BlockDim | None,
        device: Device | None = None,
    ):
        self.kernel, self.dims = kernel, dims
        self.inputs, self.outputs = inputs, outputs
        self.program: Program = program_of(kernel, config.settings)
        self.plain = self.program
        self.values: Sequence[Any] = tuple(
            leaf
            for parameter, value in zip(kernel.signature, self.given, strict=True)
            for leaf in grouping.flatten(kernel.name, parameter.name, parameter.type, value)
        )
        if kernel.looks_up and isinstance(self.program, GeneratedProgram) and self.program.addressed:
            self.addresses = Addresses(kernel, self.program.addressed)
            self._note_addresses()
        self.has_mutable = any(isinstance(value, MUTABLE) for value in self.values)
        for param, value in zip(kernel.params, self.values, strict=True):
            if type(value) is array:
                check_array(kernel.name, param, value)
        where = device_of_arrays(kernel, self.values, device)
        if where.is_cuda:
            self.device = where
        self.block_dim = block_dim or (None if where.is_cuda else 1)
        for p in self.program.written:
            if isinstance(self.values[p], jax.Array):
                raise LaunchError(
                    f"kernel '{kernel.name}', parameter '{kernel.params[p].name}' is written, and a JAX array is given"
                    " for it, which does not change",
                    hint="pass wp.array(x), which is a copy, or launch on JAX arrays only: new ones come back",
                )

    @functools.cached_property
    def given(self) -> tuple[Any, ...]:
        """The values that are given for each parameter as it is written."""
        return matched_values(self.kernel, self.inputs, self.outputs)

    def call(self, read: Callable[[array], Any], program: Program, **options: Any) -> Call:
        """The launch of its program, or a form of it, on what `read` gives for each array.

        Raises:
            KernelTypeError, LaunchError: a value does not fit.
        """
        kernel = self.kernel
        found = [read(value) if type(value) is array else value for value in self.values]
        given = grouping.assemble(kernel, range(len(kernel.signature)), found.__getitem__)
        given = [None if value is None else new for value, new in zip(self.given, given, strict=True)]
        written = grouping.changed_parameters(kernel, program.written)
        roles = tuple(Role.IN_OUT if u in written else Role.READ for u in range(len(given)))
        options = {"differentiable": kernel.enable_backward, "is_named": True, "is_shared": True, **options}
        matched = Matched(roles, tuple(given), written)
        return Call(kernel, program, self.dims, matched, block_dim=self.block_dim, **options)

    def own_numbers(self) -> Sequence[Any]:
        """The values, with copies of the numbers, vectors and matrices that somebody may change later."""
        values = self.values
        if not self.has_mutable:
            return values
        made = list(values)
        for p in self.kernel.numbers:
            made[p] = _own(values[p])
        return tuple(made)

    @property
    def written(self) -> list[array]:
        return [x for p in self.program.written if type(x := self.values[p]) is array]

    def steps(self) -> list[Recorded] | None:
        if self.prepared is None:
            self.prepare()
        made = self.prepared
        return [native_step(made.run.native)] if type(made) is HostForward else None

    def on_stream(self) -> OnStream | None:
        return self.prepared.repeated if isinstance(self.prepared, DeviceForward) else None

    def ready(self) -> Ready:
        """The launch on the arrays of host memory, ready to run.

        Of arrays that overlap, those that are only read are copied before each launch, if that is what threads see.
        """
        copied: frozenset[int] = frozenset()
        while True:
            call = self.call(shown_on_device if self.device.is_cuda else host_of, self.program, copied=copied)
            try:
                return DeviceForward(call) if call.kind is Kind.DEVICE else HostForward(call)
            except OverlapError as error:
                written, *others = error.params
                if not others or others[0] in self.program.written or not reads_first(self.kernel, others[0], written):
                    raise self._overlap(error) from None
                copied |= {others[0]}

    def _overlap(self, error: OverlapError) -> LaunchError:
        """The error for arrays that overlap, with where they were made."""
        of = {p: x for p in error.params if type(x := self.values[p]) is array}
        if len(error.params) > 1 and len(of) == len(error.params):
            p, q = error.params
            return overlap_error(self.program, of, p, q, *UNORDERED[q in self.program.written])
        made = " and ".join(dict.fromkeys(x.memory.made_at for x in of.values()))
        return LaunchError(f"{error.diagnostic.message}: {made}", hint=error.diagnostic.hint)

    def prepare(self) -> None:
        """Check and compile it now, and keep that for `run`."""
        if self.is_functional:
            return
        self._note_addresses()
        self.values = self.own_numbers()
        CHANGES.note()
        made = self.ready()
        self.prepared = made
        self.memories = tuple(dict.fromkeys(a.memory for a in self.written))
        self._made_of = self.program

    @functools.cached_property
    def geometry(self) -> tuple[int, ...]:
        """The parameters as they are written that a grid, tree, mesh or volume was given for."""
        return tuple(u for u, value in enumerate(self.given) if hasattr(value, "_seen"))

    def changed_geometry(self) -> dict[int, Any]:
        """Grids, trees and meshes as they are now, where they have changed since they were read, by parameter."""
        read = reader(is_changing=True)
        return {u: made for u in self.geometry if (made := renewed(self.given[u], read)) is not None}

    def renew(self) -> None:
        """Look at grids, trees and meshes as they are now, where they have changed since it was prepared."""
        found = self.changed_geometry()
        if found and not self.change(found):
            self.take(found)
            self.prepare()

    def now(self) -> Command:
        """The launch with grids, trees and meshes as they are now: where they have changed it is another one."""
        found = self.changed_geometry() if self.geometry else {}
        if not found:
            return self
        made = copy.copy(self)
        made.prepared = made.executable = None
        made.take(found)
        made.executable = made.own_executable()
        return made

    def _slot(self) -> Slot:
        """Its place among the kernel's executables, as a launch of its program."""
        given = [owner_of(value) or value for value in self.given] if self.geometry else self.values
        return slot_of(self.kernel, self.dims, self.block_dim, given, owner=self.program)

    def own_executable(self) -> ArrayExecutable | DeviceExecutable | None:
        """The executable of its program, which a recorder may have changed; None where nothing repeats it."""
        if self.executable is not None and self.executable.program is self.program:
            return self.executable
        slot = self._slot()
        if slot.key is None:
            return None
        found = slot.known
        if found is None:
            found = self.made_executable()
            slot.keep(found)
        return found

    def made_executable(self) -> ArrayExecutable | DeviceExecutable:
        """A new one, which runs nothing yet."""
        return DeviceExecutable(self.program) if self.device.is_cuda else ArrayExecutable(self)

    def take(self, given: Mapping[int, Any]) -> dict[int, Any]:
        """Take other values for some parameters as they are written, by those of the IR."""
        parts: dict[int, Any] = {}
        for u, value in given.items():
            parameter = self.kernel.signature[u]
            leaves = grouping.flatten(self.kernel.name, parameter.name, parameter.type, value)
            parts.update(zip(self.kernel.groups[u], leaves, strict=True))
        self.__dict__["given"] = tuple(given.get(u, value) for u, value in enumerate(self.given))
        self.backward = None
        self.values = tuple(parts.get(p, value) for p, value in enumerate(self.values))
        self.has_mutable = any(isinstance(value, MUTABLE) for value in self.values)
        CHANGES.note()
        return parts

    def replayer(self) -> Callable[[], None]:
        """A function that runs it as it was prepared, and has all at hand, as this is the cost of a record."""
        native, memories, geometry = self.native, self.memories, self.geometry

        def replay() -> None:
            nonlocal native
            if not is_not_tracing():
                for memory in memories:
                    check_writable(memory)
                self.ready()  # which refuses what is left
            if geometry:
                self.renew()
                native = self.native
            announce_writes(memories)
            try:
                native()
            except ValueError as error:
                raise outdated(self.kernel.name, error) from None

        if geometry:
            return replay
        trace, axes, no_trace, no_axes = outermost
        run = native.replay if isinstance(native, BoundHostLaunch) else native

        def replay_alone() -> None:
            # The usual case is tested here: a call of `is_not_tracing` costs a tenth of the replay.
            if trace.value is not no_trace or axes.value is not no_axes:
                return replay()
            for memory in memories:
                if memory.is_watched:
                    return replay()
            try:
                run()
            except ValueError as error:
                raise outdated(self.kernel.name, error) from None

        return replay_alone

    @property
    def native(self) -> Callable[[], Any]:
        """The function that runs it as it was prepared."""
        made = self.prepared
        return made.run.native if isinstance(made, HostForward) else made or self.run

    def change(self, given: Mapping[int, Any]) -> bool:
        """Take other values for some parameters as they are written; False where all is to be made anew."""
        if self.prepared is None:
            return False
        before = self.given, self.values
        if not self.prepared.change(self.take(given)):
            self.__dict__["given"], self.values = before
            CHANGES.note()
            return False
        self.values = self.own_numbers()  # as `prepared` has them now
        return True

    def _note_addresses(self) -> None:
        """Give the kernel the addresses of its arrays that it takes."""
        if self.addresses is not None:
            place = self.addresses.place
            self.values = (*self.values[:place], self.addresses.words, *self.values[place + 1 :])
            self.addresses.fill(self.values)

    def run(self) -> None:
        if not self.kernel.looks_up:
            return self._run()
        self._note_addresses()
        with looking_up():
            return self._run()

    def _run(self) -> None:
        if self.prepared is not None and self._made_of is self.program and is_not_tracing():
            return self.replayer()()
        executable = self.own_executable()
        if executable is not None and is_not_tracing() and executable.call(self.values) is not None:
            return None
        if self.is_functional:
            return self._run_traced()
        made = self.ready()
        announce_writes(a.memory for a in self.written)
        made()
        if executable is not None:
            executable.learn_launch(made, self.values)
        return None

    def _run_traced(self) -> None:
        """Run it on the JAX values that arrays stand for.

        What enable_backward says is of no account: JAX takes the gradient.

        Raises:
            KernelTypeError, LaunchError: an argument does not fit, or arrays that JAX does not trace would be written.
        """
        kernel, program = self.kernel, self.program
        of = {p: a for p, a in enumerate(self.values) if isinstance(a, array)}
        for p in program.written:
            if p in of and not of[p].memory.is_traced and not is_not_tracing():
                raise LaunchError(
                    f"kernel '{kernel.name}' writes to its parameter '{program.params[p].name}' while JAX traces, and"
                    f" {of[p].memory.made_at} is no part of what is traced",
                    hint="make the array inside of the traced function, or pass it as an argument of wp.functionalize",
                )
            if isinstance(self.values[p], np.ndarray):
                raise LaunchError(
                    f"kernel '{kernel.name}' writes to its parameter '{program.params[p].name}', a NumPy array, and to"
                    " JAX values or while JAX traces, where nothing is written in place",
                    hint="pass wp.from_jax(x) of it, and read what it holds then by wp.to_jax",
                )
        program, _ = merged(
            program, of, UNORDERED, may_copy=lambda p, q: q not in program.written and reads_first(kernel, q, p)
        )
        made = JaxForward(
            self.call(lambda a: value_of(a.memory, a.layout), program, is_functional=True, differentiable=True)
        )
        if is_stopped(kernel):
            made.operands = [jax.lax.stop_gradient(x) for x in made.operands]
        try:
            found = made.traced()
        except jax.errors.UnexpectedTracerError as error:
            raise _of_another_function(kernel, program, of) from error
        for p, value in zip(made.order, found, strict=True):
            if p in of:
                of[p].memory.write(of[p].layout, value)

    @property
    def is_functional(self) -> bool:
        """True if JAX values are written, or what JAX traces is launched."""
        written = (self.values[p] for p in self.program.written)
        return not is_not_tracing() or any(type(a) is array and a.memory.is_traced for a in written)


def array_launch(request: LaunchRequest) -> ArrayLaunch:
    """The command of a launch on mutable arrays. Raises what `launch` raises of the arguments."""
    kernel = request.kernel
    dims = geometry.read_dim(request.dim, kernel.name)
    block = geometry.read_block_dim(request.block_dim, kernel.name, as_warp=True)
    device = None if request.device is None else get_device(request.device)
    return ArrayLaunch(kernel, dims, request.inputs, request.outputs, block, device)


def launch(request: LaunchRequest, slot: Slot = NO_SLOT, again: Command | None = None) -> None:
    """Run a launch on mutable arrays, where its arrays are.

    `slot` is the place of the call among the executables of the kernel as it was written, which may be another one:
    generic, or one that takes meshes or their kin. A capture takes `again` instead, if that is given.

    Raises:
        KernelTypeError, LaunchError: an argument, `dim` or the device does not fit.
        CompileError: the kernel is not written in the kernel language, or cannot be compiled.
    """
    record_tape = request.record_tape
    command = array_launch(request)
    if again is not None and listeners.here.capture is not None:
        return submit(again)
    if command.is_functional or listeners.here.capture is not None:
        return submit(command, is_recorded=record_tape)
    executable = None
    if slot.key is not None and _are_same(slot.leaves, command.values):
        executable = command.executable = slot.known or command.made_executable()
    submit(command, is_recorded=record_tape)
    slot.keep(executable)
    return None


def _are_same(leaves: Sequence[Any], values: Sequence[Any]) -> bool:
    return len(leaves) == len(values) and all(map(operator.is_, leaves, values))


def _of_another_function(kernel: Kernel, program: Program, of: dict[int, array]) -> LaunchError:
    """The error where a value belongs to a function whose trace has ended, with the arrays that it may be."""
    now = compat.trace_state()
    others = {p: a.memory for p, a in of.items() if isinstance(a.memory, TracedMemory) and a.memory.trace != now}
    named = ", ".join(f"'{program.params[p].name}' is {memory.made_at}" for p, memory in others.items())
    return LaunchError(
        f"kernel '{kernel.name}': an array stands for a value of another function, whose trace has ended: {named}",
        hint="return wp.to_jax(a) from that function, and pass what comes back",
    )
