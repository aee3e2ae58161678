"""Locks of work that takes long: a process forks while no other thread is at such work.

A child has only the thread that forked. What another thread had locked, among it locks of LLVM and of the native
module, nobody would open there.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from types import TracebackType

# How long a fork waits at most, in seconds: what is at work might wait for the thread that forks.
MOST_WAITING = 60.0

_at_work = Counter[int]()  # how many such locks a thread has, or waits for
_changed = threading.Condition()


class Lock:
    """A lock that forks wait for; `is_shared` by what one thread does, it may be taken by that again."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self, *, is_shared: bool = False):
        self._lock = threading.RLock() if is_shared else threading.Lock()

    def __enter__(self) -> None:
        with _changed:
            _at_work[threading.get_ident()] += 1
        try:
            self._lock.acquire()
        except BaseException:
            _leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()
        _leave()


def _leave() -> None:
    me = threading.get_ident()
    with _changed:
        _at_work[me] -= 1
        if not _at_work[me]:
            del _at_work[me]
            _changed.notify_all()


def _before() -> None:
    """Wait until no other thread is at work, and let none begin."""
    _changed.acquire()
    me = threading.get_ident()
    _changed.wait_for(lambda: not set(_at_work) - {me}, MOST_WAITING)


def _in_child() -> None:
    me = threading.get_ident()
    own = _at_work[me]
    _at_work.clear()
    if own:
        _at_work[me] = own
    for prop in _cached_properties():
        if "lock" in vars(prop):
            vars(prop)["lock"] = threading.RLock()
    _changed.release()


def _cached_properties() -> Iterator[functools.cached_property[object]]:
    """Those of jwarp's classes. Up to Python 3.11 each has one lock for all objects, which is held while it is made."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != __package__:
            continue
        for kind in list(vars(module).values()):
            if isinstance(kind, type) and kind.__module__ == name:
                yield from (x for x in vars(kind).values() if isinstance(x, functools.cached_property))


os.register_at_fork(before=_before, after_in_parent=_changed.release, after_in_child=_in_child)
