"""Launches of kernels that look numbers up when they run: what these are given, and what stays alive meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from jwarp.arrays.array import array
from jwarp.arrays.living import argument, table
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.struct_array import StructArray
from jwarp.bind.compat import Tracer, is_not_tracing
from jwarp.dispatch.call.held import held, leaves_of
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import Struct
from jwarp.types.handles import all_named
from jwarp.types.memory import MEMORY, holds_descriptors


def with_memory(kernel: Kernel, inputs: Any, outputs: Any) -> tuple[Kernel, Any, Any]:
    """The kernel that looks numbers up, and what a launch of it is given: all memory, besides its own arguments."""
    given = argument()
    if isinstance(outputs, Mapping):
        return kernel.with_memory(), inputs, {**outputs, MEMORY: given}
    if outputs is not None and len(outputs):
        return kernel.with_memory(), inputs, [*outputs, given]
    if isinstance(inputs, Mapping):
        return kernel.with_memory(), {**inputs, MEMORY: given}, outputs
    return kernel.with_memory(), [*inputs, given], outputs


def may_look_up(inputs: Any, outputs: Any) -> bool:
    """True if a kernel may look numbers up in a launch on these mutable arrays: one that runs now, in host memory."""
    return is_not_tracing() and not any(map(_is_elsewhere, (*_values(inputs), *_values(outputs))))


def _is_elsewhere(value: Any) -> bool:
    if isinstance(value, Struct):
        return any(_is_elsewhere(getattr(value, name)) for name in type(value).fields)
    memory = getattr(value, "memory", None) if isinstance(value, array) else None
    return memory is not None and not isinstance(memory, HostMemory)


_LOOKS_UP = "looks numbers up"


def note_look_ups(kernel: Kernel) -> None:
    """Note that a kernel looks numbers up."""
    kernel.executables.keep(_LOOKS_UP, True)


def is_wanted(kernel: Kernel, inputs: Any, outputs: Any) -> bool:
    """True if a kernel is known to look numbers up, or is given arrays of structs with arrays in them."""
    if kernel.looks_up:
        return False
    if kernel.executables.get(_LOOKS_UP):
        return True
    if not any(holds_descriptors(parameter.type) for parameter in kernel.signature):
        return False
    values = [*_values(inputs), *_values(outputs)]
    return any(map(_has_struct_arrays, values))


def _values(given: Any) -> Any:
    return given.values() if isinstance(given, Mapping) else given or ()


def _has_struct_arrays(value: Any) -> bool:
    if isinstance(value, Struct):
        return any(_has_struct_arrays(getattr(value, name)) for name in type(value).fields)
    return isinstance(value, StructArray)


@contextlib.contextmanager
def looking_up() -> Iterator[None]:
    """Let kernels find what is alive as it is now, and keep that until they have ended."""
    with table.in_use():
        refresh()
        yield


def refresh() -> None:
    """Let kernels find grids, trees and meshes whose ids are numbers as they are now."""
    for number, owner in all_named():
        state = owner.state
        if table.state(number) is state:
            continue
        known = held(owner)
        struct = owner.in_place if known is None else known.struct
        if all(map(_is_here, leaves_of(struct))):
            # What could change unseen is looked at each time.
            table.write(number, None if known is None else state, struct)
        else:
            table.erase(number)


def _is_here(leaf: Any) -> bool:
    """True for a number, and an array in host memory."""
    if isinstance(leaf, Tracer):
        return False
    if isinstance(leaf, jax.Array):
        return leaf.is_fully_addressable and {x.platform for x in leaf.devices()} == {"cpu"}
    return not isinstance(leaf, array) or isinstance(leaf.memory, HostMemory)
