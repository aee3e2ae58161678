"""Structs as JAX pytrees, with their fields in order as children, and as arguments of exported functions."""

from __future__ import annotations

import collections
import json
from typing import Any

import jax
import jax.export

from jwarp.errors import KernelTypeError
from jwarp.types import Struct, StructType, indexed_of, indexedarray, listen, unchecked

# How many structs of a name there have been: JAX takes each name once. Who runs a cell of a notebook again, or a
# function that defines a struct, gets another struct of the same name.
_defined: collections.Counter[str] = collections.Counter()


def _register(kind: StructType) -> None:
    names = tuple(kind.fields)
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in names)

    def with_keys(value: Any) -> tuple[tuple[Any, ...], None]:
        return tuple((key, getattr(value, name)) for key, name in zip(keys, names, strict=True)), None

    def children(value: Any) -> tuple[tuple[Any, ...], None]:
        return tuple(getattr(value, name) for name in names), None

    def made(_: None, parts: Any) -> Any:
        return unchecked(kind, tuple(parts))

    jax.tree_util.register_pytree_with_keys(kind, with_keys, made, children)

    def read(written: bytes) -> None:
        if (found := tuple(json.loads(written))) != names:
            raise KernelTypeError(f"struct {kind!r} was exported with the fields {found}, and has {names} now")

    name = f"{kind.__module__}.{kind.__qualname__}"
    _defined[name] += 1
    jax.export.register_pytree_node_serialization(
        kind,  # type: ignore[arg-type]
        serialized_name=name if _defined[name] == 1 else f"{name}#{_defined[name]}",
        serialize_auxdata=lambda _: json.dumps(names).encode(),
        deserialize_auxdata=read,
    )


listen(_register)


def _indexed_children(value: indexedarray) -> tuple[tuple[Any, ...], None]:
    keys = (jax.tree_util.GetAttrKey("data"), *map(jax.tree_util.SequenceKey, range(len(value.indices))))
    return tuple(zip(keys, (value.data, *value.indices), strict=True)), None


jax.tree_util.register_pytree_with_keys(
    indexedarray,
    _indexed_children,
    lambda _, parts: indexed_of(list(parts)),
    lambda value: ((value.data, *value.indices), None),
)
jax.export.register_pytree_node_serialization(
    indexedarray,
    serialized_name="jwarp.indexedarray",
    serialize_auxdata=lambda _: b"",
    deserialize_auxdata=lambda _: None,
)

__all__ = ["Struct"]
