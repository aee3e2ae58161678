"""The GPUs of this process, as the driver describes them, and their streams and events.

All work on arrays of a GPU is done in one order, in which each stream has its work.
"""

from __future__ import annotations

import time
from typing import Any

from jwarp import _native
from jwarp.arrays.cuda_memory import STREAM, wait
from jwarp.devices import DEVICES, Device, DeviceLike, get_device, no_cuda_device
from jwarp.errors import LaunchError


def _cuda(device: DeviceLike) -> Device:
    found = get_device(device)
    if not found.is_cuda:
        raise no_cuda_device(found)
    return found


class Stream:
    """A queue of work on a CUDA device.

    All work on jwarp's arrays runs in the order of the program on CUDA's default stream, whose handle is `cuda_stream`.
    So two streams never have to wait for each other.

    Raises:
        LaunchError: The device is not a CUDA device (launches on host arrays are complete when they return), or the
            handle of another stream is given.
    """

    device: Device

    def __init__(self, device: DeviceLike = None, priority: int = 0, **cuda_stream: Any) -> None:
        self.device, self.priority = _cuda(device), priority
        if cuda_stream.get("cuda_stream", STREAM) not in (None, STREAM):
            raise LaunchError(
                f"wp.Stream: work on arrays on {self.device} is put on CUDA's default stream, and on no other one",
                hint="leave cuda_stream out, and have the other stream wait for the default one",
            )

    cuda_stream = STREAM

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    is_capturing = False

    @property
    def is_complete(self) -> bool:
        """True if all of its work is done: it is waited for."""
        wait(self.device)
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Note in an event, or a new one, where the stream is."""
        made = Event(self.device) if event is None else event
        made.record()
        return made

    def wait_event(self, event: Event, external: bool = False) -> None:
        """Do what comes after what an event stands for: it does."""
        event.check(self.device)

    def wait_stream(self, other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
        """Do what comes after all that is on another stream now: it does, on one device."""
        if other_stream.device is not self.device:
            wait(other_stream.device)


class Event:
    """A point in the work of a CUDA device. With `enable_timing`, recording waits for the work and stores the time.

    Raises:
        LaunchError: The device is not a CUDA device (launches on host arrays are complete when they return), or the
            event belongs to another library or process.
    """

    device: Device

    def __init__(
        self, device: DeviceLike = None, cuda_event: Any = None, enable_timing: bool = False, interprocess: bool = False
    ) -> None:
        self.device, self.enable_timing = _cuda(device), enable_timing
        self.time: float | None = None
        if cuda_event is not None or interprocess:
            raise LaunchError("wp.Event: events of CUDA's, and for other processes, are not supported",
                              hint="wp.synchronize_device() waits for all work")  # fmt: skip

    def record(self) -> None:
        """Note where the work of the device is."""
        if self.enable_timing:
            wait(self.device)
            self.time = time.perf_counter()

    def check(self, device: Device) -> None:
        """Wait for it from another device."""
        if device is not self.device:
            wait(self.device)

    @property
    def is_complete(self) -> bool:
        """True if the work before it is done: it is waited for."""
        wait(self.device)
        return True


# The driver's numbers of attributes.
_MULTIPROCESSORS, _SHARED, _POOLS = 16, 97, 115


# The stream in use of each device, by number.
IN_USE: dict[int, Stream] = {}


class CudaDevice(Device):
    """A GPU. Its numbers are read from the driver when they are asked for."""

    is_uva = True
    is_primary = True
    is_cubin_supported = True
    has_context = True
    has_stream = True

    def __init__(self, ordinal: int):
        super().__init__(f"cuda:{ordinal}", ordinal, _native.cuda_device_name(ordinal))

    @property
    def arch(self) -> int:  # type: ignore[override]
        """Its compute capability, as in 90."""
        major, minor = _native.cuda_capability(self.ordinal)
        return 10 * major + minor

    @property
    def sm_count(self) -> int:  # type: ignore[override]
        """How many multiprocessors it has."""
        return _native.cuda_attribute(_MULTIPROCESSORS, self.ordinal)

    @property
    def max_shared_memory_per_block(self) -> int:  # type: ignore[override]
        """The bytes of shared memory that a block may have."""
        return _native.cuda_attribute(_SHARED, self.ordinal)

    @property
    def is_mempool_supported(self) -> bool:  # type: ignore[override]
        """True if the driver has pools for its memory, which arrays come from."""
        return bool(_native.cuda_attribute(_POOLS, self.ordinal))

    @property
    def is_mempool_enabled(self) -> bool:  # type: ignore[override]
        """True if arrays come from the pool: yes, where there is one."""
        return self.is_mempool_supported

    @property
    def stream(self) -> Any:
        """The stream in use."""
        return IN_USE.get(self.ordinal) or IN_USE.setdefault(self.ordinal, Stream(self))

    null_stream = stream

    def set_stream(self, stream: Any, sync: bool = True) -> None:
        """Use another stream of the device.

        Raises:
            LaunchError: it is none of them.
        """
        if not isinstance(stream, Stream) or stream.device is not self:
            raise LaunchError(f"{stream!r} is no stream of {self}", hint="wp.Stream(device) is one")
        IN_USE[self.ordinal] = stream

    @property
    def total_memory(self) -> int:
        """Its memory in bytes."""
        return _native.cuda_memory_info(self.ordinal)[1]

    @property
    def free_memory(self) -> int:
        """The memory that nobody uses, in bytes."""
        return _native.cuda_memory_info(self.ordinal)[0]

    def get_cuda_output_format(self, preferred_cuda_output: str | None = None) -> Any:
        """The kind of code that kernels are compiled to: that of the device."""
        return "cubin"

    def get_cuda_compile_arch(self) -> Any:
        """The compute capability that kernels are compiled for."""
        return self.arch


def find() -> list[Device]:
    """All of them. A LaunchError says why the driver cannot be used."""
    return [CudaDevice(ordinal) for ordinal in range(_native.cuda_device_count())]


DEVICES.find = find
