"""Streams and events of GPUs. All work on arrays of a GPU is done in one order, in which each stream has its work."""

from __future__ import annotations

import time
from typing import Any

from jwarp.devices import Device, DeviceLike, get_device, no_cuda_device
from jwarp.dispatch.gpu.cuda_memory import STREAM, wait
from jwarp.errors import LaunchError


def _cuda(device: DeviceLike) -> Device:
    found = get_device(device)
    if not found.is_cuda:
        raise no_cuda_device(found)
    return found


class Stream:
    """A queue of work on a CUDA device.

    What is done to arrays of jwarp is done in the order of the program, whatever streams it names: on CUDA's default
    stream, which `cuda_stream` is the handle of. So there is never anything to wait for between two streams.

    Raises:
        LaunchError: the device is none. Launches on arrays of the host are done when they return. Or the handle of
            another stream is given.
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
    """A point in the work of a CUDA device. Recording one with `enable_timing` waits for the work, and takes the time.

    Raises:
        LaunchError: the device is none. Launches on arrays of the host are done when they return. Or the event is one
            of another library or process.
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


__all__ = ["Event", "Stream"]
