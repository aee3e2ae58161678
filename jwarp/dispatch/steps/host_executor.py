"""The executor of steps on host arrays: at once, on any arrays of their shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from jwarp import _native
from jwarp.compiler.cpu import lower_kernel
from jwarp.launching.descriptor import extents_of
from jwarp.launching.steps import Add, Allocate, Copy, Launch, Shape, Slot, Step, Steps

Arrays = list[Any]
Run = Callable[[Arrays], None]


class HostSteps:
    """Steps that are compiled for arrays in the order of `slots`.

    Raises:
        CompileError: a kernel cannot be compiled.
    """

    def __init__(self, steps: Iterable[Step], slots: Mapping[Slot, int], count: int):
        self._places, self._count = dict(slots), count
        self._steps = tuple(steps)
        self._written = Steps(self._steps).written
        self._constants: dict[Slot, np.ndarray] = {}
        for step in self._steps:
            if isinstance(step, Allocate):
                self._places[step.slot] = self._count
                self._count += 1
                if step.value is not None and step.slot not in self._written:
                    self._constants[step.slot] = np.full(step.shape, step.value, step.dtype)
            elif isinstance(step, Launch):
                _require(step)

    def place(self, slot: Slot) -> int:
        """The number of a slot's array."""
        return self._places[slot]

    def __call__(self, arrays: Arrays) -> Arrays:
        """Run the steps on the arrays of the slots; all arrays, with those that the steps have allocated."""
        for run in self.code:
            run(arrays)
        return arrays

    @functools.cached_property
    def code(self) -> tuple[Run, ...]:
        """The functions that run the steps, one after the other; those that allocate append an array."""
        return tuple(self._compiled())

    def _compiled(self) -> Iterable[Run]:
        """The function that runs each step; a copy to new memory is one of them."""
        copied = {step.target: self.place(step.source) for step in self._steps if isinstance(step, Copy)}
        for step in self._steps:
            if isinstance(step, Allocate):
                yield _copying(copied[step.slot]) if step.slot in copied else self._allocating(step)
            elif isinstance(step, Launch):
                yield _launching(step, tuple(map(self.place, step.slots)))
            elif isinstance(step, Add):
                yield _adding(self.place(step.source), self.place(step.target), step.shape)

    def _allocating(self, step: Allocate) -> Run:
        shape, dtype, constant = step.shape, step.dtype, self._constants.get(step.slot)
        if constant is not None:
            return lambda arrays: arrays.append(constant)
        if step.value is None:
            return lambda arrays: arrays.append(np.empty(shape, dtype))
        if step.value == 0:
            return lambda arrays: arrays.append(np.zeros(shape, dtype))
        value = step.value
        return lambda arrays: arrays.append(np.full(shape, value, dtype))


def _require(step: Launch) -> None:
    """Compile the version of a kernel that a launch needs."""
    program = step.launch.program
    extents = extents_of(program.kernel.params, step.shapes)
    lower_kernel(program.kernel, program.settings).require(step.launch.geometry.dims, extents)


def code_of(step: Launch) -> tuple[str, bytes, np.ndarray]:
    """The kernel and the numbers of a launch, compiled, as the native module takes them."""
    _require(step)
    program = step.launch.program
    kernel = lower_kernel(program.kernel, program.settings)
    return kernel.fingerprint, kernel.program, step.launch.numbers


def _launching(step: Launch, places: tuple[int, ...]) -> Run:
    native = _native.HostLaunch(*code_of(step), step.launch.operands, step.launch.results)
    return lambda arrays: native([arrays[k] for k in places])


def _copying(source: int) -> Run:
    return lambda arrays: arrays.append(arrays[source].copy())


def _adding(source: int, target: int, shape: Shape | None) -> Run:
    def add(arrays: Arrays) -> None:
        into = arrays[target]
        np.add(into, arrays[source], out=into, casting="unsafe")

    def add_reshaped(arrays: Arrays) -> None:
        into = arrays[target]
        np.add(into, arrays[source].reshape(shape), out=into, casting="unsafe")

    return add if shape is None else add_reshaped
