"""Copies, fills and functions that change arrays, as commands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jwarp.arrays.allocation import check_writable
from jwarp.arrays.commands import Call, Command, OnStream
from jwarp.arrays.content import value_of
from jwarp.arrays.cuda_memory import CudaMemory, put_on
from jwarp.arrays.memory import HostMemory
from jwarp.arrays.stand_ins import stand_in
from jwarp.arrays.view import View
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types.queries import type_repr


class Fill(Command):
    """Sets all elements of `array` to `value`, an array of components."""

    def __init__(self, array: Any, value: np.ndarray):
        self.array, self.value = stand_in(array), value

    @property
    def written(self) -> Sequence[Any]:
        return (self.array,)

    def assignment(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The elements in host memory that are set, and what they become; None for an array elsewhere."""
        if not isinstance(self.array.memory, HostMemory):
            return None
        target = self.array.host()
        value = np.broadcast_to(self.value, target.shape[self.array.ndim :])
        return target, np.ascontiguousarray(value, target.dtype)

    def on_stream(self) -> OnStream | None:
        memory, layout = self.array.memory, self.array.layout
        if not isinstance(memory, CudaMemory):
            return None
        return put_on(memory.device, memory.filling(layout, self.value.astype(layout.dtype, copy=False)))

    def run(self) -> None:
        memory = self.array.memory
        check_writable(memory)
        if type(memory) is HostMemory:
            memory.begin_write()
            self.array.host()[...] = self.value
        else:
            memory.write(self.array.layout, self.value)


class Copy(Command):
    """Copies the elements of `src` to `dest`, an array of the same shape whose elements have the same size."""

    def __init__(self, dest: Any, src: Any):
        self.dest, self.src = stand_in(dest), stand_in(src)

    @property
    def written(self) -> Sequence[Any]:
        return (self.dest,)

    def assignment(self) -> tuple[np.ndarray, np.ndarray] | None:
        """As that of `Fill`."""
        if not all(isinstance(a.memory, HostMemory) for a in (self.dest, self.src)):
            return None
        return self.dest.host(), self.src.memory.read(self._source())

    def on_stream(self) -> OnStream | None:
        memory = self.dest.memory
        if not isinstance(memory, CudaMemory):
            return None
        return put_on(memory.device, memory.copying(self.dest.layout, self.src.memory, self._source()))

    def _source(self) -> View:
        """The view of the source as elements of the destination."""
        source, layout = self.src.layout, self.dest.layout
        if source.full_shape != layout.full_shape or source.dtype != layout.dtype:
            return source.seen_as(layout.element)
        return source

    def run(self) -> None:
        check_writable(self.dest.memory)
        source, layout = self._source(), self.dest.layout
        memory = self.src.memory
        if not (isinstance(memory, HostMemory) and isinstance(self.dest.memory, HostMemory)):
            return self.dest.memory.copy_from(layout, memory, source)
        content = self.src.host() if source is self.src.layout and type(memory) is HostMemory else memory.read(source)
        if memory is self.dest.memory:
            content = content.copy()  # they may overlap
        return self.dest.memory.write(layout, content)


class Computation(Call):
    """A call of a function that changes arrays.

    Attributes:
        name: What it is called in errors.
        changed: The arrays that it may change.
        reads: The arrays whose content before it the backward pass needs.
        given: All arrays that it reads.
        made_by: The public function that submits it, with its arguments: on others it does the same to them.
        back: Takes the gradients of what it left to those of what it found, in `grad` of the arrays, given the contents
            of `reads`; None where it has no derivative.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[], Any],
        changed: Sequence[Any],
        back: Callable[[Sequence[Any]], None] | None = None,
        reads: Sequence[Any] = (),
        given: Sequence[Any] = (),
        made_by: tuple[Callable[..., Any], Sequence[Any]] | None = None,
    ):
        super().__init__(function)
        self.made_by = made_by
        self.given = tuple(map(stand_in, (*reads, *given)))
        self.name, self.back = name, back
        self.changed, self.reads = tuple(map(stand_in, changed)), tuple(map(stand_in, reads))

    def run(self) -> None:
        for a in self.changed:
            check_writable(a.memory)
        self.function()


def refuse_cuda(name: str, a: Any) -> None:
    """Refuse an array on a GPU where a function works on elements in the memory of the host.

    Raises:
        LaunchError: it is one.
    """
    if a.device is not None and a.device.is_cuda:
        raise LaunchError(
            f"{name}: {a.memory.made_at} is on {a.device}, and this works on arrays of the host only",
            hint='a.to("cpu") is a copy there; wp.copy takes what it becomes back',
        )


def fill(target: Any, value: Any) -> Fill:
    """The command that fills an array.

    Raises:
        KernelTypeError: `value` cannot be an element.
    """
    return Fill(target, value_of(target.layout.element, value))


def copy_range(target: Any, source: Any, target_offset: Any, source_offset: Any, count: Any) -> tuple[Any, Any]:
    """The views of two arrays between which a copy of `count` elements goes, from the offsets on; 0 is all.

    Raises:
        KernelTypeError, LaunchError: the arrays do not fit, or the range is outside of one.
    """
    try:
        first, begin, wanted = map(operator.index, (target_offset, source_offset, count))
    except TypeError:
        raise KernelTypeError("wp.copy: offsets and count must be integers") from None
    for what, given in (("Destination offset", first), ("Source offset", begin), ("count", wanted)):
        if given < 0:
            raise LaunchError(f"wp.copy: {what} must be non-negative, got {given}")
    into, out = target.layout, source.layout
    if into.itemsize != out.itemsize:
        raise KernelTypeError(
            f"wp.copy: elements differ in size, {into.itemsize} and {out.itemsize} bytes: destination dtype="
            f"{type_repr(into.element)}, source dtype={type_repr(out.element)}"
        )
    wanted = wanted or out.size
    if begin + wanted > out.size or first + wanted > into.size:
        raise LaunchError(
            f"wp.copy: {wanted} element(s) from {begin} on of {out.size}, to {first} on of {into.size}, do not fit"
        )
    whole = first == begin == 0 and wanted == out.size == into.size
    if whole and into.shape == out.shape:
        return into, out
    if whole and not (into.is_contiguous and out.is_contiguous):
        shapes = f"destination shape={into.shape}, source shape={out.shape}"
        raise LaunchError(f"wp.copy: arrays of other shapes, of which one is not contiguous: {shapes}")
    return _part(into, first, wanted), _part(out, begin, wanted)


def _part(layout: View, first: int, count: int) -> View:
    flat = layout.flattened()
    return flat.sliced([slice(first, first + count)]) if count else View(flat.element, (0,), flat.strides, flat.offset)
