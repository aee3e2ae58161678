"""Structs as JAX pytrees, whose children are the fields in order, and as arguments of exported functions."""

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
    names = tuple(name for name in kind.fields if name not in kind.static)
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in names)

    def constants(value: Any) -> tuple[Any, ...] | None:
        return tuple(getattr(value, name) for name in kind.static) or None

    def with_keys(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
        return tuple((key, getattr(value, name)) for key, name in zip(keys, names, strict=True)), constants(value)

    def children(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
        return tuple(getattr(value, name) for name in names), constants(value)

    def made(about: tuple[Any, ...] | None, parts: Any) -> Any:
        if about is None:
            return unchecked(kind, tuple(parts))
        return unchecked(kind, {**dict(zip(names, parts, strict=True)), **dict(zip(kind.static, about, strict=True))})

    jax.tree_util.register_pytree_with_keys(kind, with_keys, made, children)

    def written(about: tuple[Any, ...] | None) -> bytes:
        return json.dumps(names if about is None else [names, about]).encode()

    def read(text: bytes) -> tuple[Any, ...] | None:
        known = json.loads(text)
        found, about = (known[0], tuple(known[1])) if kind.static else (known, None)
        if tuple(found) != names:
            raise KernelTypeError(f"struct {kind!r} was exported with the fields {tuple(found)}, and has {names} now")
        return about

    name = f"{kind.__module__}.{kind.__qualname__}"
    _defined[name] += 1
    jax.export.register_pytree_node_serialization(
        kind,  # type: ignore[arg-type]
        serialized_name=name if _defined[name] == 1 else f"{name}#{_defined[name]}",
        serialize_auxdata=written,
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
