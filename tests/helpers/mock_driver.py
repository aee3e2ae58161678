"""The stand-in for the driver, as tests see it, and kernels in Python that it runs."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from launch_format import BATCH_AXES, WORDS

_RUN = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_longlong), ctypes.POINTER(ctypes.c_uint))


class MockDriver:
    """Log, settings and failures. The log may be filtered by the names of functions."""

    def __init__(self, library: str):
        self.library = ctypes.CDLL(library)
        self.library.mock_log.restype = ctypes.c_char_p
        self.library.mock_current.restype = ctypes.c_ulong
        self.library.mock_piece.restype = ctypes.c_ulonglong
        self.library.mock_make_current.argtypes = (ctypes.c_ulong,)
        self._kept: list[object] = []

    def log(self, *functions: str) -> list[str]:
        """The calls since the last `clear`."""
        lines = self.library.mock_log().decode().splitlines()
        return [line for line in lines if not functions or line.split()[0] in functions]

    def names(self) -> list[str]:
        return [line.split()[0] for line in self.log()]

    def clear(self) -> None:
        self.library.mock_clear()

    def fail(self, function: str, result: int) -> None:
        self.library.mock_fail(function.encode(), result)

    def set(self, **settings: int) -> None:
        for name, value in settings.items():
            self.library.mock_set(name.encode(), value)

    @property
    def current(self) -> int:
        """The context that is current on this thread."""
        return self.library.mock_current()

    @current.setter
    def current(self, context: int) -> None:
        self.library.mock_make_current(context)

    @property
    def allocated(self) -> int:
        """How many pieces of memory have not been given back."""
        return self.library.mock_allocated()

    def pieces(self) -> list[tuple[int, int]]:
        """Addresses and sizes of the pieces of memory."""
        size, found = ctypes.c_ulonglong(), []
        while address := self.library.mock_piece(len(found), ctypes.byref(size)):
            found.append((address, size.value))
        return found

    def register(self, entry: str, kernel: Callable[[ctypes._Pointer, ctypes._Pointer], None]) -> None:
        """Runs kernel(words, shape) wherever `entry` is launched."""
        function = _RUN(kernel)
        self._kept.append(function)
        self.library.mock_register(entry.encode(), function)


@functools.cache
def driver() -> MockDriver:
    """That of this process."""
    return MockDriver(os.environ["JWARP_LIBCUDA"])


@dataclass(frozen=True)
class Thread:
    """One thread of a kernel: its number, its coordinates counted through, and the addresses of its parameters."""

    number: int
    at: int
    addresses: tuple[int, ...]


@dataclass(frozen=True)
class Words:
    """The words of a kernel's arguments, read by the launch ABI."""

    total: int
    items: int
    threads: int
    failure: int
    batch: tuple[int, ...]
    symbols: tuple[int, ...]
    arrays: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]  # by batch axis, then parameter

    @classmethod
    def read(cls, words: ctypes._Pointer, symbols: int, parameters: int) -> Words:
        first, batch = WORDS["symbols"], WORDS["batch"]
        after = first + symbols
        strides = tuple(
            tuple(words[after + parameters * (1 + k) : after + parameters * (2 + k)]) for k in range(BATCH_AXES)
        )
        total, items, threads, failure = (words[WORDS[n]] for n in ("total", "items", "threads", "failure"))
        return cls(
            total, items, threads, failure, tuple(words[batch:first]), tuple(words[first:after]),
            tuple(words[after : after + parameters]), strides,
        )  # fmt: skip

    def all_threads(self) -> Iterator[Thread]:
        for n in range(self.total):
            item, index = n // self.threads % self.items, []
            for extent in reversed(self.batch):
                index.insert(0, item % extent)
                item //= extent
            assert item == 0
            addresses = tuple(
                base + sum(index[k] * self.strides[k][p] for k in range(BATCH_AXES))
                for p, base in enumerate(self.arrays)
            )
            yield Thread(n, n % self.threads, addresses)


def float_at(address: int) -> ctypes.c_float:
    return ctypes.c_float.from_address(address)
