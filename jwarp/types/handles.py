"""Handles: the structs that kernels are given for the number of a grid, tree, mesh or volume, a `wp.uint64`."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np

from jwarp.errors import LaunchError
from jwarp.types.structs import Struct, may_hold_handles, unchecked, with_fields

# The numbers of ids are none that programs count with. Above the slot of an object is how many had ids before.
_FIRST = 0x6A77 << 48
_named: weakref.WeakValueDictionary[int, Geometry] = weakref.WeakValueDictionary()

# The objects whose ids are numbers at one time are fewer than this: the low bits of an id are its slot.
SLOTS = 1 << 20
_slots = itertools.count(1)
_generations = itertools.count(1)
_free: list[int] = []
_numbering = threading.RLock()
when_gone: list[Callable[[int], None]] = []  # called with the number of an object that has died

_births = itertools.count()
UNCOPIED = frozenset(
    {"born", "cached", "late", "repeat", "stands_for", "state", "traced_at", "number"}
)  # the attributes of a grid, tree, mesh or volume that are its own


def births() -> int:
    """A number that grids, trees and meshes which are made later have reached."""
    return next(_births)


class Geometry:
    """Base of grids, trees, meshes and volumes: what kernels know by a number.

    They are given `arrays`, a struct, in the number's place.
    """

    arrays: Struct
    version = 0  # one more whenever it is built, refitted or changed
    state: object = None  # another one after each change of an attribute
    traced_at: tuple[str, int] | None = None  # where it was built last while JAX traced
    born: int  # its index in order of creation
    number = 0  # its id's, once someone has asked for that
    stands_for = 0  # the id of the object that it is in the place of, while a function of launches is traced
    cached: Any = None  # for the layer that launches: what launches on arrays are given of a state
    repeat: Any = None  # what repeats its refits, with views of its arrays; False where nothing is to
    device: Any = None  # the GPU that its points are on, if they are arrays of one: launches run there
    # Attributes that nobody has asked for since a graph built it, and the function that makes them.
    late: tuple[frozenset[str], Callable[[], dict[str, Any]]] | None = None

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = object.__new__(cls)
        object.__setattr__(made, "born", next(_births))
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name not in ("cached", "late", "number", "repeat", "stands_for"):
            object.__setattr__(self, "state", object())

    def __getattr__(self, name: str) -> Any:
        late = self.late
        if late is None or name not in late[0]:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        self.__dict__.update(late[1]())
        self.late = None
        return getattr(self, name)

    def come_late(self, names: frozenset[str], made: Callable[[], dict[str, Any]]) -> None:
        """Say that it is another one now, whose attributes `names` a function makes as soon as one is asked for."""
        for name in names:
            self.__dict__.pop(name, None)
        self.late, self.cached = (names, made), None
        self.state = object()
        self.version += 1

    def __getstate__(self) -> dict[str, Any]:
        if self.late is not None:
            getattr(self, next(iter(self.late[0])))
        return {name: value for name, value in self.__dict__.items() if name not in UNCOPIED}

    @property
    def in_place(self) -> Struct:
        """As `arrays`, for a launch that runs now: mutable arrays are not read, but passed."""
        return self.arrays

    @property
    def id(self) -> Id:
        """The argument of launches for a parameter `wp.uint64`; the object itself is one as well."""
        return Id(self)


class Id:
    """The id of a grid, tree, mesh or volume: it stands for the object, also while JAX traces."""

    __slots__ = ("owner",)

    def __init__(self, owner: Geometry):
        self.owner = owner

    def __index__(self) -> int:
        return self.owner.number or _numbered(self.owner)

    __int__ = __index__

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        """True if both are the id of one object, or the number is that of it."""
        if isinstance(other, Id):
            return self.owner is other.owner
        return int(self) == other if isinstance(other, (int, np.integer)) else NotImplemented

    def __hash__(self) -> int:
        return hash(int(self))

    def __repr__(self) -> str:
        return f"<id of {self.owner!r}>"


def _numbered(owner: Geometry) -> int:
    """Give an object a number that no other one has, of those that are alive and many that have died."""
    with _numbering:
        if not owner.number:
            slot = _free.pop(0) if _free else next(_slots)
            if slot >= SLOTS:
                raise LaunchError(f"there are ids of {SLOTS} grids, trees and meshes, and no more")
            owner.number = _FIRST | (next(_generations) & 0xFFFFFFF) << 20 | slot
            _named[owner.number] = owner
            weakref.finalize(owner, _gone, owner.number).atexit = False
    return owner.number


def _gone(number: int) -> None:
    for listener in when_gone:
        listener(number)
    _free.append(number & (SLOTS - 1))


def all_named() -> list[tuple[int, Geometry]]:
    """The objects that are alive and have numbers."""
    return list(_named.items())


def are_named() -> bool:
    """True if there are grids, trees or meshes whose ids have been read as numbers."""
    return bool(_named)


def named(numbers: Iterable[int]) -> dict[int, Geometry] | None:
    """The grids, trees and meshes that numbers, none of which is 0, are the ids of; None if one is no id."""
    found = {number: _named.get(number) for number in numbers}
    return None if None in found.values() else found  # type: ignore[return-value]


def are_ids(numbers: np.ndarray) -> bool:
    """True if there are numbers besides zeros, all ids of grids, trees, meshes and volumes that are alive."""
    if not _named or numbers.dtype != np.uint64:
        return False
    known = np.unique(numbers)
    return bool(named(known[known > 0].tolist()))


def mark(made: Struct, owner: Geometry) -> Any:
    """Let a struct say that it is what `owner` holds now."""
    object.__setattr__(made, "_seen", (weakref.ref(owner), owner.version))
    return made


def owners_of(value: Any) -> list[Geometry]:
    """The grids, trees, meshes and volumes that a struct, or a struct in it, was made of."""
    if getattr(type(value), "holds_handles", False):
        return [owner for name in type(value).fields for owner in owners_of(getattr(value, name))]
    owner = owner_of(value)
    return [] if owner is None else [owner]


def owner_of(value: Any) -> Geometry | None:
    """The grid, tree, mesh or volume that a struct says it was made of; None for any other value."""
    owner, _ = getattr(value, "_seen", (None, 0))
    return None if owner is None else owner()


def states_of(value: Any) -> list[Any]:
    """The states of the grids, trees and meshes that a struct, or a struct in it, was made from."""
    if getattr(type(value), "holds_handles", False):
        return [state for name in type(value).fields for state in states_of(getattr(value, name))]
    seen = getattr(value, "_seen", None)
    return [] if seen is None else [seen]


def _read(owner: Geometry) -> Any:
    return mark(owner.arrays, owner)


def arrays_of(value: Any, read: Callable[[Geometry], Any] = _read) -> Any:
    """The struct that a launch passes for a grid, tree, mesh or volume or its id, by `read`; None for any other value.

    For a struct with such in it, it is one of another type, which has their arrays in it.
    """
    if isinstance(value, Id):
        value = value.owner
    if isinstance(value, Geometry):
        return read(value)
    if not isinstance(value, Struct):
        return None
    return value if type(value).is_handle or type(value).holds_handles else _with_arrays(value, read)


def _with_arrays(value: Struct, read: Callable[[Geometry], Any]) -> Any:
    """The struct with the arrays of the grids, trees and meshes in it; None if there are none."""
    known = {name: arrays_of(getattr(value, name), read) for name in may_hold_handles(type(value))}
    found: dict[str, Any] = {name: part for name, part in known.items() if part is not None}
    if not found:
        return None
    parts: dict[str, Any] = {name: type(part) for name, part in found.items()}
    kind = with_fields(type(value), parts)
    made = unchecked(kind, {name: found.get(name, getattr(value, name)) for name in kind.fields})
    object.__setattr__(made, "_seen", (None, 0))  # each part knows what it is of
    return made


def renewed(value: Any, read: Callable[[Geometry], Any] = _read) -> Any:
    """The struct, by `read`, of a grid, tree, mesh or volume that changed since `value` was made of it; else None."""
    if getattr(type(value), "holds_handles", False):
        parts = {name: renewed(getattr(value, name), read) for name in type(value).fields}
        parts = {name: part for name, part in parts.items() if part is not None}
        if not parts:
            return None
        made = value.replace(**parts)
        object.__setattr__(made, "_seen", (None, 0))
        return made
    owner, version = getattr(value, "_seen", (None, 0))
    known = None if owner is None else owner()
    return None if known is None or known.version == version else read(known)
