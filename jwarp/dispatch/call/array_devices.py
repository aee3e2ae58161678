"""On which device a launch on arrays that change runs: the one that its arrays are on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jwarp.arrays import allocation
from jwarp.arrays.array import array
from jwarp.arrays.view import View
from jwarp.devices import CPU, Device
from jwarp.dispatch.gpu import cuda_devices as cuda_devices  # which lets arrays find the GPUs
from jwarp.dispatch.gpu.cuda_arrays import Own
from jwarp.dispatch.gpu.cuda_memory import CudaMemory, outline
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel


def device_of_arrays(kernel: Kernel, values: Sequence[Any], asked: Device | None) -> Device:
    """The device that all arrays of a launch are on; `values` are by parameter of the IR.

    Arrays that stand for JAX values are on none.

    Raises:
        LaunchError: some are elsewhere, or they are not on the device that was asked for.
    """
    found, first = asked, ""
    for param, value in zip(kernel.params, values, strict=True):
        if type(value) is not array or value.memory.is_traced:
            continue
        where = value.memory.device
        if found is None:
            found, first = where, f", and that of '{param.name}' is there"
        elif where is not found:
            raise LaunchError(
                f"kernel '{kernel.name}', parameter '{param.name}': the array is on {where}, and the launch is on"
                f" {found}{first}: {value.memory.made_at}",
                hint=f'a.to("{found}") is a copy there',
            )
    return found or CPU


def shown_on_device(given: array) -> Any:
    """What a launch on a GPU is given for an array: where it lies; the JAX array that it stands for."""
    memory = given.memory
    if isinstance(memory, CudaMemory):
        # The array may go before a launch that is repeated on it: what keeps the bytes is not what knows of that.
        return Own(memory.owner, memory.device.ordinal, outline(memory, given.layout))
    return memory.read(given.layout)


def copy_on_device(given: array) -> Any:
    """The same for a copy of an array on a GPU."""
    layout = View.whole(given.layout.element, given.shape)
    memory = allocation.allocate(layout, zeroed=False, device=given.memory.device)
    memory.copy_from(layout, given.memory, given.layout)
    return shown_on_device(array.of(memory, layout))
