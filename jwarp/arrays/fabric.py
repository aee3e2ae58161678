"""`wp.fabricarray`: the annotation of parameters for arrays that Omniverse's Fabric owns."""

from __future__ import annotations

from typing import Any

from jwarp.arrays.array import array
from jwarp.errors import KernelTypeError


def fabricarray(
    data: Any = None, attrib: Any = None, dtype: Any = Any, ndim: int = 1, read_only: bool = False, device: Any = None
) -> array:
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
    if data is not None or attrib is not None:
        raise KernelTypeError(
            "wp.fabricarray: jwarp reads nothing from Omniverse's Fabric",
            hint="as the type of a parameter, wp.fabricarray(dtype=…) takes any wp.array",
        )
    return array(dtype=dtype, ndim=ndim)


def indexedfabricarray(fa: Any = None, indices: Any = None, dtype: Any = Any, ndim: int = 1) -> array:
    """The type of a parameter, as `fabricarray`: kernels that have such parameters take whole arrays, no selections.

    Args:
        fa: Nothing: there is no Fabric here.
        indices: Nothing.
        dtype: The type of the elements.
        ndim: The number of dimensions.

    Raises:
        KernelTypeError: `fa` or `indices` are given.
    """
    return fabricarray(fa if fa is not None else indices, None, dtype, ndim)
