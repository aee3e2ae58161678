"""Memory of the PTX machine, each access checked: inside one piece of memory, aligned, and not to what is read-only."""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass, field

import numpy as np
from ptx_values import Array

# Where the spaces lie among generic addresses: no address of the process has these bits.
WINDOWS = {"shared": 1 << 56, "local": 2 << 56, "param": 3 << 56}
WINDOW_BITS = np.uint64(0xFF << 56)
POISON = 0xFF  # makes floats NaN


class Fault(Exception):
    """A fault that a GPU would not accept, or not always: `kind` is a word for it."""

    def __init__(self, kind: str, message: str):
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass
class Piece:
    """Bytes from an address on, of which threads may have written some and read others as constant."""

    base: int
    data: Array  # of uint8
    name: str = ""
    writable: bool = True
    step: int = 1  # bytes of its elements
    written: Array | None = None
    constant: Array | None = None

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def typed(self, dtype: np.dtype) -> tuple[Array, int]:
        """The content as elements of a type, and the address of the first."""
        start = -self.base % dtype.itemsize
        count = max(0, len(self.data) - start) // dtype.itemsize
        return self.data[start : start + count * dtype.itemsize].view(dtype), self.base + start

    def note(self, addresses: Array, width: int, write: bool) -> None:
        """Remembers what was written, and what was read by loads for constants."""
        if self.written is None or self.constant is None:
            self.written, self.constant = np.zeros(len(self.data), bool), np.zeros(len(self.data), bool)
        target = self.written if write else self.constant
        offsets = (addresses - np.uint64(self.base)).astype(np.int64)
        for k in range(width):
            target[offsets + k] = True


@dataclass
class GlobalMemory:
    """Pieces by address. Accesses are given the threads, for messages."""

    pieces: list[Piece] = field(default_factory=list)
    _bases: list[int] = field(default_factory=list)
    heap: dict[int, Array] = field(default_factory=dict)
    heap_size: int = 1 << 30

    def add(self, array: Array, name: str = "", writable: bool = True) -> Piece:
        """The memory of an array of the process."""
        return self.add_address(array.ctypes.data, array.nbytes, name, writable, array.itemsize)

    def add_address(self, address: int, size: int, name: str = "", writable: bool = True, step: int = 1) -> Piece:
        data = np.ctypeslib.as_array((ctypes.c_uint8 * max(size, 1)).from_address(address))[:size]
        piece = Piece(address, data, name, writable, step)
        at = bisect.bisect(self._bases, address)
        self._bases.insert(at, address)
        self.pieces.insert(at, piece)
        return piece

    def allocate(self, size: int) -> int:
        """A piece of the heap for a thread, 0 where that is full."""
        if sum(len(piece) for piece in self.heap.values()) + size > self.heap_size:
            return 0
        whole = np.full(size + 16, POISON, np.uint8)
        made = whole[-whole.ctypes.data % 16 :][:size]
        self.heap[made.ctypes.data] = made
        self.add(made, "a piece of the heap")
        return made.ctypes.data

    def free(self, address: int) -> None:
        if address not in self.heap:
            raise Fault("heap", f"{address:#x} is given back, and nothing was allocated there")
        del self.heap[address]
        at = self._bases.index(address)
        del self._bases[at], self.pieces[at]

    def check_heap(self) -> None:
        """Threads have given back what they allocated."""
        if self.heap:
            raise Fault("heap", f"{len(self.heap)} pieces of the heap are not given back")

    def parts(self, addresses: Array, width: int, write: bool) -> list[tuple[Piece, Array | slice]]:
        """Which piece each access goes to; a Fault where there is none."""
        low, high = int(addresses.min()), int(addresses.max())
        piece = self._at(low)
        if piece is not None and high + width <= piece.end:
            found: list[tuple[Piece, Array | slice]] = [(piece, slice(None))]
        else:
            number = np.searchsorted(np.array(self._bases, np.uint64), addresses, "right") - 1
            found = []
            for k in np.unique(number):
                chosen = np.flatnonzero(number == k)
                if k < 0 or int(addresses[chosen].max()) + width > self.pieces[k].end:
                    which = chosen[np.argmax(addresses[chosen])]
                    raise OutOfBounds(int(which), int(addresses[which]), width, self._near(int(k)))
                found.append((self.pieces[k], chosen))
        if write:
            for piece, chosen in found:
                if not piece.writable:
                    first = int(np.arange(len(addresses))[chosen][0])
                    raise OutOfBounds(first, int(addresses[first]), width, f"{piece.name}, which is only read")
        return found

    def _at(self, address: int) -> Piece | None:
        k = bisect.bisect(self._bases, address) - 1
        return self.pieces[k] if k >= 0 and address < self.pieces[k].end else None

    def _near(self, k: int) -> str:
        if k < 0:
            return "before all arrays"
        piece = self.pieces[k]
        return f"behind {piece.name or 'an array'} of {len(piece.data)} bytes at {piece.base:#x}"

    def load(self, addresses: Array, dtype: np.dtype, constant: bool = False) -> Array:
        check_aligned(addresses, dtype.itemsize)
        out = np.empty(len(addresses), dtype)
        for piece, chosen in self.parts(addresses, dtype.itemsize, False):
            view, start = piece.typed(dtype)
            own = addresses[chosen]
            out[chosen] = view[((own - np.uint64(start)) // np.uint64(dtype.itemsize)).astype(np.int64)]
            if constant:
                piece.note(own, dtype.itemsize, False)
        return out

    def store(self, addresses: Array, found: Array) -> None:
        check_aligned(addresses, found.itemsize)
        for piece, chosen in self.parts(addresses, found.itemsize, True):
            view, start = piece.typed(found.dtype)
            own = addresses[chosen]
            view[((own - np.uint64(start)) // np.uint64(found.itemsize)).astype(np.int64)] = found[chosen]
            piece.note(own, found.itemsize, True)

    def check_constants(self) -> None:
        """Nothing was written in this launch that was read as constant."""
        for piece in self.pieces:
            if piece.written is not None and piece.constant is not None:
                both = np.flatnonzero(piece.written & piece.constant)
                piece.written = piece.constant = None
                if len(both):
                    raise Fault("constant", f"byte {both[0]} of {piece.name} is written, and read by ld.global.nc")


class OutOfBounds(Exception):
    """An access outside, by its number among those of the instruction."""

    def __init__(self, which: int, address: int, width: int, near: str):
        super().__init__(f"{width} bytes at {address:#x}, {near}")
        self.which = which


class Misaligned(OutOfBounds):
    pass


def check_aligned(addresses: Array, width: int) -> None:
    wrong = addresses & np.uint64(width - 1) != 0
    if wrong.any():
        which = int(np.argmax(wrong))
        raise Misaligned(which, int(addresses[which]), width, f"which is no multiple of {width}")


@dataclass
class OwnMemory:
    """Memory that each block, or each thread, has `size` bytes of: rows of one array."""

    name: str
    size: int
    rows: int

    def __post_init__(self) -> None:
        self.step = -(-max(self.size, 1) // 16) * 16
        self.data = np.full(self.rows * self.step, POISON, np.uint8)

    def places(self, rows: Array, offsets: Array, width: int) -> Array:
        """The offsets in `data` of accesses; offsets are those inside of a row."""
        check_aligned(offsets, width)
        outside = offsets + np.uint64(width) > np.uint64(self.size)
        if outside.any():
            which = int(np.argmax(outside))
            raise OutOfBounds(which, int(offsets[which]), width, f"in {self.name} memory of {self.size} bytes")
        return rows * self.step + offsets.astype(np.int64)

    def load(self, rows: Array, offsets: Array, dtype: np.dtype) -> Array:
        return self.data.view(dtype)[self.places(rows, offsets, dtype.itemsize) // dtype.itemsize]

    def store(self, rows: Array, offsets: Array, found: Array) -> None:
        self.data.view(found.dtype)[self.places(rows, offsets, found.itemsize) // found.itemsize] = found
