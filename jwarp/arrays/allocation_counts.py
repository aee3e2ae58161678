"""Counts the memory of arrays by device and scope, for `wp.ScopedMemoryTracker`."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jwarp.arrays.memory import Memory
from jwarp.arrays.view import View
from jwarp.config import config
from jwarp.types import type_repr


@dataclass(frozen=True)
class Allocation:
    """One piece of memory that is alive: its size in bytes, its device, the array it was made for, and the place."""

    nbytes: int
    device: str
    array: str
    file: str
    line: int


@dataclass
class Counts:
    """Counts since they were last cleared. Sizes are in bytes.

    Attributes:
        live: The memory that has not been freed, by number in the order in which it was made.
        made, made_bytes: All that was made, by device.
        current, peak: The sizes of what is alive, and the largest that they have been, by device.
        scopes: The number of allocations and their bytes, by scope and device.
    """

    live: dict[int, Allocation] = field(default_factory=dict)
    made: Counter[str] = field(default_factory=Counter)
    made_bytes: Counter[str] = field(default_factory=Counter)
    current: Counter[str] = field(default_factory=Counter)
    peak: Counter[str] = field(default_factory=Counter)
    scopes: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)


class _Scopes(threading.local):
    """The names of the trackers that this thread is in."""

    def __init__(self) -> None:
        self.names: list[str] = []


_counts = Counts()
_scopes = _Scopes()
_lock = threading.RLock()  # memory may be freed wherever Python collects garbage, also inside of these functions
_trackers = 0
_of_warp = config.of_warp  # read for each array: an attribute of `config` would take as long as all else
_next = 0


def is_counting() -> bool:
    """True while a tracker is open in any thread, or `config.track_memory` is set."""
    return _trackers > 0 or _of_warp["track_memory"]


def enter(name: str) -> None:
    """Open a scope in this thread. All threads count from here on."""
    global _trackers
    with _lock:
        _trackers += 1
    _scopes.names.append(name)


def leave() -> None:
    """Close the scope that this thread opened last."""
    global _trackers
    _scopes.names.pop()
    with _lock:
        _trackers -= 1


def clear() -> None:
    """Forget all counts. Memory that is alive now is no longer known."""
    global _counts
    with _lock:
        _counts = Counts()


def count(memory: Memory, layout: View) -> None:
    """Count new memory, and its end."""
    global _next
    nbytes, device = layout.bounds[1], str(memory.device)
    shape = layout.shape[0] if len(layout.shape) == 1 else layout.shape
    made = Allocation(nbytes, device, f"array[{type_repr(layout.element)}, {shape}]", *memory.origin)
    scope = "/".join(_scopes.names)
    with _lock:
        number, _next = _next, _next + 1
        _counts.live[number] = made
        _counts.made[device] += 1
        _counts.made_bytes[device] += nbytes
        _counts.current[device] += nbytes
        _counts.peak[device] = max(_counts.peak[device], _counts.current[device])
        calls, total = _counts.scopes.setdefault(scope, {}).get(device, (0, 0))
        _counts.scopes[scope][device] = calls + 1, total + nbytes
    weakref.finalize(memory, _freed, number).atexit = False


def _freed(number: int) -> None:
    with _lock:
        gone = _counts.live.pop(number, None)
        if gone is not None:
            _counts.current[gone.device] -= gone.nbytes


@dataclass(frozen=True)
class Totals:
    """Sums over all devices: numbers of allocations, and sizes in bytes."""

    made: int
    made_bytes: int
    live: int
    current: int
    peak: int


def totals() -> Totals:
    """The sums over all devices."""
    with _lock:
        return Totals(
            _counts.made.total(),
            _counts.made_bytes.total(),
            len(_counts.live),
            _counts.current.total(),
            _counts.peak.total(),
        )


def report(*, is_chronological: bool, max_items: int) -> str:
    """The counts as text, with at most `max_items` allocations of each device: the largest, or the oldest first."""
    with _lock:
        return "".join(f"{line}\n" for line in _lines(is_chronological, max_items))


def _lines(is_chronological: bool, max_items: int) -> Iterator[str]:
    live = list(_counts.live.values())
    yield "Allocation Tracking Report"
    yield "  Total allocations:"
    for device, calls in _counts.made.items():
        yield f"    {device:<16} {calls} ({_size(_counts.made_bytes[device])})"
    yield "  Peak usage:"
    for device, nbytes in _counts.peak.items():
        yield f"    {device:<16} {_size(nbytes)}"
    yield "  Live allocations:"
    for device, nbytes in _counts.current.items():
        yield f"    {device:<16} {sum(each.device == device for each in live)} ({_size(nbytes)})"
    if _counts.scopes:
        yield "\n  Scope breakdown:"
    for scope, devices in _counts.scopes.items():
        yield f"    {scope or '(no scope)'}:"
        for device, (calls, nbytes) in devices.items():
            yield f"      {device}: {calls} allocs, {_size(nbytes)}"
    if not is_chronological:
        live.sort(key=lambda each: -each.nbytes)
    order = "oldest first" if is_chronological else "by size (largest first)"
    for device in dict.fromkeys(each.device for each in live):
        yield f"\n  Live {device} allocations {order} (up to {max_items}):"
        for each in [each for each in live if each.device == device][:max_items]:
            yield f"    {_size(each.nbytes)} : {device} : {each.array} : {Path(each.file).name}:{each.line}"


def _size(nbytes: int) -> str:
    """A number of bytes with its unit."""
    if nbytes < 1024:
        return f"{nbytes} B"
    size, units = nbytes / 1024, ["KB", "MB", "GB", "TB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.2f} {units[0]}"
