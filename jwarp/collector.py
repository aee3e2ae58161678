"""Python's collector of reference cycles, put off while a kernel is compiled.

The IR of a large kernel is hundreds of thousands of objects that refer to each other, without cycles. The collector
would go through all of them again and again, to find nothing: that was a sixth of the time that compiling took.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class _Waiting:
    """How many parts of the program ask that nothing be collected, and whether the collector ran before."""

    count: int = 0
    ran: bool = False


_waiting = _Waiting()
_lock = threading.Lock()


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Nothing is collected inside, in any thread. A collector that was stopped before stays stopped."""
    with _lock:
        if _waiting.count == 0:
            _waiting.ran = gc.isenabled()
            gc.disable()
        _waiting.count += 1
    try:
        yield
    finally:
        with _lock:
            _waiting.count -= 1
            if _waiting.count == 0 and _waiting.ran:
                gc.enable()
