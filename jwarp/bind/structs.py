"""Structs as JAX pytrees, with their fields in order as children."""

from __future__ import annotations

from typing import Any

import jax

from jwarp.types import Struct, StructType, listen, unchecked


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


listen(_register)

__all__ = ["Struct"]
