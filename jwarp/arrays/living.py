"""The memory of living arrays as kernels look it up: addresses are numbers, and one table says whose they are.

Memory enters the table when its address becomes known as a number (`a.ptr`, an array in an element of an array of
structs, the id of a mesh), and leaves it when it dies. While launches run that look numbers up, nothing that a table
named is freed. So a kernel that is given any number finds living memory or nothing.

A table is a sorted row of words that never changes: another one takes its place, in one word that all kernels read.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jwarp.arrays.memory import HostMemory, Kept, Memory
from jwarp.arrays.view import View
from jwarp.errors import LaunchError
from jwarp.types import ArrayType, Struct, StructArrayType, StructType
from jwarp.types.all_memory import BASE, DESCRIPTOR_WORDS, MOVES, TOP, WORD, kind_number
from jwarp.types.composites import AT_ADDRESS
from jwarp.types.handles import SLOTS, when_gone


class _Bytes:
    """Addresses as bytes of an array."""

    def __init__(self, first: int, count: int, owner: Any = None):
        self.owner = owner  # which they live as long as
        self.__array_interface__ = {"data": (first, False), "shape": (count,), "typestr": "|u1", "version": 3}


class UnkeptMemory(HostMemory):
    """Memory whose content nobody keeps: a handle to it reads what is there by then."""

    __slots__ = ()

    def keep(self, view: View) -> Kept:
        return Kept(self, view)

    def _save(self) -> None:
        """Nothing, likewise."""


class AllMemory(UnkeptMemory):
    """The addresses of a program, of which kernels reach those alone that tables name.

    What handles to it show is saved by the memories that it belongs to.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(np.asarray(_Bytes(BASE, TOP - BASE)), BASE)
        self.is_watched = True

    def will_write(self) -> None:
        """Save what handles keep of any memory that a kernel may find.

        Raises:
            LaunchError: some of it is read-only.
        """
        self._version += 1
        memories = table.memories()
        for memory in memories:
            if not memory.buffer.flags.writeable:
                raise LaunchError(
                    f"a kernel writes to arrays that it finds by numbers, and {memory.made_at}, which it may find, is"
                    " read-only",
                    hint="wp.clone(a) is an array that may be written",
                )
        for memory in memories:
            if memory.is_watched:
                memory.will_write()


class Graded(NamedTuple):
    """Memory that a view shows and kernels may find, and the memory and view that have its gradient."""

    memory: HostMemory
    view: View
    gradient: HostMemory
    shown: View


class _Note:
    """The gradient of an array that kernels find after the array itself is gone, while its memory lives."""

    __slots__ = ("of", "parts", "views")

    def __init__(self, given: Any, grad: Any):
        self.of = weakref.ref(given)
        self.parts = weakref.ref(given.memory), weakref.ref(grad.memory)
        self.views = given.layout, grad.layout

    def found(self) -> Graded | None:
        """The gradient, where the array is gone and its memory is not; else None."""
        memory, gradient = (part() for part in self.parts)
        if self.of() is not None or memory is None or gradient is None:
            return None
        return Graded(memory, self.views[0], gradient, self.views[1])

    def is_over(self) -> bool:
        return any(part() is None for part in self.parts)


class Table:
    """The addresses of living memory, and of the records of grids, trees and meshes.

    Attributes:
        words: One word: where the present row of addresses is, as the number of its first word.
        slots: For each slot the id that has it, and where its record is, as words; those of slot 0 are nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._known: dict[int, weakref.ref[HostMemory]] = {}  # by the identities of memories
        self._row: np.ndarray | None = None  # the present one, which the table keeps alive
        self._buffers: dict[int, tuple[int, np.ndarray]] = {}  # with their addresses
        self._is_due = True  # whether the row is another one by now
        self._arrays: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._notes: dict[tuple[Any, ...], _Note] = {}  # by memories and views
        self._most_notes = 64
        self._running = 0
        self._kept: list[Any] = []  # what launches that run may still see
        self.words = np.zeros(1, np.uint64)
        self.slots = np.zeros((SLOTS, 2), np.uint64)  # of which the system gives what is written
        self._nothing = np.zeros(MAX_RECORD, np.uint64)
        self.slots[0, 1] = word_of(self._nothing)
        self._unmoved = np.array([1, 0, TOP - BASE, 0], np.uint64)  # a row of one span: see autodiff/found_memory.py
        self.moves = np.full(MOVES, word_of(self._unmoved), np.uint64)
        self._records: dict[int, tuple[Any, ...]] = {}
        self._publish()

    # -- memory

    def enter(self, memory: Memory) -> None:
        """Let kernels find a memory by its addresses, as long as it lives."""
        if not isinstance(memory, HostMemory) or id(memory) in self._known or not memory.buffer.size:
            return
        with self._lock:
            me = id(memory)
            self._buffers[me] = memory.start, memory.buffer
            self._known[me] = weakref.ref(memory, functools.partial(self._leave, me))
            self._changed()

    def _leave(self, me: int, _: Any) -> None:
        with self._lock:
            self._known.pop(me, None)
            gone = self._buffers.pop(me, None)
            self._changed()
            self._keep(gone)

    def end(self) -> None:
        """Take no notice of memory any more, as the process ends."""
        self._known.clear()

    def _changed(self) -> None:
        """Note that the present row is not what it should be; kernels that run see another one at once."""
        self._is_due = True
        if self._running:
            self._publish()

    def memories(self) -> list[HostMemory]:
        """The memories that kernels find."""
        with self._lock:
            found = [memory for known in self._known.values() if (memory := known()) is not None]
            return [*found, *(x.memory for x in self.arrays(by_addresses=False))]

    def note(self, given: Any) -> None:
        """Note an array that kernels may find, as it may have a gradient."""
        with self._lock:
            self._arrays[id(given)] = given
            grad = given.grad
            if grad is None:
                return
            self._notes[id(given.memory), given.layout, id(grad.memory), grad.layout] = _Note(given, grad)
            if len(self._notes) > self._most_notes:
                self._notes = {key: note for key, note in self._notes.items() if not note.is_over()}
                self._most_notes = 2 * len(self._notes) + 64

    def graded(self) -> list[Graded]:
        """The gradients of arrays that are gone, whose memory kernels may find."""
        with self._lock:
            return [found for note in self._notes.values() if (found := note.found()) is not None]

    def bytes_at(self, address: int) -> np.ndarray | None:
        """The bytes from an address to the end of the living memory that it is in; None if it is in none."""
        with self._lock:
            for start, buffer in self._buffers.values():
                if start <= address < start + buffer.nbytes:
                    return buffer.reshape(-1).view(np.uint8)[address - start :]
        return None

    def memory_at(self, address: int) -> HostMemory | None:
        """The living memory that an address is in; None if it is in none."""
        with self._lock:
            for me, (start, buffer) in self._buffers.items():
                if start <= address < start + buffer.nbytes:
                    return self._known[me]()
        return None

    def arrays(self, *, by_addresses: bool) -> list[Any]:
        """The arrays that kernels may find by ids, and `by_addresses`."""
        with self._lock:
            kept = [x for record in self._records.values() for x in record[3] if hasattr(x, "memory")]
        return [*self._arrays.values(), *kept] if by_addresses else kept

    def _publish(self) -> None:
        """Put another row in the place of the present one. Of memories that overlap it has what all cover."""
        while self._is_due:  # again where the collector lets memory die meanwhile
            self._is_due = False
            row = [0]
            for start, end in sorted((start, start + buffer.nbytes) for start, buffer in [*self._buffers.values()]):
                if len(row) > 1 and start < row[-1]:
                    row[-1] = max(row[-1], end)
                else:
                    row += (start, end)
            row[0] = len(row) // 2
            made = np.array(row, np.uint64)
            self.words[0] = word_of(made)
            self._keep(self._row)
            self._row = made

    # -- grids, trees and meshes

    def write(self, number: int, state: Any, struct: Struct) -> None:
        """Let kernels find what a struct has under an id, in the state of the object that it names."""
        keeps: list[Any] = []
        with self._lock:
            record = np.array([kind_number(type(struct)), *_words(struct, keeps)], np.uint64)
            if record.size > MAX_RECORD:
                raise LaunchError(f"a record of {type(struct)!r} has {record.size} words, more than {MAX_RECORD}")
            slot = number & (SLOTS - 1)
            self._keep(self._records.get(slot))
            self._records[slot] = number, state, record, keeps
            self.slots[slot] = number, word_of(record)

    def erase(self, number: int) -> None:
        """Let kernels find nothing under an id any more."""
        with self._lock:
            slot = number & (SLOTS - 1)
            found = self._records.get(slot)
            if found is not None and found[0] == number:
                self.slots[slot] = 0, self.slots[0, 1]
                self._keep(self._records.pop(slot))

    def records(self) -> dict[int, bytes]:
        """The words of records as they are now, by ids."""
        with self._lock:
            return {number: words.tobytes() for number, _, words, _ in self._records.values()}

    def contents(self) -> list[tuple[int, np.ndarray]]:
        """The addresses and bytes of arrays of grids, trees and meshes that are not `memories`."""
        with self._lock:
            kept = [x for record in self._records.values() for x in record[3]]
        found = []
        for value, content in zip(kept[::2], kept[1::2], strict=True):
            if not hasattr(value, "memory") and content.size:
                first, end = np.lib.array_utils.byte_bounds(content)
                found.append((first, np.asarray(_Bytes(first, end - first, content))))
        return found

    def state(self, number: int) -> Any:
        """The state that was written last under an id; None for none."""
        found = self._records.get(number & (SLOTS - 1))
        return found[1] if found is not None and found[0] == number else None

    # -- launches

    def _keep(self, kept: Any) -> None:
        if self._running and kept is not None:
            self._kept.append(kept)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep all that the table names, or did while one of these was open."""
        with self._lock:
            self._running += 1
            self._publish()
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                kept = [] if self._running else self._kept
                if not self._running:
                    self._kept = []
            del kept  # outside of the lock, as memory that dies takes it


def word_of(words: np.ndarray) -> int:
    """The number of the first word of an array among all words."""
    return (int(words.__array_interface__["data"][0]) - BASE) // WORD


def descriptor(given: Any) -> np.ndarray:
    """An array as the words that an element of an array of structs has for it; None and empty ones are zeros.

    Raises:
        LaunchError: it is not in host memory.
    """
    made = np.zeros(DESCRIPTOR_WORDS, np.uint64)
    if given is None or not given.size:
        return made
    if not isinstance(given.memory, HostMemory):
        raise LaunchError(
            "an array of structs in host memory holds arrays of host memory", hint="move the array: a.to('cpu')"
        )
    table.enter(given.memory)
    given.memory.is_exposed = True  # kernels that find it may write there
    made[0] = given.memory.start + given.layout.offset
    table.note(given)
    if given.grad is not None:
        table.enter(given.grad.memory)
        made[1] = given.grad.memory.start + given.grad.layout.offset
    made[2:] = _extents(given.shape, given.strides)
    return made


def _extents(shape: Any, strides: Any) -> np.ndarray:
    """Extents, strides in bytes and number of dimensions of an array, as words."""
    halves = np.zeros(10, np.int32)
    halves[: len(shape)], halves[4 : 4 + len(strides)], halves[8] = shape, strides, len(shape)
    return halves.view(np.uint64)


def _words(struct: Struct, keeps: list[Any]) -> Iterator[int]:
    """The words of a record, but for that of its kind: a descriptor for each array, one word for each number.

    `keeps` gets what they are the places of.
    """
    for name, kind in type(struct).fields.items():
        value: Any = getattr(struct, name)
        if isinstance(kind, StructType):
            yield from _words(value, keeps)
        elif isinstance(kind, ArrayType) and kind.dims:
            yield from _described(value, kind, keeps)
        else:
            assert not isinstance(kind, StructArrayType)
            dtype = (kind.dtype if isinstance(kind, ArrayType) else kind).dtype
            for number in np.ravel(np.asarray(value, dtype)):
                yield int.from_bytes(number.tobytes(), "little")


def _described(value: Any, kind: ArrayType, keeps: list[Any]) -> Iterator[int]:
    """The descriptor of an array of a grid, tree, mesh or volume."""
    content = value.host() if hasattr(value, "memory") else np.asarray(value, kind.dtype.dtype)
    keeps += (value, content)
    if not content.size:
        yield from (0,) * DESCRIPTOR_WORDS
        return
    yield int(content.__array_interface__["data"][0])
    yield 0
    yield from map(int, _extents(content.shape[: kind.dims], content.strides[: kind.dims]))


MAX_RECORD = 512
table = Table()
when_gone.append(table.erase)
atexit.register(table.end)


def _at_address(kind: Any, address: int) -> Any:
    found, size = table.bytes_at(address), kind._length_ * kind.dtype.dtype.itemsize
    if found is None or found.nbytes < size:
        raise LaunchError(f"{kind.name}.from_ptr: no array that is alive on the host has the address {address:#x}")
    return kind.from_buffer_copy(found[:size])


AT_ADDRESS[:] = [_at_address]
