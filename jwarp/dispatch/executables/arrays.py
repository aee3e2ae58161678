"""Launches on arrays that change, by Warp's rules: any array may be written wherever it stands, and None comes back."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jwarp._native import BoundHostLaunch, run_array_launch
from jwarp.arrays.allocation import check_writable
from jwarp.arrays.array import array
from jwarp.arrays.commands import Command, listeners, submit
from jwarp.arrays.memory import HostMemory, Memory
from jwarp.arrays.struct_array import StructArray
from jwarp.bind.compat import is_not_tracing, outermost
from jwarp.caches import Cache
from jwarp.compiler.program import Program, program_of
from jwarp.config import config
from jwarp.devices import CPU, Device
from jwarp.dispatch.call import checks
from jwarp.dispatch.call.aliases import UNORDERED, overlap_error, reads_first
from jwarp.dispatch.call.array_devices import device_of_arrays, shown_on_device
from jwarp.dispatch.call.call import Call
from jwarp.dispatch.call.held import reader
from jwarp.dispatch.call.ids import IdLists
from jwarp.dispatch.executables import array_plans, array_shapes, route
from jwarp.dispatch.executables.array_traced import run_traced
from jwarp.dispatch.executables.host import Forward
from jwarp.dispatch.executables.host_arrays import OverlapError
from jwarp.dispatch.executables.ready import Ready
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend import options
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching import arguments, geometry, grouping
from jwarp.launching.arguments import Matched
from jwarp.launching.geometry import BlockDim
from jwarp.types import Struct, array_of, indexedarray, renewed
from jwarp.types.handles import owner_of
from jwarp.wire import Role


def holds_arrays(values: Any) -> bool:
    """Whether some of the values of a call, a list or a dict, is an array that changes or has one inside."""
    if type(values) not in (list, tuple):
        values = values.values() if isinstance(values, Mapping) else ()
    for value in values:
        kind = type(value)
        if kind is array:
            return True
        if kind in _PLAIN:
            continue
        if kind is StructArray:
            return True
        if isinstance(value, Struct):
            if holds_arrays([getattr(value, name) for name in type(value).fields]):
                return True
        elif isinstance(value, indexedarray):
            if type(value.data) is array:
                return True
        elif isinstance(value, dict) and holds_arrays(value):
            return True
    return False


_PLAIN = {int, float, bool, type(None), np.ndarray, tuple, list}


class ArrayLaunch(Command):
    """One launch on arrays that change, as a command. Nothing of it changes the arrays but `run`.

    Attributes:
        kernel: The kernel.
        program: What runs; `before` of a recorder may set another one.
        dims: The extents as they were given.
        block_dim: Threads of a block.
        values: What is given for each parameter of the IR, where structs are taken apart: arrays, numbers, None.
        inputs, outputs: As they were given, None for no outputs.
        way: The way back through it, once somebody has asked for it, where it repeats no other launch.
    """

    adjoint = False
    prepared: Ready | None = None
    ran: Ready | None = None  # what it has run, where that was not prepared
    memories: tuple[Memory, ...] = ()
    shaped: array_shapes.Shaped | None = None  # what it repeats on other arrays
    way: Any = None
    device = CPU  # where its arrays are
    ids: IdLists | None = None  # of a graph's launch: the arrays of ids that tables were given for
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
        self.program: Program = _program(kernel)
        self.plain = self.program
        self.values: Sequence[Any] = tuple(
            leaf
            for parameter, value in zip(kernel.signature, self.given, strict=True)
            for leaf in grouping.flatten(kernel.name, parameter.name, parameter.type, value)
        )
        for param, value in zip(kernel.params, self.values, strict=True):
            if type(value) is array:
                _check(kernel.name, param, value)
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

    @classmethod
    def again(cls, shaped: array_shapes.Shaped, leaves: Sequence[Any], inputs: Any, outputs: Any) -> ArrayLaunch:
        """A launch like one that has been checked, on other arrays."""
        made = object.__new__(cls)
        made.__dict__.update(shaped.template, shaped=shaped, values=leaves, inputs=inputs, outputs=outputs)
        return made

    @property
    def template(self) -> dict[str, Any]:
        """What it has in common with all launches that repeat it on other arrays."""
        names = "kernel", "dims", "block_dim", "program", "plain"
        return {name: self.__dict__[name] for name in names}

    @functools.cached_property
    def given(self) -> tuple[Any, ...]:
        """What is given for each parameter as it is written."""
        return matched_values(self.kernel, self.inputs, self.outputs)

    def call(self, read: Callable[[array], Any], copied: frozenset[int] = frozenset()) -> Call:
        """The launch on what `read` gives for each array; those of the parameters `copied` are copied before.

        Raises:
            KernelTypeError, LaunchError: a value does not fit.
        """
        kernel = self.kernel
        found = [read(value) if type(value) is array else value for value in self.values]
        given = grouping.assemble(kernel, range(len(kernel.signature)), found.__getitem__)
        given = [None if value is None else new for value, new in zip(self.given, given, strict=True)]
        written = grouping.changed_parameters(kernel, self.program.written)
        roles = tuple(Role.IN_OUT if u in written else Role.READ for u in range(len(given)))
        return Call(
            kernel,
            self.program,
            self.dims,
            Matched(roles, tuple(given), written),
            None,
            self.block_dim,
            is_named=True,
            is_shared=True,
            copied=copied,
            differentiable=kernel.enable_backward,
        )

    def will_write(self) -> None:
        """Save the content of what it writes where someone keeps it."""
        for p in self.program.written:
            value = self.values[p]
            if type(value) is array and value.memory.is_watched:
                value.memory.will_write()

    def ready(self) -> Ready:
        """The launch on the arrays of this computer's memory, ready to run.

        Of arrays that overlap, those that are only read are copied before each launch, if that is what threads see.
        """
        copied: frozenset[int] = frozenset()
        while True:
            try:
                return route.ready(self.call(shown_on_device if self.device.is_cuda else host_of, copied))
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
        made = self.ready()
        self.prepared = made
        arrays = [x.memory for p in self.program.written if type(x := self.values[p]) is array]
        self.memories = tuple(dict.fromkeys(arrays))
        self._made_of = self.program

    @functools.cached_property
    def geometry(self) -> tuple[int, ...]:
        """The parameters as they are written that a grid, tree or mesh was given for."""
        return tuple(u for u, value in enumerate(self.given) if hasattr(value, "_seen"))

    def changed_geometry(self) -> dict[int, Any]:
        """Grids, trees and meshes as they are now, where they have changed since they were read, by parameter."""
        read = reader(is_changing=True)
        found = {u: made for u in self.geometry if (made := renewed(self.given[u], read)) is not None}
        return found if self.ids is None else {**found, **self.ids.changed(self.given)}

    def renew(self) -> None:
        """Look at grids, trees and meshes as they are now, where they have changed since it was prepared."""
        found = self.changed_geometry()
        if found and not self.change(found):
            self.take(found)
            self.prepare()

    def now(self) -> Command:
        """The launch with grids, trees and meshes as they are now: where they have changed it is another one."""
        ids = self.ids
        found = self.changed_geometry() if self.geometry or ids is not None else {}
        if ids is not None:
            is_told = self.is_told and bool(listeners.recorders)
            if None in found.values() or not is_not_tracing() or (is_told and (found or ids.name_some(self.given))):
                return ids.again
        if not found:
            return self
        made = copy.copy(self)
        made.prepared = made.ran = made.shaped = made.ids = None
        made.take(found)
        made.shaped = array_shapes.known(self.kernel, (made._key(), id(self.program)))
        return made

    def _key(self) -> Hashable | None:
        """What must be alike for it to be repeated on other arrays; None where a closer look is needed."""
        given = [owner_of(value) or value for value in self.given] if self.geometry else self.values
        return array_shapes.read(self.dims, self.block_dim, given)[0]

    def take(self, given: Mapping[int, Any]) -> dict[int, Any]:
        """Take other values for some parameters as they are written, by those of the IR."""
        parts: dict[int, Any] = {}
        for u, value in given.items():
            parameter = self.kernel.signature[u]
            leaves = grouping.flatten(self.kernel.name, parameter.name, parameter.type, value)
            parts.update(zip(self.kernel.groups[u], leaves, strict=True))
        self.__dict__["given"] = tuple(given.get(u, value) for u, value in enumerate(self.given))
        self.way = None
        self.values = tuple(parts.get(p, value) for p, value in enumerate(self.values))
        return parts

    def replay(self) -> None:
        """Run it as it was prepared."""
        self.replayer()()

    def replayer(self) -> Callable[[], None]:
        """What runs it as it was prepared: a function that has all at hand, as this is what a record costs."""
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
            for memory in memories:
                if memory.is_watched:
                    memory.will_write()
            try:
                native()
            except ValueError as error:
                raise self._outdated(error) from None

        if geometry:
            return replay
        trace, axes, no_trace, no_axes = outermost
        run = native.replay if isinstance(native, BoundHostLaunch) else native

        def replay_alone() -> None:
            # What is mostly so is asked here: a call of `is_not_tracing` costs a tenth of the replay.
            if trace.value is not no_trace or axes.value is not no_axes:
                return replay()
            for memory in memories:
                if memory.is_watched:
                    return replay()
            try:
                run()
            except ValueError as error:
                raise self._outdated(error) from None

        return replay_alone

    def _outdated(self, error: ValueError) -> LaunchError:
        """The error where arrays are not what they were, unless it is already one of a device's."""
        if isinstance(error, LaunchError):
            return error
        return LaunchError(f"kernel '{self.kernel.name}': {error}", hint="make the record anew")

    @property
    def native(self) -> Callable[[], Any]:
        """What runs it as it was prepared."""
        made = self.prepared
        return made.run.native if isinstance(made, Forward) else made or self.run

    def change(self, given: Mapping[int, Any]) -> bool:
        """Take other values for some parameters as they are written; False where all is to be made anew."""
        if self.prepared is None:
            return False
        before = self.given, self.values
        if not self.prepared.change(self.take(given)):
            self.__dict__["given"], self.values = before
            return False
        return True

    def run(self) -> None:
        if self.ids is not None and (now := self.now()) is not self:
            return now.run()
        if self.prepared is not None and self._made_of is self.program and is_not_tracing():
            return self.replay()
        shaped = self.shaped
        if shaped is not None and shaped.program is self.program and is_not_tracing() and shaped.run(self.values):
            return None
        if self.is_functional:
            return run_traced(self.kernel, self.program, self.dims, self.block_dim, self.values)
        # Of the program that runs, as `before` of a recorder may have set another one.
        key = self._key()
        known = array_shapes.known(self.kernel, (key, id(self.program)))
        if known is not None and known.program is self.program and known.run(self.values):
            return None
        made = self.ready()
        self.will_write()
        made()
        self.ran = made
        self._learn(made)
        if key is not None:
            self.kernel.plans.replace((key, id(self.program)), self.shaped)
        return None

    def _learn(self, made: Ready | None) -> array_shapes.Shaped:
        """What repeats it on other arrays."""
        self.shaped = array_shapes.Shaped(self.program, self.template)
        if made is not None:
            self.shaped.learn(self.values, made)
        return self.shaped

    def repeater(self) -> array_shapes.Shaped:
        """What repeats it on other arrays, as it is without what a recorder asked for."""
        if self.shaped is not None and self.shaped.program is self.plain:
            return self.shaped
        is_plain = self.program is self.plain
        self.program = self.plain
        return self._learn(self.prepared if is_plain else None)

    @property
    def is_functional(self) -> bool:
        """Whether JAX values are written, or what JAX traces is launched."""
        written = (self.values[p] for p in self.program.written)
        return not is_not_tracing() or any(type(a) is array and a.memory.is_traced for a in written)


def host_of(given: array) -> np.ndarray:
    """An array's elements as NumPy sees them.

    Raises:
        LaunchError: it stands for a value that JAX traces.
    """
    return given.host() if isinstance(given.memory, HostMemory) else given.memory.lend(given.layout)


def _program(kernel: Kernel) -> Program:
    """The program of a kernel under the settings in force, as long as these stay what they are."""
    settings = config.settings
    known = kernel.plans.get("program")
    if known is None or known[0] is not settings or known[1] != options.changes:
        known = settings, options.changes, program_of(kernel, settings)
        kernel.plans.replace("program", known)
    return known[2]


_TYPES: Cache[tuple[Any, int], Any] = Cache("types of arrays", 1024)


def _type_of(value: array) -> Any:
    """The type of parameters that an array can be given for."""
    return _TYPES.made((value.dtype, value.ndim), lambda: array_of(value.dtype, value.ndim))


def _check(kernel: str, param: Param, value: array) -> None:
    """Refuse an array of another type than the parameter's."""
    if value.device is not None and (_type_of(value) == param.type or (value.is_untyped and _fits(value, param.type))):
        return
    where = f"kernel '{kernel}', parameter '{param.name}': expected {param.type!r}"
    if value.device is None:
        raise KernelTypeError(f"{where}, got the annotation {value!r}, which holds nothing")
    own = _type_of(value)
    if own != param.type:
        hint = f"make it with dtype=wp.{param.dtype}"
        if own.dtype == param.dtype:
            hint = "a.view(dtype) shows the same bytes as elements of another type, a.reshape(…) in another shape"
        raise KernelTypeError(f"{where}, got {own!r}, {value.memory.made_at}", hint=hint)


def _fits(value: array, kind: Any) -> bool:
    """Whether the elements of an array are those of a type, or its last axes the components of such."""
    try:
        seen = value.layout.seen_as(kind.element)
    except (KernelTypeError, LaunchError, AttributeError):  # or the parameter is no array
        return False
    like = len(seen.shape), seen.full_shape, seen.dtype
    return like == (kind.dims, value.layout.full_shape, value.layout.dtype)


def check_value(kernel: Kernel, index: int, value: Any) -> None:
    """Refuse a value with arrays of other types than those of a parameter as it is written, by its number."""
    parameter = kernel.signature[index]
    leaves = grouping.flatten(kernel.name, parameter.name, parameter.type, value)
    for p, leaf in zip(kernel.groups[index], leaves, strict=True):
        if type(leaf) is array:
            _check(kernel.name, kernel.params[p], leaf)
        elif (fault := checks.check_part(kernel.params[p], leaf, Role.READ)) is not None:
            arguments.raise_faults(kernel.name, [fault])


def matched_values(kernel: Kernel, inputs: Any, outputs: Any) -> tuple[Any, ...]:
    """What is given for each parameter as it is written.

    Raises:
        LaunchError: counts or names do not fit.
    """
    return arguments.match(kernel.name, kernel.signature, (), inputs, () if outputs is None else outputs).values


def repeated(
    kernel: Kernel, dim: Any, inputs: Any, outputs: Any, block_dim: Any, record_tape: bool, device: Device | None = None
) -> bool:
    """Run a launch like one that has been checked, on these arrays or on others: whether it has run."""
    is_told = not listeners.idle
    if is_told:
        if listeners.capture is not None:
            return False
        is_told = record_tape
    try:
        launches = kernel.plans.get(array_shapes.LAUNCHES)
    except AttributeError:  # what is no kernel
        return False
    if launches is not None and device in (None, CPU):
        ran = run_array_launch(launches, dim, block_dim, inputs, outputs, _told if is_told else None)
        if ran is not False:
            if ran is not True:
                for recorder in listeners.recorders:
                    recorder.after(ran)
            return True
    if not (type(inputs) in _LISTS and is_not_tracing()):
        return False
    if outputs is None:
        values = inputs
    elif type(outputs) in _LISTS:
        values = [*inputs, *outputs]
    else:
        return False
    try:
        if not is_told and array_plans.repeated(kernel, dim, values, block_dim, device):
            return True
        if device not in (None, CPU):
            return False
        key, leaves = array_shapes.read(dim, block_dim, values)
        shaped = array_shapes.known(kernel, key)
    except (TypeError, AttributeError):  # what cannot be hashed, or is no kernel
        return False
    if shaped is None:
        return False
    if is_told:
        submit(ArrayLaunch.again(shaped, leaves, inputs, outputs))
        return True
    return not array_plans.is_due(kernel, dim, values, block_dim, leaves) and shaped.run(leaves)


def _told(shaped: array_shapes.Shaped, leaves: Sequence[Any], inputs: Any, outputs: Any) -> ArrayLaunch | None:
    """Tell recorders of a launch that is about to be repeated; None where it has run, as one of them wants it other."""
    command = ArrayLaunch.again(shaped, leaves, inputs, outputs)
    for recorder in listeners.recorders:
        recorder.before(command)
    if command.program is shaped.program:
        return command
    command.run()
    for recorder in listeners.recorders:
        recorder.after(command)
    return None


_LISTS = (list, tuple)


def launch(
    kernel: Kernel,
    dim: Any,
    inputs: Any,
    outputs: Any,
    block_dim: Any,
    record_tape: bool,
    written: tuple[Kernel, Any] | None = None,
    device: Device | None = None,
    ids: IdLists | None = None,
) -> None:
    """Run a launch on arrays that change.

    `written` are the kernel and the inputs as they were given, where these were generic, or meshes and their kin. It
    runs where its arrays are, which is on `device` if one is named. A capture is told of arrays of `ids`.

    Raises:
        KernelTypeError, LaunchError: an argument or `dim` does not fit.
        CompileError: the kernel is not written in the kernel language, or cannot be compiled.
    """
    is_as_given = written is None or written[0].is_generic
    if is_as_given and repeated(kernel, dim, inputs, outputs, block_dim, record_tape, device):
        return None
    dims, block = geometry.read_dim(dim, kernel.name), read_block_dim(block_dim, kernel.name)
    command = ArrayLaunch(kernel, dims, inputs, outputs, block, device)
    threads = dim if type(dim) is int else dims
    if command.is_functional or listeners.capture is not None:
        command.ids = ids
        return submit(command, is_told=record_tape)
    if listeners.idle or not record_tape:
        command.prepare()
        command.replay()
        key, memory, _ = array_plans.key_of(kernel, threads, command.given, block_dim)
        if memory is not None:
            array_plans.keep(key, memory, command)
        if command.device.is_cuda:
            return None
    else:
        submit(command)
    given: Sequence[Any] = command.given if written is None else matched_values(kernel, written[1], outputs)
    key, leaves = array_shapes.read(threads, block_dim, given)
    is_alike = len(leaves) == len(command.values) and all(map(operator.is_, leaves, command.values))
    if key is not None and is_alike and array_shapes.known(kernel, key) is None:
        for called in (kernel,) if written is None else (kernel, written[0]):
            called.plans.replace(key, command.repeater())
        called, given = (kernel, inputs) if written is None else written
        command.repeater().share(called, dim, block_dim, given, outputs, command.prepared or command.ran)
    return None


def read_block_dim(block_dim: Any, kernel_name: str) -> BlockDim | None:
    """`block_dim` as Warp takes it: what is not positive is left out."""
    if isinstance(block_dim, int) and not isinstance(block_dim, bool) and block_dim <= 0:
        return None
    return geometry.read_block_dim(block_dim, kernel_name)
