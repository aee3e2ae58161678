"""Compiles for GPUs ahead: while one launch of a program is lowered, threads compile those that were traced after it.

JAX lowers launches one after the other, and NVRTC compiles in several threads at a time. Whatever is wrong with a
kernel is reported where that is lowered, as it would be without threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from jwarp.launching.batch import Batch
from jwarp.launching.descriptor import Descriptor
from jwarp.types.arrays import Extents

MOST = 16  # threads
MOST_TRACED = 512


class Traced(NamedTuple):
    """A launch as it was traced: its extents are those of each parameter."""

    launch: Descriptor
    batch: Batch
    extents: Extents


class Ahead:
    """The launches that were traced and not lowered yet, in order, and the compilations that were begun for them.

    Attributes:
        threads: How many there are. With fewer than two nothing is begun ahead.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._traced: dict[Hashable, None] = {}
        self._begun: dict[tuple[Hashable, Hashable], Future] = {}
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def note(self, ask: Hashable) -> None:
        """Note what was traced; the last so many are known. What is known keeps its place: it is lowered once."""
        if self.threads < 2:
            return
        with self._lock:
            self._traced.setdefault(ask)
            if len(self._traced) > MOST_TRACED:
                del self._traced[next(iter(self._traced))]

    def answer(self, ask: Hashable, how: Hashable, call: Callable[[Any, Any], Any]) -> Any:
        """`call(ask, how)`, begun before if it could be. What comes after is begun now.

        Raises whatever the call does.
        """
        if self.threads < 2:
            return call(ask, how)
        with self._lock:
            own = self._begun.pop((ask, how), None)
            for next_ask in self._after(ask):
                if sum(not begun.done() for begun in self._begun.values()) >= self.threads:
                    break
                if (next_ask, how) not in self._begun:
                    try:
                        self._begun[next_ask, how] = self._submit(call, next_ask, how)
                    except RuntimeError:  # there are no more threads, for one as the interpreter ends
                        break
        if own is None or own.cancel():  # nobody has begun
            return call(ask, how)
        return own.result()

    def _after(self, ask: Hashable) -> list[Hashable]:
        """The launches traced after this one. Those before it are dropped: they were lowered or never will be."""
        if ask not in self._traced:
            return []
        while True:
            first = next(iter(self._traced))
            del self._traced[first]
            if first == ask:
                break
        for key in [key for key in self._begun if key[0] not in self._traced]:
            self._begun.pop(key).cancel()
        return [key for _, key in zip(range(self.threads), self._traced, strict=False)]

    def _submit(self, call: Callable[[Any, Any], Any], ask: Hashable, how: Hashable) -> Future:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "jwarp-nvrtc")
        return self._pool.submit(call, ask, how)


AHEAD = Ahead(min(os.cpu_count() or 1, MOST))


def _in_child() -> None:
    """A process that was forked has none of the threads."""
    global AHEAD
    AHEAD = Ahead(AHEAD.threads)


os.register_at_fork(after_in_child=_in_child)
