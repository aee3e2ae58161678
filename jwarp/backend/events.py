"""What was compiled, when, and how long it took: `with wp.record_compiles() as events`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class CompileEvent:
    """Code made ready for a launch that is being lowered.

    `variant` is `forward` as long as there are no derivatives, `platform` what the code runs on (`cpu`),
    `source` where it came from (`compiled`, `disk` or `memory`), `seconds` how long that took, and `bytes`
    how large the machine code is.
    """

    kernel: str
    variant: str
    platform: str
    seconds: float
    source: str
    bytes: int


_recordings: list[list[CompileEvent]] = []
_lock = threading.Lock()


@contextlib.contextmanager
def record_compiles() -> Iterator[list[CompileEvent]]:
    """Collect an event for each compilation that happens inside the `with`, in any thread.

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
    """Hand `event` to everyone who is recording."""
    with _lock:
        for events in _recordings:
            events.append(event)
