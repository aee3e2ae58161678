"""Launches of kernels that look numbers up when they run: what these are given, and what stays alive meanwhile."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.living import AllMemory, UnkeptMemory, table
from jwarp.arrays.memory import HostMemory, Memory
from jwarp.arrays.view import View
from jwarp.bind.compat import Tracer
from jwarp.caches import cached
from jwarp.dispatch.call.cached_geometry import cached_content, leaves_of
from jwarp.errors import LaunchError, NotDifferentiableError
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import ScalarType, uint64, unchecked
from jwarp.types.all_memory import BASE, MEMORY, MEMORY_TYPE, TOP
from jwarp.types.handles import all_named
from jwarp.types.scalars import SCALARS


@cached(1)
def argument() -> Any:
    """The value of the parameter that is all memory."""
    tables = {"words": _table(table.words), "slots": _table(table.slots)}
    return unchecked(
        MEMORY_TYPE, {**tables, "table": _heap(uint64), **{name: _heap(kind) for name, kind in SCALARS.items()}}
    )


def _table(words: np.ndarray) -> array:
    """The words of a table, of which the present ones count in derivatives, too: older ones name what may be gone."""
    memory = UnkeptMemory(words.reshape(-1).view(np.uint8), int(words.__array_interface__["data"][0]))
    return array.of(memory, View.whole(uint64, words.shape))


def _heap(kind: ScalarType) -> array:
    """All memory as scalars of a type, in a memory by itself, as arrays of two types never overlap."""
    size = kind.dtype.itemsize
    return array.of(AllMemory(), View(kind, ((TOP - BASE) // size,), (size,), 0))


def with_memory(kernel: Kernel, inputs: Any, outputs: Any) -> tuple[Kernel, Any, Any]:
    """The kernel that looks numbers up, and what a launch of it is given: all memory, besides its own arguments."""
    given = argument()
    if isinstance(outputs, Mapping):
        return kernel.with_memory(), inputs, {**outputs, MEMORY: given}
    if outputs is not None and len(outputs):
        return kernel.with_memory(), inputs, [*outputs, given]
    if isinstance(inputs, Mapping):
        return kernel.with_memory(), {**inputs, MEMORY: given}, outputs
    return kernel.with_memory(), [*inputs, given], outputs


@contextlib.contextmanager
def looking_up() -> Iterator[None]:
    """Let kernels find what is alive as it is now, and keep that until they have ended."""
    with table.in_use():
        refresh()
        yield


def refresh() -> None:
    """Let kernels find grids, trees and meshes whose ids are numbers as they are now."""
    for number, owner in all_named():
        state = owner.state
        if table.state(number) is state:
            continue
        known = cached_content(owner)
        struct = owner.in_place if known is None else known.struct
        if all(map(_is_here, leaves_of(struct))):
            # Values that could change unseen are read each time.
            table.write(number, None if known is None else state, struct)
        else:
            table.erase(number)


def _is_here(leaf: Any) -> bool:
    """True for a number, and an array in host memory."""
    if isinstance(leaf, Tracer):
        return False
    if isinstance(leaf, jax.Array):
        return leaf.is_fully_addressable and {x.platform for x in leaf.devices()} == {"cpu"}
    return not isinstance(leaf, array) or isinstance(leaf.memory, HostMemory)


def _span(memory: HostMemory) -> tuple[int, int]:
    """The addresses of a memory, the first one and the one after the last."""
    return memory.start, memory.start + memory.buffer.nbytes


class Found:
    """The arrays that a launch may have found by numbers, as they were when a tape recorded it.

    A derivative follows no gradients of these arrays, and reads them as they are. `mixed` are the arrays among its
    `values` that are not what the launch takes them for, where it finds them by numbers, too; it has `changed` some.
    """

    def __init__(self, kernel: Kernel, changed: Collection[int] = (), values: Sequence[Any] = ()):
        self._kernel, self._changed = kernel, changed
        self._versions = [(weakref.ref(memory), memory.version) for memory in table.memories()]
        everywhere = any(kernel.params[p].is_heap for p in changed)  # it writes to what it finds
        own = (p for p in range(len(values)) if not (kernel.params[p].is_heap or kernel.params[p].is_table))
        self.mixed = tuple([a for p in own if (everywhere or p in changed) and isinstance(a := values[p], array)])

    def check_gradients(self, read: Collection[int] | None = None) -> None:
        """Refuse a derivative if an array that may be found has a gradient, where the launch has `read` parameters.

        Raises:
            NotDifferentiableError: there is one.
        """
        params = self._kernel.params
        used = params if read is None else [params[p] for p in {*read, *self._changed} if p < len(params)]
        if not any(param.is_heap and param.dtype.is_float for param in used):
            return
        for found in table.arrays(by_addresses=any(param.name == f"{MEMORY}.words" for param in used)):
            if found.grad is not None:
                raise NotDifferentiableError(
                    f"kernel '{self._kernel.name}' finds arrays by numbers, and {found.memory.made_at}, which it may"
                    " find, has a gradient, which the derivative of the launch would miss",
                    self._kernel.span,
                    "pass the array, grid, tree, mesh or volume itself as a parameter or a field of a struct",
                )

    def check_apart(self, arrays: Iterable[array]) -> None:
        """Refuse a derivative that would take arrays, parameters of the launch, for others than those it may find.

        Raises:
            NotDifferentiableError: one of them is memory that a number may name.
        """
        spans = [_span(memory) for known, _ in self._versions if (memory := known()) is not None]
        for given in arrays:
            assert isinstance(given.memory, HostMemory)  # as of all launches that look numbers up
            start, end = _span(given.memory)
            if any(first < end and start < last for first, last in spans):
                raise NotDifferentiableError(
                    f"kernel '{self._kernel.name}' writes to arrays and finds arrays by numbers; {given.memory.made_at}"
                    " is a parameter and may be found, too, so that the derivative cannot tell which content was read",
                    self._kernel.span,
                    "reach each array by its parameter alone, or by a number alone",
                )

    def is_apart(self, read: Collection[int] | None, mixed: Iterable[array], written: Container[Memory]) -> bool:
        """True if steps of the derivative miss nothing that it may find now, where others write to `written`.

        `mixed` are those of all such launches.
        """
        now = Found(self._kernel, self._changed)
        try:
            now.check_gradients(read)
            now.check_apart(mixed)
        except NotDifferentiableError:
            return False
        return not any(memory in written for known, _ in now._versions if (memory := known()) is not None)

    def check_contents(self) -> None:
        """Refuse to read what was written since.

        Raises:
            LaunchError: something that may be found was.
        """
        for known, version in self._versions:
            memory = known()
            if memory is None or memory.version != version:
                which = "an array that is no more" if memory is None else memory.made_at
                raise LaunchError(
                    f"kernel '{self._kernel.name}': the gradient needs what arrays held that the kernel found by"
                    f" numbers, and {which}, which it may have found, was written since",
                    hint="pass the array, grid, tree, mesh or volume itself, whose content tapes keep",
                )
