"""What users write for a type where that is an object of its own: annotations of arrays."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any


class Written:
    """An object that stands for the type `array_type` where a type is asked for; for none where that is None."""

    __slots__ = ()
    array_type: Any = None


def meant(annotation: Any) -> Any:
    """The type or pattern that an annotation stands for; other objects are what they are."""
    if isinstance(annotation, Written):
        found = annotation.array_type
        return annotation if found is None else found
    return annotation


def annotations_of(func: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function by name; as they are written where their names mean nothing here."""
    try:
        return typing.get_type_hints(func)
    except Exception:
        return dict(getattr(func, "__annotations__", {}))
