"""Events of compilation and the time they took: `with wp.record_compiles() as events`."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class CompileEvent:
    """A kernel that was compiled, or read from disk or memory, for a launch that is being lowered.

    `variant` is `forward` or a derivative, `platform` the target (such as `cpu`), `source` the origin (`compiled`,
    `disk` or `memory`), `seconds` the time that it took, and `bytes` the size of the machine code.
    """

    kernel: str
    variant: str
    platform: str
    seconds: float
    source: str
    bytes: int


# Of warnings alone, unless the program asks: logging.getLogger("jwarp").setLevel(logging.INFO), with a handler.
log = logging.getLogger("jwarp")

_recordings: list[list[CompileEvent]] = []
_lock = threading.Lock()


@contextlib.contextmanager
def record_compiles() -> Iterator[list[CompileEvent]]:
    """Collect an event for each kernel that is compiled or read inside the `with`, in any thread.

    A call that only runs code makes no event.
    """
    events: list[CompileEvent] = []
    with _lock:
        _recordings.append(events)
    try:
        yield events
    finally:
        with _lock:
            _recordings[:] = [r for r in _recordings if r is not events]


def announce(event: CompileEvent) -> None:
    """Hand `event` to everyone who is recording, and log it: what was in memory already only for debugging."""
    level = logging.DEBUG if event.source == "memory" else logging.INFO
    log.log(
        level,
        "kernel %s, %s, for the %s: %s in %.4f s, %d bytes",
        event.kernel,
        event.variant,
        event.platform,
        {"compiled": "compiled", "disk": "read from disk", "memory": "found in memory"}[event.source],
        event.seconds,
        event.bytes,
    )
    with _lock:
        for events in _recordings:
            events.append(event)
