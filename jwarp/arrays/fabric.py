"""Annotations for arrays that are made elsewhere: by Omniverse's Fabric, or by a thread of a kernel."""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.arrays.view import read_shape
from jwarp.errors import KernelTypeError


class fabricarray(array):
    """The type of a parameter, that of a `wp.array` of `dtype`: kernels that have such parameters take arrays.

    Args:
        data: Nothing: there is no Fabric here.
        attrib: Nothing.
        dtype: The type of the elements.
        ndim: The number of dimensions.
        read_only: Has no effect.
        device: Has no effect.

    Raises:
        KernelTypeError: `data` or `attrib` are given.
    """

    def __new__(
        cls,
        data: Any = None,
        attrib: Any = None,
        dtype: Any = Any,
        ndim: int = 1,
        read_only: bool = False,
        device: Any = None,
    ) -> Any:
        if data is not None or attrib is not None:
            raise KernelTypeError(
                "wp.fabricarray: jwarp reads nothing from Omniverse's Fabric",
                hint="as the type of a parameter, wp.fabricarray(dtype=…) takes any wp.array",
            )
        return array(dtype=dtype, ndim=ndim)


class indexedfabricarray(array):
    """The type of a parameter, as `fabricarray`: kernels that have such parameters take whole arrays, no selections.

    Args:
        fa: Nothing: there is no Fabric here.
        indices: Nothing.
        dtype: The type of the elements.
        ndim: The number of dimensions.

    Raises:
        KernelTypeError: `fa` or `indices` are given.
    """

    def __new__(cls, fa: Any = None, indices: Any = None, dtype: Any = Any, ndim: int = 1) -> Any:
        return fabricarray(fa if fa is not None else indices, None, dtype, ndim)


class fabricarrayarray(fabricarray):
    """The type of a parameter whose elements are arrays, that of a `wp.array` of two dimensions.

    Args:
        data: Nothing: there is no Fabric here.
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
    """The annotation of an array that a thread makes in a kernel, `wp.zeros(shape=(2, 3), dtype=int)` there.

    Args:
        dtype: The type of the elements.
        shape: The extents, an int or up to four ints.

    Raises:
        KernelTypeError: there is data: no such arrays are outside of kernels.
    """

    def __new__(cls, data: Any = None, dtype: Any = Any, shape: Any = 1, **others: Any) -> Any:
        if data is not None or others.get("ptr") is not None:
            raise KernelTypeError("wp.fixedarray: the arrays of a thread are made in kernels", hint="wp.array(…)")
        return array(dtype=dtype, ndim=len(read_shape(shape)))
