"""The plain array that stands for an object of a class that a program derives from `wp.array`, with the same state."""

from __future__ import annotations

import weakref
from typing import Any


def stand_in(value: Any) -> Any:
    """The array that stands for an object of a derived class, one at a time; an array that is none is itself."""
    base = type(value).plain_class
    if type(value) is base:
        return value
    known = getattr(value, "_stand_in", None)
    found = None if known is None else known()
    if found is None:
        found = object.__new__(base)
        found.__dict__ = value.__dict__
        found._of = value
        value._stand_in = weakref.ref(found)
    return found


def original(value: Any) -> Any:
    """The object that an array stands for; other values are what they are."""
    found = getattr(value, "_of", None) if type(value) is getattr(type(value), "plain_class", None) else None
    return value if found is None else found
