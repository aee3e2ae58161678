"""Commands, which change arrays, and the one function that submits them to recorders and captures."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable
from typing import Any, Protocol


class Command(abc.ABC):
    """Something that changes arrays, and can be done again. Recorders hear of it if it `is_recorded`."""

    is_recorded = True

    @abc.abstractmethod
    def run(self) -> None:
        """Do it, with the arrays as they are now."""

    def now(self) -> Command:
        """The command that does it as things are now."""
        return self

    def prepare(self) -> None:  # noqa: B027 most have nothing to find out
        """Find out now what is wrong with it."""


class Call(Command):
    """A call of a Python function."""

    def __init__(self, function: Callable[[], Any]):
        self.function = function

    def run(self) -> None:
        self.function()


class Recorder(Protocol):
    """Hears of every command."""

    def before(self, command: Command) -> None:
        """`command` is about to run."""

    def after(self, command: Command) -> None:
        """`command` has run."""


class _Listeners:
    """Who listens: a capture takes the commands of its thread, which do not run; `recorders` hear of those that do.

    `idle`: nobody does. Launches read it first of all.
    """

    __slots__ = ("_capture", "_thread", "idle", "recorders")

    def __init__(self) -> None:
        self._capture: list[Command] | None = None
        self._thread = 0
        self.recorders: list[Recorder] = []
        self.idle = True

    @property
    def capture(self) -> list[Command] | None:
        """The commands that the capture of this thread has taken, None if there is none."""
        return self._capture if self._thread == threading.get_ident() else None

    @property
    def is_capturing(self) -> bool:
        """True if some thread is capturing."""
        return self._capture is not None

    def set_capture(self, commands: list[Command] | None) -> None:
        """Let this thread's commands go into a list; None for no longer."""
        self._capture, self._thread = commands, threading.get_ident()
        self.idle = commands is None and not self.recorders


listeners = _Listeners()


def submit(command: Command, *, is_recorded: bool = True) -> None:
    """Run a command, or give it to the capture that is open. Recorders hear of it only if it `is_recorded`."""
    if listeners.idle:
        return command.run()
    if not is_recorded:
        command.is_recorded = False
    if listeners.capture is not None:
        command.prepare()
        listeners.capture.append(command)
        return None
    recorders = listeners.recorders if command.is_recorded else []
    command = command.now()
    for recorder in recorders:
        recorder.before(command)
    command.run()
    for recorder in recorders:
        recorder.after(command)
    return None


def open_recorder(recorder: Recorder) -> None:
    """Tell `recorder` of every command from now on."""
    listeners.recorders.append(recorder)
    listeners.idle = False


def close_recorder(recorder: Recorder) -> None:
    """Tell `recorder` of commands no longer."""
    set_recorders([known for known in listeners.recorders if known is not recorder])


def set_recorders(recorders: list[Recorder]) -> None:
    """Tell these of every command from now on, and no others."""
    listeners.recorders = recorders
    listeners.idle = not listeners.is_capturing and not recorders


def capture(commands: list[Command] | None) -> list[Command] | None:
    """Put commands into a list instead of running them, or, given None, run them again; who took them until now."""
    before = listeners.capture
    listeners.set_capture(commands)
    return before
