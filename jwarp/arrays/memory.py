"""The memory that arrays are views of: its origin, and copies that are saved before its content changes."""

from __future__ import annotations

import abc
import ctypes
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from jwarp.arrays.view import Element, View, components_of
from jwarp.devices import CPU, Device
from jwarp.errors import LaunchError

ALIGNMENT = 64
# Where code lies that is not the user's.
_PACKAGES = str(Path(__file__).parents[1]), str(Path(np.__file__).parent)


def place_of_caller(depth: int = 1) -> tuple[str, int]:
    """File and line of the user's code that runs now, of which at least `depth` calls are not the user's."""
    frame: Any = sys._getframe(depth)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGES):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


_forgetting = threading.Lock()  # handles that nobody has


class Memory(abc.ABC):
    """Memory that arrays are views of.

    Attributes:
        device: Where it is.
        origin: File and line where it was made.
        is_watched: Whether somebody asked for its content or its version as they are now. Whoever writes calls
            `will_write` then.
        keepers: The handles to its content as it is now, which `will_write` saves.
        is_traced: Whether it stands for a value of JAX's.
    """

    is_traced: ClassVar[bool] = False

    __slots__ = ("__weakref__", "_version", "device", "is_watched", "keepers", "origin")

    def __init__(self, device: Device):
        self.device = device
        self.origin = place_of_caller()
        self.keepers: list[weakref.ref[Kept | KeptTogether]] = []
        self._version = 0
        self.is_watched = False

    @property
    def made_at(self) -> str:
        """Where it was made, in words."""
        return "the array made at {}:{}".format(*self.origin)

    @property
    def is_known(self) -> bool:
        """True if the content can be read now: not where JAX traces it, and arguments of the function decide on it."""
        return True

    @abc.abstractmethod
    def read(self, view: View) -> Any:
        """The content that a view of it shows now: of host memory the elements themselves, with component axes."""

    @abc.abstractmethod
    def write(self, view: View, value: Any) -> None:
        """Set the elements that a view shows to `value`, an array of NumPy (or JAX) that broadcasts to them."""

    @abc.abstractmethod
    def expose(self, view: View) -> np.ndarray:
        """The elements that a view shows, for code that is not watched.

        Raises:
            LaunchError: they are not known yet, as JAX traces them.
        """

    def copy_from(self, view: View, source: Memory, shown: View) -> None:
        """Set the elements that a view shows to those that a view of another memory, or of this one, shows."""
        self.write(view, source.read(shown))

    def keep(self, view: View) -> Kept:
        """A handle to what a view of it shows now, whatever is written later."""
        handle = Kept(self, view)
        keepers, self.is_watched = self.keepers, True
        count = len(keepers)
        # So rarely that it costs nothing, and in one thread.
        if count > 8 and not count & (count - 1) and _forgetting.acquire(blocking=False):
            try:
                keepers[:count] = [known for known in keepers[:count] if known() is not None]  # more may come meanwhile
            finally:
                _forgetting.release()
        keepers.append(weakref.ref(handle))
        return handle

    @property
    def version(self) -> int:
        """A number that is another one after each write."""
        self.is_watched = True
        return self._version

    def will_write(self) -> None:
        """Make another version, and save the content of this one for the handles that are alive."""
        self.is_watched = False
        self._version += 1
        if self.keepers:
            self._save()

    @abc.abstractmethod
    def _save(self) -> None:
        """Save the content for the handles that are alive."""

    def _let_go(self) -> list[Kept]:
        """The handles that are alive, which are no keepers from now on."""
        found: list[Kept] = []
        for known in self.keepers:
            keeper = known()
            if type(keeper) is KeptTogether:
                found += keeper.saved()
            elif isinstance(keeper, Kept):
                found.append(keeper)
        self.keepers.clear()
        return found


class Kept:
    """A handle to the content of a view at one time."""

    __slots__ = ("__weakref__", "_saved", "_together", "memory", "view")

    def __init__(self, memory: Memory, view: View):
        self.memory, self.view = memory, view
        self._together: KeptTogether | None = None  # is alive as long as this
        self._saved: Callable[[], Any] | None = None

    def array(self) -> Any:
        """The content. It is not to be written."""
        return self.memory.read(self.view) if self._saved is None else self._saved()

    @property
    def is_saved(self) -> bool:
        """True if the content was copied because the memory has changed."""
        return self._saved is not None

    def move_to(self, copy: Memory) -> None:
        """Take the content from a copy of the memory from now on."""
        self.memory = copy
        self._saved = lambda: copy.read(self.view)

    def keep_anew(self) -> None:
        """Take the content from the memory as it is now."""
        self._saved = None

    def save(self, content: Callable[[], Any]) -> None:
        """Take the content from `content` from now on."""
        self._saved = content


class KeptTogether:
    """Handles to one memory that become handles to its later content together: one keeper stands for all."""

    __slots__ = ("__weakref__", "_handles", "_is_saved", "_memory", "_ref")

    def __init__(self, memory: Memory, handles: Sequence[Kept]):
        self._memory, self._is_saved = memory, False
        self._handles = [weakref.ref(handle) for handle in handles]
        self._ref: weakref.ref[Any] = weakref.ref(self)
        own = frozenset(map(id, self._handles))
        memory.keepers = [*(known for known in memory.keepers if id(known) not in own), self._ref]
        for handle in handles:
            handle._together = self

    def saved(self) -> list[Kept]:
        """The handles that are alive, for which the content is being saved."""
        self._is_saved = True
        return [handle for known in self._handles if (handle := known()) is not None]

    @property
    def memory(self) -> Memory:
        """The memory whose content it keeps."""
        return self._memory

    def let_go(self) -> None:
        """Keep nothing, until `keep_anew`."""
        keepers = self._memory.keepers
        if keepers and keepers[-1] is self._ref:
            keepers.pop()
        elif keepers:
            self._memory.keepers = [known for known in keepers if known is not self._ref]

    def keep_anew(self) -> None:
        """Keep what is there now."""
        if self._is_saved:
            for handle in self.saved():
                handle.keep_anew()
            self._is_saved = False
        self._memory.keepers.append(self._ref)
        self._memory.is_watched = True


def will_change(contents: Iterable[KeptTogether]) -> list[KeptTogether]:
    """Announce writes to the memories of handles that keep what is written; those that keep nothing until `keep_anew`.

    The others, whose memory nobody else keeps or asks about, stay keepers meanwhile.
    """
    gone: list[KeptTogether] = []
    for content in contents:
        memory = content._memory
        keepers = memory.keepers
        if len(keepers) == 1 and keepers[0] is content._ref:
            memory._version += 1
            continue
        content.let_go()
        gone.append(content)
        if memory.is_watched:
            memory.will_write()
    return gone


def have_changed(contents: Iterable[KeptTogether], gone: Iterable[KeptTogether], hosts: Iterable[HostMemory]) -> None:
    """Let handles keep what their memories hold now; some are `gone` since `will_change`, and some in host memory."""
    for content in gone:
        content.keep_anew()
    for content in contents:
        if content._is_saved:
            content.keep_anew()
    for memory in hosts:
        if (memory.exposed_views or memory.is_exposed) and memory.is_open:
            memory.will_write()


class _Elements:
    """Elements of a buffer, for NumPy to make an array of; one of bytes where NumPy has no letter for their type."""

    def __init__(self, buffer: np.ndarray, start: int, view: View):
        self.buffer = buffer
        letter = view.dtype.str
        self.__array_interface__ = {
            "data": (int(start + view.offset), not buffer.flags.writeable),
            "shape": view.full_shape,
            "strides": view.full_strides,
            "typestr": letter if np.dtype(letter) == view.dtype else f"|V{view.dtype.itemsize}",
            "version": 3,
        }


# A copy of a buffer, the buffer, and the handles that it was made for.
Saved = tuple[np.ndarray, np.ndarray, list[Kept]]


class _Saves(threading.local):
    """The list that gets what this thread copies for handles, where somebody asks for it."""

    here: list[Saved] | None = None


SAVES = _Saves()


class HostMemory(Memory):
    """Bytes of host memory, aligned to 64 where they are its own.

    `buffer` are the bytes as a NumPy array, `start` is their address. `is_exposed`: others may write to it at any time.
    """

    __slots__ = ("buffer", "exposed_views", "is_exposed", "snapshot", "start")

    def __init__(self, buffer: np.ndarray, start: int, *, is_exposed: bool = False):
        super().__init__(CPU)
        self.buffer = buffer
        self.is_exposed = is_exposed
        self.start = start
        self.exposed_views: list[weakref.ref[np.ndarray]] = []
        self.snapshot: Any = None  # of its content, for the layer that knows JAX

    def read(self, view: View) -> np.ndarray:
        return np.ndarray(view.full_shape, view.dtype, self.buffer, view.offset, view.full_strides)

    def write(self, view: View, value: Any) -> None:
        self.begin_write()
        self.read(view)[...] = value

    def begin_write(self) -> None:
        """Is called before each write of Python's.

        Raises:
            LaunchError: it is read-only.
        """
        if not self.buffer.flags.writeable:
            raise LaunchError(f"{self.made_at} is read-only", hint="wp.clone(a) is an array that may be written")
        if self.is_watched:
            self.will_write()

    def expose(self, view: View) -> np.ndarray:
        """The elements that a view shows, for code that may write to them and is not watched: as if it did so now."""
        if self.is_watched:
            self.will_write()
        self.snapshot = None
        if len(self.exposed_views) > 8:
            self.exposed_views = [known for known in self.exposed_views if known() is not None]
        # NumPy's views of an array refer to the first one below it that is of memory which is no array's. So they keep
        # this one alive, and it tells that there are any.
        made = np.asarray(_Elements(self.buffer, self.start, view))
        self.exposed_views.append(weakref.ref(made))
        return made if made.dtype == view.dtype else made.view(view.dtype)

    @property
    def is_open(self) -> bool:
        """True if somebody may write to the memory without notice."""
        return self.is_exposed or any(known() is not None for known in self.exposed_views)

    def keep(self, view: View) -> Kept:
        handle = super().keep(view)
        if self.is_exposed or (self.exposed_views and self.is_open):
            self._save()  # writes through these views are not seen
        return handle

    def _save(self) -> None:
        handles = self._let_go()
        if handles:
            saved = self.buffer.copy()
            if SAVES.here is not None:
                SAVES.here.append((saved, self.buffer, handles))
            for handle in handles:
                handle.save(_reader(saved, handle.view))


def _reader(saved: np.ndarray, view: View) -> Callable[[], np.ndarray]:
    return lambda: np.ndarray(view.full_shape, view.dtype, saved, view.offset, view.full_strides)


def host_memory(nbytes: int, *, zeroed: bool = False) -> HostMemory:
    """New memory of so many bytes.

    Raises:
        LaunchError: there is not so much.
    """
    try:
        whole = (np.zeros if zeroed else np.empty)(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        raise LaunchError(f"there is no memory for an array of {nbytes} bytes") from None
    address = ctypes.addressof(ctypes.c_char.from_buffer(whole))  # type: ignore[arg-type]
    first = -address % ALIGNMENT
    return HostMemory(whole[first : first + nbytes], address + first)


class _ForeignBytes:
    """Bytes at an address, which belong to `owner`."""

    def __init__(self, address: int, nbytes: int, owner: Any, *, is_read_only: bool = False):
        self.owner = owner
        # NumPy frees the memory of an array that is resized by force, but resizes none that there are weak references
        # to.
        self.arrays = []
        while isinstance(owner, np.ndarray):
            self.arrays.append(weakref.ref(owner))
            owner = owner.base
        self.__array_interface__ = {
            "data": (address, is_read_only), "shape": (nbytes,), "typestr": "|u1", "version": 3
        }  # fmt: skip


def borrowed_memory(address: int, nbytes: int, owner: Any, *, is_read_only: bool = False) -> HostMemory:
    """The bytes at an address, which others may write to as well. `owner` keeps them alive."""
    borrowed = np.asarray(_ForeignBytes(address, nbytes, owner, is_read_only=is_read_only))
    return HostMemory(borrowed, address, is_exposed=True)


def shown_by(content: np.ndarray, element: Element) -> tuple[HostMemory, View]:
    """The memory of an array of NumPy's, whose last axes are components of elements, and the view of these."""
    extents = content.shape[: content.ndim - len(components_of(element))]
    first, is_read_only = content.__array_interface__["data"]
    layout = View.whole(element, extents)
    if layout.full_strides == content.strides:
        return borrowed_memory(first, layout.bounds[1], content, is_read_only=is_read_only), layout
    low, high = np.lib.array_utils.byte_bounds(content)
    layout = View(element, extents, content.strides[: len(extents)], first - low)
    return borrowed_memory(low, high - low, content, is_read_only=is_read_only), layout


class Deleting:
    """Calls a deleter when the memory that it stands for is no longer used."""

    def __init__(self, deleter: Any, address: int, nbytes: int):
        self.deleter, self.given = deleter, (address, nbytes)

    def __del__(self) -> None:
        if self.deleter is not None:
            self.deleter(*self.given)
