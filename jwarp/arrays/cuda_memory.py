"""Memory of GPUs that arrays live in: made by the driver, in the order of the device's one stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jwarp import _native
from jwarp.arrays import cuda_arrays
from jwarp.arrays.memory import Kept, Memory
from jwarp.arrays.view import View
from jwarp.caches import cached
from jwarp.devices import DEVICES, Device, DeviceError
from jwarp.errors import LaunchError

# All that arrays are used for goes on CUDA's default stream, which other libraries' default streams wait for.
STREAM = 0

# DLPack's kinds of numbers by NumPy's; bfloat16 is one of its own.
_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6, "V": 4}

# Copies between arrays of one GPU whose elements are not contiguous, by a kernel: what launches kernels sets it.
copy_strided: list[Callable[[CudaMemory, View, CudaMemory, View], None]] = []


class CudaMemory(Memory):
    """Bytes of a GPU's memory, from the address `start` on. `owner` gives them back when nobody uses them any more.

    `is_exposed`: others may write to it at any time.
    """

    __slots__ = ("is_exposed", "is_read_only", "nbytes", "owner", "start")

    def __init__(
        self, device: Device, start: int, nbytes: int, owner: Any, *, is_exposed: bool, is_read_only: bool = False
    ):
        super().__init__(device)
        self.start, self.nbytes, self.owner = start, nbytes, owner
        self.is_exposed, self.is_read_only = is_exposed, is_read_only

    def read(self, view: View) -> np.ndarray:
        """A copy of the elements in host memory, which is read-only: what is written there is lost."""
        found = self.expose(view)
        found.flags.writeable = False
        return found

    def expose(self, view: View) -> np.ndarray:
        """A copy of the elements in host memory, once what was launched before has ended."""
        low, high = view.bounds
        content = np.empty(high - low, np.uint8)
        stream_of(self.device).download(content, self.start + low)
        return np.ndarray(view.full_shape, view.dtype, content, view.offset - low, view.full_strides)

    def write(self, view: View, value: Any) -> None:
        self._begin_write()
        if not view.size:
            return
        given = np.asarray(value).astype(view.dtype, copy=False)
        filled = self.filling(view, given)
        stream = stream_of(self.device)
        if filled is not None:
            filled(stream)
        elif view.is_contiguous:
            content = np.ascontiguousarray(np.broadcast_to(given, view.full_shape))
            stream.upload(self.start + view.offset, content.reshape(-1).view(np.uint8))
        else:
            self._write_between(view, given)

    def filling(self, view: View, given: np.ndarray) -> Callable[[_native.DeviceMemory], None] | None:
        """A function that fills the elements in the order of a stream; None where the driver has no such fill."""
        pattern = _pattern(given)
        if pattern is None or not view.is_contiguous:
            return None
        target, count = self.start + view.offset, view.size * view.itemsize // pattern[1]
        return lambda stream: stream.set(target, *pattern, count)

    def copying(self, view: View, source: Memory, shown: View) -> Callable[[_native.DeviceMemory], None] | None:
        """A function that copies the elements from another array, on a stream; None where the driver cannot."""
        if not isinstance(source, CudaMemory) or source.device is not self.device or source is self:
            return None
        if not (view.is_contiguous and shown.is_contiguous):
            return None
        target, begin, nbytes = self.start + view.offset, source.start + shown.offset, view.size * view.itemsize
        return lambda stream: stream.fill(target, begin, nbytes)

    def _write_between(self, view: View, given: np.ndarray) -> None:
        """Write elements that have others between them, which stay as they are: they come here and go back."""
        low, high = view.bounds
        content, stream = np.empty(high - low, np.uint8), stream_of(self.device)
        stream.download(content, self.start + low)
        np.ndarray(view.full_shape, view.dtype, content, view.offset - low, view.full_strides)[...] = given
        stream.upload(self.start + low, content)

    def copy_from(self, view: View, source: Memory, shown: View) -> None:
        if not isinstance(source, CudaMemory) or source.device is not self.device:
            return self.write(view, source.read(shown))
        self._begin_write()
        copied = self.copying(view, source, shown)
        if copied is not None:
            copied(stream_of(self.device))
        elif view.size:
            copy_strided[0](self, view, source, shown)
        return None

    def _begin_write(self) -> None:
        if self.is_read_only:
            raise LaunchError(f"{self.made_at} is read-only", hint="wp.clone(a) is an array that may be written")
        if self.is_watched:
            self.will_write()

    def keep(self, view: View) -> Kept:
        handle = super().keep(view)
        if self.is_exposed:
            self._save()  # writes through the address are not seen
        return handle

    def _save(self) -> None:
        handles = self._let_go()
        if handles:
            saved = cuda_memory(self.device, self.nbytes)
            stream_of(self.device).fill(saved.start, self.start, self.nbytes)
            for handle in handles:
                handle.move_to(saved)

    # -- for other libraries

    def capsule(self, view: View, *, stream: Any = None, max_version: Any = None, **options: Any) -> Any:
        """The capsule of DLPack's for what a view shows. The stream it is asked for finds all that was launched done.

        Raises:
            BufferError: it is asked for on another device, or as a copy.
        """
        if options.get("dl_device") not in (None, (2, self.device.ordinal)) or options.get("copy"):
            raise BufferError(f"an array on {self.device} is owner as it is there: a.to(device) copies")
        self.is_exposed = True
        if stream not in (-1, cuda_arrays.LEGACY):
            wait(self.device)
        kind, width = _KINDS[view.dtype.kind], view.dtype.itemsize
        strides = [stride // width for stride in view.full_strides]
        versioned = max_version is not None and max_version[0] >= 1
        return _native.lend_cuda(
            self.start + view.offset, self.device.ordinal, kind, 8 * width, view.full_shape, strides, self, versioned
        )

    def described(self, view: View) -> dict[str, Any]:
        """The `__cuda_array_interface__` of the elements that a view shows."""
        self.is_exposed = True
        return {
            "data": (self.start + view.offset if view.size else 0, self.is_read_only), "shape": view.full_shape,
            "strides": None if view.is_contiguous else view.full_strides, "typestr": view.dtype.str, "version": 3,
            "stream": cuda_arrays.LEGACY,
        }  # fmt: skip


def _pattern(given: np.ndarray) -> tuple[int, int] | None:
    """A word of 1, 2 or 4 bytes, and its width, that the bytes of one value repeat; None where there is none."""
    if given.size > 16:
        return None
    content = given.tobytes()
    for width in (1, 2, 4):
        if len(content) % width == 0 and content == content[:width] * (len(content) // width):
            return int.from_bytes(content[:width], "little"), width
    return None


class _Place:
    """Elements of a GPU's memory, for NumPy to make an array of that lies where they do."""

    def __init__(self, memory: CudaMemory, view: View):
        self.owner = memory.owner
        self.__array_interface__ = {
            "data": (memory.start + view.offset, memory.is_read_only), "shape": view.full_shape,
            "strides": view.full_strides, "typestr": f"|V{view.dtype.itemsize}", "version": 3,
        }  # fmt: skip


def outline(memory: CudaMemory, view: View) -> np.ndarray:
    """An array of NumPy that lies where the elements do, which this computer cannot read."""
    if not view.size:
        return np.empty(view.full_shape, view.dtype)
    return np.asarray(_Place(memory, view)).view(view.dtype)


@cached("one for each GPU")
def stream_of(device: Device) -> _native.DeviceMemory:
    """The object that puts copies on the stream of a device."""
    DEVICES.used.setdefault(device)
    return _native.DeviceMemory(0, STREAM, device.ordinal, _who(device))


def put_on(device: Device, work: Callable[[_native.DeviceMemory], None] | None) -> Callable[[int], None] | None:
    """A function that does copies on a stream of a device, given by its handle; None for no work."""
    if work is None:
        return None
    return lambda stream: work(_native.DeviceMemory(0, stream, device.ordinal, _who(device)))


def _who(device: Device) -> str:
    """Whom errors of the driver speak of."""
    return f"arrays on {device}"


def wait(device: Device) -> None:
    """Wait for all that was put on the stream of a device.

    Raises:
        LaunchError: it, or what was put there before, went wrong.
    """
    stream_of(device).wait()


def cuda_memory(device: Device, nbytes: int) -> CudaMemory:
    """New memory of a GPU.

    Raises:
        LaunchError: there is not so much.
    """
    try:
        made = _native.DeviceMemory(nbytes, STREAM, device.ordinal, _who(device))
    except DeviceError as error:
        said = error.diagnostic
        wanted = f"there is no memory on {device} for an array of {nbytes} bytes"
        raise DeviceError(f"{wanted}: {said.message}", hint=said.hint) from None
    return CudaMemory(device, made.address, nbytes, made, is_exposed=False)


def cuda_memory_at(device: Device, start: int, nbytes: int, owner: Any, *, is_read_only: bool = False) -> CudaMemory:
    """The bytes at an address, which others may write to as well. `owner` keeps them alive."""
    return CudaMemory(device, start, nbytes, owner, is_exposed=True, is_read_only=is_read_only)
