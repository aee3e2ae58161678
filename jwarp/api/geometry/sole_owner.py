"""Tells whether a tree or mesh is alone in having its arrays, so that it may write to them instead of making others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from jwarp.api.geometry.arrays import fixed
from jwarp.types import Geometry, Struct
from jwarp.types.handles import mark


def is_alone(owner: Geometry, names: Sequence[str]) -> bool:
    """True if the tree or mesh has the only references to the arrays in its attributes `names`.

    Who has one counts on what is in it: a record, a tape, a copy of the mesh, a launch in another thread, JAX. So the
    references to it are counted, and there must be no more than those of `owner` and of what the layer that launches
    keeps with it. Where that is of another state, it is let go of here.
    """
    parts, count = vars(owner), 1
    if parts.get("cached") is not None and parts["cached"].state is not owner.state:
        owner.cached = None
    if parts.get("cached") is not None:
        # Its struct and its leaves have each array once.
        if _count(parts, "cached") != 1 or not _is_alone(parts["cached"].struct):
            return False
        if sys.getrefcount(parts["cached"].struct) != _OF_ITEM or sys.getrefcount(parts["cached"].leaves) != _OF_ITEM:
            return False
        count = 3
    if not parts.get("repeat"):
        return all(fixed(parts[name]) and _count(parts, name) == count for name in names)
    views = [_views(parts, name) for name in names]
    return all(
        fixed(parts[name]) and _count(parts, name) == count + more for name, more in zip(names, views, strict=True)
    )


def stay(owner: Geometry, numbers: Sequence[str]) -> None:
    """Let launches go on with the arrays of a tree or mesh, which have been written to, and with other numbers."""
    owner.version += 1
    known = owner.cached
    if known is not None:
        known.state = owner.state
        for name in numbers:
            getattr(known.struct, name)[...] = getattr(owner, name)
        mark(known.struct, owner)


def _views(parts: Any, name: str) -> int:
    """How many views of a part there are in what repeats refits."""
    return int(parts["repeat"].views_of(parts[name]))


def _count(parts: Any, name: str) -> int:
    """How many have a part. It is no variable here, which would count."""
    return sys.getrefcount(parts[name]) - _OF_ITEM + 1


def _count_in(struct: Struct, name: str) -> int:
    return sys.getrefcount(getattr(struct, name)) - _OF_ITEM + 1


def _is_alone(struct: Struct) -> bool:
    """True if nothing else refers to the structs and number copies in a struct."""
    for name in type(struct).fields:
        part = None  # which would count
        count = _count_in(struct, name)
        part = getattr(struct, name)
        if isinstance(part, Struct):
            if count != 1 or not _is_alone(part):
                return False
        elif isinstance(part, np.ndarray) and not part.ndim and count != 2:
            return False
    return True


_ONE = [object()]
_OF_ITEM = sys.getrefcount(_ONE[0])  # of what only one has
