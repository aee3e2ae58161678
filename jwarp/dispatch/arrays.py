"""Launches on arrays that change, by Warp's rules: any array may be written wherever it stands, and None comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.commands import Command, listeners, submit
from jwarp.arrays.memory import HostMemory
from jwarp.bind.compat import is_not_tracing
from jwarp.config import config
from jwarp.dispatch import route
from jwarp.dispatch.array_traced import run_traced
from jwarp.dispatch.call import Call
from jwarp.dispatch.ready import Ready
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.ir.nodes import Param
from jwarp.launching import arguments, geometry, grouping
from jwarp.launching.arguments import Matched
from jwarp.launching.program import Program, program_of
from jwarp.types import Struct, array_of, indexedarray
from jwarp.wire import Role


def holds_arrays(values: Any) -> bool:
    """Whether some of the values of a call, a list or a dict, is an array that changes or has one inside."""
    for value in values.values() if isinstance(values, Mapping) else values:
        kind = type(value)
        if kind is array:
            return True
        if kind in _PLAIN:
            continue
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
        given: What is given for each parameter as it is written.
        values: What is given for each parameter of the IR, where structs are taken apart: arrays, numbers, None.
        inputs, outputs: As they were given, None for no outputs.
    """

    adjoint = False

    def __init__(self, kernel: Kernel, dims: tuple[int, ...], inputs: Any, outputs: Any, block_dim: int | None):
        self.kernel, self.dims, self.block_dim = kernel, dims, block_dim or 1
        self.inputs, self.outputs = inputs, outputs
        self.program: Program = program_of(kernel, config.settings)
        self.given = matched_values(kernel, inputs, outputs)
        self.values = tuple(
            leaf
            for parameter, value in zip(kernel.signature, self.given, strict=True)
            for leaf in grouping.flatten(kernel.name, parameter.name, parameter.type, value)
        )
        for param, value in zip(kernel.params, self.values, strict=True):
            if type(value) is array:
                _check(kernel.name, param, value)
        for p in self.program.written:
            if isinstance(self.values[p], jax.Array):
                raise LaunchError(
                    f"kernel '{kernel.name}', parameter '{kernel.params[p].name}' is written, and a JAX array is given"
                    " for it, which does not change",
                    hint="pass wp.array(x), which is a copy, or launch on JAX arrays only: new ones come back",
                )

    def call(self, read: Callable[[array], Any]) -> Call:
        """The launch on what `read` gives for each array.

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
            differentiable=kernel.enable_backward,
        )

    def will_write(self) -> None:
        """Save the content of what it writes where someone keeps it."""
        for p in self.program.written:
            value = self.values[p]
            if type(value) is array:
                value.memory.version += 1
                if value.memory.keepers:
                    value.memory.will_write()

    def ready(self) -> Ready:
        """The launch on the arrays of this computer's memory, ready to run."""
        return route.ready(self.call(host_of))

    def run(self) -> None:
        if self.is_functional:
            return run_traced(self.kernel, self.program, self.dims, self.block_dim, self.values)
        self.will_write()
        self.ready()()

    @property
    def is_functional(self) -> bool:
        """Whether JAX values are written, or what JAX traces is launched."""
        written = (self.values[p] for p in self.program.written)
        return not is_not_tracing() or any(type(a) is array and not isinstance(a.memory, HostMemory) for a in written)


def host_of(given: array) -> np.ndarray:
    """An array's elements as NumPy sees them.

    Raises:
        LaunchError: it stands for a value that JAX traces.
    """
    return given.host() if isinstance(given.memory, HostMemory) else given.memory.lend(given.layout)


def _check(kernel: str, param: Param, value: array) -> None:
    """Refuse an array of another type than the parameter's."""
    where = f"kernel '{kernel}', parameter '{param.name}': expected {param.type!r}"
    if value.device is None:
        raise KernelTypeError(f"{where}, got the annotation {value!r}, which holds nothing")
    own = array_of(value.dtype, value.ndim)
    if own != param.type:
        hint = f"make it with dtype=wp.{param.dtype}"
        if own.dtype == param.dtype:
            hint = "a.view(dtype) shows the same bytes as elements of another type, a.reshape(…) in another shape"
        raise KernelTypeError(f"{where}, got {own!r}, {value.memory.made_at}", hint=hint)


def matched_values(kernel: Kernel, inputs: Any, outputs: Any) -> tuple[Any, ...]:
    """What is given for each parameter as it is written.

    Raises:
        LaunchError: counts or names do not fit.
    """
    return arguments.match(kernel.name, kernel.signature, (), inputs, () if outputs is None else outputs).values


def launch(kernel: Kernel, dim: Any, inputs: Any, outputs: Any, block_dim: Any, record_tape: bool) -> None:
    """Run a launch on arrays that change.

    Raises:
        KernelTypeError, LaunchError: an argument or `dim` does not fit.
        CompileError: the kernel is not written in the kernel language, or cannot be compiled.
    """
    key = None
    if listeners.idle:
        values, key = launch_key(dim, inputs, outputs, block_dim)
        plan = None if key is None else kernel.plans.get(key)
        if plan is not None and plan(values):
            return
    dims = geometry.read_dim(dim, kernel.name)
    command = ArrayLaunch(kernel, dims, inputs, outputs, read_block_dim(block_dim, kernel.name))
    if not listeners.idle or not is_not_tracing():
        return submit(command, is_told=record_tape)
    if command.is_functional:
        return command.run()
    command.will_write()
    made = command.ready()
    made()
    if key is not None:
        keep_plan(kernel, key, made, command)


def read_block_dim(block_dim: Any, kernel_name: str) -> int | None:
    """`block_dim` as Warp takes it: what is not positive is left out."""
    if isinstance(block_dim, int) and not isinstance(block_dim, bool) and block_dim <= 0:
        return None
    return geometry.read_block_dim(block_dim, kernel_name)


def launch_key(dim: Any, inputs: Any, outputs: Any, block_dim: Any) -> tuple[Sequence[Any], Any]:
    """The values of a call, and what must be alike for its plan to hold; None where a closer look is needed."""
    return (), None


def keep_plan(kernel: Kernel, key: Any, made: Ready, command: ArrayLaunch) -> None:
    """Keep what repeats a launch."""
