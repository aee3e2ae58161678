"""JAX and NumPy arrays in arguments, which become arrays where annotations say so, and come back as JAX arrays."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from jwarp.api.jax_arrays import annotated, from_jax, to_jax
from jwarp.arrays.array import array
from jwarp.bind.trees import attributes, can_be_made_again
from jwarp.caches import Cache
from jwarp.types import ArrayPattern, ArrayType, Geometry, Struct, annotations_of, meant, without_none


def is_value(value: Any) -> bool:
    """Whether it is an array of JAX or NumPy."""
    return isinstance(value, (jax.Array, np.ndarray)) and value.ndim > 0


class Converter:
    """Makes arrays of the JAX and NumPy arrays in arguments, for one call. `where` begins its errors."""

    def __init__(self, where: str):
        self.where = where
        self._made: dict[int, Any] = {}  # objects that are met again are one

    def convert(self, value: Any, annotation: Any, path: str) -> Any:
        """A value with arrays where its annotation, or that of an attribute, has them; itself where there are none.

        Arrays of NumPy are constants in what holds them, and stay what they are there.

        Raises:
            KernelTypeError: an array of JAX or NumPy does not fit its annotation.
        """
        kind = meant(without_none(annotation))
        if is_value(value):
            if isinstance(kind, ArrayType):
                return annotated(value, kind, f"{self.where}, {path}")
            return from_jax(value) if kind is array or isinstance(kind, ArrayPattern) else value
        parts = _parts(value, kind)
        if parts is None:
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        self._made[id(value)] = value  # what it is in itself
        made = {
            key: part if isinstance(part, np.ndarray) else self.convert(part, of, _place(path, value, key))
            for key, (part, of) in parts.items()
        }
        if any(made[key] is not part for key, (part, _) in parts.items()):
            self._made[id(value)] = _like(value, made)
        return self._made[id(value)]


def back(found: Any, given: Any) -> Any:
    """What came of a value, with JAX arrays where the value that was given had arrays of JAX or NumPy."""
    if is_value(given):
        return to_jax(found) if isinstance(found, array) else found
    parts, new = _parts(given, None), _parts(found, None)
    if parts is None or new is None or found is given:
        return found
    made = {key: back(part, parts[key][0]) if key in parts else part for key, (part, _) in new.items()}
    return _like(found, made) if any(made[key] is not part for key, (part, _) in new.items()) else found


def values_in(value: Any, path: str, seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """The arrays of JAX in a value, or the array of NumPy that it is, with where they are."""
    seen = set() if seen is None else seen
    if is_value(value):
        yield path, value
    parts = _parts(value, None)
    if parts is not None and id(value) not in seen:
        seen.add(id(value))
        for key, (part, _) in parts.items():
            if not isinstance(part, np.ndarray):
                yield from values_in(part, _place(path, value, key), seen)


def _parts(value: Any, kind: Any) -> dict[Any, tuple[Any, Any]] | None:
    """What is in a list, a tuple, a dict or an object, with its annotation; None for other values."""
    inner = typing.get_args(kind)
    if isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", None)
        if fields is not None:
            hints = _hints(type(value))
            return {k: (part, hints.get(name)) for k, (name, part) in enumerate(zip(fields, value, strict=True))}
        if isinstance(value, tuple) and len(inner) == len(value) and Ellipsis not in inner:
            return dict(enumerate(zip(value, inner, strict=True)))
        return {k: (part, inner[0] if inner else None) for k, part in enumerate(value)}
    if isinstance(value, dict):
        hints = _hints(kind) if typing.is_typeddict(kind) else {}
        of = inner[1] if len(inner) == 2 else None
        return {key: (part, hints.get(key, of)) for key, part in value.items()}
    if isinstance(value, (Struct, Geometry)) or not can_be_made_again(type(value)):
        return None
    names = attributes(value)
    if names is None:
        return None
    hints = _hints(type(value))
    return {name: (getattr(value, name), hints.get(name)) for name in names}


def _hints(kind: Any) -> dict[str, Any]:
    return _HINTS.made(kind, lambda: annotations_of(kind))


_HINTS: Cache[Any, dict[str, Any]] = Cache("annotations of classes", 256)


def _place(path: str, value: Any, key: Any) -> str:
    """Where a part is, in words: `path` ends in a quote."""
    inside = f"[{key!r}]" if isinstance(value, (list, tuple, Mapping)) else f".{key}"
    return f"{path[:-1]}{inside}'"


def _like(value: Any, parts: Mapping[Any, Any]) -> Any:
    """A list, tuple, dict or object like another one, with these parts."""
    kind: Any = type(value)
    if isinstance(value, tuple):
        return tuple.__new__(kind, parts.values())
    if isinstance(value, list):
        listed: list[Any] = list.__new__(kind)
        list.extend(listed, parts.values())
        return listed
    if isinstance(value, dict):
        copied = value.copy()
        dict.update(copied, parts)
        return copied
    made = object.__new__(kind)
    for name, part in parts.items():
        object.__setattr__(made, name, part)
    return made
