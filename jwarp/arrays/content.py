"""Reads the initial content of arrays from sequences, NumPy's arrays and others, as elements of a type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jwarp.arrays.view import Element, components_of, itemsize_of, packed, scalar_of
from jwarp.errors import KernelTypeError, LaunchError
from jwarp.types import CompositeType, ScalarType, StructType, as_scalar, bfloat16, from_dtype, meant
from jwarp.types.composites import Composite


def read_element(dtype: Any) -> Any:
    """The type of the elements that a program names: a scalar, vector, matrix or struct type.

    Raises:
        KernelTypeError: it is no such type.
    """
    dtype = meant(dtype)
    if isinstance(dtype, CompositeType) and dtype is not Composite:
        return dtype.plain
    if isinstance(dtype, StructType):
        return dtype
    found = as_scalar(dtype)
    if found is None:
        raise KernelTypeError(
            f"wp.array: the elements of an array are of a scalar, vector, matrix or struct type, not {dtype!r}",
            hint="for example dtype=float, dtype=wp.vec3",
        )
    return found


def elements_of(data: Any, dtype: Any, shape: tuple[int, ...] | None) -> tuple[Element, np.ndarray]:
    """The type of the elements, and the content with the axes of the components last; `dtype` Any is the data's own.

    Raises:
        KernelTypeError, LaunchError: the data cannot be such elements.
    """
    if not hasattr(data, "__len__"):
        raise KernelTypeError(
            f"wp.array: data is a sequence or an array, not the {type(data).__name__} {str(data)[:60]}",
            hint="wp.array([x]) has one element; wp.full(n, x) n of them",
        )
    if dtype is Any or dtype is None:
        given = _numbers(data, None)
        element: Element | None = from_dtype(given.dtype) if given.dtype.kind in "biufV" else None
        if element is None:
            raise KernelTypeError(f"wp.array: there are no arrays of {given.dtype}", hint="say dtype=")
    else:
        element = read_element(dtype)
        given = _numbers(data, scalar_of(element).dtype)
    components = components_of(element)
    wanted: tuple[int, ...] | None = None
    if shape is not None:
        wanted = (*shape, *components)
    elif components:
        wanted = _by_components(given, element, components)
    if wanted is not None and wanted != given.shape:
        if math.prod(wanted) != given.size:
            raise LaunchError(f"wp.array: data of shape {given.shape} does not fit the shape {shape} of {element!r}")
        given = given.reshape(wanted)
    if given.ndim == len(components):
        given = given.reshape((1, *components))
    if components and given.strides[-len(components) :] != packed(components, given.itemsize):
        given = np.ascontiguousarray(given)
    return element, given


def _by_components(given: np.ndarray, element: Element, components: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the components as the last axes; the last axis may hold those of several elements."""
    shape, rank, size = given.shape, len(components), math.prod(components)
    while len(shape) > 1 and shape[-1] == 1 and shape[-rank:] != components:
        shape = shape[:-1]
    if shape[-rank:] == components:
        return shape
    last = shape[-1] if shape else 1
    if last == size:
        return (*shape[:-1], *components)
    if last % size == 0:
        return (*shape[:-1], last // size, *components)
    raise LaunchError(
        f"wp.array: data of shape {given.shape} holds no {element!r}",
        hint=f"its last axes must be {components}, or the last one a multiple of {size}",
    )


def _numbers(data: Any, dtype: np.dtype | None) -> np.ndarray:
    if dtype == bfloat16.dtype and isinstance(data, np.ndarray) and data.dtype == np.uint16:
        return data.view(dtype)  # NumPy has no bfloat16: such an array has the bits, as in Warp
    try:
        return np.asarray(data, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        kind = "an array" if dtype is None else f"an array of {dtype}"
        raise KernelTypeError(f"wp.array: the data cannot be {kind}: {error}") from None


def value_of(element: Element, value: Any) -> np.ndarray:
    """One element as an array of its components, for filling; a number stands for all components.

    Raises:
        KernelTypeError: it cannot be one.
    """
    dtype, components = scalar_of(element).dtype, components_of(element)
    if type(value) is float and not components and dtype.kind == "f":
        return np.asarray(value, dtype)
    try:
        given = np.asarray(value)
        if given.dtype == np.bool_ or dtype.kind not in "iu" or given.dtype.kind in "iu":
            found = given.astype(dtype)
        else:
            raise TypeError(f"{value!r} is no integer")
        if found.size == math.prod(components) and found.shape not in ((), components):
            found = found.reshape(components)
        return np.broadcast_to(found, components)
    except (TypeError, ValueError, OverflowError) as error:
        raise KernelTypeError(f"an array of {element!r} cannot be filled with {value!r}: {error}") from None


__all__ = ["ScalarType", "elements_of", "itemsize_of", "read_element", "value_of"]
