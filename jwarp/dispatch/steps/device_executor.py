"""The executor of steps on arrays in the memory of a GPU, in the order of a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jwarp.arrays.cuda_arrays import Borrowed, borrow
from jwarp.compiler.program import Program
from jwarp.dispatch.executables.device_launch import Work, put
from jwarp.errors import LaunchError
from jwarp.launching.steps import Add, Allocate, Copy, Launch, Slot, Step, Steps
from jwarp.wire import DTYPES, Role

# The content of a slot as launches take it: an address, the bytes of a value, or None for memory of the launch itself.
Content = int | bytes | None


class DeviceSteps:
    """Steps for any arrays of their slots. Errors speak of a launch of `program`."""

    def __init__(self, program: Program, steps: Iterable[Step]):
        self.program, self.steps = program, tuple(steps)
        self.written = Steps(self.steps).written
        # Memory that one launch alone sees is allocated, and filled, by the launch.
        seen = Counter(
            slot
            for step in self.steps
            if not isinstance(step, Allocate)
            for slot in (step.slots if isinstance(step, Launch) else (step.source, step.target))
        )
        self.unseen = {
            slot
            for step in self.steps
            if isinstance(step, Launch)
            for slot, role in zip(step.slots, step.launch.roles, strict=True)
            if role is Role.ZEROS and seen[slot] == 1
        }
        self.copies = {step.target for step in self.steps if isinstance(step, Copy)}

    def __call__(self, arrays: Mapping[Slot, Any], stream: int = 0, *, waits: bool = False) -> None:
        """Put the steps on a stream, and wait for their end if that `waits`.

        Args:
            arrays: By slot: arrays on a GPU, arrays of NumPy for values.
            stream: The handle of the stream.

        Raises:
            LaunchError: an array cannot be borrowed, arrays are on several GPUs, or the driver refuses a launch.
            CompileError: a kernel cannot be compiled.
        """
        if self.steps:
            _Run(self, arrays, stream).put(waits=waits)

    def read(self, slot: Slot, given: Any, stream: int) -> Borrowed | np.ndarray:
        """The array of a slot, as it is borrowed."""
        if isinstance(given, (Borrowed, np.ndarray)):
            return given
        name = self.program.name
        try:
            found = borrow(given, stream)
        # A foreign object raises: the array is deleted, or not on a GPU.
        except Exception as error:
            parameter = self.program.params[slot.param].name
            raise LaunchError(
                f"kernel '{name}', parameter '{parameter}': the adjoint cannot borrow it, {error}"
            ) from None
        assert found is not None
        return found


class _Run:
    """One run of steps on a stream."""

    def __init__(self, of: DeviceSteps, arrays: Mapping[Slot, Any], stream: int):
        self.of, self.stream, program = of, stream, of.program
        self.given = {slot: of.read(slot, x, stream) for slot, x in arrays.items()}
        borrowed = [x.owner for x in self.given.values() if isinstance(x, Borrowed)]
        devices = sorted({x.device for x in borrowed})
        if len(devices) != 1:
            raise LaunchError(
                f"kernel '{program.name}': the arrays are on several GPUs, {', '.join(map(str, devices))}",
                hint="copy them to one",
            )
        self.work = Work(f"kernel '{program.name}'", stream, devices[0], borrowed, program.span)
        self.own: dict[Slot, Content] = {}

    def put(self, *, waits: bool) -> None:
        """Put all steps on the stream."""
        for step in self.of.steps:
            if isinstance(step, Allocate):
                if step.slot not in self.of.copies:
                    self.own[step.slot] = self._allocated(step)
            elif isinstance(step, Copy):
                self.own[step.target] = self._copied(step.source)
            elif isinstance(step, Launch):
                self._launch(step)
            else:
                self._add(step)
        if waits:
            self.work.wait()

    def _allocated(self, step: Allocate) -> Content:
        if step.value is None:
            return None if step.slot in self.of.unseen else self.work.memory(step.shape, step.dtype)
        if not step.shape and step.slot not in self.of.written:
            return np.array(step.value, step.dtype).tobytes()
        assert step.value == 0
        return self.work.zeros(step.shape, step.dtype)

    def _copied(self, slot: Slot) -> Content:
        """The address of a copy of an array, None for one without elements."""
        given = self.given[slot]
        return self.work.packed(given.outline) if isinstance(given, Borrowed) else None

    def _read(self, slot: Slot) -> Content:
        """The content of a slot that a launch takes: an array that is not contiguous is copied."""
        if slot in self.own:
            return self.own[slot]
        given = self.given[slot]
        if isinstance(given, np.ndarray):
            return given.tobytes() if given.size else None
        return given.owner.address if given.outline.flags.c_contiguous else self.work.packed(given.outline)

    def _launch(self, step: Launch) -> None:
        params, roles, work = step.launch.program.kernel.params, step.launch.roles, self.work
        contents = list(map(self._read, step.slots))
        placed = [
            (content, DTYPES[param.dtype.name], shape)
            for content, param, shape in zip(contents, params, step.shapes, strict=True)
        ]
        put(step.launch, placed, self.stream, work.device, work.kept)
        for slot, role, content in zip(step.slots, roles, contents, strict=True):
            given = self.given.get(slot)
            if role is not Role.READ and isinstance(given, Borrowed) and not given.outline.flags.c_contiguous:
                assert isinstance(content, int)
                work.unpack(content, given.outline)

    def _add(self, step: Add) -> None:
        source, target = self._read(step.source), self.given[step.target]
        assert isinstance(source, int) and isinstance(target, Borrowed)
        self.work.add(source, target.outline)
