"""In programs, one object for a function and its options, as Warp's wrappers for JAX are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from jwarp.caches import Cache
from jwarp.config import surface

Made = TypeVar("Made")


def made_once(
    cache: Cache[Any, Made], function: Hashable, options: Mapping[str, Any], make: Callable[[], Made]
) -> Made:
    """The wrapper that `make` gives: in programs, one for all calls with this function and these options.

    Elsewhere each one is made anew, as it is traced with what `function` refers to by then.
    """
    if not surface.is_warps:
        return make()
    # Options that are left out, None and no names are the same; as a shape, () is another one than None.
    named = {k: v for k, v in options.items() if k == "output_dims" or not _is_nothing(v)}
    try:
        key = (function, _frozen(named))
        hash(key)
    except TypeError:
        return make()
    return cache.made(key, make)


def _frozen(option: Any) -> Any:
    """The option as a part of a key."""
    if isinstance(option, Mapping):
        return tuple(sorted((name, _frozen(value)) for name, value in option.items()))
    if isinstance(option, (list, tuple)):
        return tuple(_frozen(item) for item in option)
    return option


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, (tuple, list)) and not value)
