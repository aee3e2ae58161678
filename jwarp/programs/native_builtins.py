"""`warp._src.context.runtime.core`: Warp's native builtins by their names there, for libraries that call these."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import jwarp
from jwarp.arrays import allocation_counts
from jwarp.frontend.builtins.table import BUILTINS, LIBRARY
from jwarp.types import NAMED, CompositeValue
from jwarp.types.scalars import SCALARS

_PREFIX = "wp_builtin_"


class Core:
    """Has `wp_builtin_NAME_TYPES(arguments…, byref(result))` for each builtin: it writes to the result."""

    def __init__(self, missing: Callable[[str], str | None]):
        self._missing = missing

    def wp_is_mathdx_enabled(self) -> bool:
        """False: products and factors of tiles are jwarp's own code."""
        return False

    def wp_is_debug_enabled(self) -> bool:
        """False: no library of Warp's is there."""
        return False

    _shows_errors = True

    def wp_is_error_output_enabled(self) -> bool:
        """The switch for messages of Warp's library, of which there are none."""
        return self._shows_errors

    def wp_set_error_output_enabled(self, shows: bool) -> None:
        """Set that switch."""
        self._shows_errors = bool(shows)

    def wp_alloc_tracker_is_enabled(self) -> bool:
        """True while the memory of arrays is counted."""
        return allocation_counts.is_counting()

    def wp_alloc_tracker_reset(self) -> None:
        """Clear these counts."""
        allocation_counts.clear()

    def wp_alloc_tracker_get_total_alloc_count(self) -> int:
        """The number of allocations."""
        return allocation_counts.totals().made

    def wp_alloc_tracker_get_total_alloc_bytes(self) -> int:
        """Their size in bytes."""
        return allocation_counts.totals().made_bytes

    def wp_alloc_tracker_get_live_count(self) -> int:
        """The number of those that are alive."""
        return allocation_counts.totals().live

    def wp_alloc_tracker_get_current_bytes(self) -> int:
        """Their size in bytes."""
        return allocation_counts.totals().current

    def wp_alloc_tracker_get_peak_bytes(self) -> int:
        """The largest that this has been."""
        return allocation_counts.totals().peak

    def __getattr__(self, name: str) -> Any:
        builtin = _builtin(name)
        if builtin is None:
            raise AttributeError(self._missing(name), name=name)
        _let_byref_take_composites()
        return functools.partial(_call, builtin)


def _builtin(name: str) -> Any:
    """The builtin of a native name, None if there is none."""
    words = name.removeprefix(_PREFIX).split("_") if name.startswith(_PREFIX) else []
    for count in range(len(words), 0, -1):
        known = "_".join(words[:count])
        if (known in BUILTINS or known in LIBRARY) and all(word in _TYPES for word in words[count:]):
            return getattr(jwarp, known)
    return None


# The names of types as they stand in the names of functions.
_TYPES = {*NAMED, *SCALARS, *(f"{name}f" for name in NAMED), "int", "uint", "float"}


def _call(builtin: Any, *arguments: Any) -> None:
    *given, result = arguments
    _store(result._obj, builtin(*[getattr(x, "value", x) if isinstance(x, ctypes._SimpleCData) else x for x in given]))


def _store(into: Any, value: Any) -> None:
    if isinstance(into, np.ndarray):
        into.view(np.ndarray)[...] = value
    else:
        into.value = value


class _Reference:
    """The result of `ctypes.byref` for a vector or matrix of jwarp's."""

    def __init__(self, value: CompositeValue):
        self._obj = value


_byref = ctypes.byref


def _reference(obj: Any, offset: int = 0) -> Any:
    return _Reference(obj) if isinstance(obj, CompositeValue) else _byref(obj, offset)


def _let_byref_take_composites() -> None:
    """Let `ctypes.byref` take vectors and matrices of jwarp's, which are arrays, where Warp's are of ctypes.

    It is another function from the first native builtin on that a program asks for: in no other program.
    """
    ctypes.byref = _reference
