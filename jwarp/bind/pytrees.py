"""Arrays, and objects that hold them, as JAX pytrees."""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.content import elements_of
from jwarp.arrays.memory import Memory
from jwarp.arrays.overlap import overlap
from jwarp.arrays.struct_array import StructArray
from jwarp.arrays.subclasses import plain
from jwarp.arrays.view import Element, View, components_of
from jwarp.bind.traced_memory import Shaped, TracedMemory, value_of
from jwarp.bind.trees import Same, attributes, can_be_made_again, same
from jwarp.caches import Cache
from jwarp.devices import CPU
from jwarp.errors import JwarpError, KernelTypeError, LaunchError
from jwarp.types import Struct, annotations_of


class _Anything(Memory):
    """The memory of an array around something that JAX puts in the place of a value: None, a shape, an axis."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: Any):
        super().__init__(CPU)
        self.leaf = leaf

    def read(self, view: View) -> Any:
        raise LaunchError(
            f"an array was made of a pytree whose leaf is {type(self.leaf).__name__} {str(self.leaf)[:60]}, and holds"
            " nothing"
        )

    def write(self, view: View, value: Any) -> None:
        self.read(view)

    def expose(self, view: View) -> Any:
        return self.read(view)

    def _save(self) -> None:
        """Nothing is written."""


def _flatten(a: array) -> tuple[tuple[Any, ...], Any]:
    if a.device is None:
        return (), Same(a)
    if isinstance(a.memory, _Anything):
        return (a.memory.leaf,), a.dtype
    return (value_of(a.memory, a.layout),), a.dtype


def _unflatten(kind: Any, leaves: Iterable[Any]) -> array:
    for leaf in leaves:
        return around(leaf, kind)
    return kind.value


def around(leaf: Any, element: Element) -> array:
    """The array that holds a JAX value, with the axes of components last; around anything else, one that is empty."""
    rank = len(components_of(element))
    if isinstance(leaf, (jax.Array, np.ndarray)) and leaf.ndim > rank:
        return array.of(TracedMemory(jnp.asarray(leaf)), View.whole(element, leaf.shape[: leaf.ndim - rank]))
    shape = tuple(getattr(leaf, "shape", ()))[: max(0, len(getattr(leaf, "shape", ())) - rank)]
    return array.of(_Anything(leaf), View.whole(element, shape))


def _register_arrays(kind: type[array]) -> None:
    """Let JAX take arrays of a class apart; what it makes of the parts is a plain `array`."""
    jax.tree_util.register_pytree_with_keys(
        kind,
        lambda a: (tuple((jax.tree_util.FlattenedIndexKey(0), x) for x in _flatten(a)[0]), _flatten(a)[1]),
        _unflatten,
        _flatten,
    )


_register_arrays(array)


jax.tree_util.register_pytree_with_keys(
    StructArray,
    lambda a: (
        tuple((jax.tree_util.GetAttrKey(name), part) for name, part in a.parts.items()),
        (a.dtype, tuple(a.parts)),
    ),
    lambda rest, parts: StructArray.joined(rest[0], dict(zip(rest[1], parts, strict=True))),
    lambda a: (tuple(a.parts.values()), (a.dtype, tuple(a.parts))),
)


# Objects

_registered = Cache[type, bool]("classes that JAX takes apart", "classes, which JAX keeps, too")


@dataclass(frozen=True)
class _Rest:
    """The structure of an object: its attributes in order, those that are parts, and the values of the others.

    Attributes in `again` are the same array as another one.
    """

    names: tuple[str, ...]
    parts: tuple[str, ...]
    values: tuple[tuple[str, Same], ...]
    again: tuple[tuple[str, str], ...]


def register_pytree(kind: type) -> type:
    """Register a class as a JAX pytree whose leaves are the arrays in its objects. Does nothing if JAX knows the class.

    Attributes that hold arrays, or objects of registered classes, are parts of the pytree. All others are part of its
    structure, and are compared by value, or else by identity. Objects are rebuilt without calling `__init__`.

    Raises:
        KernelTypeError: `cls` is not a class whose objects have attributes.

    Example:
        >>> wp.register_pytree(State)
        >>> jax.jit(step_fn)(state)
    """
    if not isinstance(kind, type) or kind.__module__ == "builtins" or not can_be_made_again(kind):
        raise KernelTypeError(f"wp.register_pytree: {kind!r} is no class of objects with attributes")
    if kind in _registered or issubclass(kind, Struct):
        return kind
    if issubclass(kind, array) and not issubclass(kind, StructArray):
        _register_arrays(kind)
        _registered.keep(kind, True)
        return kind

    def children(value: Any) -> tuple[tuple[Any, ...], _Rest]:
        rest = _rest_of(value)
        return tuple(getattr(value, name) for name in rest.parts), rest

    def with_keys(value: Any) -> tuple[tuple[Any, ...], _Rest]:
        parts, rest = children(value)
        keys = map(jax.tree_util.GetAttrKey, rest.parts)
        return tuple(zip(keys, parts, strict=True)), rest

    def made(rest: _Rest, parts: Iterable[Any]) -> Any:
        new: Any = object.__new__(kind)
        found = dict(zip(rest.parts, parts, strict=True))
        found.update((name, value.value) for name, value in rest.values)
        for name, other in rest.again:
            found[name] = found[other]
        for name in rest.names:
            object.__setattr__(new, name, found[name])
        return new

    try:
        jax.tree_util.register_pytree_with_keys(kind, with_keys, made, children)
    except ValueError:
        return kind  # JAX knows it
    _registered.keep(kind, True)
    return kind


def _rest_of(value: Any) -> _Rest:
    names = attributes(value) or ()
    parts: list[str] = []
    values: list[tuple[str, Same]] = []
    again: list[tuple[str, str]] = []
    known: dict[Any, str] = {}
    views: dict[int, list[str]] = {}  # by memory
    for name in names:
        part = plain(getattr(value, name))
        if type(part) is array and part.device is not None and not isinstance(part.memory, _Anything):
            first = known.setdefault((id(part.memory), part.layout), name)
            if first != name:
                again.append((name, first))
                continue
            _refuse_overlap(value, name, views.setdefault(id(part.memory), []))
        if is_part(part, f"{type(value).__name__}.{name}"):
            parts.append(name)
        else:
            values.append((name, same(part)))
    return _Rest(names, tuple(parts), tuple(values), tuple(again))


def _refuse_overlap(value: Any, name: str, others: list[str]) -> None:
    """As leaves of a pytree, views of one memory would become arrays of their own."""
    for other in others:
        if overlap(getattr(value, name), getattr(value, other)):
            kind = type(value).__name__
            raise LaunchError(
                f"{kind}.{other} and {kind}.{name} show elements of each other, which JAX would part",
                hint="wp.functionalize keeps them views of one array; or let JAX see one of them",
            )
    others.append(name)


def is_part(value: Any, where: str) -> bool:
    """True if an attribute is a part of a pytree, and does not belong to its structure.

    Raises:
        KernelTypeError: it holds arrays, and is an object of a class that JAX does not know.
    """
    if isinstance(value, (array, jax.Array)):
        return True
    if isinstance(value, (list, tuple)):
        return any(is_part(x, where) for x in value)
    if isinstance(value, dict):
        return any(is_part(x, where) for x in value.values())
    if isinstance(value, Struct) or type(value) in _registered:
        return True
    names = attributes(value)
    if names is None:
        return False
    if not jax.tree_util.all_leaves([value]):
        return True  # a class that someone else registered
    if any(isinstance(getattr(value, name), (array, jax.Array)) for name in names):
        raise KernelTypeError(
            f"{where} is an object of {type(value).__name__}, which holds arrays, and JAX cannot take it apart",
            hint=f"wp.register_pytree({type(value).__name__})",
        )
    return False


_NOT_OURS = ("builtins", "typing", "jwarp", "jax", "jaxlib", "numpy", "enum")


def register_annotated(func: Any) -> None:
    """Register the classes in the annotations of a function, and those in the annotations of their attributes."""
    seen: set[type] = set()

    def visit(annotation: Any) -> None:
        for inner in typing.get_args(annotation):
            visit(inner)
        if not isinstance(annotation, type) or annotation in seen:
            return
        seen.add(annotation)
        module = annotation.__module__.partition(".")[0]
        if module in _NOT_OURS or issubclass(annotation, Struct):
            return
        if issubclass(annotation, enum.Enum) or not can_be_made_again(annotation):
            return
        register_pytree(annotation)
        for hint in _hints(annotation).values():
            visit(hint)

    for hint in _hints(func).values():
        visit(hint)


def _hints(of: Any) -> dict[str, Any]:
    """The annotations; not those whose names are known to type checkers only."""
    return {k: v for k, v in annotations_of(of).items() if not isinstance(v, str)}


def replace(obj: Any, /, **values: Any) -> Any:
    """A copy of an object with some array attributes replaced. JAX values become arrays of the replaced type.

    If an attribute is a view of a replaced array, it becomes the same view of the new array.

    Raises:
        KernelTypeError: There is no such attribute, it cannot hold the value, or another attribute shares memory with a
            replaced array and cannot follow it.

    Example:
        >>> moved = wp.replace(state, x=jnp.zeros((4, 3)))
    """
    names = attributes(obj)
    if names is None or not can_be_made_again(type(obj)):
        raise KernelTypeError(f"wp.replace: a {type(obj).__name__} has no attributes that arrays could be")
    for name in values:
        if name not in names:
            raise KernelTypeError(f"wp.replace: a {type(obj).__name__} has no attribute {name!r}")
    made: Any = object.__new__(type(obj))
    for name in names:
        before = getattr(obj, name)
        value = values.get(name, before)
        if name in values and isinstance(before, array) and before.device is not None and not isinstance(value, array):
            try:
                _, shaped = elements_of(Shaped(jnp.asarray(value)), before.dtype, None)
                value = around(jnp.reshape(jnp.asarray(value, before.layout.dtype), shaped.shape), before.dtype)
            except JwarpError as error:
                raise KernelTypeError(f"wp.replace: {type(obj).__name__}.{name}: {error.diagnostic.message}") from None
        object.__setattr__(made, name, value)
    for name in values:
        _move_views(obj, made, name, [other for other in names if other not in values])
    return made


def _move_views(obj: Any, made: Any, replaced: str, others: Iterable[str]) -> None:
    """Let the attributes of `made` that are views of what was replaced be views of what stands there now."""
    before, after = getattr(obj, replaced), getattr(made, replaced)
    if not isinstance(before, array) or before.device is None or after is before:
        return
    for name in others:
        view = getattr(obj, name)
        if not isinstance(view, array) or view.device is None or not overlap(view, before):
            continue
        (low, high), (first, end) = view.layout.bounds, before.layout.bounds
        alike = isinstance(after, array) and (after.dtype, after.shape, after.strides) == (
            before.dtype, before.shape, before.strides
        )  # fmt: skip
        if not alike or low < first or high > end or not before.layout.is_contiguous:
            raise KernelTypeError(
                f"wp.replace: {type(obj).__name__}.{name} shares memory with {replaced}, and is no view of an array "
                f"{after!r} in its place",
                hint=f"give {name}, too: wp.replace(…, {replaced}=…, {name}=…)",
            )
        shown = view.layout
        offset = shown.offset - before.layout.offset + after.layout.offset
        object.__setattr__(made, name, after.seen(View(shown.element, shown.shape, shown.strides, offset)))
