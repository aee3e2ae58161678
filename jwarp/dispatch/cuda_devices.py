"""The GPUs of this process, as the driver describes them."""

from __future__ import annotations

from typing import Any

from jwarp import _native
from jwarp.devices import DEVICES, Device

# The driver's numbers of attributes.
_MULTIPROCESSORS, _SHARED, _POOLS = 16, 97, 115


class CudaDevice(Device):
    """A GPU. Its numbers are read from the driver when they are asked for."""

    is_uva = True  # type: ignore[misc]
    is_primary = True  # type: ignore[misc]
    is_cubin_supported = True  # type: ignore[misc]
    has_context = True  # type: ignore[misc]
    has_stream = True  # type: ignore[misc]

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
        """Whether the driver has pools for its memory, which arrays come from."""
        return bool(_native.cuda_attribute(_POOLS, self.ordinal))

    @property
    def is_mempool_enabled(self) -> bool:  # type: ignore[override]
        """Whether arrays come from the pool: yes, where there is one."""
        return self.is_mempool_supported

    @property
    def total_memory(self) -> int:
        """Its memory in bytes."""
        return _native.cuda_memory_info(self.ordinal)[1]

    @property
    def free_memory(self) -> int:
        """The memory that nobody uses, in bytes."""
        return _native.cuda_memory_info(self.ordinal)[0]

    def get_cuda_output_format(self, preferred_cuda_output: str | None = None) -> Any:
        """What kernels are compiled to: code of the device."""
        return "cubin"

    def get_cuda_compile_arch(self) -> Any:
        """The compute capability that kernels are compiled for."""
        return self.arch


def find() -> list[Device]:
    """All of them. A RuntimeError says why the driver cannot be used."""
    return [CudaDevice(ordinal) for ordinal in range(_native.cuda_device_count())]


DEVICES.find = find
