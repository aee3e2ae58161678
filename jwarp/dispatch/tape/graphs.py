"""Graphs: commands that a capture took, as few native calls and CUDA graphs."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jwarp._native as _native
from jwarp.arrays.commands import LISTENING, Command, listeners, set_recorders, submit
from jwarp.arrays.cuda_memory import STREAM, CudaMemory
from jwarp.arrays.memory import Memory
from jwarp.arrays.writes import Copy, Fill
from jwarp.bind.compat import is_not_tracing
from jwarp.devices import Device, DeviceError
from jwarp.dispatch.call.looking_up import looking_up, refresh
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.executables.device import Forward
from jwarp.dispatch.steps.executors import Recorded
from jwarp.dispatch.tape.native_steps import (
    Several,
    all_of,
    changed_states,
    launches_on_geometry,
    native_graph,
    steps_of,
    written_by,
)
from jwarp.dispatch.tape.taped_graphs import TapedGraph, is_found_by_running
from jwarp.errors import LaunchError

Run = Callable[[], Any]


class Graph(Several):
    """The commands of a capture. `wp.capture_launch(graph)` runs them."""

    in_turn = True
    is_loaded = False

    def __init__(self, commands: Sequence[Command]):
        self.commands = tuple(commands)
        self._parts: list[_Part] | None = None
        self._tapes: TapedGraph | None = None

    def __repr__(self) -> str:
        return f"<wp.Graph of {len(self.commands)} commands>"

    def get_param_ptr(self, name: str) -> int | None:
        """The address of the array with that name, as graphs have that are loaded from files.

        Raises:
            LaunchError: this one is not.
        """
        raise self._has_no_params()

    def set_param(self, name: str, value: Any) -> None:
        """Copy an array into the one with that name, as `get_param_ptr`."""
        raise self._has_no_params()

    def get_param(self, name: str, value: Any) -> None:
        """Copy the array with that name into another one, as `get_param_ptr`."""
        raise self._has_no_params()

    def _has_no_params(self) -> LaunchError:
        return LaunchError(
            f"{self!r} has no parameters: a loaded graph has, one of wp.capture_load",
            hint="it works on the arrays that it was captured with",
        )

    @property
    def inner(self) -> tuple[Command, ...]:
        return self.commands

    def steps(self) -> list[Recorded] | None:
        return steps_of(self.commands)

    def run(self) -> None:
        if not self.looks_up:
            return self._run_all()
        with looking_up():
            return self._run_all()

    @functools.cached_property
    def looks_up(self) -> bool:
        """True if some kernel looks numbers up."""
        return any(isinstance(c, ArrayLaunch) and c.kernel.looks_up for c in all_of(self.commands))

    def _run_all(self) -> None:
        recorders = list(listeners.here.recorders) if LISTENING else []
        try:
            if not is_not_tracing():
                for command in self.commands:
                    submit(command)
                return
            if self._tapes is not None and self._tapes.run():
                return
            if self._parts is None:
                self._parts = list(_parts(self.commands))
                self._tapes = TapedGraph(self.commands) if is_found_by_running(self.commands) else None
            parts: list[_Part] = []
            for part in self._parts:
                parts += self._run_part(part)
            self._parts = parts
        except BaseException:
            set_recorders(recorders)  # tapes that it opened
            raise

    def _run_part(self, part: _Part) -> list[_Part]:
        """Run it, and say what does the same the next time."""
        if LISTENING and listeners.here.recorders:
            for command in part.commands:  # which recorders hear of
                submit(command)
            return [part]
        changed = changed_states(part.geometry)
        if changed and changed != part.changed:
            # Built in this graph, likely: what is made ready for it would keep each one that it has seen.
            for command in part.commands:
                command.now().run()
            return [part._replace(changed=changed)]
        if changed:
            for launch in part.geometry:
                launch.renew()
            return [made for new in _parts(part.commands) for made in self._run_part(new)]
        if self.looks_up:
            refresh()  # commands before it may have built something
        for memory in part.written:  # after the look at what has changed: it is the version from then on
            if memory.is_watched:
                memory.will_write()
        try:
            part.run()
        except ValueError as error:
            if not isinstance(part.run, _native.HostGraph):
                raise  # of a function of the user's, or of launches on a GPU
            raise LaunchError(f"{self!r}: {error}", hint="capture it anew") from None
        return [part]


class _Part(NamedTuple):
    """A call that does what some commands do.

    Without saying so it writes to the memory `written`. The launches `geometry` are given grids, trees or meshes; of
    those that had `changed` when it ran last, these are the states.
    """

    commands: tuple[Command, ...]
    run: Run
    written: tuple[Memory, ...] = ()
    geometry: tuple[ArrayLaunch, ...] = ()
    changed: Sequence[Any] = ()


def _parts(commands: Sequence[Command]) -> Iterator[_Part]:
    """The calls that do what the commands do, in order."""
    for place, group in itertools.groupby(commands, _place):
        of = tuple(group)
        if place == "here":
            yield _native_part(of)
        elif place is None:
            yield from (_Part((command,), command.run) for command in of)
        else:
            yield _Part(of, CudaPart(of, place), tuple(dict.fromkeys(written_by(of))))


def _place(command: Command) -> Any:
    """Where a command is done without Python: "here", or on a GPU; None for a command that Python runs."""
    return "here" if steps_of([command]) is not None else gpu_of(command)


def _native_part(commands: Sequence[Command]) -> _Part:
    launches = dict.fromkeys(launches_on_geometry(commands))
    written = dict.fromkeys(written_by(commands))
    graph = native_graph(commands)
    assert graph is not None  # as each command has steps
    return _Part(tuple(commands), graph, tuple(written), tuple(launches))


log = logging.getLogger("jwarp")
# Puts a command on a stream, given by its handle.
Put = Callable[[int], None]


def gpu_of(command: Command) -> Device | None:
    """The GPU whose arrays a command works on, where it may become part of a CUDA graph."""
    if isinstance(command, ArrayLaunch):
        return command.device if command.device.is_cuda and not command.geometry else None
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
        """The executables of the launches."""
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
