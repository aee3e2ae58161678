"""Calls that are counted by whether they are repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from jwarp import _native
from jwarp.dispatch.executables.table import Slot


@contextlib.contextmanager
def repeats() -> Iterator[list[bool]]:
    """Of each call in the block, True if its layout is known and it avoids the slow path."""
    made, repeat = [], _native.repeat

    def counted(*given):
        found = repeat(*given)
        made.append(type(found) is not Slot)
        return found

    _native.repeat = counted
    try:
        yield made
    finally:
        _native.repeat = repeat
