"""Large arrays that can be made again: who keeps one for long keeps what it is made of."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Remade:
    """An array that nobody writes to, as long as somebody else has it, and then what makes it again."""

    __slots__ = ("_array", "_make")

    def __init__(self, array: np.ndarray, make: Callable[[], np.ndarray]):
        self._array, self._make = weakref.ref(array), make

    def array(self) -> np.ndarray:
        """The array."""
        found = self._array()
        if found is None:
            found = self._make()
            self._array = weakref.ref(found)
        return found


class Turn(Remade):
    """An array as one of the builds of a graph leaves it, which take turns in writing to the same `memory`.

    `again` are the steps after which the memory holds it. Somebody else gets an array of its own.
    """

    __slots__ = ("again", "memory")

    def __init__(self, memory: np.ndarray, again: Sequence[Any], make: Callable[[], np.ndarray]):
        self._make, self.memory, self.again = make, memory, again

    def array(self) -> np.ndarray:
        return self._make()


# By the array's `id`, for as long as it is alive.
_known: dict[int, tuple[weakref.ref[np.ndarray], Remade]] = {}


def can_be_made(array: np.ndarray, make: Callable[[], np.ndarray]) -> None:
    """Let an array be made again by a function."""
    key, forget = id(array), _known.pop  # a name of its own, as Python clears the module's when it ends

    def gone(_: Any) -> None:
        forget(key, None)

    _known[key] = weakref.ref(array, gone), Remade(array, make)


def is_kept(array: np.ndarray) -> bool:
    """True if somebody keeps what makes an array again, as its content is now."""
    found = _known.get(id(array))
    return found is not None and sys.getrefcount(found[1]) > _OF_ITEM


def lightened(values: Sequence[Any]) -> Sequence[Any]:
    """The values, with `Remade` for those that can be made again."""
    if not _known:
        return values
    return tuple([_known[id(x)][1] if type(x) is np.ndarray and id(x) in _known else x for x in values])


def remade(array: np.ndarray) -> Remade | None:
    """The value that `lightened` gives for an array; None for the array itself."""
    found = _known.get(id(array))
    return None if found is None else found[1]


def there(value: Any) -> Any:
    """A value of `lightened` as it was."""
    return value.array() if isinstance(value, Remade) else value


_ONE = [object()]
_OF_ITEM = sys.getrefcount(_ONE[0])  # of what only one has
