"""Arrays of other libraries in the memory of NVIDIA GPUs, and the streams that launches on them are put on."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import jwarp._native as _native
from jwarp.arrays.dlpack import VERSION
from jwarp.errors import LaunchError
from jwarp.wire import DTYPES

DEVICES = (2, 13)  # DLPack's numbers of CUDA's memory, and of managed memory
LEGACY, PER_THREAD = 1, 2  # CUDA's own numbers of its two default streams, which are DLPack's as well

_DTYPES = {
    code: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name, code in DTYPES.items()
}  # fmt: skip


def is_cuda_array(value: Any) -> bool:
    """True if `value` exports GPU memory by DLPack."""
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        return False
    try:
        return value.__dlpack_device__()[0] in DEVICES
    # A foreign object may raise anything; then it exports no array.
    except Exception:
        return False


@dataclass(frozen=True, eq=False)
class Own:
    """Elements of an array of jwarp's on a GPU, as launches take them. `owner` keeps the memory."""

    owner: Any
    device: int
    outline: np.ndarray

    @property
    def address(self) -> int:
        """Where the first element is."""
        return int(self.outline.ctypes.data)

    def __dlpack_device__(self) -> tuple[int, int]:
        return DEVICES[0], self.device

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("launches take it as it is")


@dataclass(frozen=True)
class Borrowed:
    """An array of a GPU: `owner` keeps the memory, and `outline` lies where it does.

    The outline is an array of NumPy, for questions about dtype, shape, strides and overlap. This computer cannot
    read what is in it.
    """

    owner: _native.DeviceArray | Own
    outline: np.ndarray


class _Outline:
    def __init__(self, owner: _native.DeviceArray, itemsize: int):
        self.__array_interface__ = {
            "version": 3,
            "data": (owner.address, owner.read_only),
            "shape": owner.shape,
            "strides": owner.strides,
            "typestr": f"|V{itemsize}",
        }


def borrow(value: Any, stream: int) -> Borrowed | None:
    """The array, once what its owner still does to it comes before what is put on the stream from now on.

    None for a dtype that kernels do not have. Raises whatever the owner does.
    """
    if type(value) is Own:
        return Borrowed(value, value.outline)
    number = stream or LEGACY
    try:
        capsule = value.__dlpack__(stream=number, max_version=VERSION)
    except TypeError:
        capsule = value.__dlpack__(stream=number)
    owner = _native.DeviceArray(capsule)
    dtype = _DTYPES.get(owner.dtype)
    if dtype is None:
        return None
    # Without elements there may be no address, which NumPy takes for a wish to have memory.
    if 0 in owner.shape or not owner.address:
        return Borrowed(owner, np.empty(owner.shape, dtype))
    return Borrowed(owner, np.asarray(_Outline(owner, dtype.itemsize)).view(dtype))


def read_stream(kernel_name: str, stream: Any) -> int:
    """The handle of a stream, given as a number or by an object with `__cuda_stream__`; 0 for None."""
    if stream is None:
        return 0
    try:
        given = stream.__cuda_stream__()[1] if hasattr(stream, "__cuda_stream__") else stream
        handle = operator.index(given)
    except (TypeError, IndexError, ValueError):
        handle = -1
    if handle < 0 or isinstance(stream, bool):
        raise LaunchError(
            f"kernel '{kernel_name}': stream must be a CUDA stream, got {type(stream).__name__} {str(stream)[:60]}",
            hint="pass its handle, an int, or an object with __cuda_stream__",
        )
    return handle
