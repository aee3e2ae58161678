"""Cached arguments of launches for grids, trees and meshes, valid until these change."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.bind.compat import Tracer, is_not_tracing
from jwarp.caches import Cache
from jwarp.devices import Device
from jwarp.types import ArrayType, Geometry, Struct, arrays_of
from jwarp.types.handles import Id, mark
from jwarp.types.structs import unchecked


class CachedContent:
    """The content of a grid, tree, mesh or volume, with NumPy's arrays but for those that change or are on a GPU.

    Attributes:
        struct: What a kernel is given.
        leaves: The struct, taken apart.
        arrays: Those of the leaves that change or are on a GPU.
        spans: Where the others are, from the first byte to the one after the last.
        kind: What all have in common whose leaves have equal layouts, but for `arrays`.
    """

    __slots__ = ("arrays", "kind", "leaves", "spans", "state", "struct")

    def __init__(self, struct: Struct, state: object):
        self.struct, self.state = struct, state
        self.leaves = tuple(leaves_of(struct))
        self.arrays = tuple(leaf for leaf in self.leaves if type(leaf) is array)
        self.spans = tuple(
            np.lib.array_utils.byte_bounds(x) for x in self.leaves if isinstance(x, np.ndarray) and x.size
        )
        self.kind: object = _KINDS.made((type(struct), *map(_kind, self.leaves)), object)


_KINDS: Cache[tuple[Any, ...], object] = Cache("kinds of grids, trees and meshes", 256)


def cached_content(value: Any) -> CachedContent | None:
    """The present content of a grid, tree, mesh or volume, or of the one of an id.

    It is None where that is not in host memory as a whole, or could change unseen, or JAX traces it.
    """
    owner: Geometry = value.owner if type(value) is Id else value
    state = owner.state
    known: CachedContent | None = owner.cached
    if known is not None and known.state is state:
        return known
    struct = _changed(owner.in_place, _here)
    if struct is None:
        return None
    if owner.device is not None and owner.device.is_cuda:
        struct = _changed(struct, functools.partial(_copied, device=owner.device))
    mark(struct, owner)
    made = CachedContent(struct, state)
    owner.cached = made
    return made


def struct_of(owner: Geometry) -> Any:
    """The argument for a grid, tree, mesh or volume of a launch that runs now, on mutable arrays."""
    found = cached_content(owner)
    return arrays_of(owner) if found is None else found.struct


def fixed_of(owner: Geometry) -> Any:
    """The argument for a grid, tree, mesh or volume of a launch where no argument changes: its content as it is now."""
    struct: Any = owner.arrays
    changing = {name: part for name in type(struct).fields if isinstance(part := getattr(struct, name), array)}
    return mark(struct.replace(**{name: part.host() for name, part in changing.items()}) if changing else struct, owner)


def reader(is_changing: bool) -> Callable[[Geometry], Any]:
    """The function that reads grids, trees and meshes for a launch, where an argument may be an array that changes."""
    if not is_changing:
        return fixed_of
    return struct_of if is_not_tracing() else arrays_of


def _changed(struct: Struct, change: Callable[[Any, Any], Any]) -> Any:
    """The struct with what `change` gives for the type and value of each leaf; None where it gives None for one."""
    parts = {}
    for name, kind in type(struct).fields.items():
        value = getattr(struct, name)
        parts[name] = _changed(value, change) if isinstance(value, Struct) else change(kind, value)
        if parts[name] is None:
            return None
    return unchecked(type(struct), parts)


def _here(kind: Any, leaf: Any) -> Any:
    """The leaf with an array as NumPy has it; None where that cannot be."""
    if isinstance(leaf, jax.Array):
        is_known = not isinstance(leaf, Tracer) and leaf.is_fully_addressable
        return np.asarray(leaf) if is_known and {x.platform for x in leaf.devices()} == {"cpu"} else None
    if isinstance(leaf, (np.ndarray, np.generic)):
        # Someone may write to an array of NumPy's, unless it is read-only and no view. Numbers are copied.
        if not isinstance(kind, ArrayType) or not kind.dims or not leaf.size:
            return np.array(leaf)
        return None if leaf.flags.writeable or leaf.base is not None else leaf
    return leaf if type(leaf) in (array, int, float, bool) else None


def _copied(kind: Any, leaf: Any, device: Device) -> Any:
    """The leaf with an array on a GPU for one that is here."""
    is_array = isinstance(leaf, np.ndarray) and isinstance(kind, ArrayType) and kind.dims
    return array(leaf, dtype=kind.element, device=device) if is_array else leaf


def leaves_of(struct: Struct) -> Iterator[Any]:
    """The values in a struct, those of structs inside of it taken apart, in order."""
    for name in type(struct).fields:
        value = getattr(struct, name)
        if isinstance(value, Struct):
            yield from leaves_of(value)
        else:
            yield value


def _kind(leaf: Any) -> Any:
    """The layout of a leaf, which is equal for leaves that a launch does not tell apart."""
    return (leaf.shape, leaf.strides, leaf.dtype) if isinstance(leaf, np.ndarray) else type(leaf)
