"""Which elements of its memory an array shows: offset, shape and strides, and the views that are made of views."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jwarp.caches import Cache
from jwarp.config import surface
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import MAX_DIMS, CompositeType, ScalarType, int32

# The indices of an axis fit in an int32.
MAX_EXTENT = int32.max

Element = ScalarType | CompositeType


def scalar_of(element: Element) -> ScalarType:
    """The type of the components of an element."""
    return element.dtype if isinstance(element, CompositeType) else element


def components_of(element: Element) -> tuple[int, ...]:
    """The shape of the components of an element, () for a scalar."""
    return element.shape if isinstance(element, CompositeType) else ()


def _named(element: Element) -> str:
    return element.full_name if isinstance(element, CompositeType) else repr(element)


def itemsize_of(element: Element) -> int:
    """The bytes of an element."""
    return scalar_of(element).dtype.itemsize * math.prod(components_of(element))


def packed(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides of an array whose elements lie one after the other."""
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return tuple(strides)


@dataclass(frozen=True)
class View:
    """Elements of memory: `offset` and `strides` count bytes, the components of an element lie one after the other."""

    element: Element
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def whole(cls, element: Element, shape: tuple[int, ...]) -> View:
        """All elements of memory for an array of that shape."""
        found = _whole.get((element, shape))
        return found or _whole.keep((element, shape), cls(element, shape, packed(shape, itemsize_of(element))))

    @functools.cached_property
    def kind(self) -> int:
        """A number that views of the same element, shape and strides have in common."""
        return _kinds.made((self.element, self.shape, self.strides), lambda: next(_numbers))

    @functools.cached_property
    def dtype(self) -> np.dtype:
        """The dtype of the components."""
        return scalar_of(self.element).dtype

    @functools.cached_property
    def full_shape(self) -> tuple[int, ...]:
        """The shape with the axes of the components."""
        return self.shape + components_of(self.element)

    @functools.cached_property
    def full_strides(self) -> tuple[int, ...]:
        """The strides with those of the components."""
        return self.strides + packed(components_of(self.element), self.dtype.itemsize)

    @functools.cached_property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @functools.cached_property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return itemsize_of(self.element)

    @functools.cached_property
    def is_contiguous(self) -> bool:
        """True if the elements are contiguous in row-major order."""
        return self.strides == packed(self.shape, self.itemsize)

    @functools.cached_property
    def bounds(self) -> tuple[int, int]:
        """The first byte and the one after the last."""
        if not self.size:
            return self.offset, self.offset
        reach = [stride * (extent - 1) for stride, extent in zip(self.strides, self.shape, strict=True)]
        low = self.offset + sum(x for x in reach if x < 0)
        return low, self.offset + sum(x for x in reach if x > 0) + self.itemsize

    def reshaped(self, shape: Any) -> View:
        """The same elements in another shape, one extent of which may be -1."""
        if not self.is_contiguous:
            raise LaunchError("only contiguous arrays can be reshaped", hint="a.contiguous().reshape(…) copies first")
        wanted = list(read_shape(shape, least=-1))
        if wanted.count(-1) > 1:
            raise LaunchError(f"reshape: only one extent may be -1, got {tuple(wanted)}")
        if -1 in wanted:
            others = -math.prod(wanted)
            wanted[wanted.index(-1)] = self.size // others if others else 0
        if math.prod(wanted) != self.size:
            raise LaunchError(
                f"cannot reshape array of shape {self.shape} (size {self.size}) into shape {tuple(wanted)} "
                f"(size {math.prod(wanted)})",
            )
        return View(self.element, tuple(wanted), packed(wanted, self.itemsize), self.offset)

    def flattened(self) -> View:
        """The same elements along one axis."""
        if len(self.shape) == 1:
            return self
        if not self.is_contiguous:
            raise LaunchError("only contiguous arrays can be flattened", hint="a.contiguous().flatten() copies first")
        return View(self.element, (self.size,), (self.itemsize,), self.offset)

    def transposed(self, axes: Sequence[int] | None = None) -> View:
        """The same elements with the axes in another order, turned round where none is given."""
        rank = len(self.shape)
        order = tuple(range(rank))[::-1] if axes is None else tuple(map(operator.index, axes))
        if sorted(order) != list(range(rank)):
            raise LaunchError(f"transpose: the axes of an array of {rank} dimensions are 0 to {rank - 1}, got {order}")
        shape, strides = (tuple(given[axis] for axis in order) for given in (self.shape, self.strides))
        return View(self.element, shape, strides, self.offset)

    def seen_as(self, element: Element) -> View:
        """The same bytes as elements of another type: of the same size, or an element for each component or back."""
        inner, outer = components_of(self.element), components_of(element)
        if itemsize_of(element) == self.itemsize:
            return View(element, self.shape, self.strides, self.offset)
        widths = self.dtype.itemsize, scalar_of(element).dtype.itemsize
        if inner and not outer and widths[0] == widths[1]:
            return View(element, self.full_shape, self.full_strides, self.offset)
        if outer and not inner and widths[0] == widths[1]:
            rank = len(outer)
            steps = zip(outer, self.strides[-rank:], packed(outer, widths[1]), strict=False)
            # Where there is one element along an axis, or none at all, no step is ever taken.
            are_packed = not self.size or all(n == 1 or step == wanted for n, step, wanted in steps)
            if self.shape[-rank:] != outer or not are_packed:
                raise LaunchError(f"view: the last axes of an array of shape {self.shape} are no {element!r}")
            shape, strides = self.shape[:-rank] or (1,), self.strides[:-rank] or (itemsize_of(element),)
            return View(element, shape, strides, self.offset)
        are_scalars = not inner and not outer
        sizes = (self.itemsize, itemsize_of(element)) if are_scalars or (inner and outer) else widths
        source, target = (
            f"{role} scalar dtype {scalar_of(e).name} has" if parts and sizes is widths else f"{role} dtype has"
            for role, e, parts in (("source", self.element, inner), ("target", element, outer))
        )
        raise KernelTypeError(
            f"cannot create an array view with dtype {_named(element)} from source dtype {_named(self.element)}: "
            f"{source} size {sizes[0]} bytes, but {target} size {sizes[1]} bytes",
            hint="the elements of both must have one size, or be scalars and vectors or matrices of them",
        )

    def sliced(self, keys: Sequence[int | slice]) -> View:
        """The elements that integers and slices select along the first axes.

        Bounds are Warp's: a slice lies inside the array, and begins before it ends.
        """
        shape, strides, offset = [], [], self.offset
        for axis, key in enumerate((*keys, *[slice(None)] * (len(self.shape) - len(keys)))):
            extent, stride = self.shape[axis], self.strides[axis]
            if isinstance(key, slice):
                start, stop, step = _bounds(key, extent)
                shape.append(-((stop - start) // -step))
                strides.append(stride * step)
            else:
                start = operator.index(key)
                start += extent if start < 0 else 0
                if not 0 <= start < extent:
                    raise LaunchError(f"index {key} is outside of an axis of {extent} elements")
            offset += stride * start
        return View(self.element, tuple(shape), tuple(strides), offset)


def _bounds(key: slice, extent: int) -> tuple[int, int, int]:
    step = 1 if key.step is None else operator.index(key.step)
    if step <= 0:
        reason = "slice step cannot be zero" if step == 0 else f"a slice of an array has a positive step, not {step}"
        raise LaunchError(reason)
    start = 0 if key.start is None else operator.index(key.start)
    stop = extent if key.stop is None else operator.index(key.stop)
    start += extent if start < 0 else 0
    stop += extent if stop < 0 else 0
    is_empty = start == stop == extent == 0
    if not is_empty and not (0 <= start < extent and start <= stop <= extent):
        raise LaunchError(
            f"the slice {start}:{stop}:{step} is not inside of an axis of {extent} elements",
            hint="slices of arrays are not cut to the array as those of lists are",
        )
    return start, stop, step


_numbers = itertools.count()
_kinds: Cache[tuple[Element, tuple[int, ...], tuple[int, ...]], int] = Cache("kinds of views", 4096)
_whole: Cache[tuple[Element, tuple[int, ...]], View] = Cache("layouts of whole arrays", 512)


def read_shape(shape: Any, *, least: int = 0) -> tuple[int, ...]:
    """A shape as a tuple of integers, of at most four.

    Raises:
        LaunchError: it is no shape.
    """
    if type(shape) is int and least <= shape <= MAX_EXTENT:
        return (shape,)
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    entries = shape if isinstance(shape, (tuple, list)) else (shape,) if hasattr(shape, "__index__") else shape
    try:
        found = tuple(map(operator.index, entries))
    except TypeError:
        raise LaunchError(f"the shape of an array is an int or a tuple of ints, not {shape!r}") from None
    if len(found) > MAX_DIMS:
        raise LaunchError(f"an array has at most {MAX_DIMS} dimensions, got the shape {found}")
    if any(extent < least for extent in found):
        raise LaunchError(f"Array shapes must be non-negative, got {found}")
    refuse_long(found)
    return found


def refuse_long(shape: Sequence[int]) -> None:
    """Refuse a new array in a program that no kernel could take, as Warp does.

    Raises:
        LaunchError: an extent is 2^31 or more.
    """
    if surface.is_warps and any(extent > MAX_EXTENT for extent in shape):
        fault = "must not exceed the maximum representable value of a signed 32-bit integer"
        raise LaunchError(f"Array shapes {fault}, got {tuple(shape)}")
