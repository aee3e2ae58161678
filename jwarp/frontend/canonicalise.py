"""What the Python objects that kernels refer to mean: those of other packages are read as jwarp's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reader = Callable[[Any], Any]

_readers: list[Reader] = []


def reads(reader: Reader) -> Reader:
    """Decorates a function that gives jwarp's counterpart of objects of another package, and others as they are."""
    _readers.append(reader)
    return reader


def meaning(thing: Any) -> Any:
    """What a kernel takes `thing` for, which is met by name, in an attribute or in an annotation."""
    for reader in _readers:
        thing = reader(thing)
    return thing
