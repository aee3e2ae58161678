"""Kernels that were defined with NVIDIA Warp, as kernels of jwarp's."""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from jwarp import forks
from jwarp.frontend.canonicalise import canonical
from jwarp.frontend.foreign.captured import definition_of
from jwarp.frontend.foreign.warp import is_of_warp
from jwarp.frontend.kernel import Instance, PythonKernel, generic_of
from jwarp.frontend.kernel_base import Kernel


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
    if type(thing).__name__ != "Kernel" or not is_of_warp(type(thing)):
        return thing
    with _lock:
        return _made.get(thing) or _made.setdefault(thing, _kernel_of(thing))


# One for each kernel of Warp's that is alive.
_made: weakref.WeakKeyDictionary[Any, Kernel] = weakref.WeakKeyDictionary()
_lock = forks.Lock(is_shared=True)


def _kernel_of(kernel: Any) -> Kernel:
    """A kernel that compiles the Python function of Warp's.

    It has gradients whatever Warp's `enable_backward` says, which is there to spare Warp their compilation.
    """
    function, annotations = kernel.func, {name: canonical(kind) for name, kind in kernel.adj.arg_types.items()}
    if kernel.generic_parent is not None:
        instance: Kernel = as_kernel(kernel.generic_parent).instance(list(annotations.values()))
        return instance
    definition = definition_of(function, kernel.adj)
    generic = generic_of(function, annotations, lambda kinds: Instance(generic, function, kinds, definition))
    if generic is not None:
        generic.found_elsewhere = functools.partial(_instances_of, weakref.ref(kernel))
    made: Kernel = generic or PythonKernel(function, annotations=annotations, definition=definition)
    made.found_by = _found
    return made


def _instances_of(kernel: weakref.ref[Any]) -> Mapping[Any, Kernel]:
    """The instances that Warp has made of a generic kernel, which are asked for by `wp.overload` or a launch."""
    found = kernel()
    return _Instances({} if found is None else found.overloads)


class _Instances(Mapping[Any, Kernel]):
    """Warp's instances by what Warp calls them, each made a kernel of jwarp's where it is looked at."""

    def __init__(self, found: Mapping[Any, Any]):
        self.found = found

    def __getitem__(self, key: Any) -> Kernel:
        kernel: Kernel = as_kernel(self.found[key])
        return kernel

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.found))

    def __len__(self) -> int:
        return len(self.found)


def _found(module: str, name: str) -> Kernel:
    """The kernel of that name, for pickle."""
    found: Kernel = as_kernel(functools.reduce(getattr, name.split("."), importlib.import_module(module)))
    return found
