"""Kernels with a module to themselves; in programs, equal definitions of such a kernel are one object."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from typing import Any

from jwarp.config import surface
from jwarp.frontend.content import content_of
from jwarp.frontend.kernel_base import Kernel
from jwarp.frontend.modules import get_module

_numbers = itertools.count(1)
# By the digests of what they are made from. They live as long as something else refers to them.
_known: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def in_its_own_module(made: Any, module_options: Mapping[str, Any]) -> Kernel:
    """The kernel in a module of its own, with these options; in programs an earlier kernel that is equal to it.

    Kernels are equal if their functions are the same text at the same place, and all that these name is equal.
    """
    digest = _digest(made) if surface.is_warps else None
    if digest is not None:
        earlier = _known.get(digest)
        # It has what its names meant when it was first read.
        if earlier is not None and _digest(earlier) == digest:
            found: Kernel = earlier
            return found
        _known[digest] = made
    module = get_module(f"{made.python.__module__}_{made.key}_{next(_numbers)}")
    if module_options and surface.is_warps:
        module.set_options(dict(module_options))
    made.belongs_to(module, is_unique=True)
    return made


def _digest(kernel: Any) -> str | None:
    """Of a kernel's content, options and name; None where that is unknown."""
    about = repr((kernel.name, sorted(kernel.options.items()), kernel._enable_backward))
    content = content_of(kernel.python, kernel._first_read or kernel.definition, about, kernel.signature)
    return None if content is None else content.digest
