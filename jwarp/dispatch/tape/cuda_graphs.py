"""Commands on arrays of a GPU that follow each other: run as they are once, and then as one CUDA graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import jwarp._native as _native
from jwarp.arrays.commands import Command
from jwarp.arrays.writes import Copy, Fill
from jwarp.devices import Device, DeviceError
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.gpu.cuda_memory import STREAM, CudaMemory
from jwarp.dispatch.gpu.device import Forward

log = logging.getLogger("jwarp")
# Puts a command on a stream, given by its handle.
Put = Callable[[int], None]


def gpu_of(command: Command) -> Device | None:
    """The GPU whose arrays a command works on, where it may become part of a CUDA graph."""
    if isinstance(command, ArrayLaunch):
        is_fixed = not command.geometry and command.ids is None
        return command.device if command.device.is_cuda and is_fixed else None
    target = command.dest if isinstance(command, Copy) else command.array if isinstance(command, Fill) else None
    if target is None or not isinstance(target.memory, CudaMemory) or _PUTS[type(command)](command) is None:
        return None
    return target.memory.device


class CudaPart:
    """Commands on arrays of one GPU, as one call.

    The first run makes everything ready. The second one makes the graph, if all can be part of it; else `why_not` says
    what cannot, and they run one after the other.
    """

    def __init__(self, commands: Sequence[Command], device: Device):
        self.commands, self.device = tuple(commands), device
        self.why_not = ""
        self._has_run = False
        self._graph: _native.DeviceGraph | None = None
        self._made_of: list[Any] = []

    def __call__(self) -> None:
        if self._has_run and not self.why_not:
            if self._graph is None or self._made_of != self._ready():
                self._make()
            if self._graph is not None:
                return self._graph.launch(STREAM)
        for command in self.commands:
            command.run()
        self._has_run = True
        return None

    def _ready(self) -> list[Any]:
        """What launches have been prepared as."""
        return [c.prepared for c in self.commands if isinstance(c, ArrayLaunch)]

    def _make(self) -> None:
        self._graph, puts = None, []
        for command in self.commands:
            put = _PUTS[type(command)](command)
            if put is None:
                name = command.kernel.name if isinstance(command, ArrayLaunch) else type(command).__name__
                return self._give_up(f"the launch of '{name}' has checks, or copies arrays that are not contiguous")
            puts.append(put)
        made = _native.DeviceGraph(self.device.ordinal)
        try:
            stream = made.begin()
            for put in puts:
                put(stream)
            made.end()
        except DeviceError as error:
            return self._give_up(error.diagnostic.message)
        self._graph, self._made_of = made, self._ready()
        return None

    def _give_up(self, why_not: str) -> None:
        self.why_not = why_not
        log.info("%d commands on %s are no CUDA graph: %s", len(self.commands), self.device, why_not)


def _launch(command: ArrayLaunch) -> Put | None:
    return command.prepared.repeated if isinstance(command.prepared, Forward) else None


def _fill(command: Fill) -> Put | None:
    memory, layout = command.array.memory, command.array.layout
    return _on_stream(memory, memory.filling(layout, command.value.astype(layout.dtype, copy=False)))


def _copy(command: Copy) -> Put | None:
    into, out = command.dest.layout, command.src.layout
    if into.full_shape != out.full_shape or into.dtype != out.dtype:
        out = out.seen_as(into.element)
    return _on_stream(command.dest.memory, command.dest.memory.copying(into, command.src.memory, out))


def _on_stream(memory: CudaMemory, put: Callable[[_native.DeviceMemory], None] | None) -> Put | None:
    if put is None:
        return None
    return lambda stream: put(_native.DeviceMemory(0, stream, memory.device.ordinal, f"arrays on {memory.device}"))


_PUTS: dict[type, Callable[[Any], Put | None]] = {ArrayLaunch: _launch, Fill: _fill, Copy: _copy}
