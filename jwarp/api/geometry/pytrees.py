"""Lets JAX know of grids, trees and meshes: their arrays are leaves, what says how they were built is not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from jwarp.api.geometry.arrays import fixed
from jwarp.arrays.array import array
from jwarp.bind.compat import is_not_tracing
from jwarp.types import Geometry
from jwarp.types.handles import Id


def as_jax(value: Any, names: Sequence[str]) -> None:
    """Make JAX's of the attributes of a grid, tree, mesh or volume that are NumPy's and that nobody can write to."""
    if is_not_tracing():
        found = {name: part for name in names if fixed(part := getattr(value, name))}
        for name, part in zip(found, jax.device_put(list(found.values())), strict=True):
            setattr(value, name, part)


def _kept(leaf: Any) -> Any:
    """A leaf that stays what it is: of an array that others may write to, a copy. Those of ours are pytrees."""
    if isinstance(leaf, (jax.Array, array)) or fixed(leaf) or not hasattr(leaf, "__dlpack__"):
        return leaf
    made = np.array(leaf)
    made.flags.writeable = False
    return made


def register(kind: type[Geometry], leaves: Sequence[str], static: Sequence[str]) -> None:
    """Make a class a pytree of the attributes `leaves`; `static` has numbers, texts and tuples of such.

    Its objects are made anew without being initialised, from leaves of any kind.
    """
    keys = tuple(map(jax.tree_util.GetAttrKey, leaves))

    def children(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        as_jax(value, leaves)
        return tuple(_kept(getattr(value, name)) for name in leaves), tuple(getattr(value, name) for name in static)

    def with_keys(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        found, about = children(value)
        return tuple(zip(keys, found, strict=True)), about

    def made(about: tuple[Any, ...], found: Iterable[Any]) -> Any:
        value = Geometry.__new__(kind)
        for name, part in zip((*leaves, *static), (*found, *about), strict=True):
            object.__setattr__(value, name, part)
        return value

    def written(about: Sequence[Any]) -> bytes:
        return json.dumps(about).encode()

    def read(text: bytes) -> tuple[Any, ...]:
        return tuple(tuple(part) if isinstance(part, list) else part for part in json.loads(text))

    jax.tree_util.register_pytree_with_keys(kind, with_keys, made, children)
    jax.export.register_pytree_node_serialization(
        kind, serialized_name=f"jwarp.{kind.__name__}", serialize_auxdata=written, deserialize_auxdata=read
    )


# The id of an object is what the object is: structs with ids in them go through transformations of JAX, too.
jax.tree_util.register_pytree_node(Id, lambda id: ((id.owner,), None), lambda about, owner: Id(*owner))
