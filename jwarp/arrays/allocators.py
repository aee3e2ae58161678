"""The allocators of devices: memory by address, for libraries that keep memory of their own and make arrays of it."""

from __future__ import annotations

from jwarp.arrays.allocation import new_memory
from jwarp.arrays.memory import Memory
from jwarp.caches import cached
from jwarp.devices import Device, set_allocators
from jwarp.errors import LaunchError


class DeviceAllocator:
    """Gives memory of a device by its address: `allocate(nbytes)`, until `deallocate(address, nbytes)`."""

    def __init__(self, device: Device):
        self.device = device
        self._given: dict[int, Memory] = {}

    def allocate(self, nbytes: int) -> int:
        """The address of new memory of so many bytes.

        Raises:
            LaunchError: there is not so much.
        """
        memory = new_memory(nbytes, zeroed=False, device=self.device)
        self._given[memory.start] = memory
        return memory.start

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back.

        Raises:
            LaunchError: `allocate` has not given this address, or it was given back.
        """
        if self._given.pop(address, None) is None:
            raise LaunchError(f"there is no memory at the address {address} that was allocated for its address")


set_allocators(cached("one for each device")(DeviceAllocator))
