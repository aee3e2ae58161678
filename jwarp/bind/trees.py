"""Arguments of functions of many launches: which arrays are in them, and the same objects around other arrays."""

from __future__ import annotations

import collections
import enum
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.memory import HostMemory, Memory
from jwarp.arrays.struct_array import StructArray
from jwarp.arrays.view import View, scalar_of
from jwarp.bind import compat
from jwarp.errors import KernelTypeError
from jwarp.types import CompositeValue, Geometry, Struct, uint64
from jwarp.types.handles import UNCOPIED, are_ids

# Types that are compared by value and kept.
_PLAIN = (bool, int, str, bytes, type(None), enum.Enum, np.generic, complex)
# Types whose content is not inspected.
_CLOSED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


@dataclass(frozen=True, eq=False)
class Same:
    """A value that is compared as itself: by `key` where it has one, else by identity."""

    value: Any
    key: Hashable | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return False
        return self.value is other.value if self.key is None else self.key == other.key

    def __hash__(self) -> int:
        return hash(id(self.value) if self.key is None else self.key)


def same(value: Any) -> Same:
    """A value as it is compared: numbers, texts and tuples of them by value, NumPy's arrays by content."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return Same(value, ("numpy", value.shape, value.dtype.str, value.tobytes()))
    if isinstance(value, CompositeValue):
        return Same(value, (type(value), np.asarray(value).tobytes()))
    if isinstance(value, float):
        return Same(value, (float, np.float64(value).tobytes()))
    if isinstance(value, _PLAIN):
        return Same(value, (type(value), value))
    if isinstance(value, (set, frozenset)) and all(isinstance(x, _PLAIN) for x in value):
        return Same(value, (type(value), frozenset(value)))
    return Same(value)


# The shapes of trees. They compare by content, so that a function is traced once for all that are equal.


@dataclass(frozen=True)
class Fixed:
    """A value that stays what it is."""

    value: Same


@dataclass(frozen=True)
class Shown:
    """An array: a view of the memory with that number."""

    memory: int
    layout: View


@dataclass(frozen=True)
class Leaf:
    """A JAX value, or a number that is traced: the one with that number."""

    number: int


@dataclass(frozen=True)
class Listed:
    """A list, a tuple, or a tuple with names."""

    kind: type
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Mapped:
    """A dict."""

    kind: type
    keys: tuple[Hashable, ...]
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Structs:
    """An array of structs with those of its fields, by name."""

    kind: Any
    names: tuple[str, ...]
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Object:
    """An object with its attributes, by name."""

    kind: type
    names: tuple[str, ...]
    items: tuple[Any, ...]
    number: int


@dataclass(frozen=True)
class Again:
    """The object with that number once more."""

    number: int


Node = Fixed | Shown | Leaf | Listed | Mapped | Structs | Object | Again


class Reader:
    """Reads trees: `memories` are those of the arrays in them, `values` the JAX values and traced numbers.

    Arrays of one memory stay views of one memory. `paths` says where each memory was found first. Arrays in what cannot
    be taken apart are refused, or else no part of the shape.
    """

    def __init__(self, before: Reader | None = None, refuses: bool = True) -> None:
        self._refuses = refuses
        # An object with a number keeps it, also if it appears again later.
        self.memories: list[Memory] = list(before.memories) if before else []
        self.paths: list[str] = list(before.paths) if before else []
        self.layouts: list[list[View]] = [list(views) for views in before.layouts] if before else []
        self.values: list[Any] = list(before.values) if before else []
        self.value_paths: list[str] = list(before.value_paths) if before else []
        self._numbers: dict[int, int] = dict(before._numbers) if before else {}
        self._values: dict[int, int] = dict(before._values) if before else {}
        self._objects: dict[int, int] = dict(before._objects) if before else {}
        self._kept: list[Any] = list(before._kept) if before else []  # what identities are of
        self._seen: set[int] = set()
        # The ids of grids, trees, meshes and volumes, 0 for those that have none, by the numbers of the objects.
        self.ids: dict[int, int] = {}

    def read(self, value: Any, path: str, *, traces_floats: bool = False) -> Node:
        """The shape of a tree. Floats are traced where `traces_floats`: of arguments themselves."""
        if isinstance(value, StructArray):
            items = tuple(self.read(part, f"{path}.{name}") for name, part in value.parts.items())
            return Structs(value.dtype, tuple(value.parts), items)
        if isinstance(value, array):
            return self._array(value, path)
        if isinstance(value, jax.Array) or (traces_floats and isinstance(value, (float, np.floating))):
            return self._value(value, path)
        if isinstance(value, (list, tuple)):
            items = tuple(self.read(x, f"{path}[{k}]") for k, x in enumerate(value))
            return Listed(type(value), items)
        if isinstance(value, dict) and all(isinstance(k, Hashable) for k in value):
            items = tuple(self.read(x, f"{path}[{k!r}]") for k, x in value.items())
            return Mapped(type(value), tuple(value), items)
        names = attributes(value)
        if names is None or not can_be_made_again(type(value)):
            if self._refuses:
                self._refuse_hidden(value, names or (), path)
            return Fixed(same(value))
        number = self._objects.setdefault(id(value), len(self._objects))
        if number in self._seen:
            return Again(number)
        self._seen.add(number)
        self._kept.append(value)
        if isinstance(value, Geometry):
            self.ids[number] = value.number or value.stands_for
            if compat.is_not_tracing():
                _ = value.arrays  # makes those of NumPy's JAX's, which are traced
        items = tuple(self.read(getattr(value, name), f"{path}.{name}") for name in names)
        return Object(type(value), names, items, number)

    def _refuse_hidden(self, value: Any, names: Sequence[str], path: str) -> None:
        """Refuse arrays in what is not looked into: what they hold would be that of the first call forever."""
        inside = [(f"'{path}.{name}'", getattr(value, name)) for name in names]
        if isinstance(value, (set, frozenset, collections.deque)):
            inside += [(f"an element of '{path}'", x) for x in value]
        for where, x in inside:
            if isinstance(x, (array, jax.Array)):
                raise KernelTypeError(
                    f"{where} is an array in an object of {type(value).__name__}, which cannot be taken apart",
                    hint="keep it in a list, a tuple, a dict, or an object of a class written in Python",
                )

    def read_whole(self, value: Any, path: str) -> Node:
        """As `read` of fixed numbers, where objects that other trees have, too, are looked into once more."""
        self._seen.clear()
        return self.read(value, path)

    def _value(self, value: Any, path: str) -> Node:
        number = self._values.get(id(value)) if isinstance(value, jax.Array) else None
        if number is None:
            number = len(self.values)
            self._values[id(value)] = number
            self.values.append(value)
            self.value_paths.append(path)
        return Leaf(number)

    def _array(self, a: array, path: str) -> Node:
        if a.device is None:
            return Fixed(Same(a))
        is_wide = a.layout.dtype.itemsize == 8 and not a.memory.is_traced
        if is_wide and (not compat.x64_enabled() or _has_ids(a)):
            # JAX cannot hold it, or it says what other operands there are: a part of the program, as it is now.
            return Fixed(Same(a, ("array", id(a.memory), a.memory.version, a.layout)))
        number = self._numbers.get(id(a.memory))
        if number is None:
            number = self._numbers[id(a.memory)] = len(self.memories)
            self.memories.append(a.memory)
            self.paths.append(path)
            self.layouts.append([])
        self.layouts[number].append(a.layout)
        return Shown(number, a.layout)


def _has_ids(a: array) -> bool:
    """True for an array of ids of grids, trees, meshes and volumes that are alive."""
    return a.dtype is uint64 and isinstance(a.memory, HostMemory) and are_ids(a.host())


def can_be_made_again(kind: type) -> bool:
    """True if objects of a class can be made without `__init__`: the class derives from none that is written in C."""
    makers = (vars(base).get("__new__") for base in kind.__mro__)
    return next(make for make in makers if isinstance(make, types.BuiltinFunctionType)) is object.__new__


class OfAttributes:
    """Base of jwarp's own classes whose objects are what their attributes are, as those of programs."""


def attributes(value: Any) -> tuple[str, ...] | None:
    """The names of the attributes that make an object; None for what is not looked into."""
    if isinstance(value, (*_PLAIN, *_CLOSED, array, np.ndarray, CompositeValue, float)):
        return None
    if isinstance(value, Struct):
        return tuple(type(value).fields)
    if isinstance(value, Geometry):
        return tuple(name for name in vars(value) if name != "version" and name not in UNCOPIED)
    module = type(value).__module__
    is_own = module.partition(".")[0] in ("jwarp", "jax", "jaxlib", "numpy", "builtins")
    if is_own and not isinstance(value, OfAttributes):
        return None
    found = getattr(value, "__dict__", None)
    names = list(found) if found is not None else []
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [n for n in ((slots,) if isinstance(slots, str) else slots) if hasattr(value, n) and n != "__dict__"]
    if found is None and not names:
        return None
    return tuple(dict.fromkeys(names))


def whole_of(layouts: list[View]) -> View:
    """A contiguous view of all that some views of one memory show."""
    low, high = min(v.bounds[0] for v in layouts), max(v.bounds[1] for v in layouts)
    for layout in layouts:
        if layout.is_contiguous and layout.bounds == (low, high):
            return layout
    first = scalar_of(min(layouts, key=lambda v: v.dtype.itemsize).element)
    itemsize = first.dtype.itemsize
    return View(first, ((high - low) // itemsize,), (itemsize,), low)


class Writer:
    """Makes trees of shapes: `memories` by number, with what is to be subtracted from offsets, and `values`."""

    def __init__(self, memories: list[tuple[Memory, int]], values: list[Any]):
        self.memories, self.values = memories, values
        self._objects: dict[int, Any] = {}

    def made(self, numbers: Mapping[int, Any]) -> dict[Any, Any]:
        """The objects with these numbers, by what the numbers are mapped to."""
        return {key: self._objects[number] for number, key in numbers.items() if number in self._objects}

    def make(self, node: Node) -> Any:
        """The tree of a shape."""
        match node:
            case Fixed(value):
                return value.value
            case Leaf(number):
                return self.values[number]
            case Shown(number, layout):
                memory, start = self.memories[number]
                return array.of(memory, View(layout.element, layout.shape, layout.strides, layout.offset - start))
            case Listed(kind, items):
                made: list[Any] = [self.make(item) for item in items]
                if issubclass(kind, tuple):
                    return tuple.__new__(kind, made)
                listed: Any = list.__new__(kind)
                list.extend(listed, made)
                return listed
            case Mapped(kind, keys, items):
                found = dict(zip(keys, map(self.make, items), strict=True))
                return found if kind is dict else _filled(kind, found)
            case Structs(kind, names, items):
                return StructArray.joined(kind, dict(zip(names, map(self.make, items), strict=True)))
            case Again(number):
                return self._objects[number]
            case Object(kind, names, items, number):
                made_object: Any = (Geometry if issubclass(kind, Geometry) else object).__new__(kind)
                self._objects[number] = made_object
                for name, item in zip(names, items, strict=True):
                    object.__setattr__(made_object, name, self.make(item))
                return made_object
        raise AssertionError(node)


def _filled(kind: type, found: Mapping[Any, Any]) -> Any:
    made: Any = dict.__new__(kind)
    made.update(found)
    return made


def changed_paths(before: Node, after: Node, path: str) -> Iterator[str]:
    """Where two shapes of one tree differ."""
    if before == after:
        return
    match before, after:
        case Object(_, names, items), Object(_, others, more):
            yield from _changed_parts(
                dict(zip(names, items, strict=True)),
                dict(zip(others, more, strict=True)),
                lambda name: f"{path}.{name}",
            )
        case Structs(_, names, items), Structs(_, _, more):
            for name, a, b in zip(names, items, more, strict=False):
                yield from changed_paths(a, b, f"{path}.{name}")
        case (Listed(_, items), Listed(_, more)) if len(items) == len(more):
            for k, (a, b) in enumerate(zip(items, more, strict=True)):
                yield from changed_paths(a, b, f"{path}[{k}]")
        case Mapped(_, keys, items), Mapped(_, others, more):
            yield from _changed_parts(
                dict(zip(keys, items, strict=True)),
                dict(zip(others, more, strict=True)),
                lambda key: f"{path}[{key!r}]",
            )
        case _:
            yield path


def _changed_parts(before: Mapping[Any, Node], after: Mapping[Any, Node], place: Callable[[Any], str]) -> Iterator[str]:
    """Where the parts of an object or a dict differ, also those that are there on one side alone."""
    for name in {**before, **after}:
        if name in before and name in after:
            yield from changed_paths(before[name], after[name], place(name))
        else:
            yield place(name)


def memories_in(node: Node) -> Iterator[int]:
    """The numbers of the memories that a tree shows."""
    match node:
        case Shown(number, _):
            yield number
        case Listed(_, items) | Mapped(_, _, items) | Structs(_, _, items) | Object(_, _, items, _):
            for item in items:
                yield from memories_in(item)


def values_in(node: Node) -> Iterator[int]:
    """The numbers of the JAX values in a tree."""
    match node:
        case Leaf(number):
            yield number
        case Listed(_, items) | Mapped(_, _, items) | Structs(_, _, items) | Object(_, _, items, _):
            for item in items:
                yield from values_in(item)
