"""Launches on arrays that change which are repeated: on the same arrays, or on others of the same shapes."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from jwarp.arrays.array import array
from jwarp.arrays.memory import Memory
from jwarp.arrays.struct_array import StructArray
from jwarp.caches import Cache
from jwarp.config import config
from jwarp.devices import Device
from jwarp.dispatch.executables import eager
from jwarp.dispatch.executables.array_shapes import NUMPY_NUMBERS, converter
from jwarp.dispatch.executables.host import Forward
from jwarp.dispatch.gpu import device as on_gpus
from jwarp.frontend import options
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import CompositeValue, Struct, indexedarray

# Launches that an array keeps, the first one that they are given.
MAX_LAUNCHES = 256
# After so many launches that begin with arrays of some memory, those that come again are made ready for their arrays.
MIN_USES = 8
# Of an array that keeps as many as it may, one of so many is made ready: that takes as long as running some dozens.
RARELY = 512
_SEEN = "seen"

Number = tuple[Any, eager.Convert]  # the array of shape () that the launch reads, and what makes its content


def _end(plan: Callable[[], Any], memory: Any) -> None:
    """End a repeated launch, unless it has gone; also while Python ends, and names of modules have."""
    found = plan()
    if found is not None:
        found.end()


class Repeated:
    """A launch on arrays that stay, with its numbers, which are set each time.

    It is at an end with the first of its arrays that is: `memories` are those of all of them.
    """

    __slots__ = ("__weakref__", "_ends", "_lock", "_native", "_numbers", "_written", "changes", "settings")

    def __init__(
        self,
        native: Callable[[], Any],
        memories: Sequence[Memory],
        written: Sequence[Memory],
        numbers: Sequence[Number],
    ):
        self._native: Callable[[], Any] | None = native
        self._written, self._numbers = tuple(map(weakref.ref, written)), tuple(numbers)
        self._lock = threading.Lock()
        self.settings, self.changes = config.settings, options.changes
        end = functools.partial(_end, weakref.ref(self))
        self._ends = [weakref.ref(memory, end) for memory in memories]

    def end(self) -> None:
        """Let go of the arrays."""
        self._native, self._numbers = None, ()

    def run(self, numbers: Sequence[Any]) -> bool:
        """Run it with these numbers; False where a number needs a closer look, and then nothing has run."""
        native = self._native
        if native is None:
            return False
        if not numbers:
            self._replay(native)
            return True
        with self._lock:
            for (place, convert), given in zip(self._numbers, numbers):  # noqa: B905 strict costs as much as the rest
                made = convert(given)
                if made is None:
                    return False
                place[()] = made
            self._replay(native)
        return True

    def _replay(self, native: Callable[[], Any]) -> None:
        for known in self._written:
            memory = known()
            if memory is not None and memory.is_watched:
                memory.will_write()
        native()


def key_of(
    kernel: Kernel, dim: Any, values: Sequence[Any], block_dim: Any
) -> tuple[Hashable, Memory | None, list[Any]]:
    """What must be alike for a launch to be repeated on its arrays, the first one's memory, and the numbers.

    The memory is None where a closer look is needed.
    """
    numbers: list[Any] = []
    # What is equal to an int is none: True, 1.0.
    if (type(dim) is not int and (dim := _ints(dim)) is None) or not (block_dim is None or type(block_dim) is int):
        return (), None, numbers
    parts: list[Any] = [kernel, dim, block_dim]
    first: Memory | None = None
    for value in values:
        kind = type(value)
        if kind is array:
            if first is None:
                first = value.memory
            parts.append(value.token)
        elif kind in _NUMBERS:
            numbers.append(value)
            parts.append(kind)
        elif value is None:
            parts.append(None)
        elif not _add(value, parts, numbers):
            return (), None, numbers
    if first is None:
        first = next((part.memory for part in parts if type(part) is array), None)
    return tuple([part.token if type(part) is array else part for part in parts]), first, numbers


def _ints(dim: Any) -> tuple[int, ...] | None:
    """Several ints as a tuple, None for anything else."""
    if type(dim) is not tuple and type(dim) is not list:
        return None
    for n in dim:
        if type(n) is not int:
            return None
    return tuple(dim)


_NUMBERS = {float, int, bool, *NUMPY_NUMBERS}


def _add(value: Any, parts: list[Any], numbers: list[Any]) -> bool:
    """Add a vector, matrix or struct to a key and its numbers; False where that needs a closer look."""
    if type(value) is CompositeValue:
        numbers.append(value)
        parts.append((value.shape, value.dtype, value.kind))
        return True
    if isinstance(value, StructArray):
        parts += [value.dtype, *value.leaves()]
        return True
    if isinstance(value, indexedarray):
        parts += [indexedarray, value.data, *value.indices]
        return all(part is None or type(part) is array for part in parts[-1 - len(value.indices) :])
    if not isinstance(value, Struct):
        return False
    parts.append(type(value))
    for name in type(value).fields:
        field = getattr(value, name)
        kind = type(field)
        if kind is array or field is None:
            parts.append(field)
        elif kind in _NUMBERS:
            numbers.append(field)
            parts.append(kind)
        elif not _add(field, parts, numbers):
            return False
    return True


def repeated(kernel: Kernel, dim: Any, values: Sequence[Any], block_dim: Any, device: Device | None = None) -> bool:
    """Repeat a launch, if it has been made ready for these very arrays, on `device` if one is named: whether it ran."""
    key, memory, numbers = key_of(kernel, dim, values, block_dim)
    if memory is None or memory.plans is None or device not in (None, memory.device):
        return False
    plan = memory.plans.get(key)
    if plan is None or plan.settings is not config.settings or plan.changes != options.changes:
        return False
    return bool(plan.run(numbers))


def is_due(kernel: Kernel, dim: Any, values: Sequence[Any], block_dim: Any, leaves: Sequence[Any]) -> bool:
    """Whether a launch has been run so often that it is to be made ready for its arrays: that pays off later."""
    first = next((x.memory for x in leaves if type(x) is array), None)
    if first is None:
        return False
    first.uses += 1
    if first.uses <= MIN_USES:
        return False
    key, memory, _ = key_of(kernel, dim, values, block_dim)
    if memory is None:
        return False
    if kernel.plans.get(key) is _SEEN:
        return True
    kernel.plans.keep(key, _SEEN)
    return False


def keep(key: Hashable, memory: Memory, command: Any) -> None:
    """Let a launch be repeated on its arrays."""
    ready = command.prepared
    native: Callable[[], Any]
    if type(ready) is Forward:
        native, places = ready.run.native, ready.run.places
    elif type(ready) is on_gpus.Forward and (again := ready.repeater()) is not None:
        native, places = again, again.places
    else:
        return
    numbers: list[Number] = []
    for p, (param, value) in enumerate(zip(command.kernel.params, command.values, strict=True)):
        if type(value) in _NUMBERS or type(value) is CompositeValue:
            convert = converter(param, value)
            if convert is None:
                return
            numbers.append((places[p].array, convert))
    if memory.plans is None:
        memory.plans = Cache("launches on an array", MAX_LAUNCHES)
    memories = dict.fromkeys(value.memory for value in command.values if type(value) is array)
    plan = Repeated(native, tuple(memories), command.memories, numbers)
    memory.plans.replace(key, plan)
    if len(memory.plans) >= MAX_LAUNCHES // 2:
        memory.uses = MIN_USES - RARELY
