"""Caches: each has a name and says its bound, is cheap to read from any thread, and is listed in `report()`."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, cast

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")

# The number of shapes for which a kernel's entries are cached.
MAX_SHAPES = 256
# Kernels whose analysis is kept; that of others is made again, or read from disk.
MAX_KERNELS = 4096

_MISSING: Any = object()


class Cache(Generic[K, V]):
    """A bounded cache of values by key, which forgets those that were not used recently.

    A number as `bound` is the most entries there ever are, and those used last, half as many, are sure to be there.
    A text says what limits them where the program around it does: such a cache forgets nothing.

    Entries are in two halves. Whatever is used is, or comes, into the first one; once that is full it becomes the
    second one, and what was in that and has not been used since is forgotten. So reading what is in use takes
    one look into one dictionary, without a lock.
    """

    __slots__ = ("__weakref__", "_half", "_lock", "bound", "name", "recent", "rest")

    def __init__(self, name: str, bound: int | str):
        assert isinstance(bound, str) or bound >= 2, "there are two halves"
        self.name, self.bound = name, bound
        self._half = None if isinstance(bound, str) else bound // 2
        self.recent: dict[K, V] = {}
        self.rest: dict[K, V] = {}
        self._lock = threading.Lock()
        with _registering:
            _caches.add(self)

    def get(self, key: K) -> V | None:
        """The cached value of the key, or None."""
        found = self.recent.get(key, _MISSING)
        if found is _MISSING:
            found = self.rest.get(key, _MISSING)
            return None if found is _MISSING else self.keep(key, found)
        return cast(V, found)

    def keep(self, key: K, value: V) -> V:
        """Keep `value`, unless another thread was quicker: what is kept now."""
        forgotten = None
        with self._lock:
            found = self.recent.get(key, _MISSING)
            if found is not _MISSING:
                return cast(V, found)
            found = self.rest.pop(key, value)
            if self._half is not None and len(self.recent) >= self._half:
                # It ends after the lock is released, as what ends with it may use the cache.
                forgotten, self.rest, self.recent = self.rest, self.recent, {}
            self.recent[key] = found
        del forgotten
        return found

    def made(self, key: K, make: Callable[[], V]) -> V:
        """The cached value of the key, made now if there is none; it may be None."""
        found = self.recent.get(key, _MISSING)
        if found is _MISSING:
            found = self.rest.get(key, _MISSING)
            return self.keep(key, make() if found is _MISSING else found)
        return cast(V, found)

    def replace(self, key: K, value: V) -> None:
        """Keep `value` instead of what is kept for the key, if anything is."""
        with self._lock:
            self.rest.pop(key, None)
            self.recent.pop(key, None)
        self.keep(key, value)

    def __getitem__(self, key: K) -> V:
        """The cached value of the key; KeyError if there is none."""
        return self.made(key, lambda: _missing(key))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self.recent, self.rest = {}, {}

    def __contains__(self, key: K) -> bool:
        return key in self.recent or key in self.rest

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            return iter([*self.rest, *self.recent])

    def __len__(self) -> int:
        return len(self.recent) + len(self.rest)

    def __repr__(self) -> str:
        return f"<cache of {self.name}: {len(self)} entries, at most {self.bound}>"


def _missing(key: Any) -> Any:
    raise KeyError(key)


class PerOwner(Generic[R, K, V]):
    """A cache for each object that owns one, among its attributes, so that it ends with its owner."""

    def __init__(self, name: str, bound: int | str):
        self.name, self.bound = name, bound
        owned.append(self)

    def of(self, owner: R) -> Cache[K, V]:
        """The cache of this owner."""
        attributes = owner.__dict__
        found: Cache[K, V] | None = attributes.get(self.name)
        return attributes.setdefault(self.name, Cache(self.name, self.bound)) if found is None else found


def cached(bound: int | str) -> Callable[[Callable[P, R]], functools._lru_cache_wrapper[R]]:
    """Decorates a function whose results are kept by its arguments; `bound` is that of a `Cache`."""

    def decorate(function: Callable[P, R]) -> functools._lru_cache_wrapper[R]:
        made = functools.lru_cache(maxsize=None if isinstance(bound, str) else bound)(function)
        _functions[f"{function.__module__.removeprefix('jwarp.')}.{function.__qualname__}"] = (made, bound)
        return made

    return decorate


@dataclass(frozen=True)
class Usage:
    """The caches of one name: how many there are, their entries together, and the bound of each of them."""

    name: str
    count: int
    entries: int
    bound: int | str


def report() -> tuple[Usage, ...]:
    """Every cache there is, by name."""
    found = {name: Usage(name, 1, made.cache_info().currsize, bound) for name, (made, bound) in _functions.items()}
    found |= {per.name: Usage(per.name, 0, 0, per.bound) for per in owned}
    with _registering:
        caches = list(_caches)
    for cache in caches:
        known = found.get(cache.name, Usage(cache.name, 0, 0, cache.bound))
        found[cache.name] = Usage(cache.name, known.count + 1, known.entries + len(cache), cache.bound)
    return tuple(found[name] for name in sorted(found))


_caches: weakref.WeakSet[Cache[Any, Any]] = weakref.WeakSet()
_registering = threading.Lock()
# Those that objects have one of, in order of their making.
owned: list[PerOwner[Any, Any, Any]] = []
_functions: dict[str, tuple[functools._lru_cache_wrapper[Any], int | str]] = {}


def _in_child() -> None:
    """A process that was forked has none of the threads that might have locked one."""
    global _registering
    _registering = threading.Lock()
    for cache in list(_caches):
        cache._lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)
