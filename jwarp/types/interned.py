"""Types that are made on demand, one for each description, so that they can be compared by identity."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def interned(make: Callable[P, T]) -> Callable[P, T]:
    """`make`, giving equal positional arguments the same object, in all threads.

    There are as many as somebody holds: an object that nobody holds any more is dropped.
    """
    held: weakref.WeakValueDictionary[Hashable, T] = weakref.WeakValueDictionary()
    lock = threading.Lock()

    @functools.wraps(make)
    def found(*key: P.args, **_: P.kwargs) -> T:
        known = held.get(key)
        if known is None:
            with lock:
                known = held.get(key)
                if known is None:
                    held[key] = known = make(*key)  # type: ignore[call-arg]
        return known

    return found
