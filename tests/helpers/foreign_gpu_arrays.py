"""Arrays that pass for another library's in the memory of a GPU: NumPy's memory, exported by DLPack as CUDA's."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from fake_xla import new_capsule

_CODES = {"i": 0, "u": 1, "f": 2, "b": 6, "c": 5, "V": 4}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("owner", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("owner", ctypes.c_void_p), ("deleter", _Deleter),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


# Those that have lent something: nobody else may hold them, and what is lent has to last.
_lending: set[Lender] = set()


class Lender:
    """An array on a GPU. It notes the streams for which it was asked, and how many views of it live."""

    def __init__(
        self, array: np.ndarray, device: int = 0, *, kind: int = 2, version: int | None = 1, read_only: bool = False,
        claims: Mapping[str, Any] | None = None,
    ):  # fmt: skip
        self.array, self.device, self.kind, self.version, self.read_only = array, device, kind, version, read_only
        self.claims = claims or {}  # fields of its description that are not true
        self.streams: list[int | None] = []
        self.lent: dict[int, Any] = {}

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.device

    def __dlpack__(self, **options: Any) -> Any:
        if self.version is None and "max_version" in options:
            raise TypeError("max_version")
        self.streams.append(options.get("stream"))
        array, rank = self.array, self.array.ndim
        strides = [s // array.itemsize for s in array.strides]
        tensor = _Tensor(
            array.ctypes.data - 8, self.kind, self.device, rank, _CODES[array.dtype.kind], 8 * array.itemsize, 1,
            (ctypes.c_int64 * rank)(*array.shape),
            # A contiguous array may leave them out.
            None if array.flags.c_contiguous and len(self.streams) % 2 else (ctypes.c_int64 * rank)(*strides), 8,
        )  # fmt: skip
        for field, claim in self.claims.items():
            setattr(tensor, field, (ctypes.c_int64 * len(claim))(*claim) if isinstance(claim, tuple) else claim)
        number = len(self.streams)
        deleter = _Deleter(lambda _: self._take_back(number))
        if self.version is None:
            managed = _Managed(tensor, None, deleter)
        else:
            managed = _Versioned(self.version, 0, None, deleter, int(self.read_only), tensor)
        self.lent[number] = (managed, deleter, array)
        _lending.add(self)
        name = b"dltensor" if self.version is None else b"dltensor_versioned"
        return new_capsule(ctypes.addressof(managed), name, None)

    def _take_back(self, number: int) -> None:
        del self.lent[number]
        if not self.lent:
            _lending.discard(self)


class Stream:
    """A stream object of another library."""

    def __init__(self, handle: int):
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle
