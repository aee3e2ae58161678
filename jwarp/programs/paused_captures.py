"""`warp._src.context.capture_pause` and `capture_resume`: what libraries do at once while a program captures."""

from __future__ import annotations

from typing import Any, NamedTuple

from jwarp.arrays.commands import Command, capture, listeners
from jwarp.devices import set_capturing
from jwarp.errors import LaunchError


class Paused(NamedTuple):
    """A capture that takes nothing for a while."""

    taken: list[Command]
    captured_tapes: int


def capture_pause(device: Any = None, stream: Any = None) -> Paused:
    """Let commands run again, instead of being taken by the capture that is open, until it is resumed.

    Raises:
        LaunchError: none is open.
    """
    taken = listeners.here.capture
    if taken is None:
        raise LaunchError("no capture has begun", hint="begin one with wp.capture_begin()")
    paused = Paused(taken, listeners.here.captured_tapes)
    capture(None)
    set_capturing(False)
    return paused


def capture_resume(graph: Paused, device: Any = None, stream: Any = None) -> None:
    """Have the capture take commands again.

    Raises:
        LaunchError: another capture has begun meanwhile.
    """
    if listeners.here.capture is not None:
        raise LaunchError("a capture has begun since this one was paused", hint="end it with wp.capture_end()")
    capture(graph.taken)
    listeners.here.captured_tapes = graph.captured_tapes
    set_capturing(True)
