"""Indexed arrays: the elements of an array that further arrays name along its axes, as annotations and as values.

A parameter that is one has the parts of a struct: the array, and one array of indices for each of its axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jwarp.caches import Cache
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types.annotations import is_derived, refuse_derived
from jwarp.types.array_annotations import ArrayAnnotation
from jwarp.types.array_operators import Operators
from jwarp.types.arrays import AnyType, ArrayPattern, ArrayType, StructType
from jwarp.types.patterns import Bound, Pattern
from jwarp.types.scalars import int32
from jwarp.types.structs import Struct

# Fill the elements that an indexed array names, copy to them, clone and describe them: set where arrays are known.
FILL: list[Callable[[Any, Any], None]] = []
COPY: list[Callable[[Any, Any], None]] = []
CLONE: list[Callable[[Any], Any]] = []
DESCRIBE: list[Callable[[Any], Any]] = []

_types: Cache[ArrayType, StructType] = Cache("types of indexed arrays", 1024)


@dataclass(frozen=True, repr=False)
class IndexedPattern(Pattern):
    """Stands for the indexed arrays of the arrays that a pattern stands for."""

    array: ArrayPattern
    dtype: ClassVar[Any] = Any

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.array.dims

    def fits(self, kind: Any, bound: Bound) -> bool:
        return isinstance(kind, StructType) and kind.indexed is not None and self.array.fits(kind.indexed, bound)

    def filled(self, bound: Bound) -> Any:
        return indexed_type(self.array.filled(bound))

    def __repr__(self) -> str:
        return f"indexed{self.array!r}"


def indexed_type(kind: Any) -> Any:
    """The type of the indexed arrays whose elements are those of arrays of this type; of a pattern, a pattern.

    Raises:
        KernelTypeError: the elements are structs.
    """
    if isinstance(kind, ArrayPattern):
        return IndexedPattern(kind)
    if not isinstance(kind, ArrayType):
        raise KernelTypeError(
            f"wp.indexedarray: element type must be a scalar, vector or matrix type, not that of {kind!r}",
            hint="write wp.indexedarray[float]; of arrays of structs, index in the kernel: p[indices[i]]",
        )
    fields: dict[str, AnyType] = {"data": kind}
    fields |= {f"indices{axis}": ArrayType(int32, 1) for axis in range(kind.dims)}
    given = {"fields": fields, "indexed": kind, "dtype": kind.element, "ndim": kind.dims, "__slots__": ()}
    return _types.made(kind, lambda: StructType(f"indexed{kind!r}", (Struct,), given))


class IndexedAnnotation(ArrayAnnotation):
    """The type of a parameter that `wp.indexedarray[float]` denotes."""

    __slots__ = ()

    family = "indexedarray"
    number = 1

    @staticmethod
    def _of(of_data: Any) -> Any:
        return indexed_type(of_data)


class indexedarray(Operators):
    """Selected elements of an array: `wp.indexedarray(x, [i, None])` is `x[i, :]`, without a copy.

    `data` is a JAX or NumPy array. `indices` is an array of int32, or a list of one for each axis, with None for all of
    an axis. An indexed array is a pytree with these as leaves. As an annotation, `wp.indexedarray[float]`,
    `wp.indexedarray2d[wp.vec3]` or `wp.indexedarray(dtype=float, ndim=2)` is the type of a parameter. Kernels read and
    write the elements of `data`.

    Raises:
        KernelTypeError: There are more index arrays than axes, or the type of the elements is unknown.
    """

    _ndim = 1
    _annotation: ClassVar[type[ArrayAnnotation]] = IndexedAnnotation
    data: Any
    indices: tuple[Any, ...]

    def __class_getitem__(cls, dtype: Any) -> Any:
        refuse_derived(cls)
        is_pair = isinstance(dtype, tuple) and len(dtype) == 2
        return cls._annotation(*dtype if is_pair else (dtype, cls._ndim))

    def __new__(cls, *given: Any, **named: Any) -> Any:
        if not is_derived(cls) and named.get("data", given[0] if given else None) is None:
            return _annotation(cls._ndim, *given, **named)
        return object.__new__(cls)

    def __reduce__(self) -> Any:
        return object.__new__, (type(self),), object.__getstate__(self)

    def __init__(self, data: Any = None, indices: Any = None, dtype: Any = None, ndim: int | None = None):
        if data is None:
            raise KernelTypeError(f"{type(self).__name__}: there is no data", hint="wp.indexedarray[…] is a type")
        self.data = data
        self.indices = tuple(indices) if isinstance(indices, (list, tuple)) else (indices,)
        if len(self.indices) > len(np.shape(data)):
            raise KernelTypeError(
                f"wp.indexedarray: {len(self.indices)} arrays of indices for {len(np.shape(data))} axes"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """How many elements there are along each axis."""
        whole = self.data.shape
        named = [n if i is None else i.shape[0] for n, i in zip(whole, self.indices, strict=False)]
        return (*named, *whole[len(named) :])

    @property
    def ndim(self) -> int:
        """The number of axes of `data`."""
        return len(self.data.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of `data`."""
        return self.data.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def device(self) -> Any:
        """The device of `data`."""
        return self.data.device

    @property
    def requires_grad(self) -> bool:
        """True if `data` has a gradient."""
        return bool(getattr(self.data, "requires_grad", False))

    @property
    def is_contiguous(self) -> bool:
        """False: its elements may be anywhere in `data`."""
        return False

    def assign(self, src: Any) -> None:
        """Set the selected elements to those of `src`, an array of the same shape and type, or data for such an array.

        Raises:
            KernelTypeError, LaunchError: `src` does not match.
        """
        COPY[0](self, src)

    def fill_(self, value: Any) -> None:
        """Set the selected elements to `value`; the others do not change.

        Raises:
            KernelTypeError: `value` does not have the type of the elements, or `data` is not a `wp.array`.
        """
        FILL[0](self, value)

    def zero_(self) -> None:
        """Set the selected elements to zero."""
        FILL[0](self, 0)

    def list(self) -> list[Any]:
        """The elements that are named, in order, as `list` of the array gives them."""
        return type(self.data)(self.numpy(), dtype=self.data.dtype).list()

    def contiguous(self) -> Any:
        """A contiguous copy of the selected elements, as by `wp.clone`. A tape records the copy.

        Raises:
            KernelTypeError: `data` is not a `wp.array`.
        """
        return CLONE[0](self)

    def to(self, device: Any) -> Any:
        """The indexed array on a device: itself if it is there, otherwise an indexed array of copies.

        Raises:
            LaunchError: There is no such device.
        """
        data = self.data.to(device)
        indices = tuple(i if i is None else i.to(device) for i in self.indices)
        is_there = data is self.data and all(i is j for i, j in zip(indices, self.indices, strict=True))
        return self if is_there else indexedarray(data, indices)

    def __ctype__(self) -> Any:
        """Its descriptor as a structure of ctypes, where `data` is a `wp.array`."""
        return DESCRIBE[0](self)

    def numpy(self) -> np.ndarray:
        """A copy of the elements that are named, as a NumPy array."""
        found = np.asarray(self.data)
        for axis, indices in enumerate(self.indices):
            if indices is not None:
                found = np.take(found, checked_indices(indices, found.shape[axis], axis), axis)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"wp.indexedarray({self.data!r}, {list(self.indices)!r})"


class indexedarray1d(indexedarray):
    """Annotation of an indexed array of one dimension."""


class indexedarray2d(indexedarray):
    """Annotation of an indexed array of two dimensions."""

    _ndim = 2


class indexedarray3d(indexedarray):
    """Annotation of an indexed array of three dimensions."""

    _ndim = 3


class indexedarray4d(indexedarray):
    """Annotation of an indexed array of four dimensions."""

    _ndim = 4


def _annotation(rank: int, data: Any = None, indices: Any = None, dtype: Any = None, ndim: int | None = None) -> Any:
    return IndexedAnnotation(dtype, rank if ndim is None else ndim)


def checked_indices(indices: Any, extent: int, axis: int) -> np.ndarray:
    """The indices along an axis, for NumPy.

    Raises:
        LaunchError: one is outside. It is an IndexError, too.
    """
    given = np.asarray(indices)
    outside = given[(given < -extent) | (given >= extent)]
    if outside.size:
        raise LaunchError(
            f"wp.indexedarray: index {outside[0]} is outside axis {axis} of the array, whose extent is {extent}",
            also=IndexError,
        )
    return given


def indexed_parts(where: str, kind: StructType, value: indexedarray) -> Mapping[str, Any]:
    """The parts of an indexed array given for a parameter of the type `kind`.

    Raises:
        LaunchError: it has arrays of indices for more dimensions than the parameter.
    """
    indexed = kind.indexed
    assert indexed is not None
    if len(value.indices) > indexed.dims:
        raise LaunchError(
            f"{where}: {len(value.indices)} arrays of indices for the {indexed.dims} dimension(s) of {kind!r}"
        )
    given = (*value.indices, *(None,) * (indexed.dims - len(value.indices)))
    whole = np.shape(value.data)
    parts = [
        np.arange(whole[axis], dtype=np.int32) if indices is None and axis < len(whole) else indices
        for axis, indices in enumerate(given)
    ]
    return dict(zip(kind.fields, (value.data, *parts), strict=True))


def indexed_of(parts: list[Any]) -> indexedarray:
    """The indexed array of these parts, whatever they are."""
    made = object.__new__(indexedarray)
    made.data, made.indices = parts[0], tuple(parts[1:])
    return made
