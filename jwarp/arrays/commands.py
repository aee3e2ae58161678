"""Commands, which change arrays, and the one function that submits them to the recorders and captures of a thread."""

from __future__ import annotations

import abc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

# Puts a command on a stream, given by its handle.
OnStream = Callable[[int], None]


class Command(abc.ABC):
    """Something that changes arrays, and can be done again. Recorders hear of it if it `is_recorded`.

    Attributes:
        inner: The commands that it may run.
    """

    is_recorded = True
    inner: Sequence[Command] = ()

    @abc.abstractmethod
    def run(self) -> None:
        """Do it, with the arrays as they are now."""

    @property
    def written(self) -> Sequence[Any]:
        """The arrays that it writes to; none of a function of Python's, which says so itself."""
        return ()

    def steps(self) -> list[Any] | None:
        """The steps that do the same in host memory; None where Python runs it."""
        return None

    def on_stream(self) -> OnStream | None:
        """A function that puts it on a stream of the GPU whose arrays it works on; None where Python runs it."""
        return None

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


class SteppedCall(Call):
    """A call of a Python function, and the function that gives the steps which do the same, as `Command.steps`."""

    def __init__(self, function: Callable[[], Any], steps: Callable[[], list[Any] | None]):
        self.function, self._steps = function, steps

    def steps(self) -> list[Any] | None:
        return self._steps()


class Recorder(Protocol):
    """Hears of every command."""

    def before(self, command: Command) -> None:
        """`command` is about to run."""

    def after(self, command: Command) -> None:
        """`command` has run."""


# The threads that somebody listens to, of the whole process: mostly none. Launches look at it first of all.
LISTENING: set[weakref.ref[_Thread]] = set()


class _Thread:
    """The listeners of one thread: a capture takes its commands, `recorders` hear of those that run.

    `captured_tapes` is the number of tapes that record in the capture that is open. It alone changes them, but for a
    recorder that another thread takes out of the list.
    """

    __slots__ = ("__weakref__", "capture", "captured_tapes", "recorders", "ref")

    def __init__(self) -> None:
        self.capture: list[Command] | None = None
        self.captured_tapes = 0
        self.recorders: list[Recorder] = []
        self.ref = weakref.ref(self, LISTENING.discard)  # for a thread that ends while somebody listens
        hash(self.ref)  # which it cannot have later


class _Listeners(threading.local):
    """The listeners of this thread: `here`."""

    def __init__(self) -> None:
        self.here = _Thread()


listeners = _Listeners()


def submit(command: Command, *, is_recorded: bool = True) -> None:
    """Run a command, or give it to the capture that is open. Recorders hear of it only if it `is_recorded`."""
    if not LISTENING:
        return command.run()
    if not is_recorded:
        command.is_recorded = False
    here = listeners.here
    if here.capture is not None:
        command.prepare()
        here.capture.append(command)
        return None
    recorders = tuple(here.recorders) if command.is_recorded else ()
    command = command.now()
    for recorder in recorders:
        recorder.before(command)
    command.run()
    for recorder in recorders:
        recorder.after(command)
    return None


def open_recorder(recorder: Recorder) -> None:
    """Tell `recorder` of every command of this thread from now on."""
    here = listeners.here
    here.recorders.append(recorder)
    LISTENING.add(here.ref)


def close_recorder(recorder: Recorder) -> None:
    """Tell `recorder` of commands no longer, whichever thread it was opened in."""
    here = listeners.here
    if recorder in here.recorders:
        here.recorders.remove(recorder)
        if not here.recorders and here.capture is None:
            LISTENING.discard(here.ref)
        return
    for thread in filter(None, [known() for known in list(LISTENING)]):
        if recorder in thread.recorders:
            thread.recorders.remove(recorder)
    return None


def set_recorders(recorders: Sequence[Recorder]) -> None:
    """Tell these of every command of this thread from now on, and no others."""
    here = listeners.here
    here.recorders[:] = recorders
    _tell(here)


def capture(commands: list[Command] | None) -> list[Command] | None:
    """Put commands into a list instead of running them, or, given None, run them again; who took them until now."""
    here = listeners.here
    before, here.capture = here.capture, commands
    if commands is None:
        here.captured_tapes = 0
    _tell(here)
    return before


def _tell(here: _Thread) -> None:
    """Let launches know if somebody listens."""
    if here.recorders or here.capture is not None:
        LISTENING.add(here.ref)
    else:
        LISTENING.discard(here.ref)
