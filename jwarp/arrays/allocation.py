"""Allocates the memory of arrays: on the host or a GPU, or, while JAX traces, as a JAX value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from jwarp.arrays import allocation_counts
from jwarp.arrays import cuda_devices as cuda_devices  # which finds the GPUs
from jwarp.arrays.cuda_memory import CudaMemory, cuda_memory, cuda_memory_at
from jwarp.arrays.memory import HostMemory, Memory, borrowed_memory, host_memory, place_of_caller
from jwarp.arrays.view import View
from jwarp.devices import CPU, Device
from jwarp.errors import LaunchError
from jwarp.types import uint8


class Tracing(Protocol):
    """The interface to JAX's tracing; the layer that knows JAX sets it."""

    def is_tracing(self) -> bool:
        """True while a function is being traced."""

    def memory(self, shape: tuple[int, ...], layout: View, zeroed: bool) -> Memory:
        """New memory that stands for a JAX value, for an array of `shape`."""

    def adopted(self, data: Any, dtype: Any, shape: tuple[int, ...] | None) -> tuple[Memory, View] | None:
        """Memory that begins as a JAX value that is traced, and the view of it; None for other data."""

    def pointed_to(self, ptr: Any, layout: View) -> tuple[Memory, View] | None:
        """The memory that a token stands for, and the view of it; None if `ptr` is no token."""

    def value(self, memory: Memory, layout: View) -> Any:
        """The current content of a view as a JAX value."""

    def token(self, memory: Memory, layout: View) -> Any:
        """The token that stands for the address of traced memory."""


_tracing: list[Tracing] = []


def set_tracing(tracing: Tracing) -> None:
    """Ask `tracing` from now on."""
    _tracing[:] = [tracing]


def allocate(layout: View, *, zeroed: bool, device: Device, is_known: bool = False) -> Memory:
    """New memory of a device for all that `layout` reaches; its content is anything unless it is `zeroed`.

    While JAX traces, it stands for a JAX value, unless its content is to be known then.
    """
    for tracing in _tracing:
        if tracing.is_tracing() and not is_known:
            return tracing.memory(layout.shape, layout, zeroed)
    made = new_memory(layout.bounds[1], zeroed, device)
    if allocation_counts.is_counting():
        allocation_counts.count(made, layout)
    return made


def new_memory(nbytes: int, zeroed: bool, device: Device) -> HostMemory | CudaMemory:
    """New memory of a device, which is that also while JAX traces."""
    if device is CPU:
        return host_memory(nbytes, zeroed=zeroed)
    made: CudaMemory = cuda_memory(device, nbytes)
    if zeroed:
        made.write(_bytes(nbytes), np.zeros((), np.uint8))
    return made


def memory_at(device: Device, address: int, nbytes: int, owner: Any) -> Memory:
    """The bytes at an address of a device, which others may write to as well. `owner` keeps them alive."""
    if device is CPU:
        return borrowed_memory(address, nbytes, owner)
    return cuda_memory_at(device, address, nbytes, owner)


def _bytes(count: int) -> View:
    return View(uint8, (count,), (1,))


def check_writable(memory: Memory) -> None:
    """Refuse to write to memory of no value while JAX traces: it would happen once, and not when the function runs.

    Raises:
        LaunchError: a function is being traced.
    """
    for tracing in _tracing:
        if tracing.is_tracing() and not memory.is_traced:
            file, line = place_of_caller()
            raise LaunchError(
                f"{memory.made_at} is written at {file}:{line} while JAX traces a function, and is no array of that"
                " function's",
                hint="pass it to the function, and return what it becomes; or write to it outside",
            )


def announce_writes(memories: Iterable[Memory]) -> None:
    """Tell memories that code which does not say so is about to write to them."""
    for memory in memories:
        if memory.is_watched:
            memory.will_write()


def will_change(memories: Iterable[Memory]) -> None:
    """Tell memories that they are about to be written.

    Raises:
        LaunchError: JAX traces a function.
    """
    each = dict.fromkeys(memories)
    if [tracing for tracing in _tracing if tracing.is_tracing()]:
        for memory in each:
            check_writable(memory)
    announce_writes(each)


def adopted(data: Any, dtype: Any, shape: tuple[int, ...] | None) -> tuple[Memory, View] | None:
    """The memory of data that JAX traces, and the view of it; None for other data."""
    for tracing in _tracing:
        found = tracing.adopted(data, dtype, shape)
        if found is not None:
            return found
    return None


def pointed_to(ptr: Any, layout: View) -> tuple[Memory, View] | None:
    """The memory that a token stands for; None if `ptr` is an address."""
    for tracing in _tracing:
        found = tracing.pointed_to(ptr, layout)
        if found is not None:
            return found
    return None


def token(memory: Memory, layout: View) -> Any:
    """The token that stands for the address of the first element of traced memory."""
    return _tracing[0].token(memory, layout)


def jax_value(memory: Memory, layout: View) -> Any:
    """The current content of a view as a JAX value."""
    return _tracing[0].value(memory, layout)
