"""Where arrays live and kernels run, as Warp programs name it: `Device`, the one in use, and what it can do.

Arrays of jwarp live in the memory of the host, so that there is one device, "cpu". JAX's own arrays are where JAX puts
them: they have nothing to do with this.
"""

from __future__ import annotations

import os
import platform
from types import TracebackType
from typing import Any, ClassVar

from jwarp.errors import LaunchError


class DeviceError(LaunchError, RuntimeError, ValueError):
    """A device that does not exist, or lacks what is asked of it. Programs of Warp's catch one of its bases."""


class Device:
    """A device, as Warp describes it. It equals its alias, as in `array.device == "cpu"`, and prints as that."""

    # What CUDA devices have, and the host has not.
    arch: ClassVar[int] = 0
    sm_count: ClassVar[int] = 0
    max_shared_memory_per_block: ClassVar[int] = 0
    is_uva: ClassVar[bool] = False
    is_primary: ClassVar[bool] = False
    is_mempool_supported: ClassVar[bool] = False
    is_mempool_enabled: ClassVar[bool] = False
    is_ipc_supported: ClassVar[bool] = False
    is_cubin_supported: ClassVar[bool] = False
    is_managed_memory_supported: ClassVar[bool] = False
    is_concurrent_managed_access_supported: ClassVar[bool] = False
    is_cpu_gpu_atomic_supported: ClassVar[bool] = False
    is_cpu_memory_access_from_gpu_supported: ClassVar[bool] = False
    is_gpu_memory_access_from_cpu_supported: ClassVar[bool] = False
    has_context: ClassVar[bool] = False
    has_stream: ClassVar[bool] = False
    context: ClassVar[None] = None
    null_stream: ClassVar[None] = None
    uuid: ClassVar[None] = None
    pci_bus_id: ClassVar[None] = None

    def __init__(self, alias: str, ordinal: int, name: str) -> None:
        self.alias = alias
        self.ordinal = ordinal
        self.name = name
        self.captures: dict[Any, Any] = {}

    @property
    def is_cpu(self) -> bool:
        """Whether it is the host."""
        return self.ordinal < 0

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.ordinal >= 0

    @property
    def is_capturing(self) -> bool:
        """Whether a graph is being captured."""
        return bool(self.captures)

    @property
    def stream(self) -> Any:
        """The stream in use, which only CUDA devices have.

        Raises:
            LaunchError: this is none.
        """
        raise no_cuda_device(self)

    def set_stream(self, stream: Any, sync: bool = True) -> None:
        """Use another stream; a LaunchError, as only CUDA devices have them."""
        raise no_cuda_device(self)

    @property
    def total_memory(self) -> int:
        """The memory of the machine in bytes; 0 where the system does not say."""
        return _pages("SC_PHYS_PAGES")

    @property
    def free_memory(self) -> int:
        """The memory of the machine that nobody uses, in bytes; 0 where the system does not say."""
        return _pages("SC_AVPHYS_PAGES")

    def can_access(self, other: Any) -> bool:
        """Whether kernels on this device can use memory of another."""
        return get_device(other) is self

    def make_current(self) -> None:
        """Nothing: the host is always current."""

    def get_cuda_output_format(self, preferred_cuda_output: str | None = None) -> None:
        """None: nothing is compiled with CUDA for the host."""

    def get_cuda_compile_arch(self) -> None:
        """None: nothing is compiled with CUDA for the host."""

    def __str__(self) -> str:
        return self.alias

    def __repr__(self) -> str:
        return f"'{self.alias}'"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other == self.alias)

    def __hash__(self) -> int:
        return hash(self.alias)

    def __reduce__(self) -> tuple:
        return (get_device, (self.alias,))


def _pages(name: str) -> int:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # a system without such a number, or without any
        return 0


CPU = Device("cpu", -1, platform.processor() or "CPU")

DeviceLike = Device | str | None


_WAY_OUT = "arrays of jwarp live in the memory of the host; kernels run on GPUs on JAX arrays"


def no_cuda_device(device: Device) -> DeviceError:
    """The error for what only CUDA devices have."""
    return DeviceError(f"Device {device} is not a CUDA device", hint=_WAY_OUT)


def get_device(ident: DeviceLike = None) -> Device:
    """The device of an alias, or the one in use for None.

    Raises:
        LaunchError: there is no such device. (It is a RuntimeError and a ValueError, too, which Warp raises.)
    """
    if ident is None or ident is CPU or ident == "cpu":
        return CPU
    raise DeviceError(f"Invalid device identifier: {ident}", hint=_WAY_OUT)


def set_device(ident: DeviceLike) -> None:
    """Make a device the one in use. There is one.

    Raises:
        LaunchError: there is no such device.
    """
    get_device(ident)


def get_devices() -> list[Device]:
    """All devices: the host."""
    return [CPU]


def get_preferred_device() -> Device:
    """The device that programs use unless they are told another."""
    return CPU


def get_cuda_devices() -> list[Device]:
    """The CUDA devices that arrays can live on: none."""
    return []


def get_cuda_device_count() -> int:
    """How many CUDA devices arrays can live on: 0."""
    return 0


def get_cuda_device(ordinal: int | None = None) -> Device:
    """A CUDA device that arrays can live on.

    Raises:
        LaunchError: always, as there is none.
    """
    return get_device("cuda" if ordinal is None else f"cuda:{ordinal}")


def is_cpu_available() -> bool:
    """Whether arrays can live in the memory of the host: yes."""
    return True


def is_cuda_available() -> bool:
    """Whether arrays can live on a GPU: no. JAX arrays can."""
    return False


def is_device_available(device: DeviceLike) -> bool:
    """Whether there is such a device."""
    try:
        get_device(device)
    except DeviceError:
        return False
    return True


def can_access(device: DeviceLike, resource: Any) -> bool:
    """Whether kernels on a device can use an array, or the memory of another device: all of it is the host's.

    Raises:
        LaunchError: there is no such device.
    """
    return get_device(device).can_access(getattr(resource, "device", resource))


class ScopedDevice:
    """`with wp.ScopedDevice("cpu"):`, inside of which a device is the one in use.

    Raises:
        LaunchError: there is no such device.
    """

    def __init__(self, device: DeviceLike) -> None:
        self.device = get_device(device)

    def __enter__(self) -> Device:
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        return None
