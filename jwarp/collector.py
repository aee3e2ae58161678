"""Python's collector of reference cycles, put off while a kernel is compiled.

The IR of a large kernel is hundreds of thousands of objects that refer to each other, without cycles. The collector
would go through all of them again and again, to find nothing: that was a sixth of the time that compiling took.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class _Waiting:
    """How many parts of the program, by thread, ask that nothing be collected, and whether the collector ran before."""

    threads: Counter[int] = field(default_factory=Counter)
    ran: bool = False


_waiting = _Waiting()
_lock = threading.Lock()


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Nothing is collected inside, in any thread. A collector that was stopped before stays stopped."""
    me = threading.get_ident()
    with _lock:
        if not _waiting.threads:
            _waiting.ran = gc.isenabled()
            gc.disable()
        _waiting.threads[me] += 1
    try:
        yield
    finally:
        with _lock:
            _leave(me, 1)


def _leave(thread: int, count: int) -> None:
    _waiting.threads[thread] -= count
    if not _waiting.threads[thread]:
        del _waiting.threads[thread]
        if not _waiting.threads and _waiting.ran:
            gc.enable()


def _in_child() -> None:
    """A process that was forked has none of the other threads."""
    global _lock
    _lock = threading.Lock()
    for thread, count in list(_waiting.threads.items()):
        if thread != threading.get_ident():
            _leave(thread, count)


os.register_at_fork(after_in_child=_in_child)
