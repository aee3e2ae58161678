"""Streams, events, memory pools and peers: CUDA's; on the host there is nothing to wait for, as in Warp."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from jwarp.devices import CPU, Device, DeviceError, DeviceLike, get_device, no_cuda_device


class Stream:
    """A queue of work on a CUDA device.

    Raises:
        LaunchError: the device is none. Launches on arrays of the host are done when they return.
    """

    device: Device

    def __init__(self, device: DeviceLike = None, priority: int = 0, **cuda_stream: Any) -> None:
        raise no_cuda_device(get_device(device))


class Event:
    """A point in the work of a CUDA device.

    Raises:
        LaunchError: the device is none. Launches on arrays of the host are done when they return.
    """

    device: Device

    def __init__(
        self, device: DeviceLike = None, cuda_event: Any = None, enable_timing: bool = False, interprocess: bool = False
    ) -> None:
        raise no_cuda_device(get_device(device))


class ScopedStream:
    """`with wp.ScopedStream(stream):`, in which a stream is the one in use; with None, nothing changes."""

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        if stream is not None:
            raise TypeError(f"wp.ScopedStream takes a wp.Stream or None, not {type(stream).__name__}")
        self.stream = stream

    def __enter__(self) -> Stream | None:
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        return None


def get_stream(device: DeviceLike = None) -> Stream:
    """The stream in use of a CUDA device; a LaunchError for the host, which has none."""
    raise no_cuda_device(get_device(device))


def set_stream(stream: Stream, device: DeviceLike = None, sync: bool = False) -> None:
    """Use another stream of a CUDA device; a LaunchError for the host, which has none."""
    raise no_cuda_device(get_device(device))


def wait_stream(other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
    """Have the stream in use wait for another; a LaunchError on the host, which has none."""
    raise no_cuda_device(CPU)


def wait_event(event: Event, external: bool = False) -> None:
    """Have the stream in use wait for an event; a LaunchError on the host, which has none."""
    raise no_cuda_device(CPU)


def record_event(event: Event | None = None, external: bool = False) -> Event:
    """Note where the stream in use is; a LaunchError on the host, which has none."""
    raise no_cuda_device(CPU)


def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """The milliseconds between two events; a LaunchError on the host, which has none."""
    raise no_cuda_device(CPU)


def event_from_ipc_handle(handle: bytes, device: DeviceLike = None) -> Event:
    """An event of another process; a LaunchError on the host, which has none."""
    raise no_cuda_device(get_device(device))


def synchronize() -> None:
    """Wait for all work on arrays: it is done already."""


def synchronize_device(device: DeviceLike = None) -> None:
    """Wait for all work of a device: that of the host is done already."""
    get_device(device)


def synchronize_stream(stream_or_device: Stream | DeviceLike = None) -> None:
    """Wait for all work of a stream: that of the host is done already."""
    if not isinstance(stream_or_device, Stream):
        get_device(stream_or_device)


def synchronize_event(event: Event) -> None:
    """Wait for an event; a LaunchError on the host, which has none."""
    raise no_cuda_device(CPU)


# -- memory pools, and memory of other devices


def _no_pools(device: DeviceLike) -> DeviceError:
    get_device(device)
    return DeviceError("Memory pools are only supported on CUDA devices")


def is_mempool_supported(device: DeviceLike) -> bool:
    """Whether a device has memory pools."""
    return get_device(device).is_mempool_supported


def is_mempool_enabled(device: DeviceLike) -> bool:
    """Whether a device uses its memory pool."""
    return get_device(device).is_mempool_enabled


def set_mempool_enabled(device: DeviceLike, enable: bool) -> None:
    """Use the memory pool of a CUDA device or not; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def set_mempool_release_threshold(device: DeviceLike, threshold: float) -> None:
    """What the memory pool of a CUDA device keeps; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def get_mempool_release_threshold(device: DeviceLike = None) -> int:
    """What the memory pool of a CUDA device keeps, in bytes; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def get_mempool_used_mem_current(device: DeviceLike = None) -> int:
    """What is taken of the memory pool of a CUDA device, in bytes; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def get_mempool_used_mem_high(device: DeviceLike = None) -> int:
    """What was taken at most of the memory pool of a CUDA device; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def _both(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    get_device(target_device)
    get_device(peer_device)
    return False


def is_mempool_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether one CUDA device can use the memory pool of another."""
    return _both(target_device, peer_device)


def is_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether one CUDA device may use the memory pool of another."""
    return _both(target_device, peer_device)


def set_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """Let one CUDA device use the memory pool of another; a LaunchError for the host, which has none."""
    raise _no_pools(target_device)


def is_peer_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether one CUDA device can use the memory of another."""
    return _both(target_device, peer_device)


def is_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether one CUDA device may use the memory of another."""
    return _both(target_device, peer_device)


def set_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """Let one CUDA device use the memory of another; a LaunchError for the host."""
    _both(target_device, peer_device)
    raise DeviceError("Peer access is only supported between CUDA devices")


class _Scoped:
    """A setting of CUDA devices that holds inside a `with` block."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        return None


class ScopedMempool(_Scoped):
    """`with wp.ScopedMempool(device, enable):` uses the pool of a CUDA device; a LaunchError on entry for the host."""

    def __init__(self, device: DeviceLike, enable: bool) -> None:
        self.device = get_device(device)

    def __enter__(self) -> None:
        raise _no_pools(self.device)


class ScopedMempoolAccess(_Scoped):
    """`with wp.ScopedMempoolAccess(target, peer, enable):`; a LaunchError on entry for the host."""

    def __init__(self, target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
        self.target_device, self.peer_device = get_device(target_device), get_device(peer_device)
        self.enable = enable

    def __enter__(self) -> None:
        set_mempool_access_enabled(self.target_device, self.peer_device, self.enable)


class ScopedPeerAccess(_Scoped):
    """`with wp.ScopedPeerAccess(target, peer, enable):`; a LaunchError on entry for the host."""

    def __init__(self, target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
        self.target_device, self.peer_device = get_device(target_device), get_device(peer_device)
        self.enable = enable

    def __enter__(self) -> None:
        set_peer_access_enabled(self.target_device, self.peer_device, self.enable)


class ScopedCudaProfiler(_Scoped):
    """`with wp.ScopedCudaProfiler():` has a profiler of CUDA look at this part; nothing on the host."""

    def __init__(self, device: DeviceLike = None) -> None:
        self.device = get_device(device)


def cuda_profiler_start(device: DeviceLike = None) -> None:
    """Have a profiler of CUDA look from here on: nothing on the host."""
    get_device(device)


def cuda_profiler_stop(device: DeviceLike = None) -> None:
    """Have a profiler of CUDA look up to here: nothing on the host."""
    get_device(device)


# -- what the machine has of CUDA


def get_cuda_driver_version() -> tuple[int, int] | None:
    """The version of the CUDA driver that arrays use: None, as there is none."""
    return None


def is_conditional_graph_supported() -> bool:
    """Whether CUDA graphs can branch: no, as in Warp on the host; captures here can."""
    return False


def is_cubql_available() -> bool:
    """Whether trees can be built by cuBQL, a library for CUDA: no."""
    return False
