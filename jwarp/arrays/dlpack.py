"""Arrays of other libraries, seen as NumPy arrays through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

CPU = 1  # DLPack's number of host memory
VERSION = (1, 0)  # the first in which an exporter says whether its memory may be written

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_size_t, [ctypes.py_object, ctypes.c_char_p]


def is_exporter(value: Any) -> bool:
    """True if `value` exports host memory by DLPack."""
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        return False
    try:
        return value.__dlpack_device__()[0] == CPU
    # A foreign object may raise anything; then it exports no array.
    except Exception:
        return False


def view(value: Any, *, is_read_only: bool = False) -> np.ndarray:
    """A NumPy array in the memory of an exporter, which it keeps alive; read-only if that says so, or it is known.

    Raises whatever the exporter or NumPy does about an array that NumPy has no dtype for.
    """
    exporter = _Exporter(value)
    array = np.from_dlpack(exporter)
    # NumPy takes arrays of old exporters for read-only, though they have no way to say either.
    if array.flags.writeable or exporter.is_versioned or is_read_only:
        return array
    return np.asarray(_Writeable(array)).view(array.dtype)


class Capsule:
    """An exporter whose memory is that of a capsule which stands for it."""

    def __init__(self, capsule: Any):
        name = _capsule_name(capsule)
        if name not in (b"dltensor", b"dltensor_versioned"):
            raise TypeError("the capsule stands for no array, or has been taken already")
        self.capsule = capsule
        # A version and what manages the memory come first in the newer of the two; then the address and the device.
        begin = _capsule_pointer(capsule, name) + (0 if name == b"dltensor" else 32)
        self.device = tuple((ctypes.c_int32 * 2).from_address(begin + 8))

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, ...]:
        return self.device


def is_capsule(value: Any) -> bool:
    """True for a capsule of Python's."""
    return type(value).__name__ == "PyCapsule"


class _Exporter:
    """Hands the capsule of an exporter on, after a look at its name."""

    def __init__(self, value: Any):
        try:
            self.capsule = value.__dlpack__(max_version=VERSION)
        except TypeError:
            self.capsule = value.__dlpack__()
        self.is_versioned = _capsule_name(self.capsule) == b"dltensor_versioned"

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0


class _Writeable:
    """An array's memory, to be written."""

    def __init__(self, array: np.ndarray):
        described = array.__array_interface__
        self.array = array
        self.__array_interface__ = {**described, "data": (described["data"][0], False)}
