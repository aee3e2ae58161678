"""Canonicalises the Python objects that kernels refer to: objects of other packages become jwarp's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reader = Callable[[Any], Any]

_readers: list[Reader] = []


def reads(reader: Reader) -> Reader:
    """Decorates a function that gives jwarp's counterpart of objects of another package, and others as they are."""
    _readers.append(reader)
    return reader


def canonical(thing: Any) -> Any:
    """The canonical form of an object that a kernel reads by name, as an attribute or in an annotation."""
    for reader in _readers:
        thing = reader(thing)
    return thing
