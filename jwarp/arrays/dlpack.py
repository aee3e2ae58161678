"""Arrays of other libraries, seen as NumPy arrays through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from jwarp import _native
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import bfloat16

CPU = 1  # DLPack's number of host memory
UINT16, BFLOAT16 = 1, 4  # its numbers of kinds of elements: unsigned integers, and floats of bfloat16
VERSION = (1, 0)  # the first in which an exporter says whether its memory may be written

# Prototypes of our own: the functions of `ctypes.pythonapi` are shared by all libraries that set their types.
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


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

    Raises whatever the exporter or NumPy does about an array that neither NumPy nor ml_dtypes has a dtype for.

    Raises:
        KernelTypeError: The description of the array contradicts itself.
    """
    exporter = _Exporter(value)
    fault = _native.dlpack_contradiction(exporter.capsule)
    if fault:
        raise KernelTypeError(
            f"the array that a {type(value).__name__} exports by DLPack is damaged: {fault}",
            hint="this is a fault of the library that exports it",
        )
    is_bfloat16 = _relabel(exporter.capsule, BFLOAT16, UINT16)  # which NumPy does not import
    array = np.from_dlpack(exporter)
    if is_bfloat16:
        array = array.view(bfloat16.dtype)
    # NumPy takes arrays of old exporters for read-only, though they have no way to say either.
    if array.flags.writeable or exporter.is_versioned or is_read_only:
        return array
    return np.asarray(_Writeable(array)).view(array.dtype)


def export(array: np.ndarray, **options: Any) -> Any:
    """The capsule of an array of NumPy's, also of one of bfloat16, which NumPy does not export.

    Raises:
        LaunchError: the array is read-only, and who takes the capsule has no way to know.
    """
    is_bfloat16 = array.dtype == bfloat16.dtype
    try:
        capsule = (array.view(np.uint16) if is_bfloat16 else array).__dlpack__(**options)
    except BufferError as error:
        if array.flags.writeable:
            raise
        raise LaunchError(
            f"the array is read-only, and DLPack cannot say so here: {error}",
            hint="wp.to_jax(a) takes it as it is; wp.clone(a) may be written",
            also=BufferError,
        ) from None
    if is_bfloat16:
        _relabel(capsule, UINT16, BFLOAT16)
    return capsule


def _relabel(capsule: Any, before: int, after: int) -> bool:
    """Write another kind of 16-bit elements into what a capsule stands for; False if it is not of the kind `before`."""
    begin = _described_at(capsule)
    kind = (ctypes.c_uint8 * 2).from_address(begin + 20)  # and the bits of an element
    if tuple(kind) != (before, 16):
        return False
    kind[0] = after
    return True


def _described_at(capsule: Any) -> int:
    """The address of an array's description: address, device, rank, type of elements, extents."""
    name = _capsule_name(capsule)
    # A version and what manages the memory come first in the newer of the two kinds.
    return _capsule_pointer(capsule, name) + (32 if name == b"dltensor_versioned" else 0)


class Capsule:
    """An exporter whose memory is that of a capsule which stands for it."""

    def __init__(self, capsule: Any):
        name = _capsule_name(capsule)
        if name not in (b"dltensor", b"dltensor_versioned"):
            raise TypeError("the capsule stands for no array, or has been taken already")
        self.capsule = capsule
        self.device = tuple((ctypes.c_int32 * 2).from_address(_described_at(capsule) + 8))

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
        if not is_capsule(self.capsule):
            raise KernelTypeError(f"Expected a valid DLPack capsule, got {type(self.capsule).__name__}")
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
