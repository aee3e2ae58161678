"""Graphs: commands that a capture took, as few native calls and CUDA graphs."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jwarp._native as _native
from jwarp.arrays.allocation import announce_writes
from jwarp.arrays.commands import LISTENING, Command, listeners, set_recorders, submit
from jwarp.arrays.cuda_memory import STREAM
from jwarp.bind.compat import is_not_tracing
from jwarp.devices import Device, DeviceError
from jwarp.dispatch.call.looking_up import looking_up, refresh
from jwarp.dispatch.executables.array_launch import ArrayLaunch
from jwarp.dispatch.steps.executors import Recorded, Replay, Scratch, native_steps
from jwarp.dispatch.tape.native_steps import (
    Several,
    all_of,
    changed_states,
    launches_on_geometry,
    steps_of,
    written_by,
)
from jwarp.dispatch.tape.taped_graphs import TapedGraph, is_found_by_running
from jwarp.errors import LaunchError

log = logging.getLogger("jwarp")
Run = Callable[[], Any]


class Graph(Several):
    """The commands of a capture. `wp.capture_launch(graph)` runs them."""

    in_turn = True
    is_loaded = False

    def __init__(self, commands: Sequence[Command]):
        self.commands = self.inner = tuple(commands)
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
        try:
            part.run()
        except ValueError as error:
            if not isinstance(part.run, Replay):
                raise  # of a function of the user's, or of launches on a GPU
            raise LaunchError(f"{self!r}: {error}", hint="capture it anew") from None
        return [part]


class _Part(NamedTuple):
    """A call that does what some commands do.

    The launches `geometry` are given grids, trees or meshes; of those that had `changed` when it ran last, these are
    the states.
    """

    commands: tuple[Command, ...]
    run: Run
    geometry: tuple[ArrayLaunch, ...] = ()
    changed: Sequence[Any] = ()


def _parts(commands: Sequence[Command]) -> Iterator[_Part]:
    """The calls that do what the commands do, in order."""
    found = [(command, steps_of([command])) for command in commands]
    for place, group in itertools.groupby(found, _place):
        of, steps = zip(*group, strict=True)
        if place == "here":
            native = native_steps(itertools.chain(*steps), Scratch())
            assert native is not None  # as all have steps
            replay = Replay(_native.HostGraph(native), written_by(of))
            yield _Part(of, replay, tuple(dict.fromkeys(launches_on_geometry(of))))
        elif place is None:
            yield from (_Part((command,), command.run) for command in of)
        else:
            yield _Part(of, CudaPart(of, place))


def _place(pair: tuple[Command, Any]) -> Any:
    """Where a command with its steps is done without Python: "here", or on a GPU; None for one that Python runs."""
    command, steps = pair
    if steps is not None:
        return "here"
    if isinstance(command, ArrayLaunch):
        return command.device if command.device.is_cuda and not command.geometry else None
    return None if command.on_stream() is None else command.written[0].device


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
        self._written = tuple(written_by(commands))

    def __call__(self) -> None:
        if self._has_run and not self.why_not:
            if self._graph is None or self._made_of != self._ready():
                self._make()
            if self._graph is not None:
                announce_writes(self._written)
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
            put = command.on_stream()
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
