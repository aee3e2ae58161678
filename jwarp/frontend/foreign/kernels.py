"""Kernels that were defined with NVIDIA Warp, as kernels of jwarp's."""

from __future__ import annotations

import functools
import importlib
import threading
import weakref
from typing import Any

from jwarp.frontend.foreign import warp
from jwarp.frontend.foreign.captured import statics_of, with_bare_names
from jwarp.frontend.kernel import PythonKernel
from jwarp.frontend.kernel_base import Kernel
from jwarp.frontend.meaning import meaning
from jwarp.frontend.syntax.source import Source, read_source


class ForeignKernel(PythonKernel):
    """A `@wp.kernel` of Warp's, whose Python function is compiled by jwarp.

    It has gradients whatever Warp's `enable_backward` says, which is there to spare Warp their compilation.
    """

    def __init__(self, kernel: Any):
        self._statics = statics_of(kernel.adj)
        super().__init__(kernel.func, annotations={name: meaning(kind) for name, kind in kernel.adj.arg_types.items()})
        self._captured = with_bare_names(kernel.func, self._captured)

    @functools.cached_property
    def source(self) -> Source:
        return read_source(self.python, self._captured, self._lines, self._statics)

    def __reduce__(self) -> Any:
        super().__reduce__()  # which refuses what has no name
        return _found, (self.__module__, self.__qualname__)


def _found(module: str, name: str) -> Kernel:
    """The kernel of that name, for pickle."""
    return as_kernel(functools.reduce(getattr, name.split("."), importlib.import_module(module)))


def as_kernel(thing: Any) -> Any:
    """jwarp's kernel for a `warp.Kernel`, the same one each time; anything else is what it is."""
    if isinstance(thing, Kernel):
        return thing
    try:
        found = _made.get(thing)
    except TypeError:  # no weak references to it, or no hash: not a kernel
        return thing
    if found is not None:
        return found
    kind = type(thing)
    if kind.__name__ != "Kernel" or not warp.is_of_warp(kind):
        return thing
    with _lock:
        return _made.get(thing) or _made.setdefault(thing, ForeignKernel(thing))


# One for each kernel of Warp's that is alive.
_made: weakref.WeakKeyDictionary[Any, Kernel] = weakref.WeakKeyDictionary()
_lock = threading.RLock()
