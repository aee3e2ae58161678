"""What kind of memory values are in, which decides how a launch runs."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from jwarp.dispatch.call import dlpack
from jwarp.dispatch.gpu import cuda_arrays


class Kind(enum.Enum):
    """Where a launch leaves what it computes.

    JAX      in new JAX arrays
    HOST     in the caller's arrays in this computer's memory
    DEVICE   in the caller's arrays on a GPU
    """

    JAX = enum.auto()
    HOST = enum.auto()
    DEVICE = enum.auto()


def is_mutable(value: Any) -> bool:
    """Whether `value` is an array in this computer's memory that a launch writes in place when it is an output."""
    if isinstance(value, np.ndarray):
        return True
    immutable = (jax.Array, jax.ShapeDtypeStruct, tuple, list, int, np.generic)
    return not isinstance(value, immutable) and dlpack.is_exporter(value)


def is_on_device(value: Any) -> bool:
    """Whether `value` is an array on a GPU that is no JAX array."""
    return not isinstance(value, (jax.Array, np.ndarray, tuple, int)) and cuda_arrays.is_cuda_array(value)


def kind_of(outputs: Iterable[Any]) -> Kind:
    """How a launch with these outputs runs. Whether the others fit the one that decides is found out there."""
    found = Kind.JAX
    for value in outputs:
        if is_on_device(value):
            return Kind.DEVICE
        if is_mutable(value):
            found = Kind.HOST
    return found
