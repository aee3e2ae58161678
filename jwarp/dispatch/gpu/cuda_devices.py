"""The GPUs of this process, as the driver describes them."""

from __future__ import annotations

from typing import Any

from jwarp import _native
from jwarp.devices import DEVICES, Device
from jwarp.dispatch.gpu.cuda_streams import Stream
from jwarp.errors import LaunchError

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
