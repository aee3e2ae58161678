"""Adjoint launches on mutable arrays: gradients are added to arrays, their own or those of `grad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jwarp.arrays.allocation import will_change
from jwarp.arrays.array import array
from jwarp.arrays.commands import Command, submit
from jwarp.compiler.derive import switched_off
from jwarp.dispatch.call.array_arguments import read_block_dim
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.backward import backward_of
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.launching import geometry, grouping


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
        self.backward_pass = self.backward.pass_of(self.moving, self.values)

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
    def gradients(self) -> tuple[array, ...]:
        """The arrays that it writes to."""
        return tuple(self.into.values())

    def run(self) -> None:
        if self.launch.geometry and (changed := self.launch.changed_geometry()):
            self.launch.take(changed)
            self._look()
        if self.backward_pass is None:
            return
        backward, values = self.backward, self.values
        gradients = self.gradients
        will_change([a.memory for a in (*gradients, *backward.changed(self.backward_pass, values, gradients))])
        stays = {p for p in self.is_given if p in backward.written and p not in backward.read}
        given = {
            p: backward.copied(own) if p in stays and not self._is_grad(p) else backward.shown(own)
            for p, own in self.into.items()
        }
        arrays = backward.arrays_of(self.backward_pass, values, lambda p: backward.now(p, values[p]), given)
        self.backward_pass.run(arrays)

    def _is_grad(self, p: int) -> bool:
        grad = self.values[p].grad
        return grad is not None and grad.memory is self.into[p].memory and grad.layout == self.into[p].layout


def launch_adjoint(
    kernel: Kernel,
    dim: Any,
    inputs: Any,
    outputs: Any,
    adj_inputs: Any,
    adj_outputs: Any,
    block_dim: Any,
    record_tape: bool,
) -> None:
    """Run the adjoint of a launch on mutable arrays. Raises what `ArrayAdjoint` raises."""
    submit(read_adjoint(kernel, dim, inputs, outputs, adj_inputs, adj_outputs, block_dim), is_recorded=record_tape)


def read_adjoint(
    kernel: Kernel, dim: Any, inputs: Any, outputs: Any, adj_inputs: Any, adj_outputs: Any, block_dim: Any
) -> ArrayAdjoint:
    """The command that the arguments of an adjoint launch describe."""
    dims = geometry.read_dim(dim, kernel.name)
    launch = ArrayLaunch(kernel, dims, inputs, outputs, read_block_dim(block_dim, kernel.name))
    return adjoint_of(launch, asked_gradients(kernel, inputs, adj_inputs, adj_outputs))


def asked_gradients(kernel: Kernel, inputs: Any, adj_inputs: Any, adj_outputs: Any) -> list[Any]:
    """The gradient that is given for each parameter as it is written, None for the array's own.

    Raises:
        LaunchError: they are no lists, or too long.
    """
    count = len(inputs) if not isinstance(inputs, dict) else 0
    asked: list[Any] = [None] * len(kernel.signature)
    if isinstance(adj_inputs, dict) or isinstance(adj_outputs, dict):
        raise LaunchError(
            f"kernel '{kernel.name}': adj_inputs and adj_outputs of a launch on arrays are lists",
            hint="None stands for the array's own grad",
        )
    for first, given, what in ((0, adj_inputs, "adj_inputs"), (count, adj_outputs, "adj_outputs")):
        for k, own in enumerate(given or ()):
            if first + k >= len(asked):
                raise LaunchError(
                    f"kernel '{kernel.name}': {what} has {len(given)} entries, one too many",
                    hint="there is one for each parameter, None for the array's own grad",
                )
            asked[first + k] = own
    return asked


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


__all__ = ["ArrayAdjoint", "adjoint_of", "asked_gradients", "launch_adjoint"]
