"""Where arrays live and kernels run, as Warp programs name it: `Device`, the one in use, and what it can do.

JAX decides by itself where its arrays are.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar

from jwarp.errors import CompileError, JwarpError, LaunchError, Span


class DeviceError(LaunchError, RuntimeError, ValueError):
    """A device that does not exist, lacks what is asked of it, or went wrong.

    Programs of Warp's catch one of its bases.
    """


def as_error(who: str, text: str, hint: str, is_of_code: bool) -> JwarpError:
    """The error for a message of a GPU or its driver, for the native module. `is_of_code`: a kernel is at fault."""
    kind = CompileError if is_of_code else DeviceError
    return kind(f"{who}: {text}" if who else text, hint=hint)


@dataclass(frozen=True)
class KernelAt:
    """Within it, errors of a device say where the kernel is written, unless they say a place already.

    It is a class, as a generator would leave the error and its frames in a cycle, and the arrays of the launch in them.
    """

    span: Span

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, (CompileError, DeviceError)) and not error.diagnostic.span.line:
            raise at_kernel(error, self.span) from None


def at_kernel(error: JwarpError, span: Span) -> JwarpError:
    """The error with the place where the kernel is written, unless it says one already."""
    known = error.diagnostic
    return error if known.span.line else type(error)(known.message, span, known.hint)


class Device:
    """A device, as in Warp. It compares equal to its alias (`array.device == "cpu"`), and prints as the alias."""

    # Properties of CUDA devices that the host lacks.
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

    @property
    def is_cpu(self) -> bool:
        """True for the host."""
        return self.ordinal < 0

    @property
    def is_cuda(self) -> bool:
        """True for a GPU."""
        return self.ordinal >= 0

    @property
    def is_capturing(self) -> bool:
        """True while this thread captures a graph."""
        return _here.is_capturing

    @property
    def stream(self) -> Any:
        """The current stream. Only CUDA devices have one.

        Raises:
            LaunchError: This is not a CUDA device.
        """
        raise no_cuda_device(self)

    def set_stream(self, stream: Any, sync: bool = True) -> None:
        """Use another stream; a LaunchError, as only CUDA devices have them."""
        raise no_cuda_device(self)

    @property
    def total_memory(self) -> int:
        """The memory of the machine in bytes; 0 if the system does not report it."""
        return _pages("SC_PHYS_PAGES")

    @property
    def free_memory(self) -> int:
        """The unused memory of the machine in bytes; 0 if the system does not report it."""
        return _pages("SC_AVPHYS_PAGES")

    def can_access(self, other: Any) -> bool:
        """True if kernels on this device can access the memory of another device; each accesses only its own."""
        return get_device(other) is self

    def make_current(self) -> None:
        """Make it the device in use. (The host is always current.)"""
        if self.is_cuda:
            set_device(self)

    @property
    def context_guard(self) -> contextlib.AbstractContextManager[None]:
        """A context manager without effect: memory of any device can be used at any time."""
        return contextlib.nullcontext()

    def get_allocator(self, pinned: bool = False) -> Any:
        """The allocator of its memory: `allocate(nbytes)` gives an address, `deallocate(address, nbytes)` ends that."""
        return _allocators[0](self)

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


# The function that gives the allocator of a device; the layer that has memory sets it.
_allocators: list[Callable[[Device], Any]] = []


def set_allocators(allocator_of: Callable[[Device], Any]) -> None:
    """Take allocators from a function."""
    _allocators[:] = [allocator_of]


def _pages(name: str) -> int:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # a system without such a number, or without any
        return 0


CPU = Device("cpu", -1, platform.processor() or "CPU")

DeviceLike = Device | str | None


def no_cuda_device(device: Device) -> DeviceError:
    """The error for what only CUDA devices have."""
    return DeviceError(f"Device {device} is not a CUDA device", hint='wp.get_device("cuda:0") is one, if there is any')


class _Here(threading.local):
    """The state of this thread alone: its device in use inside of a `ScopedDevice`, and if it captures."""

    scoped: Device | None = None
    is_capturing = False


_here = _Here()


def set_capturing(is_capturing: bool) -> None:
    """Say whether this thread captures a graph."""
    _here.is_capturing = is_capturing


class _Devices:
    """The devices of this process.

    `find` gives the CUDA devices, or says why there are none; the layer that knows the driver sets it.
    """

    def __init__(self) -> None:
        self.find: Callable[[], Sequence[Device]] = tuple
        self.default = CPU  # the one in use, outside of each `ScopedDevice`
        self.used: dict[Device, None] = {}  # the CUDA devices that have been asked for
        self._cuda: tuple[Device, ...] | None = None
        self.why_none = ""

    @property
    def in_use(self) -> Device:
        """The device in use in this thread."""
        return _here.scoped or self.default

    def use(self, device: Device) -> None:
        """Make a device the one in use: in this thread inside of a `ScopedDevice`, else in all."""
        if _here.scoped is None:
            self.default = device
        else:
            _here.scoped = device

    @property
    def cuda(self) -> tuple[Device, ...]:
        """The CUDA devices, by number. Once there are some, they stay."""
        if not self._cuda:
            try:
                self._cuda = tuple(self.find())
            except DeviceError as error:
                self._cuda, self.why_none = (), f"{error.diagnostic.message}; {error.diagnostic.hint}"
        return self._cuda


DEVICES = _Devices()


def get_device(ident: DeviceLike = None) -> Device:
    """The device of an alias, "cpu", "cuda:0" and so on, or the one in use for None. "cuda" is the first GPU, or the
    one in use.

    Raises:
        LaunchError: there is no such device. (It is a RuntimeError and a ValueError, too, which Warp raises.)
    """
    if ident is None:
        return DEVICES.in_use
    if ident is CPU or ident == "cpu":
        return CPU
    if isinstance(ident, Device):
        return ident
    if ident == "cuda" and DEVICES.in_use.is_cuda:
        return DEVICES.in_use
    if isinstance(ident, str) and ident.startswith("cuda"):
        for device in DEVICES.cuda:
            if ident in (device.alias, "cuda"):
                DEVICES.used.setdefault(device)
                return device
        raise DeviceError(f"Invalid device identifier: {ident}", hint=_why_no_device())
    raise DeviceError(f"Invalid device identifier: {ident}", hint='devices are "cpu", "cuda" and "cuda:0"')


def _why_no_device() -> str:
    if DEVICES.cuda:
        return f"there are {', '.join(device.alias for device in DEVICES.cuda)}"
    return f"no GPU is found, {DEVICES.why_none}" if DEVICES.why_none else "no GPU is found"


def set_device(ident: DeviceLike) -> None:
    """Set the current device, on which arrays without a `device` are made.

    The initial device is "cpu". In programs that run under the name `warp`, it is the first GPU, if there is one.

    Raises:
        LaunchError: There is no such device.
    """
    DEVICES.use(get_device(ident))


def get_devices() -> list[Device]:
    """All devices: the host, and each GPU."""
    return [CPU, *DEVICES.cuda]


def get_preferred_device() -> Device:
    """The first GPU, or the host if there is none."""
    return DEVICES.cuda[0] if DEVICES.cuda else CPU


def get_cuda_devices() -> list[Device]:
    """The CUDA devices that arrays can be on."""
    return list(DEVICES.cuda)


def get_cuda_device_count() -> int:
    """The number of CUDA devices that arrays can be on."""
    return len(DEVICES.cuda)


def get_cuda_device(ordinal: int | None = None) -> Device:
    """The CUDA device with a number. Default: the current one, or the first.

    Raises:
        LaunchError: There is no such device.
    """
    return get_device("cuda" if ordinal is None else f"cuda:{ordinal}")


def is_cpu_available() -> bool:
    """True: arrays can always be in host memory."""
    return True


def is_cuda_available() -> bool:
    """True if there is a GPU with a driver that runs jwarp's kernels."""
    return bool(DEVICES.cuda)


def is_device_available(device: DeviceLike) -> bool:
    """True if the device exists."""
    try:
        get_device(device)
    except DeviceError:
        return False
    return True


def can_access(device: DeviceLike, resource: Any) -> bool:
    """True if kernels on a device can access an array, or the memory of another device; each accesses only its own.

    Raises:
        LaunchError: There is no such device.
    """
    return get_device(device).can_access(getattr(resource, "device", resource))


class ScopedDevice:
    """`with wp.ScopedDevice("cuda:0"):` makes a device the current device of this thread; None changes nothing.

    Raises:
        LaunchError: There is no such device.
    """

    def __init__(self, device: DeviceLike) -> None:
        self.device = get_device(device)
        self._before: list[Device | None] = []

    def __enter__(self) -> Device:
        self._before.append(_here.scoped)
        _here.scoped = self.device
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        _here.scoped = self._before.pop()
