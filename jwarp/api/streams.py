"""Streams, events, memory pools and peers, by Warp's names: CUDA's; on the host there is nothing to wait for."""

from __future__ import annotations

from types import TracebackType

from jwarp.arrays.cuda_devices import Event, Stream
from jwarp.arrays.cuda_memory import wait
from jwarp.devices import CPU, DEVICES, DeviceError, DeviceLike, ScopedDevice, get_device, no_cuda_device
from jwarp.errors import LaunchError


class ScopedStream:
    """`with wp.ScopedStream(stream):` makes a stream the current one; None changes nothing."""

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"wp.ScopedStream takes a wp.Stream or None, not {type(stream).__name__}")
        self.stream = stream
        self._scope = None if stream is None else ScopedDevice(stream.device)
        self._before: list[Stream] = []

    def __enter__(self) -> Stream | None:
        if self.stream is not None and self._scope is not None:
            self._scope.__enter__()
            self._before.append(get_stream(self.stream.device))
            set_stream(self.stream)
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._scope is not None:
            set_stream(self._before.pop())
            self._scope.__exit__(kind, error, where)


def get_stream(device: DeviceLike = None) -> Stream:
    """The current stream of a CUDA device; a LaunchError for the host, which has none."""
    found: Stream = get_device(device).stream
    return found


def set_stream(stream: Stream, device: DeviceLike = None, sync: bool = False) -> None:
    """Set the current stream of a CUDA device; a LaunchError for the host, which has none."""
    if not isinstance(stream, Stream):
        raise no_cuda_device(get_device(device))
    stream.device.set_stream(stream)


def wait_stream(other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
    """Let the current stream wait for another one; a LaunchError on the host, which has none."""
    get_stream().wait_stream(other_stream)


def wait_event(event: Event, external: bool = False) -> None:
    """Let the current stream wait for an event; a LaunchError on the host, which has none."""
    get_stream().wait_event(event)


def record_event(event: Event | None = None, external: bool = False) -> Event:
    """Record an event on the current stream; a LaunchError on the host, which has none."""
    return (get_stream() if event is None else get_stream(event.device)).record_event(event)


def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """The time between two recorded events in milliseconds.

    Raises:
        LaunchError: The device is the host, which has no events, or an event was made without `enable_timing`.
    """
    times = [event.time for event in (start_event, end_event) if isinstance(event, Event)]
    if len(times) < 2:
        raise no_cuda_device(CPU)
    begin, end = times
    if begin is None or end is None:
        raise LaunchError(
            "wp.get_event_elapsed_time: an event has no time", hint="make both with enable_timing=True, and record them"
        )
    return 1000.0 * (end - begin)


def event_from_ipc_handle(handle: bytes, device: DeviceLike = None) -> Event:
    """An event of another process; a LaunchError on the host, which has none."""
    raise no_cuda_device(get_device(device))


def synchronize() -> None:
    """Wait for all work on arrays. Work on the host is always complete."""
    for device in DEVICES.used:
        wait(device)


def synchronize_device(device: DeviceLike = None) -> None:
    """Wait for all work of a device. Work on the host is always complete."""
    found = get_device(device)
    if found.is_cuda:
        wait(found)


def synchronize_stream(stream_or_device: Stream | DeviceLike = None) -> None:
    """Wait for all work of a stream. Work on the host is always complete."""
    synchronize_device(stream_or_device.device if isinstance(stream_or_device, Stream) else stream_or_device)


def synchronize_event(event: Event) -> None:
    """Wait for an event; a LaunchError on the host, which has none."""
    if not isinstance(event, Event):
        raise no_cuda_device(CPU)
    wait(event.device)


# -- memory pools, and memory of other devices


def _no_pools(device: DeviceLike) -> DeviceError:
    if get_device(device).is_cuda:
        return DeviceError(
            f"the memory pool of {device} cannot be looked into or changed: arrays come from the driver's own one",
            hint="leave it out",
        )
    return DeviceError("Memory pools are only supported on CUDA devices")


def is_mempool_supported(device: DeviceLike) -> bool:
    """True if a device has memory pools."""
    return get_device(device).is_mempool_supported


def is_mempool_enabled(device: DeviceLike) -> bool:
    """True if a device uses its memory pool."""
    return get_device(device).is_mempool_enabled


def set_mempool_enabled(device: DeviceLike, enable: bool) -> None:
    """Use the memory pool of a CUDA device, as arrays always do; a LaunchError without it, and for the host."""
    if not (enable and get_device(device).is_mempool_supported):
        raise _no_pools(device)


def set_mempool_release_threshold(device: DeviceLike, threshold: float) -> None:
    """Set how much the memory pool of a CUDA device keeps; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def get_mempool_release_threshold(device: DeviceLike = None) -> int:
    """The number of bytes that the memory pool of a CUDA device keeps; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def get_mempool_used_mem_current(device: DeviceLike = None) -> int:
    """The number of bytes in use of the memory pool of a CUDA device; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def get_mempool_used_mem_high(device: DeviceLike = None) -> int:
    """The peak use in bytes of the memory pool of a CUDA device; a LaunchError for the host, which has none."""
    raise _no_pools(device)


def _both(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    get_device(target_device)
    get_device(peer_device)
    return False


def is_mempool_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """True if one CUDA device can use the memory pool of another."""
    return _both(target_device, peer_device)


def is_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """True if one CUDA device may use the memory pool of another."""
    return _both(target_device, peer_device)


def set_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """Let one CUDA device use the memory pool of another; a LaunchError for the host, which has none."""
    raise _no_pools(target_device)


def is_peer_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """True if one CUDA device can use the memory of another."""
    return _both(target_device, peer_device)


def is_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """True if one CUDA device may use the memory of another."""
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

        self.enable = enable

    def __enter__(self) -> None:
        set_mempool_enabled(self.device, self.enable)


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
    """`with wp.ScopedCudaProfiler():` lets a CUDA profiler record the block. Has no effect on the host."""

    def __init__(self, device: DeviceLike = None) -> None:
        self.device = get_device(device)


def cuda_profiler_start(device: DeviceLike = None) -> None:
    """Start recording by a CUDA profiler. Has no effect on the host."""
    get_device(device)


def cuda_profiler_stop(device: DeviceLike = None) -> None:
    """Stop recording by a CUDA profiler. Has no effect on the host."""
    get_device(device)


# -- what the machine has of CUDA


def get_cuda_driver_version() -> tuple[int, int] | None:
    """The version of the CUDA driver that arrays use: None, as there is none."""
    return None


def is_conditional_graph_supported() -> bool:
    """True if CUDA graphs can branch: never, as in Warp on the host; captures here can."""
    return False


def is_cubql_available() -> bool:
    """True if trees can be built by cuBQL, a library for CUDA: never."""
    return False
