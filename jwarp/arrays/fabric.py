"""Arrays of Omniverse's Fabric, by what it says of its memory, and annotations for arrays of a thread of a kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from jwarp.arrays.array import array
from jwarp.arrays.view import read_shape
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import MATRIX, QUATERNION, SCALARS, VECTOR, composite, indexedarray
from jwarp.types.annotations import is_derived
from jwarp.types.array_annotations import ArrayAnnotation
from jwarp.types.indexed import IndexedAnnotation

# The scalar types by Fabric's names.
_SCALARS = {
    "b": "bool",
    **{f"{k}{n}": f"{name}{8 * n}" for k, name in (("i", "int"), ("u", "uint")) for n in (1, 2, 4, 8)},
}
_SCALARS |= {f"f{n}": f"float{8 * n}" for n in (2, 4, 8)}
_MATRICES = ("matrix", "transform", "frame")
_TEXTS = ("text", "path")


class FabricAnnotation(ArrayAnnotation):
    """The type of a parameter that `wp.fabricarray[float]` denotes."""

    __slots__ = ()

    family = "fabricarray"
    number = 2


class IndexedFabricAnnotation(IndexedAnnotation):
    """The type of a parameter that `wp.indexedfabricarray[float]` denotes."""

    __slots__ = ()

    family = "indexedfabricarray"
    number = 3


class fabricarray(array):
    """A `wp.array` of an attribute of Omniverse's Fabric; without data, the type of a parameter.

    The memory belongs to Fabric. Its buckets must be contiguous. The array keeps `data` alive, and Fabric's memory must
    live as long as the array.

    Args:
        data: Fabric's description of its memory: an object with `__fabric_arrays_interface__`, or its dict.
        attrib: The name of the attribute.
        dtype: The type of the elements, if there is no data.
        ndim: The number of dimensions, if there is no data.
        read_only: Has no effect.
        device: Has no effect: the memory is on Fabric's device.

    Raises:
        KernelTypeError: `data` is not such an object, or kernels do not support the type of the elements.
        LaunchError: There is no such attribute, its description is malformed, or its buckets are not contiguous.
    """

    _annotation = FabricAnnotation

    def __new__(cls, *given: Any, **named: Any) -> Any:
        if is_derived(cls):
            return object.__new__(cls)
        return _made(*given, **named)

    def __init__(
        self,
        data: Any = None,
        attrib: Any = None,
        dtype: Any = Any,
        ndim: int = 1,
        read_only: bool = False,
        device: Any = None,
    ):
        self.__dict__.update(_made(data, attrib, dtype, ndim).__dict__)

    def __del__(self) -> None:
        """Nothing is to be done: Fabric frees its memory."""


def _made(
    data: Any = None, attrib: Any = None, dtype: Any = Any, ndim: int = 1, read_only: bool = False, device: Any = None
) -> Any:
    return array(dtype=dtype, ndim=ndim) if data is None and attrib is None else _shown(data, attrib)


def _shown(data: Any, attrib: Any) -> array:
    """The array that shows an attribute."""
    interface = getattr(data, "__fabric_arrays_interface__", data)
    if not isinstance(interface, Mapping):
        raise KernelTypeError(
            f"wp.fabricarray: data must have __fabric_arrays_interface__, not be {type(data).__name__}",
            hint="as the type of a parameter, wp.fabricarray(dtype=…) takes any wp.array",
        )
    if (version := interface.get("version")) != 1:
        raise LaunchError(f"wp.fabricarray: data has version {version!r} of the interface, and version 1 is known")
    about = interface.get("attribs", {}).get(attrib)
    if about is None:
        raise LaunchError(f"wp.fabricarray: there is no attribute {attrib!r} in data")
    element, depth = _element(about.get("type", ()), attrib)
    if depth:
        raise KernelTypeError(
            f"wp.fabricarray: the elements of '{attrib}' are arrays, which lie anywhere in memory",
            hint="wp.array([s0, s1], dtype=S) with a struct S that has an array is an array of arrays",
        )
    pointers, counts = [*map(int, about["pointers"])], [*map(int, about["counts"])]
    if len(pointers) != len(counts) or any(n < 0 for n in counts):
        raise LaunchError(
            f"wp.fabricarray: '{attrib}' has {len(pointers)} buckets and {len(counts)} counts of elements"
        )
    buckets = [(p, n) for p, n in zip(pointers, counts, strict=True) if n]
    where = interface.get("device")
    if not buckets:
        return array(shape=(0,), dtype=element, device=where)
    size = array(shape=(1,), dtype=element).layout.itemsize
    for (p, n), (following, _) in itertools.pairwise(buckets):
        if p + n * size != following:
            raise LaunchError(
                f"wp.fabricarray: the buckets of '{attrib}' do not follow one another in memory",
                hint="copy each bucket to a part of one array: wp.array(ptr=p, shape=n, dtype=…) shows a bucket",
            )

    def keep(*_: Any, alive: Any = data) -> None:
        """Nothing is freed: `data` lives as long as this function."""

    total = sum(n for _, n in buckets)
    return array(ptr=buckets[0][0], shape=(total,), dtype=element, device=where, deleter=keep)


def _element(about: Any, attrib: str) -> tuple[Any, int]:
    """The type of the elements of an attribute, and how many levels of arrays there are in each."""
    where = f"wp.fabricarray: the type of '{attrib}'"
    if not isinstance(about, (tuple, list)) or len(about) != 5:
        count = len(about) if isinstance(about, (tuple, list)) else "none"
        raise LaunchError(f"{where} must contain five elements, got {count}: {about!r}")
    is_usable, name, count, depth, role = about
    scalar = SCALARS.get(_SCALARS.get(name, ""))
    if not is_usable or scalar is None or role in _TEXTS:
        raise KernelTypeError(f"{where}, {tuple(about)}, is not a type of kernels")
    if count <= 1:
        return scalar, depth
    if role == "quat" and count == 4:
        return composite(QUATERNION, (4,), scalar), depth
    if role in _MATRICES:
        n = math.isqrt(count)
        if n * n != count:
            raise LaunchError(f"{where} is that of matrices, and must have a square element count, got {count}")
        return composite(MATRIX, (n, n), scalar), depth
    return composite(VECTOR, (count,), scalar), depth


class indexedfabricarray(indexedarray):
    """Selected elements of an array of Fabric, a `wp.indexedarray`; without one, the type of parameters for these.

    Args:
        fa: The array.
        indices: An array of int32.
        dtype: The type of the elements, where there is no array.
        ndim: The number of dimensions, where there is no array.

    Raises:
        KernelTypeError: as for `wp.indexedarray`.
    """

    _annotation = IndexedFabricAnnotation

    def __new__(cls, *given: Any, **named: Any) -> Any:
        if is_derived(cls):
            return object.__new__(cls)
        return _indexed(cls, *given, **named)

    def __init__(self, fa: Any = None, indices: Any = None, dtype: Any = Any, ndim: int | None = None):
        super().__init__(fa, indices, dtype, ndim)


def _indexed(cls: Any, fa: Any = None, indices: Any = None, dtype: Any = Any, ndim: int | None = None) -> Any:
    if fa is None:
        return indexedarray.__new__(cls, dtype=dtype, ndim=ndim)
    return indexedarray(fa, indices)


class fabricarrayarray(fabricarray):
    """The type of a parameter whose elements are arrays, that of a `wp.array` of two dimensions.

    Args:
        data: Nothing: Fabric's arrays of arrays are not taken.
        attrib: Nothing.
        dtype: The type of the elements of elements.

    Raises:
        KernelTypeError: `data` or `attrib` are given.
    """

    def __new__(cls, data: Any = None, attrib: Any = None, dtype: Any = Any, **others: Any) -> Any:
        return fabricarray(data, attrib, dtype, 2)


class indexedfabricarrayarray(fabricarrayarray):
    """The type of a parameter, as `fabricarrayarray`."""


class fixedarray(array):
    """The annotation of a local array in a kernel, such as `wp.zeros(shape=(2, 3), dtype=int)`.

    Args:
        dtype: The type of the elements.
        shape: The extents, an int or up to four ints.

    Raises:
        KernelTypeError: Data is given; such arrays exist only in kernels.
    """

    def __new__(cls, data: Any = None, dtype: Any = Any, shape: Any = 1, **others: Any) -> Any:
        if data is not None or others.get("ptr") is not None:
            raise KernelTypeError("wp.fixedarray: the arrays of a thread are made in kernels", hint="wp.array(…)")
        return array(dtype=dtype, ndim=len(read_shape(shape)))
