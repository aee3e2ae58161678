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
    """True for an array of JAX or NumPy with at least one axis."""
    return isinstance(value, (jax.Array, np.ndarray)) and value.ndim > 0


class Converter:
    """Makes arrays of the JAX and NumPy arrays in arguments, for one call. `where` begins its errors.

    What holds arrays is made again, whether or not an array is in it: objects that refer to one another, in circles as
    well, do so in what comes back.

    Attributes:
        is_needed: Whether there was something to make an array of.
    """

    def __init__(self, where: str):
        self.where = where
        self.is_needed = False
        self._made: dict[tuple[int, str], Any] = {}  # what is met again is one

    def convert(self, value: Any, annotation: Any, path: str) -> Any:
        """A value with arrays where its annotation, or that of an attribute, has them.

        Raises:
            KernelTypeError: an array of JAX or NumPy does not fit its annotation.
        """
        kind = meant(without_none(annotation))
        if is_value(value):
            made = self._array(value, kind, path)
            self.is_needed |= made is not value
            return made
        parts = _parts(value, kind)
        if parts is None:
            return value
        # An object says itself what is in it; of a list its annotation does.
        key = id(value), str(kind) if isinstance(value, _CONTAINERS) else ""
        if key not in self._made:
            self._made[key] = new = _empty(value)
            made = {k: self.convert(part, of, _place(path, value, k)) for k, (part, of) in parts.items()}
            self._made[key] = _filled(new, made)
        return self._made[key]

    def _array(self, value: Any, kind: Any, path: str) -> Any:
        if isinstance(kind, ArrayType):
            return annotated(value, kind, f"{self.where}, {path}")
        return from_jax(value) if kind is array or isinstance(kind, ArrayPattern) else value


class Returned:
    """The results of one call's arguments."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}  # what is met again is one

    def back(self, found: Any, given: Any) -> Any:
        """The result of an argument, with JAX arrays where the argument had arrays of JAX or NumPy."""
        if is_value(given):
            return to_jax(found) if isinstance(found, array) else found
        parts, new = _parts(given, None), _parts(found, None)
        if parts is None or new is None or found is given:
            return found
        if id(found) not in self._made:
            self._made[id(found)] = empty = _empty(found)
            made = {k: self.back(part, parts[k][0]) if k in parts else part for k, (part, _) in new.items()}
            self._made[id(found)] = _filled(empty, made)
        return self._made[id(found)]

    def result(self, found: Any, annotation: Any) -> Any:
        """The result of a function, with JAX arrays where its annotation has arrays."""
        kind = meant(without_none(annotation))
        if isinstance(found, array):
            return to_jax(found) if isinstance(kind, (ArrayType, ArrayPattern)) or kind is array else found
        parts = _parts(found, kind)
        if parts is None:
            return found
        if id(found) not in self._made:
            self._made[id(found)] = empty = _empty(found)
            self._made[id(found)] = _filled(empty, {k: self.result(part, of) for k, (part, of) in parts.items()})
        return self._made[id(found)]


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
    """The members of a list, tuple, dict or object, with their annotations; None for other values."""
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


_CONTAINERS = (list, tuple, dict)


def _empty(value: Any) -> Any:
    """A new, empty container of the type of another one."""
    base = next((kind for kind in _CONTAINERS if isinstance(value, kind)), object)
    return base.__new__(type(value))


def _filled(empty: Any, parts: Mapping[Any, Any]) -> Any:
    """A list, tuple, dict or object with these parts."""
    if isinstance(empty, tuple):
        return tuple.__new__(type(empty), parts.values())
    if isinstance(empty, list):
        list.extend(empty, parts.values())
    elif isinstance(empty, dict):
        empty.update(parts)
    else:
        for name, part in parts.items():
            object.__setattr__(empty, name, part)
    return empty
