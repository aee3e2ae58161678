"""Launches of kernels that look numbers up when they run: what these are given, and what stays alive meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jwarp.arrays.array import array
from jwarp.arrays.living import AllMemory, UnkeptMemory, descriptor, table
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.view import View
from jwarp.bind.compat import Tracer
from jwarp.caches import cached
from jwarp.dispatch.call.cached_geometry import cached_content, leaves_of
from jwarp.errors import LaunchError
from jwarp.frontend.kernel_base import Kernel
from jwarp.types import ScalarType, uint64, unchecked
from jwarp.types.all_memory import BASE, DESCRIPTOR_WORDS, MEMORY, MEMORY_TYPE, TOP
from jwarp.types.handles import all_named
from jwarp.types.scalars import SCALARS


@cached(1)
def argument() -> Any:
    """The value of the parameter that is all memory."""
    tables = {"words": _table(table.words), "slots": _table(table.slots), "moves": _table(table.moves)}
    tables["arguments"] = _table(np.zeros((1, DESCRIPTOR_WORDS), np.uint64))  # of no parameters
    return unchecked(
        MEMORY_TYPE, {**tables, "table": _heap(uint64), **{name: _heap(kind) for name, kind in SCALARS.items()}}
    )


class Addresses:
    """The descriptors of the arrays that a kernel is given and takes addresses of, for one launch.

    Attributes:
        place: The parameter of the IR that has them.
        words: The array that is given for it.
    """

    def __init__(self, kernel: Kernel, rows: Sequence[int]):
        self._kernel, self._rows = kernel, rows
        self.place = next(p for p, param in enumerate(kernel.params) if param.name == f"{MEMORY}.arguments")
        self._words = np.zeros((len(kernel.params), DESCRIPTOR_WORDS), np.uint64)
        self.words = _table(self._words)

    def fill(self, values: Sequence[Any]) -> None:
        """Let kernels find the arrays among the values of the launch, and no others of its arrays.

        Raises:
            LaunchError: something else was given for one of them, which has no address.
        """
        for p in self._rows:
            value = values[p]
            if value is not None and not isinstance(value, array):
                raise LaunchError(
                    f"kernel '{self._kernel.name}' takes the address of its parameter '{self._kernel.params[p].name}',"
                    f" for which {type(value).__name__} is given",
                    hint="pass a wp.array",
                )
            self._words[p] = descriptor(value)


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
